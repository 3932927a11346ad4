import { Blocks, wordsIn } from "./blocks.js";
import { h, hueStyle, node, redraw, setText } from "./dom.js";
import { Host } from "./host.js";
import { Narration } from "./narration.js";
import { Budget, Events, FreeQueue, Waiting } from "./panels.js";
import { narrated } from "./sentences.js";
import { Slots } from "./slots.js";
import { number, plural, shortName } from "./text.js";
import { whySequence } from "./why.js";
import { whyBlock, whyHostBlock } from "./why_blocks.js";

// `View`: all panels of one recording. It draws any moment and knows no time of its own.

const NOTHING_SELECTED = "Click a block or a name to see why it is there.";

export class View {
  constructor(track) {
    this.track = track;
    this.chosen = null; // {kind: "block" | "host" | "sequence", id}
    this.at = 0;
    this.isPlaying = false;
    this.narration = new Narration(track);
    this.slots = new Slots();
    this.blocks = new Blocks();
    this.hostMap = new Host();
    this.waiting = new Waiting();
    this.queue = new FreeQueue();
    this.budget = new Budget();
    this.events = new Events();
    this.caption = h("div", { class: "p-caption" });
    this.story = h("div", { class: "p-story" });
    this.why = h("div", { class: "p-why" });
    this.columns = [
      [this.slots, this.waiting], [this.blocks, this.hostMap, this.budget, this.queue],
    ].map((panels) => h("div", { class: "p-column" }, ...panels.map((panel) => panel.element)));
    this.element = h("div", { class: "p-view" },
      this.caption, this.story, h("div", { class: "p-columns" }, ...this.columns), this.why);
    this.element.addEventListener("click", (event) => this.clicked(event));
    this.element.addEventListener("pointerover", (event) => this.hovered(event));
    this.element.addEventListener("pointerleave", () => this.explain(this.chosen));
  }

  draw(at) {
    this.at = at;
    const moment = (this.moment = this.track.seek(at));
    const events = this.track.eventsOfSteps(at);
    const newTokens = new Map();
    for (const event of events) {
      if (event.ev === "token.sampled") {
        newTokens.set(event.seq_id, (newTokens.get(event.seq_id) ?? 0) + 1);
      }
    }
    const block = this.chosen?.kind === "block" ? this.chosen.id : null;
    const sequence = this.chosen?.kind === "sequence" ? this.chosen.id : null;
    this.slots.draw(moment, this.track.numSlots, newTokens, sequence);
    this.blocks.draw(moment, this.track.numBlocks, block, sequence);
    this.hostMap.draw(moment, this.chosen?.kind === "host" ? this.chosen.id : null);
    this.waiting.draw(moment, sequence);
    this.queue.draw(moment);
    this.budget.draw(moment);
    this.events.draw(moment, this.track, at);
    const shorter = this.columns[this.blocks.withWords ? 0 : 1];
    if (this.events.element.parentNode !== shorter) shorter.append(this.events.element);
    setText(this.caption, this.captionText());
    this.tell();
    this.explain(this.chosen);
  }

  captionText() {
    const { header, name } = this.track;
    const policy = header.config?.batching && header.config.batching !== "continuous"
      ? `, ${header.config.batching} batching` : "";
    const engine = header.source ? ` on ${header.source}` : "";
    return `${name.split("/").at(-1)}: model ${header.model}${engine}, ${plural(header.num_blocks, "block")} of`
      + ` ${plural(header.block_size, "token")}${policy}`;
  }

  select(target) {
    const same = target && this.chosen?.kind === target.kind && this.chosen.id === target.id;
    this.choose(same ? null : target);
  }

  choose(target) {
    this.chosen = target;
    this.draw(this.at);
  }

  // Selects the next running or waiting sequence.
  selectNext(by) {
    const ids = [...this.moment.fold.running, ...this.moment.fold.waiting];
    if (!ids.length) return;
    const at = this.chosen?.kind === "sequence" ? ids.indexOf(this.chosen.id) : by > 0 ? -1 : 0;
    this.select({ kind: "sequence", id: ids[(at + by + ids.length) % ids.length] });
  }

  clicked(event) {
    if (event.target.closest("[data-do=words]")) {
      this.blocks.withWords = !this.blocks.withWords;
      this.draw(this.at);
      return;
    }
    const target = targetOf(event.target);
    if (target) this.select(target);
  }

  hovered(event) {
    // The answer may appear under the pointer.
    if (event.pointerType === "touch" || this.why.contains(event.target)) return;
    this.explain(targetOf(event.target) ?? this.chosen);
  }

  // The narrated line, in the colour of its sequence.
  tell() {
    const now = performance.now() / 1000, paused = !this.isPlaying;
    let told = this.narration.look(this.at, now, paused);
    if (told && this.narration.isOld(this.moment.fold.step, now, paused)) told = null;
    const style = told ? hueStyle(this.moment.hueOf(told.owner)) : "";
    redraw(this.story, told ? `${told.seq} ${style}` : `${this.at}`, () => (told
      ? [node("span", { class: "p-muted" }, `step ${number(told.step)} `), narrated(told)]
      : [this.summary()]));
    this.story.style.cssText = style;
  }

  explain(target) {
    this.why.classList.toggle("p-hint", !target);
    redraw(this.why, `${this.at} ${target?.kind} ${target?.id}`, () => {
      const past = this.track.events.slice(0, this.at);
      if (target?.kind === "block") {
        const words = wordsIn(this.moment, target.id, this.moment.owners(target.id));
        return [node("b", {}, "Why? "), whyBlock(this.moment, past, target.id),
          words.length ? node("div", { class: "p-words" }, ...words) : null];
      }
      if (target?.kind === "host") return [node("b", {}, "Why? "), whyHostBlock(this.moment, target.id)];
      if (target) return [node("b", {}, "Why? "), whySequence(this.moment, past, target.id)];
      return [NOTHING_SELECTED];
    });
  }

  // The state in one sentence, also for screen readers.
  summary() {
    const { fold } = this.moment;
    const running = fold.running.map(shortName).slice(0, 8).join(", ");
    return `Step ${number(fold.step)}: ${plural(fold.running.length, "sequence")} running`
      + `${running ? ` (${running})` : ""}, ${number(fold.waiting.length)} waiting,`
      + ` ${number(fold.numUsed)} of ${plural(fold.blocks.length, "block")} in use.`;
  }
}

function targetOf(element) {
  const found = element.closest("[data-block],[data-host],[data-sequence]");
  if (!found) return null;
  const { block, host, sequence } = found.dataset;
  if (host !== undefined) return { kind: "host", id: Number(host) };
  return block !== undefined ? { kind: "block", id: Number(block) }
    : { kind: "sequence", id: sequence };
}
