import { become, h, hueStyle, letterOf, node, setText } from "./dom.js";
import { clean, idRanges, shortName } from "./text.js";
import { word } from "./words.js";

// Batch slots: the sequences with a slot, with their progress, block tables and text as words.

const WORDS_SHOWN = 48;
const MOST_SLOTS = 32;
const FEWEST_SLOTS = 4; // that are drawn, used or not

export class Slots {
  constructor() {
    this.body = h("div", { class: "p-slots" });
    this.element = h("section", { class: "p-panel p-panel-slots" }, (this.title = h("div", { class: "p-title" })), this.body);
    this.rows = [];
  }

  // numUsed: the slots of this recording that are used at any time
  draw(moment, numUsed, newTokens, chosen) {
    const { fold } = moment;
    // A sequence whose blocks are being loaded waits, and has a slot.
    const bySlot = new Map([...fold.waiting, ...fold.running]
      .map((id) => [fold.sequences.get(id).slot, id]).filter(([slot]) => slot !== null));
    const most = Math.max(numUsed, Math.min(fold.maxNumSeqs, FEWEST_SLOTS));
    const slots = most <= MOST_SLOTS ? [...Array(most).keys()]
      : [...bySlot.keys()].sort((a, b) => a - b).slice(0, MOST_SLOTS);
    setText(this.title, `Batch slots  ${bySlot.size} of ${fold.maxNumSeqs}`);
    while (this.rows.length > slots.length) this.rows.pop().remove();
    while (this.rows.length < slots.length) {
      this.rows.push(h("div", { class: "p-slot" }));
      this.body.append(this.rows.at(-1));
    }
    this.body.classList.toggle("p-roomy", slots.length <= 8); // so that nothing jumps
    slots.forEach((slot, at) => this.drawSlot(this.rows[at], moment, slot, bySlot.get(slot),
      newTokens, chosen));
  }

  drawSlot(row, moment, slot, seqId, newTokens, chosen) {
    if (!seqId) {
      become(row, `free ${slot}`, () => node("div", { class: "p-slot p-empty" },
        node("span", { key: "free", class: "p-faint" }, `${slot}  free`)));
      return;
    }
    const { fold } = moment, sequence = fold.sequences.get(seqId);
    const share = fold.scheduled.find((one) => one.seq_id === seqId);
    const key = [seqId, sequence.num_computed_tokens, sequence.output_token_ids.length,
      sequence.block_table.join(), sequence.num_preemptions, sequence.status, share?.kind, newTokens.get(seqId),
      share?.num_accepted, moment.letter(seqId), moment.hueOf(seqId), chosen === seqId].join(" ");
    become(row, key, () => node("div", {
      class: `p-slot${chosen === seqId ? " p-chosen" : ""}${share ? " p-active" : ""}`,
      "data-sequence": seqId, style: hueStyle(moment.hueOf(seqId)),
    },
    this.head(moment, seqId, sequence, share),
    node("div", { class: "p-said" }, textOf(moment, sequence, share, newTokens.get(seqId) ?? 0))));
  }

  head(moment, seqId, sequence, share) {
    const known = moment.fold.numTokens(sequence);
    const isLoading = sequence.status === "WAITING_FOR_REMOTE_KVS";
    const isPrefill = share ? share.kind === "prefill" : sequence.num_computed_tokens < known - 1;
    const request = moment.fold.requests.get(sequence.request_id);
    const computed = isLoading ? numLoaded(moment, seqId, sequence) : sequence.num_computed_tokens;
    const done = isPrefill ? computed / Math.max(known, 1)
      : sequence.output_token_ids.length / Math.max(request.max_tokens, 1);
    const progress = isPrefill ? `${computed}/${known}`
      : `+${sequence.output_token_ids.length}`;
    return node("div", { class: "p-slot-head" },
      letterOf(moment, seqId),
      node("button", { class: "p-name", type: "button", "data-sequence": seqId }, shortName(seqId)),
      node("span", { class: `p-phase ${isPrefill ? "p-prefill" : "p-decode"}` },
        isLoading ? "loading" : isPrefill ? "prefill" : "decode"),
      node("span", { class: "p-count" }, progress),
      node("span", { class: "p-meter", "aria-hidden": "true" },
        node("i", { style: `width:${Math.min(100 * done, 100).toFixed(1)}%` })),
      sequence.num_preemptions
        ? node("span", { key: "count", class: "p-warn", title: "preempted" }, `↺${sequence.num_preemptions}`) : null,
      node("span", { key: "table", class: "p-table" }, `blocks ${tail(idRanges(sequence.block_table), 26)}`));
  }
}

// The tokens that a waiting sequence need not compute once its load has ended.
function numLoaded({ fold, header }, seqId, sequence) {
  const hits = sequence.block_table.filter((id) => fold.blocks[id].hash !== null).length;
  return header.block_size * (hits + (fold.loads.get(seqId)?.block_ids.length ?? 0));
}

function tail(text, most) {
  return text.length <= most ? text : `…${text.slice(text.length - most + 1)}`;
}

// Prompt and newest words. Words of this step are marked; rejected drafts are struck out.
function textOf(moment, sequence, share, numNew) {
  const { fold } = moment, size = moment.header.block_size;
  const request = fold.requests.get(sequence.request_id), out = sequence.output_token_ids;
  const from = Math.max(out.length - WORDS_SHOWN, 0);
  const parts = [];
  if (from) parts.push("… ");
  else parts.push(node("span", { class: "p-prompt" }, promptOf(fold, request)), " ");
  // One element for all words of a block that are not new, so that a step changes few elements.
  const numOld = Math.max(out.length - numNew, from);
  const logicalBlock = (at) => Math.floor((sequence.num_prompt_tokens + at) / size);
  const add = (key, name, first, last) => parts.push(node("span", {
    key, class: name, "data-block": sequence.block_table[logicalBlock(first)],
  }, out.slice(first, last).map((id) => word(fold, id)).join("")));
  for (let at = from, next; at < numOld; at = next) {
    next = Math.min(at + size - (sequence.num_prompt_tokens + at) % size, numOld);
    add(`block ${logicalBlock(at)}`, "p-word", at, next);
  }
  for (let at = numOld; at < out.length; at++) add(`new ${at}`, "p-word p-new", at, at + 1);
  if (share?.draft_token_ids.length) {
    const isOpen = share.num_accepted === null;
    for (const id of share.draft_token_ids.slice(share.num_accepted ?? 0)) {
      parts.push(node(isOpen ? "em" : "del", { class: "p-draft" }, word(fold, id)));
    }
  }
  return node("div", {}, ...parts);
}

function promptOf(fold, request) {
  if (request.prompt) {
    const text = clean(request.prompt);
    return text.length > 160 ? `${text.slice(0, 110)} … ${text.slice(-45)}` : text;
  }
  const ids = request.prompt_token_ids;
  return clean(ids.slice(-40).map((id) => word(fold, id)).join(""));
}
