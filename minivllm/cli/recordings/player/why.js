import { PASSED_REASONS } from "./labels.js";
import { phrase, reasonToWait, whoseNeed } from "./sentences.js";
import { number, plural, shortName, visible } from "./text.js";

// Why a sequence waits, runs or has ended: the dashboard's sentences of the key w
// (tui/answers/why_sequences.py). A test compares the two, moment by moment.
//
// past: the events before the moment, which say when and for whom something happened

const NAMED = 4;

export function whySequence(moment, past, seqId) {
  const sequence = moment.fold.sequences.get(seqId);
  if (!sequence) return ended(moment, seqId);
  return sequence.status === "RUNNING" ? running(moment, past, seqId, sequence)
    : waiting(moment, past, seqId, sequence);
}

export function listNames(seqIds) {
  let names = seqIds.map(shortName);
  if (names.length > NAMED) {
    names = [...names.slice(0, NAMED - 1), `${number(names.length - NAMED + 1)} more`];
  }
  if (names.length < 2) return names[0] ?? "no sequence";
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

// The newest event before the moment for which `wanted` holds.
export function newest(past, wanted) {
  for (let at = past.length - 1; at >= 0; at--) if (wanted(past[at])) return past[at];
  return null;
}

// The event with which a sequence came to be. A request can reuse the name of an ended one.
export function birth(past, seqId) {
  return newest(past, (e) => e.seq_id === seqId
    && (e.ev === "request.forked" || e.ev === "request.arrived"));
}

// Whether the moment is inside a step.
function isInside(past) {
  return newest(past, (e) => /^step.(begin|end)$/.test(e.ev))?.ev === "step.begin";
}

// ---- waiting ----

function waiting(moment, past, seqId, sequence) {
  const { fold } = moment, position = fold.waiting.indexOf(seqId), name = shortName(seqId);
  const considered = moment.considered(), first = fold.waiting[considered];
  const own = sequence.deferred;
  if (sequence.slot !== null) {
    return `${name} ${loads(fold, seqId, sequence)}; the requests behind it may pass.`;
  }
  if (position <= considered && PASSED_REASONS[own?.[0]]) {
    return `${name} ${reasonToWait(moment, own)}; the requests behind it may pass.`;
  }
  const deferred = fold.sequences.get(first).deferred;
  const reason = deferred ? reasonToWait(moment, deferred) : "";
  const said = preempted(fold, past, seqId, sequence, name);
  if (position > considered) {
    const who = shortName(first);
    said.push(reason ? `${who} ${reason}` : `The scheduler has not considered ${who} yet`);
    said.push(`${name} is number ${number(position + 1)} in the queue, behind it`);
  } else if (reason) {
    const passed = considered ? `; ${number(considered)} before it wait for something else` : "";
    said.push(`${name} ${reason}${holders(fold, sequence)}${passed}`);
  } else if (fold.step === 0) {
    said.push("No step has been planned yet", `The first one will consider ${name}`);
  } else {
    const at = number(fold.step), isNew = newest(past, (e) =>
      e.ev === "request.arrived" && e.seq_id === seqId)?.step === fold.step;
    if (isNew) said.push(`${name} arrived after step ${at} was planned`);
    said.push(isNew || !isInside(past) ? "The next step will consider it"
      : `Step ${at} is in progress, and has not decided about ${name} so far`);
  }
  return `${said.join(". ")}.`;
}

function loads(fold, seqId, sequence) {
  const load = fold.loads.get(seqId);
  const why = load ? phrase("waits.waiting_for_remote_kvs", { need: load.block_ids.length })
    : "has loaded its blocks, and waits for a token of the budget";
  return `${why}. It owns ${plural(sequence.block_table.length, "block")} and slot ${sequence.slot}`;
}

function holders(fold, sequence) {
  if (!fold.running.length || !sequence.deferred) return "";
  const [reason] = sequence.deferred;
  if (reason === "max_num_seqs" || reason === "static_batch") {
    return `: ${listNames(fold.running)} run${fold.running.length > 1 ? "" : "s"}`;
  }
  if (!["no_blocks", "no_contiguous_run", "preempted_this_step"].includes(reason)) return "";
  const tables = fold.running
    .map((id) => [id, fold.sequences.get(id).block_table])
    .sort((a, b) => b[1].length - a[1].length)
    .slice(0, NAMED);
  const held = tables.map(([id, table]) => `${shortName(id)} holds ${number(table.length)}`);
  const all = tables.flatMap(([, table]) => table);
  const shared = new Set(all).size < all.length ? " (shared ones counted for each)" : "";
  return `; ${held.join(", ")} of ${plural(fold.blocks.length, "block")}${shared}`;
}

function preempted(fold, past, seqId, sequence, name) {
  if (sequence.status !== "PREEMPTED") return [];
  const again = `Its ${plural(fold.numTokens(sequence), "token")} must be recomputed, except`
    + ` those still in the cache`;
  const event = newest(past, (e) => e.ev === "request.preempted" && e.seq_id === seqId);
  if (!event) return [`${name} was preempted`, again];
  return [`${name} was preempted in step ${number(event.step)}: ${whoseNeed(event)}`, again];
}

// ---- running ----

function running(moment, past, seqId, sequence) {
  const { fold } = moment, name = shortName(seqId);
  let before = 0;
  for (const share of fold.scheduled) {
    if (share.seq_id === seqId) {
      return `${name} ${got(moment, past, sequence, share, fold.budget - before)}.`;
    }
    before += share.num_tokens;
  }
  const born = birth(past, seqId);
  if (born?.ev === "request.forked" && born.step === fold.step) {
    return `${name} was forked in step ${number(fold.step)} and used none of its budget: it took`
      + ` over its parent's computed tokens.`;
  }
  const none = `${name} got no token in step ${number(fold.step)}`;
  const known = fold.numTokens(sequence), missing = known - sequence.num_computed_tokens;
  if (missing === 0) {
    return `${none}: all its ${plural(known, "token")} are computed, and it waits for a preempted`
      + ` sibling.`;
  }
  if (before >= fold.budget) {
    return `${none}: the sequences scheduled before it used up the budget of`
      + ` ${number(fold.budget)}.`;
  }
  return `${none} so far: ${number(missing)} of its ${plural(known, "token")}`
    + ` ${missing === 1 ? "is" : "are"} not computed yet.`;
}

function got(moment, past, sequence, share, left) {
  const { fold } = moment;
  const said = `got ${plural(share.num_tokens, "token")} in step ${number(fold.step)}`;
  if (share.kind === "decode") {
    if (share.draft_token_ids.length) {
      return `${said}: its newest one and ${whyDrafts(moment, past, share)}`;
    }
    return `${said}: its first ${number(share.num_computed_tokens)} tokens were computed before,`
      + ` and a decode computes only the newest one`;
  }
  const start = share.num_computed_tokens, reaches = start + share.num_tokens;
  const known = fold.numTokens(sequence);
  const cached = sequence.num_cached_tokens
    ? ` (${number(sequence.num_cached_tokens)} came from the cache)` : "";
  if (share.num_tokens < left && reaches >= known - 1) {
    return `${said}: all that it needed after the first ${number(start)}${cached};`
      + ` ${number(left)} of the budget of ${number(fold.budget)} were left for it`;
  }
  return `${said} because no more of the budget of ${number(fold.budget)} was left at its turn:`
    + ` ${number(reaches)} of its ${plural(known, "token")} are computed now${cached}`;
}

// ---- drafts ----

function whyDrafts(moment, past, share) {
  const { fold } = moment, count = share.draft_token_ids.length;
  const isMine = (e) => e.step === fold.step && e.seq_id === share.seq_id;
  const proposed = newest(past, (e) => e.ev === "draft.proposed" && isMine(e));
  let said = plural(count, "draft");
  if (!proposed) return said;
  said += sourceOf(proposed);
  if (share.num_accepted === null) {
    return `${said}; the step will verify them: a draft is right if the model draws it, too`;
  }
  const verified = newest(past, (e) => e.ev === "draft.verified" && isMine(e));
  const own = pieceOf(fold, verified.token_id);
  const rejected = share.draft_token_ids.slice(share.num_accepted);
  if (!rejected.length) {
    const right = count === 1 ? "it was right" : "all were right";
    const why = proposed.source === "grammar" ? "as the grammar allows nothing else"
      : "because the model drew the same";
    return `${said}; ${right}, ${why}, and ${own} came on top`;
  }
  const right = share.num_accepted
    ? `${number(share.num_accepted)} of them ${share.num_accepted === 1 ? "was" : "were"} right`
    : "none was right";
  const behind = rejected.length > 1
    ? `; ${plural(rejected.length - 1, "draft")} behind it had followed a wrong token` : "";
  return `${said}; ${right}: instead of ${pieceOf(fold, rejected[0])} the model drew`
    + ` ${own}${behind}`;
}

function sourceOf({ source, match = null, match_length: length = null }) {
  if (source !== "ngram" || match === null || !length) {
    return ({ draft_model: " of the draft model", grammar: " that the grammar forces" })[source] ?? "";
  }
  return `, which followed its last ${plural(length, "token")} before, at position`
    + ` ${number(match + length)}`;
}

function pieceOf(fold, tokenId) {
  const piece = fold.pieces.get(tokenId);
  if (piece === undefined) return `token ${tokenId}`;
  const shown = visible(piece), most = 24;
  return `“${shown.length > most ? `${shown.slice(0, most - 1)}…` : shown}”`;
}

// ---- ended ----

function ended({ fold }, seqId) {
  const name = shortName(seqId), done = fold.history.findLast((one) => one.seq_id === seqId);
  if (!done) {
    return `${name} is not known at step ${number(fold.step)}: it arrives later, was a pruned`
      + ` beam, or ended long ago.`;
  }
  const when = `in step ${number(done.step)} with ${plural(done.num_tokens, "token")}, including`
    + ` its prompt`;
  return `${name} ${phrase(`end.${done.reason}`, { when })}.`;
}
