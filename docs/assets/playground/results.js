import { h } from "./dom.js";

// The figures of both runs, and the player with their recordings.

const ms = (seconds) => `${(seconds * 1000).toFixed(0)} ms`;
const share = (part) => `${(part * 100).toFixed(1)} %`;
const FIGURES = [
  ["steps", "Steps", (count) => `${count}`],
  ["seconds", "Time, estimated", (seconds) => `${seconds.toFixed(2)} s`],
  ["throughput_tokens_per_s", "Throughput", (rate) => `${rate.toFixed(1)} tokens/s`],
  ["ttft_mean_s", "Time to first token, mean", ms],
  ["ttft_p99_s", "Time to first token, p99", ms],
  ["itl_p99_s", "Inter-token latency, p99", ms],
  ["kv_waste", "Waste of KV cache memory", share],
  ["preemptions", "Preemptions", (count) => `${count}`],
  ["prefix_hit_rate", "Prefix cache hit rate", share],
  ["max_running", "Most sequences at once", (count) => `${count}`],
];

export class Results {
  constructor() {
    this.table = h("div", { class: "pg-figures" });
    this.note = h("p", { class: "pg-note" });
    this.stage = h("div", { class: "player" });
    this.element = h("div", { class: "pg-results", hidden: true }, this.table, this.note, this.stage);
  }

  show({ original, yours }) {
    this.element.hidden = false;
    this.table.replaceChildren(figures(original.figures, yours.figures));
    const sides = [original, yours].filter((side) => side.recording.includes("\n{"));
    const step = firstDifference(original.recording, yours.recording);
    this.note.replaceChildren(
      step === null ? "Both runs make the same decisions. " : `The runs part in step ${step}. `,
      sides.includes(yours) ? saved(yours.recording) : "");
    this.player?.destroy();
    this.player = sides.length && window.mountPlayer
      ? window.mountPlayer(this.stage, {
        recordings: sides.map((side) => side.recording),
        names: sides.map((side) => (side === original ? "original" : "yours")),
        step: step ?? 1,
      })
      : null;
    if (!this.player) this.stage.replaceChildren();
  }
}

function figures(original, yours) {
  const cell = (side, name, text) =>
    (side?.[name] === undefined || side[name] === null ? "–" : text(side[name]));
  const rows = FIGURES.map(([name, label, text]) => {
    const [a, b] = [cell(original, name, text), cell(yours, name, text)];
    return h("tr", { class: a === b ? "" : "pg-differs", "data-figure": name },
      h("th", { scope: "row" }, label), h("td", {}, a), h("td", {}, b));
  });
  return h("table", {},
    h("thead", {}, h("tr", {}, ["Figure", "Original", "Yours"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows));
}

// The step of the first event in which the runs differ, times and sizes left out.
function firstDifference(a, b) {
  const [left, right] = [a, b].map((text) => text.trim().split("\n").slice(1));
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    if (left[at] === right[at]) continue;
    const [x, y] = [left[at], right[at]].map((line) => (line ? untimed(line) : null));
    if (x?.text !== y?.text) return Math.max((y ?? x).step, 1);
  }
  return null;
}

function untimed(line) {
  const { t, t_schedule, t_prepare, t_model, t_sample, ...event } = JSON.parse(line);
  return { step: event.step, text: JSON.stringify(event) };
}

let address = null;

function saved(recording) {
  if (address) URL.revokeObjectURL(address);
  address = URL.createObjectURL(new Blob([recording], { type: "application/jsonl" }));
  return h("a", { href: address, download: "yours.jsonl" },
    "Save your run, for minivllm replay");
}
