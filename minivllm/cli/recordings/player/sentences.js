import { EVENT_WORDS, NARRATED, PHRASES } from "./labels.js";
import { clean, idRanges, number, plural, shortName } from "./text.js";

// Events and reasons in words, from the dashboard's table (labels.js).

export function fillIn(template, facts) {
  return template.replace(/\{(\w+)(?::([^}]+))?\}/g, (_, name, noun) => {
    const fact = facts[name];
    if (typeof fact !== "number") return fact;
    return noun ? plural(fact, noun) : number(fact);
  });
}

export function phrase(key, facts = {}) {
  return fillIn(PHRASES[key], facts);
}

// Why a sequence was not admitted, for a list.
export function deferral(reason, need, free, limit = null) {
  let key = `defer.${reason}`;
  if (reason === "max_num_seqs") key += free ? ".free" : limit === null ? "" : ".limit";
  if (reason === "token_budget" && free) key += ".free";
  return PHRASES[key] ? phrase(key, { need, free, limit: limit ?? 0 }) : clean(String(reason));
}

// The same after a name in a sentence.
export function reasonToWait(moment, [reason, need, free]) {
  const key = `waits.${reason}${reason === "token_budget" && free ? ".free" : ""}`;
  if (!PHRASES[key]) return `waits: ${deferral(reason, need, free)}`;
  return phrase(key, { need, free, limit: moment.fold.maxNumSeqs });
}

function causeOfPreemption({ need, free, victim_of, seq_id }) {
  if (need <= 0) return phrase(need ? "cause.reset" : "cause.failed");
  const key = need <= free ? "cause.slot" : free ? "cause.blocks" : "cause.no_blocks";
  return phrase(key, { need, free }) + (victim_of === seq_id ? phrase("cause.own") : "");
}

export function whoseNeed(e) {
  return `${e.victim_of === e.seq_id ? "it" : shortName(e.victim_of)} ${causeOfPreemption(e)}`;
}

export function whyWaiting(moment, position) {
  const { fold } = moment, sequence = fold.sequences.get(fold.waiting[position]);
  if (position > moment.considered() && sequence.slot === null) {
    return phrase("queue.behind", { name: shortName(fold.waiting[position - 1]) });
  }
  if (sequence.slot !== null && !fold.loads.has(fold.waiting[position])) {
    return phrase("queue.loaded");
  }
  if (!sequence.deferred) {
    return phrase(sequence.status === "PREEMPTED" ? "queue.again" : "queue.new");
  }
  const [reason, need] = sequence.deferred;
  if (reason === "max_num_seqs" && fold.running.length + need <= fold.maxNumSeqs) {
    return phrase("queue.slot");
  }
  return deferral(...sequence.deferred, fold.maxNumSeqs);
}

function miss(why) {
  return PHRASES[`miss.${why}`] ?? clean(String(why));
}

// Kind -> form of the sentence and its facts, where they are not the event's own fields.
const FACTS = {
  "request.arrived": (e) => ["", { tokens: e.prompt_token_ids.length }],
  "request.admitted": entered,
  "request.resumed": entered,
  "request.deferred": (e) => ["", { reason: deferral(e.reason, e.need, e.free) }],
  "request.preempted": (e) => [e.victim_of === e.seq_id ? ".itself" : "", {
    victim_of: shortName(e.victim_of), reason: causeOfPreemption(e),
  }],
  "request.forked": (e) => ["", { parent: shortName(e.parent) }],
  "request.beam_pruned": (e) => [(e.stop_reason ?? null) === null ? "" : ".complete", {}],
  "request.beams_found": (e) => ["", { texts: e.texts.length }],
  "request.finished": (e) => [e.reason === "length" ? ".length" : "", {}],
  "request.aborted": (e) => [e.error ? ".error" : "", {}],
  "block.missed": (e) => ["", { logical: e.logical, reason: miss(e.why) }],
  "block.freed": (e) => [e.position === "tail" ? ".tail" : "", {}],
  "kv.lost": (e) => [e.why === "failed" ? ".failed" : "", e],
  "kv.load": (e) => [(e.source ?? "host") === "host" ? "" : ".remote", { blocks: e.block_ids.length }],
  "kv.lease": (e) => ["", { blocks: e.block_ids.length }],
  "kv.released": (e) => [e.why === "read" ? "" : `.${e.why}`, {}],
  "kv.loaded": (e) => ["", { tokens: e.num_tokens }],
  "draft.verified": (e) => [e.num_accepted ? ".some" : "", { kept: e.num_accepted }],
  "engine.option_changed": (e) => ["", { ...e, name: clean(String(e.name)) }],
  "invariant.violated": (e) => ["", { name: clean(e.name), detail: clean(e.detail) }],
};

function entered(e) {
  return [e.num_cached_tokens ? ".cached" : "", { slot: e.slot, cached: e.num_cached_tokens }];
}

// The words of an event: {verb, after, style, facts}; null for a kind without a sentence.
export function wordsOf(event) {
  const [form, facts] = FACTS[event.ev]?.(event) ?? ["", event];
  const words = EVENT_WORDS[event.ev + form];
  if (!words) return null;
  return { verb: fillIn(words[0], facts), after: fillIn(words[1], facts), style: words[2], facts };
}

// One event in words, as in the dashboard's list of events.
export function sentenceOf(event) {
  const words = wordsOf(event);
  if (!words) return null;
  const name = event.seq_id ? `${shortName(event.seq_id)} ` : "";
  const block = event.block_id === undefined ? "" : ` block ${event.block_id}`;
  return `${name}${words.verb}${block}${words.after}`;
}

const END_A_WAIT = new Set(["request.admitted", "request.resumed", "request.finished",
  "request.beam_pruned", "request.aborted"]);
const LOOK_BACK = 6;

// Decisions of one or more steps, newest last; blocks with the same step, cause and owner share a
// sentence, and a sequence waits for the same reason only once.
export function decisionsOf(track, events) {
  const rows = [], waits = new Map(), preempted = new Set();
  for (const event of events) {
    const words = wordsOf(event);
    if (!words) continue;
    if (event.ev === "request.deferred") {
      if (waits.get(event.seq_id) === event.reason) continue;
      waits.set(event.seq_id, event.reason);
    } else if (END_A_WAIT.has(event.ev)) waits.delete(event.seq_id);
    if (event.ev === "request.preempted") preempted.add(event.seq_id);
    const owner = track.ownerOf(event);
    const same = `${event.step} ${event.ev} ${owner} ${words.verb} ${words.after}`;
    let row = event.block_id === undefined ? undefined
      : rows.slice(-LOOK_BACK).find((one) => one.same === same);
    if (!row) {
      const { ev, seq, step } = event;
      const kind = ev === "block.hit" && preempted.has(owner) ? `${ev}.resumed`
        : event.victim_of !== undefined && event.victim_of === event.seq_id ? `${ev}.itself` : ev;
      rows.push((row = { ...words, key: `e${seq}`, same, kind, seq, step, owner, blocks: [] }));
    }
    if (event.block_id !== undefined) row.blocks.push(event.block_id);
  }
  for (const row of rows) row.text = `${row.verb} ${idRanges(row.blocks)}`.trim();
  return rows;
}

// How notable a decision is; -1 if it is not narrated.
export function rankOf(row) {
  return row.owner ? NARRATED[row.kind]?.[0] ?? -1 : -1;
}

export function narrated(row) {
  const facts = { blocks: row.blocks.length, ...row.facts, name: shortName(row.owner) };
  return fillIn(NARRATED[row.kind][1], facts);
}
