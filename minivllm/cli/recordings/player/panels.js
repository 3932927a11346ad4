import { h, hueStyle, letterOf, node, redraw, setText } from "./dom.js";
import { decisionsOf, whyWaiting } from "./sentences.js";
import { number, plural, shortName } from "./text.js";

// The smaller panels: waiting requests, free queue, token budget, events of the step.

const MOST_ROWS = 40;
const MOST_CHIPS = 160;
const STEPS_OF_DECISIONS = 24;
const MOST_DECISIONS = 16;

class Panel {
  constructor(name) {
    this.title = h("div", { class: "p-title" });
    this.body = h("div", { class: `p-${name}` });
    this.element = h("section", { class: `p-panel p-panel-${name}` }, this.title, this.body);
  }

  // The keyboard can scroll a panel that has nothing else to focus.
  letScroll(name) {
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "group");
    this.body.setAttribute("aria-label", name);
  }
}

export class Waiting extends Panel {
  constructor() {
    super("waiting");
  }

  draw(moment, chosen) {
    const { waiting, sequences } = moment.fold;
    setText(this.title, `Waiting  ${waiting.length}`);
    const rows = waiting.slice(0, MOST_ROWS).map((id, at) => [id, whyWaiting(moment, at)]);
    redraw(this.body, JSON.stringify([rows, chosen]), () => {
      if (!rows.length) return [node("div", { class: "p-faint" }, "none waiting")];
      return rows.map(([id, why], at) => {
        const { num_preemptions: count } = sequences.get(id);
        return node("button", {
          class: `p-line${id === chosen ? " p-chosen" : ""}`, type: "button", "data-sequence": id,
          style: hueStyle(moment.hueOf(id)),
        },
        letterOf(moment, id), node("span", { class: "p-name" }, shortName(id)),
        count ? node("span", { key: "count", class: "p-warn" }, `↺${count}`) : null,
        node("span", { key: "why", class: at ? "p-muted" : "" }, why));
      });
    });
  }
}

export class FreeQueue extends Panel {
  constructor() {
    super("queue");
    this.letScroll("Free queue");
  }

  draw(moment) {
    const { freeQueue, blocks } = moment.fold;
    const cached = freeQueue.reduce((sum, id) => sum + (blocks[id].hash !== null), 0);
    setText(this.title, `Free queue  ${number(freeQueue.length)}`
      + (cached ? `, ${number(cached)} still cached` : ""));
    const shown = freeQueue.slice(0, MOST_CHIPS);
    const key = shown.map((id) => (blocks[id].hash === null ? id : `${id}c`)).join();
    redraw(this.body, key, () => [
      node("span", { class: "p-muted" }, freeQueue.length ? "next →" : "empty"),
      ...shown.map((id) => node("button", {
        key: `b${id}`, class: `p-chip${blocks[id].hash === null ? "" : " p-cached"}`, type: "button", tabindex: -1,
        "data-block": id, style: hueStyle(moment.hueOf(moment.ages.lastOwner(id))),
      }, String(id))),
      ...(freeQueue.length > shown.length
        ? [node("span", { key: "more", class: "p-muted" }, `and ${number(freeQueue.length - shown.length)} more`)] : []),
    ]);
  }
}

export class Budget extends Panel {
  constructor() {
    super("budget");
  }

  draw(moment) {
    const { scheduled, budget } = moment.fold;
    const sum = (kind) => scheduled.reduce(
      (total, share) => total + (kind && share.kind !== kind ? 0 : share.num_tokens), 0);
    const used = sum(null);
    setText(this.title, budget
      ? `Token budget  ${number(used)} of ${number(budget)}: ${number(sum("decode"))} decode,`
        + ` ${number(sum("prefill"))} prefill`
      : "Token budget  no step yet");
    const key = scheduled.map((share) => `${share.seq_id} ${share.num_tokens} ${share.kind}`).join();
    redraw(this.body, `${budget} ${key}`, () => scheduled.map((share) => node("button", {
      key: share.seq_id,
      class: `p-share p-${share.kind}`, type: "button", tabindex: -1,
      "data-sequence": share.seq_id,
      style: `${hueStyle(moment.hueOf(share.seq_id))};`
        + `width:${(100 * share.num_tokens / Math.max(budget, used, 1)).toFixed(2)}%`,
      "aria-label": `${shortName(share.seq_id)}: ${plural(share.num_tokens, `${share.kind} token`)}`,
    }, share.num_tokens > 1 ? String(share.num_tokens) : "")));
  }
}

export class Events extends Panel {
  constructor() {
    super("events");
    this.letScroll("Decisions");
    this.title.textContent = "Decisions";
  }

  // The newest decisions; those of the current step are marked.
  draw(moment, track, at) {
    const step = track.events[at - 1]?.step;
    const rows = decisionsOf(track, track.eventsOfSteps(at, STEPS_OF_DECISIONS))
      .slice(-MOST_DECISIONS);
    const key = rows.map((row) => `${row.step === step} ${row.step} ${row.owner} ${row.text}`).join();
    redraw(this.body, key, () => {
      if (!rows.length) return [node("div", { key: "none", class: "p-faint" }, "none in these steps")];
      return rows.reverse().map((row) => node("div", {
        key: row.key, class: `p-line${row.step === step ? "" : " p-old"}`, style: hueStyle(moment.hueOf(row.owner)),
        "data-sequence": row.owner, "data-block": row.blocks.at(-1),
      },
      node("span", { class: "p-when" }, number(row.step)),
      row.owner ? letterOf(moment, row.owner) : null,
      row.owner ? node("span", { class: "p-name" }, shortName(row.owner)) : null,
      node("span", { class: `p-${row.style}` }, row.text, node("span", { class: "p-muted" }, row.after))));
    });
  }
}
