import { h, hueStyle, letterOf, redraw } from "./dom.js";
import { clean, idRanges, shortName } from "./text.js";
import { word } from "./words.js";

// Batch slots: the running sequences with their progress, block tables and text as words.

const WORDS_SHOWN = 64;
const MOST_SLOTS = 32;

export class Slots {
  constructor() {
    this.body = h("div", { class: "p-slots" });
    this.element = h("section", { class: "p-panel p-panel-slots" }, (this.title = h("div", { class: "p-title" })), this.body);
    this.rows = [];
  }

  draw(moment, newTokens, chosen) {
    const { fold } = moment;
    const bySlot = new Map(fold.running.map((id) => [fold.sequences.get(id).slot, id]));
    const most = Math.max(fold.maxNumSeqs, ...[...bySlot.keys()].map((slot) => slot + 1));
    const slots = most <= MOST_SLOTS ? [...Array(most).keys()]
      : [...bySlot.keys()].sort((a, b) => a - b).slice(0, MOST_SLOTS);
    this.title.textContent = `Batch slots  ${fold.running.length} of ${fold.maxNumSeqs}`;
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
      row.className = "p-slot p-empty";
      row.removeAttribute("data-sequence");
      redraw(row, `free ${slot}`, () => [h("span", { class: "p-faint" }, `${slot}  free`)]);
      return;
    }
    const { fold } = moment, sequence = fold.sequences.get(seqId);
    const share = fold.scheduled.find((one) => one.seq_id === seqId);
    row.className = `p-slot${chosen === seqId ? " p-chosen" : ""}${share ? " p-active" : ""}`;
    row.dataset.sequence = seqId;
    row.style.cssText = hueStyle(moment.hueOf(seqId));
    const key = [seqId, sequence.num_computed_tokens, sequence.output_token_ids.length,
      sequence.block_table.join(), sequence.num_preemptions, share?.kind, newTokens.get(seqId),
      share?.num_accepted, moment.letter(seqId)].join(" ");
    redraw(row, key, () => [
      this.head(moment, seqId, sequence, share),
      h("div", { class: "p-said" }, textOf(moment, sequence, share, newTokens.get(seqId) ?? 0)),
    ]);
  }

  head(moment, seqId, sequence, share) {
    const known = moment.fold.numTokens(sequence);
    const isPrefill = share ? share.kind === "prefill" : sequence.num_computed_tokens < known - 1;
    const request = moment.fold.requests.get(sequence.request_id);
    const done = isPrefill ? sequence.num_computed_tokens / Math.max(known, 1)
      : sequence.output_token_ids.length / Math.max(request.max_tokens, 1);
    const progress = isPrefill ? `${sequence.num_computed_tokens}/${known}`
      : `+${sequence.output_token_ids.length}`;
    return h("div", { class: "p-slot-head" },
      letterOf(moment, seqId),
      h("button", { class: "p-name", type: "button", "data-sequence": seqId }, shortName(seqId)),
      h("span", { class: `p-phase ${isPrefill ? "p-prefill" : "p-decode"}` },
        isPrefill ? "prefill" : "decode"),
      h("span", { class: "p-count" }, progress),
      h("span", { class: "p-meter", "aria-hidden": "true" },
        h("i", { style: `width:${Math.min(100 * done, 100).toFixed(1)}%` })),
      sequence.num_preemptions
        ? h("span", { class: "p-warn", title: "preempted" }, `↺${sequence.num_preemptions}`) : null,
      h("span", { class: "p-table" }, `blocks ${tail(idRanges(sequence.block_table), 26)}`));
  }
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
  else parts.push(h("span", { class: "p-prompt" }, promptOf(fold, request)), " ");
  // One element for all words of a block that are not new, so that a step makes few elements.
  for (let at = from, run = null; at < out.length; at++) {
    const block = sequence.block_table[Math.floor((sequence.num_prompt_tokens + at) / size)];
    const isNew = at >= out.length - numNew;
    if (run?.block !== block || isNew) {
      run = { block, element: h("span", {
        class: isNew ? "p-word p-new" : "p-word", "data-block": block,
      }) };
      parts.push(run.element);
    }
    run.element.append(word(fold, out[at]));
  }
  if (share?.draft_token_ids.length) {
    const isOpen = share.num_accepted === null;
    for (const id of share.draft_token_ids.slice(share.num_accepted ?? 0)) {
      parts.push(h(isOpen ? "em" : "del", { class: "p-draft" }, word(fold, id)));
    }
  }
  return h("div", {}, ...parts);
}

function promptOf(fold, request) {
  if (request.prompt) {
    const text = clean(request.prompt);
    return text.length > 160 ? `${text.slice(0, 110)} … ${text.slice(-45)}` : text;
  }
  const ids = request.prompt_token_ids;
  return clean(ids.slice(-40).map((id) => word(fold, id)).join(""));
}
