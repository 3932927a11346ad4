import { h } from "./dom.js";
import { plural } from "./text.js";

// The time bar: a slider over the memory in use, with marks at hits, preemptions and the like.

// Kind -> [style, name], in the order of their rows.
const MARKS = {
  "block.hit": ["good", "prefix hit"], "block.copied": ["accent", "copy-on-write"],
  "block.evicted": ["warn", "eviction"], "request.preempted": ["bad", "preemption"],
};
const SVG = "http://www.w3.org/2000/svg";

export class TimeBar {
  // moments: for each place of the slider, the number of events of each track
  constructor(moments, tracks, onseek) {
    this.slider = h("input", {
      type: "range", min: 0, max: moments.length - 1, value: 0, class: "p-slider",
      "aria-label": "Step", oninput: () => onseek(Number(this.slider.value)),
    });
    this.chart = h("div", { class: "p-chart", "aria-hidden": "true" });
    this.now = h("i", { class: "p-now" });
    this.element = h("div", { class: "p-timebar" }, this.chart, this.slider, this.now);
    tracks.forEach((track, side) => this.chart.append(chartOf(moments, track, side)));
    this.legend = legendOf(tracks);
  }

  show(place, words) {
    this.slider.value = place;
    this.slider.setAttribute("aria-valuetext", words);
    const last = Math.max(Number(this.slider.max), 1);
    this.now.style.left = `${100 * place / last}%`;
  }
}

function chartOf(moments, track, side) {
  const last = Math.max(moments.length - 1, 1);
  const svg = svgOf("svg", { viewBox: `0 0 ${last} 100`, preserveAspectRatio: "none" });
  const most = mostUsed(track) || 1;
  let area = "M0 100";
  const placeOf = new Map();
  moments.forEach((moment, place) => {
    const end = moment.ends[side];
    area += `L${place} ${(100 - 60 * end.used / most).toFixed(1)}`;
    if (!placeOf.has(end.step)) placeOf.set(end.step, place);
  });
  svg.append(svgOf("path", { d: `${area}L${last} 100Z`, class: "p-area" }));
  // Each kind has its own row, so that a step can show several.
  Object.entries(MARKS).forEach(([kind, [style]], number) => {
    const places = track.marks
      .filter((mark) => mark.kind === kind && placeOf.has(mark.step))
      .map((mark) => `M${placeOf.get(mark.step)} ${number * 9}V${number * 9 + 9}`);
    svg.append(svgOf("path", { d: places.join(""), class: `p-tick p-stroke-${style}` }));
  });
  return svg;
}

function svgOf(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function mostUsed(track) {
  return track.ends.reduce((most, end) => Math.max(most, end.used), 0);
}

function legendOf(tracks) {
  const items = Object.entries(MARKS).map(([kind, [style, name]]) => {
    const steps = tracks.reduce(
      (sum, track) => sum + track.marks.filter((mark) => mark.kind === kind).length, 0);
    return steps ? h("span", { class: `p-${style}` }, `▎${name} in ${plural(steps, "step")}`) : null;
  });
  return h("div", { class: "p-legend" },
    h("span", { class: "p-muted" }, h("i", { class: "p-swatch" }), `blocks in use, at most ${
      tracks.map((track) => `${Math.round(100 * mostUsed(track))} %`).join(" and ")}`),
    ...items.filter(Boolean));
}
