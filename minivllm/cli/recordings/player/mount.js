import { momentsOf, placeOfStep } from "./clock.js";
import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { BadRecording, trackOf } from "./load.js";
import { addStyle } from "./style.js";
import { number, shortName } from "./text.js";
import { TimeBar } from "./timebar.js";
import { View } from "./view.js";

// `mountPlayer`: a player in an element of the page.
//
//   const player = mountPlayer(element, { recordings: [text], step: 41 });
//   player.play(); player.goTo(12); player.destroy();
//
// recordings: one or two; each is the text of a recording, its lines as an array, or a track
// names: a name for each   step: where to begin   playing: whether to begin at once
// words: whether blocks show their words   onmove(step): called after each move
// Bad input throws `BadRecording`, whose message is one sentence for the reader.

const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32];
const MOST_CARDS_AT_ONCE = 24;

export function mountPlayer(element, options) {
  const names = options.names ?? [];
  const tracks = options.recordings.map((one, at) =>
    (typeof one === "string" || Array.isArray(one)
      ? trackOf(one, names[at] ?? (at ? "recording B" : "recording")) : one));
  if (!tracks.length) throw new BadRecording("There is no recording to play: give one or two.");
  addStyle();
  return new Player(element, tracks, options);
}

export class Player {
  constructor(element, tracks, options = {}) {
    this.host = element;
    this.tracks = tracks;
    this.onmove = options.onmove ?? (() => {});
    this.moments = momentsOf(tracks);
    this.place = 0;
    this.offset = null; // number of events inside a step, when moved by event
    this.timer = null;
    this.speed = 3;
    this.views = tracks.map((track) => new View(track));
    this.bar = new TimeBar(this.moments, tracks, (place) => { this.pause(); this.moveTo(place); });
    this.live = h("div", { class: "p-unseen", "aria-live": "polite" });
    this.element = h("div", {
      class: "p-player", tabindex: 0, role: "group",
      "aria-label": `Player of ${tracks.map((track) => track.name).join(" and ")}`,
      onkeydown: (event) => this.pressed(event),
    },
    this.controls(), this.bar.element, this.bar.legend,
    ...tracks.filter((track) => track.note).map((track) => h("div", { class: "p-note" }, track.note)),
    h("div", { class: `p-views${tracks.length > 1 ? " p-two" : ""}` }, ...this.views.map((view) => view.element)), this.live);
    element.replaceChildren(this.element);
    element.classList.add("p-started");
    const fits = tracks.length === 1 && tracks[0].header.num_blocks <= MOST_CARDS_AT_ONCE
      && element.clientWidth >= 640;
    for (const view of this.views) view.blocks.withWords = options.words || fits;
    if (options.select) this.views[0].chosen = options.select;
    this.moveTo(options.step === undefined || options.step === null ? 1
      : placeOfStep(this.moments, options.step));
    if (options.playing) this.play();
    else this.showState();
  }

  controls() {
    const button = (name, picture, act, kind = "") => h("button", {
      type: "button", class: `p-button ${kind}`, "aria-label": name, title: name, onclick: act,
    }, icon(picture));
    this.playButton = button("Play (space)", "play", () => this.toggle(), "p-main");
    this.label = h("span", { class: "p-step" });
    this.speedLabel = h("span", { class: "p-speed" });
    return h("div", { class: "p-controls" },
      button("To the start (home)", "start", () => this.jump(0), "p-wide"),
      button("Step back (←)", "back", () => this.step(-1)),
      this.playButton,
      button("Step (→)", "on", () => this.step(1)),
      this.label,
      h("span", { class: "p-gap" }),
      button("Previous notable moment ({)", "earlier", () => this.notable(-1)),
      button("Next notable moment (})", "later", () => this.notable(1)),
      button("Slower (-)", "slower", () => this.faster(-1), "p-wide"),
      this.speedLabel,
      button("Faster (+)", "faster", () => this.faster(1), "p-wide"),
      button("Link to this step", "link", () => this.link(), "p-wide"));
  }

  // ---- moving ----

  get stepNumber() {
    return this.moments[this.place].ends[0].step;
  }

  goTo(step) {
    this.pause();
    this.moveTo(placeOfStep(this.moments, step));
  }

  jump(place) {
    this.pause();
    this.moveTo(place);
  }

  step(by) {
    this.pause();
    this.moveTo(this.place + by);
  }

  moveTo(place) {
    this.place = Math.min(Math.max(place, 0), this.moments.length - 1);
    this.draw(this.moments[this.place].ends.map((end) => end.at));
  }

  // One event on or back, of the first recording.
  event(by) {
    this.pause();
    const [track] = this.tracks;
    const at = Math.min(Math.max(this.views[0].at + by, 0), track.events.length);
    const place = this.moments.findIndex(({ ends: [end] }) => end.at >= at);
    this.place = place < 0 ? this.moments.length - 1 : place;
    this.draw(this.moments[this.place].ends.map((end, side) => (side ? end.at : at)));
  }

  notable(by) {
    this.pause();
    const [track] = this.tracks, step = this.stepNumber;
    const steps = track.marks.map((mark) => mark.step);
    const found = by > 0 ? steps.find((one) => one > step) : steps.findLast((one) => one < step);
    if (found !== undefined) this.moveTo(placeOfStep(this.moments, found));
  }

  draw(counts) {
    this.views.forEach((view, side) => view.draw(counts[side]));
    const last = this.tracks[0].ends.at(-1).step;
    setText(this.label, this.tracks.length === 1
      ? `step ${number(this.stepNumber)} of ${number(last)}`
      : `${this.moments[this.place].t.toFixed(2)} s: steps`
        + ` ${this.moments[this.place].ends.map((end) => number(end.step)).join(" and ")}`);
    const words = this.views.map((view) => view.summary()).join(" ");
    this.bar.show(this.place, this.label.textContent);
    if (this.timer === null) setText(this.live, words);
    this.onmove(this.stepNumber);
  }

  // ---- playing ----

  get isPlaying() {
    return this.timer !== null;
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play() {
    if (this.place === this.moments.length - 1) this.moveTo(0);
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      if (this.place >= this.moments.length - 1 || !this.element.isConnected) this.pause();
      else if (!document.hidden) this.moveTo(this.place + 1);
    }, 1000 / SPEEDS[this.speed]);
    this.showState();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.showState();
  }

  faster(by) {
    this.speed = Math.min(Math.max(this.speed + by, 0), SPEEDS.length - 1);
    if (this.isPlaying) this.play();
    this.showState();
  }

  showState() {
    for (const view of this.views) view.isPlaying = this.isPlaying;
    this.playButton.replaceChildren(icon(this.isPlaying ? "pause" : "play"));
    this.playButton.setAttribute("aria-label", this.isPlaying ? "Pause (space)" : "Play (space)");
    this.speedLabel.textContent = `${SPEEDS[this.speed]}/s`;
  }

  destroy() {
    this.pause();
    this.element.remove();
    this.host.classList.remove("p-started");
  }

  // ---- keys and links ----

  pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const onButton = event.target.closest("button") && (event.key === " " || event.key === "Enter");
    const act = onButton ? null : KEYS[event.key];
    if (!act) return;
    act(this);
    event.preventDefault();
    event.stopPropagation();
  }

  // As the dashboard's key g: a step, a sequence or a block.
  ask() {
    const asked = prompt("Go to a step (412), a request (ada) or a block (b9)")?.trim();
    const [view] = this.views, block = /^b(\d+)$/.exec(asked ?? "");
    if (!asked) return;
    if (/^\d+$/.test(asked)) this.goTo(Number(asked));
    else if (block) view.choose({ kind: "block", id: Number(block[1]) });
    else {
      const ids = [...view.moment.fold.sequences.keys()];
      view.choose({ kind: "sequence", id: ids.find((id) => shortName(id) === asked) ?? asked });
    }
  }

  link() {
    const names = this.tracks.map((track) => track.name).join(",");
    const hash = `#recording=${encodeURIComponent(names)}&step=${this.stepNumber}`;
    history.replaceState(null, "", hash);
    navigator.clipboard?.writeText(location.href).catch(() => {});
    this.live.textContent = `The address of this page now leads to step ${this.stepNumber}.`;
  }
}

// The keys of the dashboard.
const KEYS = {
  " ": (player) => player.toggle(),
  ArrowLeft: (player) => player.step(-1), h: (player) => player.step(-1),
  ArrowRight: (player) => player.step(1), l: (player) => player.step(1),
  "[": (player) => player.event(-1), "]": (player) => player.event(1),
  "{": (player) => player.notable(-1), "}": (player) => player.notable(1),
  Home: (player) => player.jump(0), End: (player) => player.jump(Infinity),
  "+": (player) => player.faster(1), "=": (player) => player.faster(1),
  "-": (player) => player.faster(-1),
  g: (player) => player.ask(),
  ArrowDown: (player) => player.views[0].selectNext(1), j: (player) => player.views[0].selectNext(1),
  ArrowUp: (player) => player.views[0].selectNext(-1), k: (player) => player.views[0].selectNext(-1),
  w: (player) => {
    const [view] = player.views;
    player.live.textContent = (view.chosen ? view.why : view.story).textContent;
  },
  i: (player) => player.views.forEach((view) => {
    view.blocks.withWords = !view.blocks.withWords;
    view.draw(view.at);
  }),
  Escape: (player) => player.views.forEach((view) => view.select(null)),
};
