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

// A description of an element, for `redraw`. The attribute `key` names it among its siblings:
// an element keeps its place in the page as long as its key stays.
export function node(tag, attributes = {}, ...children) {
  return { tag, attributes, children };
}

// Makes the children of `element` as `make` describes them, and changes only what differs. If `key`
// equals that of the last call, nothing is described at all.
export function redraw(element, key, make) {
  if (element.drawnKey === key) return;
  element.drawnKey = key;
  patch(element, make());
}

// The same for an element and its children.
export function become(element, key, make) {
  if (element.drawnKey === key) return;
  element.drawnKey = key;
  update(element, make());
}

// An equal text is not set again, because the browser would lay it out again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function patch(element, described) {
  const old = element.drawnChildren ?? new Map(), now = new Map();
  for (const one of described) {
    if (one === null || one === undefined) continue;
    const name = one.attributes?.key ?? now.size;
    const child = old.get(name);
    const isSame = child && child.is === (one.tag ?? "text");
    now.set(name, isSame ? { ...child, one } : { ...made(one), one });
    if (isSame) old.delete(name);
  }
  // Remove first: then the others are in order already, unless one has moved.
  for (const { dom } of old.values()) dom.remove();
  let place = element.firstChild;
  for (const { dom, one } of now.values()) {
    update(dom, one);
    if (dom === place) place = place.nextSibling;
    else element.insertBefore(dom, place);
  }
  element.drawnChildren = now;
}

function made(one) {
  return one.tag ? { is: one.tag, dom: document.createElement(one.tag) }
    : { is: "text", dom: document.createTextNode("") };
}

function update(dom, one) {
  if (!one.tag) {
    if (dom.data !== one) dom.data = one;
    return;
  }
  const before = dom.drawnAttributes ?? {};
  for (const name in { ...before, ...one.attributes }) {
    const value = one.attributes[name];
    if (value === before[name] || name === "key") continue;
    if (value === null || value === undefined) dom.removeAttribute(name);
    else dom.setAttribute(name, value);
  }
  dom.drawnAttributes = one.attributes;
  patch(dom, one.children);
}

export function hueStyle(hue) {
  return hue === null || hue === undefined ? "--own: var(--cached)" : `--own: var(--hue${hue})`;
}

// The letter of a sequence in its colour; it can be selected.
export function letterOf(moment, seqId) {
  return node("span", {
    class: "p-letter", style: hueStyle(moment.hueOf(seqId)), "aria-hidden": "true",
  }, moment.letter(seqId) ?? "·");
}
