// Small helpers for the page. Text always becomes a text node.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") element.style.cssText = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Replaces the children only if `key` differs from the last call, so an equal panel costs nothing.
export function redraw(element, key, make) {
  if (element.drawnKey === key) return;
  element.drawnKey = key;
  element.replaceChildren(...make());
}

export function hueStyle(hue) {
  return hue === null || hue === undefined ? "--own: var(--cached)" : `--own: var(--hue${hue})`;
}

// The letter of a sequence in its colour; it can be selected.
export function letterOf(moment, seqId) {
  return h("span", { class: "p-letter", style: hueStyle(moment.hueOf(seqId)), "aria-hidden": "true" },
    moment.letter(seqId) ?? "·");
}
