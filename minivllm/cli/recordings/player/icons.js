// The buttons' pictures: drawn here, because not every system's fonts have such signs.

const PATHS = {
  start: "M5 4h2v12H5zM17 4v12l-9-6z",
  back: "M13 4v12L5 10zM14 4h2v12h-2z",
  play: "M6 4l11 6-11 6z",
  pause: "M5 4h4v12H5zM11 4h4v12h-4z",
  on: "M7 4v12l8-6zM4 4h2v12H4z",
  earlier: "M12 4l-6 6 6 6 1.5-1.5L9 10l4.5-4.5zM15 8.5a1.5 1.5 0 100 3 1.5 1.5 0 000-3",
  later: "M8 4l6 6-6 6-1.5-1.5L11 10 6.5 5.5zM5 8.5a1.5 1.5 0 100 3 1.5 1.5 0 000-3",
  slower: "M4 9h12v2H4z",
  faster: "M4 9h5V4h2v5h5v2h-5v5H9v-5H4z",
  link: "M8 6H6a4 4 0 000 8h2v-2H6a2 2 0 010-4h2zM12 6h2a4 4 0 010 8h-2v-2h2a2 2 0 000-4h-2zM7 9h6v2H7z",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
