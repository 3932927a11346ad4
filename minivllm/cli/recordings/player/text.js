// Text from a recording, made safe and short: the counterpart of minivllm/text.py.
// Prompts and outputs only ever reach the page as text nodes, never as HTML.

const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ud800-\udfff\ue000-\uf8ff\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]/gu;
const SERVED = /^(?:chatcmpl|cmpl|gen)-(.+)-([0-9a-f]{8})(-\d+)?$/;
const UUID = /^([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
const LONGEST_NAME = 24;
const names = new Map();

// As `toLocaleString("en-US")` for whole numbers, which takes most of the time of a step.
export function number(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function clean(text) {
  return text.replace(/\n\s*/g, "↵").replaceAll("\t", " ").replace(UNSAFE, "");
}

// A token with its spaces and line breaks: `·the`.
export function visible(text) {
  return text
    .replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "→")
    .replace(UNSAFE, (found) =>
      `<U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
}

// `ada.0` is ada, `ada.1` is ada.1; long names are shortened as on the dashboard.
export function shortName(seqId) {
  let name = names.get(seqId);
  if (name === undefined) names.set(seqId, (name = makeShortName(seqId)));
  return name;
}

function makeShortName(seqId) {
  const dot = seqId.lastIndexOf(".");
  const index = dot < 0 ? seqId : seqId.slice(dot + 1);
  const suffix = dot >= 0 && index !== "0" ? `.${index}` : "";
  const requestId = clean(dot < 0 ? seqId : seqId.slice(0, dot));
  const served = SERVED.exec(requestId);
  if (served) {
    const [, http, chance, copy = ""] = served;
    const short = UUID.test(http) ? http.slice(0, 6) : `${http.slice(0, 8)}~${chance.slice(0, 4)}`;
    return short + (copy === "-0" ? "" : copy) + suffix;
  }
  if ([...requestId].length <= LONGEST_NAME) return requestId + suffix;
  const sum = crc32(new TextEncoder().encode(requestId)).toString(16).padStart(8, "0");
  return `${[...requestId].slice(0, 8).join("")}~${sum}${suffix}`;
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

// Block ids in the given order, runs joined: `3 9-12 8 down to 5 22`.
export function idRanges(ids) {
  const runs = [];
  for (const id of ids) {
    const run = runs.at(-1);
    if (run && Math.abs(id - run[1]) === 1 && (run[2] === 0 || run[2] === id - run[1])) {
      run[2] = id - run[1];
      run[1] = id;
    } else runs.push([id, id, 0]);
  }
  return runs
    .map(([first, last]) =>
      first === last ? `${first}`
        : `${first}${Math.abs(last - first) === 1 ? " " : last < first ? " down to " : "-"}${last}`)
    .join(" ");
}

export function ordinal(place) {
  const teen = place % 100 >= 11 && place % 100 <= 13;
  return number(place) + (teen ? "th" : ({ 1: "st", 2: "nd", 3: "rd" })[place % 10] ?? "th");
}
