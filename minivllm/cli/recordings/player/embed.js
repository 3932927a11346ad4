import { h } from "./dom.js";
import { BadRecording, trackOf, trackOfFile, unpack } from "./load.js";
import { mountPlayer, Player } from "./mount.js";
import { addStyle } from "./style.js";

// Players in a page, one line of HTML each; the picture stays where there is no JavaScript:
//
//   <div class="player" data-recording="burst" data-step="41"><img src="..." alt="..."></div>
//
// data-recording: a file of recordings/ without its ending; two with a comma play side by side
// data-play: begin playing once it is visible   data-words: blocks show their words
// data-select: a sequence (ada.0) or a block (b9)
// data-drop: files that are dropped on the page are played here; they are sent nowhere

const base = document.currentScript?.src.replace(/[^/]*$/, "") ?? "";
const registry = (window.minivllmRecordings ??= {});
const players = new Map();

// Recordings are scripts, because a page opened from disk may not read other files.
async function recordingText(name) {
  if (registry[name] === undefined) {
    await new Promise((resolve, reject) => {
      document.head.append(h("script", {
        src: `${base}recordings/${name.split("/").map(encodeURIComponent).join("/")}.js`,
        onload: resolve,
        onerror: () => reject(new BadRecording(`There is no recording ${name} on this site.`)),
      }));
    });
  }
  return unpack(registry[name], name);
}

export async function loadInto(element, names, options = {}) {
  const tracks = [];
  for (const name of names) {
    tracks.push(trackOf(await recordingText(name), name));
  }
  show(element, tracks, options);
}

function show(element, tracks, options) {
  addStyle();
  players.get(element)?.destroy();
  players.set(element, new Player(element, tracks, options));
}

function say(element, error) {
  if (!(error instanceof BadRecording)) throw error;
  element.querySelector(".p-error")?.remove();
  element.prepend(h("div", { class: "p-error", role: "alert" }, error.message));
}

async function start(element, from = element.dataset) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const { recording, step, select } = from;
  if (!recording) return;
  const block = /^b(\d+)$/.exec(select ?? "");
  try {
    await loadInto(element, recording.split(","), {
      step: step === undefined ? undefined : Number(step),
      words: "words" in element.dataset,
      playing: "play" in from && !calm,
      select: !select ? null
        : block ? { kind: "block", id: Number(block[1]) } : { kind: "sequence", id: select },
    });
  } catch (error) {
    say(element, error);
  }
}

// A link such as #recording=burst&step=41 opens in the player of that recording, or in the first.
function fromAddress() {
  const asked = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!asked.recording) return null;
  const all = [...document.querySelectorAll(".player")];
  const element = all.find((one) => one.dataset.recording === asked.recording)
    ?? all.find((one) => "drop" in one.dataset) ?? all[0];
  return element ? { element, asked } : null;
}

function openAddress() {
  const found = fromAddress();
  if (!found) return;
  start(found.element, found.asked).then(() => found.element.scrollIntoView({ block: "nearest" }));
}

function takeFiles(element) {
  addStyle();
  element.classList.add("p-drop");
  const choose = h("input", { type: "file", multiple: true, onchange: () => open(choose.files) });
  const zone = h("label", { class: "p-zone" },
    h("span", {}, "Drop a recording here, or choose a file. It stays on this computer."), choose);
  element.after(zone);
  async function open(files) {
    try {
      if (files.length > 2) throw new BadRecording("Drop one recording, or two to compare them.");
      const tracks = [];
      for (const file of files) tracks.push(await trackOfFile(file));
      if (tracks.length) show(element, tracks, { step: 1 });
    } catch (error) {
      say(element, error);
    }
  }
  // Anywhere on the page: next to the player, a browser would leave the page and open the file.
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    open(event.dataTransfer.files);
  });
}

function begin() {
  const all = [...document.querySelectorAll(".player")];
  for (const element of all) if ("drop" in element.dataset) takeFiles(element);
  const linked = fromAddress()?.element;
  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      start(target);
    }
  }, { rootMargin: "200px" });
  for (const element of all) if (element !== linked) watcher.observe(element);
  openAddress();
  addEventListener("hashchange", openAddress);
}

Object.assign(window, { mountPlayer, BadRecording });
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
else begin();
