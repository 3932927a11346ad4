// The player of minivllm's site. `tools/site/bundle_player.py` writes this file from
// docs/assets/player/src, where the comments are.
(() => {
"use strict";
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "style") element.style.cssText = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
function redraw(element, key, make) {
  if (element.drawnKey === key) return;
  element.drawnKey = key;
  element.replaceChildren(...make());
}

function hueStyle(hue) {
  return hue === null || hue === undefined ? "--own: var(--cached)" : `--own: var(--hue${hue})`;
}
function letterOf(moment, seqId) {
  return h("span", { class: "p-letter", style: hueStyle(moment.hueOf(seqId)), "aria-hidden": "true" },
    moment.letter(seqId) ?? "·");
}
const COUNTERS = [
  "finished_requests", "aborted_requests", "num_preemptions", "prefix_cache_queries",
  "prefix_cache_hits", "resumed_hit_tokens", "evicted_blocks", "forked_sequences",
  "copied_blocks", "prompt_tokens", "generation_tokens", "scheduled_tokens",
  "spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens",
  "invariant_violations",
];
const HISTORY_LENGTH = 64;

class Fold {
  constructor(header, state = null) {
    this.header = header;
    this.step = state?.step ?? 0;
    this.budget = state?.budget ?? 0;
    this.blocks = state ? state.blocks.map(blockOf)
      : Array.from({ length: header.num_blocks }, () => blockOf({}));
    this.freeQueue = state ? [...state.free_queue] : this.blocks.map((_, id) => id);
    this.waiting = [...(state?.waiting ?? [])];
    this.running = [...(state?.running ?? [])];
    this.requests = new Map(Object.entries(state?.requests ?? {}).map(([id, r]) => [id, requestOf(r)]));
    this.sequences = new Map(Object.entries(state?.sequences ?? {}).map(([id, s]) => [id, sequenceOf(s)]));
    this.scheduled = (state?.scheduled ?? []).map(shareOf);
    this.maxNumSeqs = state?.max_num_seqs ?? header.max_num_seqs;
    this.maxNumBatchedTokens = state?.max_num_batched_tokens ?? header.max_num_batched_tokens;
    this.counters = Object.fromEntries(COUNTERS.map((name) => [name, state?.counters?.[name] ?? 0]));
    this.pieces = new Map(Object.entries(state?.token_pieces ?? {}).map(([id, text]) => [+id, text]));
    this.numPieces = this.pieces.size;
    this.history = [];
    this.lostEvents = 0;
    this.t = header.mono;
  }

  apply(event) {
    if (this.lostEvents === 0) APPLY[event.ev]?.(this, event);
    this.t = event.t;
  }

  copy() {
    const twin = Object.assign(Object.create(Fold.prototype), this);
    twin.blocks = this.blocks.map((block) => ({ ...block }));
    twin.requests = new Map();
    for (const [id, one] of this.requests) twin.requests.set(id, { ...one, seq_ids: [...one.seq_ids] });
    twin.sequences = new Map();
    for (const [id, one] of this.sequences) twin.sequences.set(id, copyOfSequence(one));
    twin.scheduled = this.scheduled.map((share) => ({ ...share }));
    twin.counters = { ...this.counters };
    for (const name of ["freeQueue", "waiting", "running", "history"]) twin[name] = [...this[name]];
    return twin;
  }

  numTokens(sequence) {
    return sequence.num_prompt_tokens + sequence.output_token_ids.length;
  }

  shareOf(seqId) {
    const share = this.scheduled.find((one) => one.seq_id === seqId);
    if (!share) throw new Error(`${seqId} has no share of the step`);
    return share;
  }

  forget(seqId, reason) {
    const sequence = get(this.sequences, seqId);
    this.sequences.delete(seqId);
    remove(sequence.status === "RUNNING" ? this.running : this.waiting, seqId);
    const request = get(this.requests, sequence.request_id);
    remove(request.seq_ids, seqId);
    if (reason !== null) {
      this.history.push({
        seq_id: seqId, request_id: sequence.request_id, prompt: request.prompt,
        text: sequence.text, reason, num_tokens: this.numTokens(sequence), step: this.step,
      });
      if (this.history.length > HISTORY_LENGTH) this.history.shift();
    }
    if (request.seq_ids.length === 0) this.requests.delete(sequence.request_id);
    return request.seq_ids.length === 0;
  }
}

const APPLY = {
  "request.arrived"(fold, event) {
    fold.requests.set(event.request_id, requestOf({
      ...event, arrival_time: event.t, seq_ids: [event.seq_id],
    }));
    const num_prompt_tokens = event.prompt_token_ids.length;
    fold.sequences.set(event.seq_id, sequenceOf({
      request_id: event.request_id, status: "WAITING", num_prompt_tokens,
    }));
    fold.waiting.splice(event.position, 0, event.seq_id);
    fold.counters.prompt_tokens += num_prompt_tokens;
  },
  "request.admitted"(fold, event) {
    if (fold.header.enable_prefix_caching) {
      fold.counters.prefix_cache_queries += fold.numTokens(get(fold.sequences, event.seq_id));
      fold.counters.prefix_cache_hits += event.num_cached_tokens;
    }
    enterBatch(fold, event);
  },
  "request.resumed"(fold, event) {
    fold.counters.resumed_hit_tokens += event.num_cached_tokens;
    enterBatch(fold, event);
  },
  "request.deferred"(fold, event) {
    get(fold.sequences, event.seq_id).deferred = [event.reason, event.need, event.free];
  },
  "request.preempted"(fold, event) {
    const sequence = get(fold.sequences, event.seq_id);
    sequence.status = "PREEMPTED";
    sequence.slot = null;
    sequence.num_computed_tokens = 0;
    sequence.num_cached_tokens = 0;
    sequence.num_preemptions += 1;
    remove(fold.running, event.seq_id);
    fold.waiting.splice(event.position, 0, event.seq_id);
    fold.counters.num_preemptions += 1;
  },
  "request.forked"(fold, event) {
    const parent = get(fold.sequences, event.parent);
    for (const id of parent.block_table) fold.blocks[id].ref_cnt += 1;
    fold.sequences.set(event.seq_id, { ...copyOfSequence(parent), slot: event.slot, num_preemptions: 0 });
    fold.running.splice(event.position, 0, event.seq_id);
    get(fold.requests, parent.request_id).seq_ids.push(event.seq_id);
    fold.counters.forked_sequences += 1;
  },
  "request.finished"(fold, event) {
    if (fold.forget(event.seq_id, event.reason)) fold.counters.finished_requests += 1;
  },
  "request.beam_pruned"(fold, event) {
    fold.forget(event.seq_id, null);
  },
  "request.beams_found"(fold, event) {
    get(fold.sequences, event.seq_id).text = event.texts[0];
  },
  "request.aborted"(fold, event) {
    if (fold.forget(event.seq_id, "abort")) fold.counters.aborted_requests += 1;
  },
  "step.begin"(fold, event) {
    fold.step = event.step;
    fold.budget = event.budget;
    fold.scheduled = [];
  },
  "step.scheduled"(fold, event) {
    const sequence = get(fold.sequences, event.seq_id);
    sequence.num_computed_tokens = event.num_computed_tokens + event.num_tokens;
    fold.scheduled.push(shareOf(event));
    fold.counters.scheduled_tokens += event.num_tokens;
  },
  "draft.proposed"(fold, event) {
    const share = fold.shareOf(event.seq_id), count = event.token_ids.length;
    share.draft_token_ids = event.token_ids;
    share.num_tokens += count;
    get(fold.sequences, event.seq_id).num_computed_tokens += count;
    fold.counters.scheduled_tokens += count;
  },
  "draft.verified"(fold, event) {
    const share = fold.shareOf(event.seq_id), count = share.draft_token_ids.length;
    share.num_accepted = event.num_accepted;
    get(fold.sequences, event.seq_id).num_computed_tokens -= count - event.num_accepted;
    fold.counters.spec_decode_num_drafts += 1;
    fold.counters.spec_decode_num_draft_tokens += count;
    fold.counters.spec_decode_num_accepted_tokens += event.num_accepted;
  },
  "engine.option_changed"(fold, event) {
    if (event.name === "max_num_seqs") fold.maxNumSeqs = event.value;
    if (event.name === "max_num_batched_tokens") fold.maxNumBatchedTokens = event.value;
  },
  "block.allocated"(fold, event) {
    remove(fold.freeQueue, event.block_id);
    fold.blocks[event.block_id].ref_cnt = 1;
    get(fold.sequences, event.seq_id).block_table.push(event.block_id);
  },
  "block.hit"(fold, event) {
    if (event.was_free) remove(fold.freeQueue, event.block_id);
    fold.blocks[event.block_id].ref_cnt += 1;
    get(fold.sequences, event.seq_id).block_table.push(event.block_id);
  },
  "block.copied"(fold, event) {
    remove(fold.freeQueue, event.dst);
    fold.blocks[event.dst].ref_cnt = 1;
    fold.blocks[event.src].ref_cnt -= 1;
    get(fold.sequences, event.seq_id).block_table[event.logical] = event.dst;
    fold.counters.copied_blocks += 1;
  },
  "block.hashed"(fold, event) {
    const block = fold.blocks[event.block_id];
    block.hash = event.hash;
    block.parent = event.parent;
  },
  "block.released"(fold, event) {
    fold.blocks[event.block_id].ref_cnt -= 1;
    get(fold.sequences, event.seq_id).block_table.pop();
  },
  "block.freed"(fold, event) {
    if (event.position === "head") fold.freeQueue.unshift(event.block_id);
    else fold.freeQueue.push(event.block_id);
  },
  "block.evicted"(fold, event) {
    const block = fold.blocks[event.block_id];
    block.hash = block.parent = null;
    fold.counters.evicted_blocks += 1;
  },
  "token.sampled"(fold, event) {
    const sequence = get(fold.sequences, event.seq_id);
    sequence.output_token_ids.push(event.token_id);
    sequence.text += event.text;
    fold.counters.generation_tokens += 1;
  },
  "grammar.state"(fold, event) {
    get(fold.sequences, event.seq_id).grammar = {
      position: event.position, num_allowed: event.num_allowed,
      refused_token_id: event.refused_token_id ?? null,
      refused_probability: event.refused_probability ?? 0,
    };
  },
  "tokens.named"(fold, event) {
    for (const [id, text] of Object.entries(event.pieces)) {
      fold.pieces.set(+id, text);
      fold.numPieces += 1;
    }
  },
  "token.text_flushed"(fold, event) {
    get(fold.sequences, event.seq_id).text += event.text;
  },
  "invariant.violated"(fold) {
    fold.counters.invariant_violations += 1;
  },
  "log.gap"(fold, event) {
    fold.lostEvents += event.lost;
  },
};
const NO_CHANGE = [
  "step.end", "block.missed", "attention.mass", "attention.tokens", "kernel.traced",
  "token.explained",
];
const KNOWN_KINDS = new Set([...Object.keys(APPLY), ...NO_CHANGE]);

function enterBatch(fold, event) {
  const sequence = get(fold.sequences, event.seq_id);
  sequence.status = "RUNNING";
  sequence.slot = event.slot;
  sequence.num_cached_tokens = event.num_cached_tokens;
  sequence.num_computed_tokens = event.num_computed_tokens;
  sequence.deferred = null;
  remove(fold.waiting, event.seq_id);
  fold.running.push(event.seq_id);
}

function get(map, key) {
  const found = map.get(key);
  if (found === undefined) throw new Error(`${key} is unknown`);
  return found;
}

function remove(list, item) {
  const at = list.indexOf(item);
  if (at < 0) throw new Error(`${item} is not in the list`);
  if (at === 0) list.shift();
  else list.splice(at, 1);
}

function blockOf({ ref_cnt = 0, hash = null, parent = null }) {
  return { ref_cnt, hash, parent };
}

function requestOf({
  prompt_token_ids, max_tokens, priority = 0, prompt = null, arrival_time = 0, seq_ids = [],
  sampling = null,
}) {
  return {
    prompt_token_ids, max_tokens, priority, prompt, arrival_time, seq_ids: [...seq_ids], sampling,
  };
}

function sequenceOf({
  request_id, status, num_prompt_tokens, output_token_ids = [], text = "",
  num_computed_tokens = 0, num_cached_tokens = 0, num_preemptions = 0, slot = null,
  block_table = [], deferred = null, grammar = null,
}) {
  return {
    request_id, status, num_prompt_tokens, output_token_ids: [...output_token_ids], text,
    num_computed_tokens, num_cached_tokens, num_preemptions, slot,
    block_table: [...block_table], deferred, grammar,
  };
}

function copyOfSequence(one) {
  return { ...one, output_token_ids: [...one.output_token_ids], block_table: [...one.block_table] };
}

function shareOf({
  seq_id, num_tokens, kind, num_computed_tokens, draft_token_ids = [], num_accepted = null,
}) {
  return { seq_id, num_tokens, kind, num_computed_tokens, draft_token_ids, num_accepted };
}
function stateOf(fold) {
  return {
    step: fold.step, blocks: fold.blocks, free_queue: fold.freeQueue, waiting: fold.waiting,
    running: fold.running, requests: [...fold.requests], sequences: [...fold.sequences],
    budget: fold.budget, scheduled: fold.scheduled, max_num_seqs: fold.maxNumSeqs,
    max_num_batched_tokens: fold.maxNumBatchedTokens, counters: fold.counters,
    token_pieces: [...fold.pieces].slice(0, fold.numPieces),
  };
}
const STEPS_OF_BEATS = 3;

class Ages {
  constructor(numBlocks) {
    this.blocks = new Array(numBlocks).fill(null);
    this.changed = new Set(); // blocks that the current step has touched
    this.beats = []; // for each of the last steps, current first: block -> what happened
    this.lastScheduled = null;
  }

  copy() {
    const twin = new Ages(0);
    twin.blocks = this.blocks.map((age) => age && { ...age });
    twin.changed = new Set(this.changed);
    twin.beats = this.beats.map((one) => new Map(one));
    twin.lastScheduled = this.lastScheduled;
    return twin;
  }
  apply(fold, event) {
    NOTE[event.ev]?.(this, event, fold);
  }

  lastOwner(blockId) {
    return this.blocks[blockId]?.lastOwner ?? null;
  }

  content(blockId) {
    return this.blocks[blockId]?.content ?? [];
  }

  ownerOf(event) {
    if (event.ev === "block.hashed") return this.lastScheduled;
    if (event.ev === "block.evicted") return this.lastOwner(event.block_id);
    return event.seq_id ?? null;
  }
  beat(blockId) {
    for (let age = 0; age < this.beats.length; age++) {
      const kind = this.beats[age].get(blockId);
      if (kind) return { kind, age };
    }
    return null;
  }

  touch(blockId, step, owner = null, isNew = false) {
    this.changed.add(blockId);
    const age = (this.blocks[blockId] ??= {
      touched: step, lastOwner: null, born: null, takenBy: null, content: [],
    });
    age.touched = step;
    if (owner !== null) age.lastOwner = owner;
    if (isNew) {
      age.born = step;
      age.takenBy = owner;
    }
  }

  write(fold, seqId, start, stop, step) {
    const size = fold.header.block_size, table = fold.sequences.get(seqId).block_table;
    if (start >= stop) return;
    for (const id of table.slice(Math.floor(start / size), Math.ceil(stop / size))) this.touch(id, step);
  }

  note(blockId, kind) {
    if (!this.beats.length) this.beats.push(new Map()); // a recording can begin inside a step
    this.beats[0].set(blockId, kind);
  }
}

const NOTE = {
  "step.begin"(ages) {
    ages.changed.clear();
    ages.beats.unshift(new Map());
    ages.beats.length = Math.min(ages.beats.length, STEPS_OF_BEATS);
  },
  "step.scheduled"(ages, event, fold) {
    ages.lastScheduled = event.seq_id;
    const cached = fold.sequences.get(event.seq_id).num_cached_tokens;
    const start = event.num_computed_tokens;
    ages.write(fold, event.seq_id, Math.max(start, cached), start + event.num_tokens, event.step);
  },
  "draft.proposed"(ages, event, fold) {
    const start = fold.sequences.get(event.seq_id).num_computed_tokens;
    ages.write(fold, event.seq_id, start, start + event.token_ids.length, event.step);
  },
  "block.allocated"(ages, event) {
    ages.touch(event.block_id, event.step, event.seq_id, true);
  },
  "block.copied"(ages, event) {
    ages.touch(event.src, event.step);
    ages.touch(event.dst, event.step, event.seq_id, true);
    ages.note(event.src, "copied_from");
    ages.note(event.dst, "copied_to");
  },
  "block.hashed"(ages, event, fold) {
    ages.touch(event.block_id, event.step, ages.lastScheduled);
    const sequence = fold.sequences.get(ages.lastScheduled), size = fold.header.block_size;
    const first = sequence.block_table.indexOf(event.block_id) * size;
    const prompt = fold.requests.get(sequence.request_id).prompt_token_ids;
    ages.blocks[event.block_id].content = [
      ...prompt.slice(first, first + size),
      ...sequence.output_token_ids.slice(
        Math.max(first - prompt.length, 0), Math.max(first + size - prompt.length, 0)),
    ];
  },
  "block.hit"(ages, event) {
    ages.touch(event.block_id, event.step, event.seq_id);
    ages.note(event.block_id, "hit");
  },
  "block.released"(ages, event) {
    ages.touch(event.block_id, event.step, event.seq_id);
  },
  "block.freed"(ages, event) {
    ages.touch(event.block_id, event.step);
  },
  "block.evicted"(ages, event) {
    ages.touch(event.block_id, event.step);
    ages.blocks[event.block_id].content = [];
    ages.note(event.block_id, "evicted");
  },
};
const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\ufff0-\ufffb\ud800-\udfff\ue000-\uf8ff\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]/gu;
const SERVED = /^(?:chatcmpl|cmpl|gen)-(.+)-([0-9a-f]{8})(-\d+)?$/;
const UUID = /^([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/;
const LONGEST_NAME = 24;
const names = new Map();

function number(value) {
  return value.toLocaleString("en-US");
}

function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function clean(text) {
  return text.replace(/\n\s*/g, "↵").replaceAll("\t", " ").replace(UNSAFE, "");
}
function visible(text) {
  return text
    .replaceAll(" ", "·").replaceAll("\n", "↵").replaceAll("\t", "→")
    .replace(UNSAFE, (found) =>
      `<U+${found.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);
}
function shortName(seqId) {
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
function idRanges(ids) {
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
        : Math.abs(last - first) === 1 ? `${first} ${last}` : `${first}-${last}`)
    .join(" ");
}

function ordinal(place) {
  const teen = place % 100 >= 11 && place % 100 <= 13;
  return number(place) + (teen ? "th" : ({ 1: "st", 2: "nd", 3: "rd" })[place % 10] ?? "th");
}
const ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const NUM_HUES = 12;
const HUES_FOR_OTHERS = 4;
const MOST_OF_ONE = NUM_HUES / 4;
const NO_LETTER = "*";

class Letters {
  constructor() {
    this.given = new Map(); // sequence -> letter
    this.holders = new Map(); // letter -> sequence, in the order of giving
    this.hues = new Map(); // letter -> colour, the newest last
    this.live = new Set();
    this.numFree = ALPHABET.length;
  }

  copy() {
    const twin = Object.assign(new Letters(), this);
    for (const name of ["given", "holders", "hues"]) twin[name] = new Map(this[name]);
    twin.live = new Set(this.live);
    return twin;
  }

  assign(seqId) {
    const isNew = !this.live.has(seqId);
    this.live.add(seqId);
    if (this.given.has(seqId)) {
      if (isNew) { // a new request with the name of an old one
        this.numFree -= 1;
        const letter = this.given.get(seqId);
        this.colour(letter, seqId, this.hues.get(letter));
      }
      return;
    }
    if (this.numFree === 0) return;
    this.numFree -= 1;
    const letter = this.fresh(seqId) ?? this.oldest();
    this.given.delete(this.holders.get(letter));
    this.holders.delete(letter);
    this.colour(letter, seqId, ALPHABET.indexOf(letter) % NUM_HUES);
    this.given.set(seqId, letter);
    this.holders.set(letter, seqId);
  }

  release(seqId) {
    if (this.live.delete(seqId) && this.given.has(seqId)) this.numFree += 1;
  }

  of(seqId) {
    if (seqId === null || seqId === undefined) return null;
    return this.given.get(seqId) ?? (this.live.has(seqId) ? NO_LETTER : null);
  }

  hue(letter) {
    return this.hues.get(letter) ?? null;
  }

  fresh(seqId) {
    const dot = seqId.lastIndexOf(".");
    const requestId = dot < 0 ? "" : seqId.slice(0, dot);
    const name = shortName(`${requestId}.0`);
    let wanted = ALPHABET;
    if (/^\p{L}+$/u.test(name.split("-", 1)[0])) {
      wanted = seqId.slice(dot + 1) === "0" ? name[0].toLowerCase() + ALPHABET
        : name[0].toUpperCase() + [...ALPHABET].reverse().join("");
    }
    for (const letter of wanted) {
      if (ALPHABET.includes(letter) && !this.holders.has(letter)) return letter;
    }
    return null;
  }

  oldest() {
    for (const [letter, holder] of this.holders) if (!this.live.has(holder)) return letter;
    throw new Error("every letter is in use");
  }

  colour(letter, seqId, wanted) {
    this.hues.delete(letter);
    this.hues.set(letter, this.chooseHue(seqId, wanted));
  }
  chooseHue(seqId, wanted) {
    const live = new Array(NUM_HUES).fill(0), siblings = new Array(NUM_HUES).fill(0);
    const request = requestOfSequence(seqId);
    for (const one of this.live) {
      if (one === seqId || !this.given.has(one)) continue;
      const hue = this.hues.get(this.given.get(one));
      live[hue] += 1;
      if (requestOfSequence(one) === request) siblings[hue] += 1;
    }
    const newest = new Array(NUM_HUES).fill(-1);
    [...this.hues.values()].forEach((hue, at) => (newest[hue] = at));
    const order = newest.map((_, by) => (wanted + by) % NUM_HUES);
    order.sort((a, b) => newest[a] - newest[b]);
    const free = order.filter((hue) => live[hue] === 0);
    const own = order.map((_, hue) => hue).filter((hue) => siblings[hue] > 0);
    if (free.length && (free.length > HUES_FOR_OTHERS || own.length < MOST_OF_ONE)) return free[0];
    return (own.length ? own : order).reduce((best, hue) =>
      live[hue] < live[best] || (live[hue] === live[best] && newest[hue] < newest[best]) ? hue : best);
  }
}

function requestOfSequence(seqId) {
  const dot = seqId.lastIndexOf(".");
  return dot < 0 ? "" : seqId.slice(0, dot);
}
const PHRASES = {
  "defer.no_blocks": "needs {need:block}, {free} free",
  "defer.token_budget": "token budget used",
  "defer.max_num_seqs": "all slots taken",
  "defer.max_num_seqs.limit": "all {limit:slot} taken",
  "defer.max_num_seqs.free": "needs {need:slot}, {free} free",
  "defer.preempted_this_step": "preemption this step",
  "defer.grammar_not_compiled": "grammar not compiled yet",
  "defer.no_contiguous_run": "needs {need:contiguous block}, longest run {free}",
  "defer.static_batch": "the previous batch has {need:sequence} left",
  "defer.batch_delay": "batch not full: {free} of {need} have arrived",
  "waits.no_blocks": "needs {need:block} with {free} free",
  "waits.token_budget": "found no budget left",
  "waits.token_budget.free": "needs {need:token} at once with {free} of the budget left",
  "waits.max_num_seqs": "needs {need:batch slot} with {free} of {limit} free",
  "waits.preempted_this_step": "was not considered in a step that preempted a sequence ({need:block} needed, {free} free)",
  "waits.grammar_not_compiled": "waits for its grammar, which is not compiled yet",
  "waits.no_contiguous_run": "needs {need:contiguous block}, longest run {free}",
  "waits.static_batch": "waits: the previous batch has {need:sequence} left",
  "waits.batch_delay": "waits for a full batch: {free} of {need} sequences have arrived",
  "cause.failed": "failed before it wrote a shared block",
  "cause.slot": "needed a batch slot",
  "cause.blocks": "needed {need:block} with {free} free",
  "miss.caching_off": "prefix caching is off",
  "miss.prompt_shorter_than_a_block": "prompt shorter than a block",
  "miss.never_seen": "never seen",
  "miss.evicted": "it was evicted",
  "miss.prompt_logprobs": "prompt log-probabilities were requested",
  "end.stop": "finished {when}: the model sampled an end token, or its text reached a stop string",
  "end.length": "ended {when}, at its token limit",
  "end.abort": "was aborted {when}",
  "queue.new": "new",
  "queue.behind": "behind {name}",
  "queue.slot": "a slot is free now: next step",
};

const EVENT_WORDS = {
  "request.arrived": ["arrives", ", {tokens:prompt token}", "text"],
  "request.admitted": ["enters slot {slot}", "", "good"],
  "request.admitted.cached": ["enters slot {slot}", ", {cached} tokens cached", "good"],
  "request.resumed": ["resumes in slot {slot}", "", "good"],
  "request.resumed.cached": ["resumes in slot {slot}", ", {cached} tokens cached", "good"],
  "request.deferred": ["waits", ": {reason}", "warn"],
  "request.preempted": ["is preempted", ": {victim_of} {reason}", "bad"],
  "request.forked": ["is forked from {parent}", ", blocks shared", "good"],
  "request.beam_pruned": ["is pruned", ": others are better", "warn"],
  "request.beam_pruned.complete": ["is complete", ": one of the best texts so far", "good"],
  "request.beams_found": ["ends its search", ": {texts:text} found", "good"],
  "request.finished": ["finishes", " by itself", "good"],
  "request.finished.length": ["finishes", " at its token limit", "good"],
  "request.aborted": ["is aborted", "", "bad"],
  "request.aborted.error": ["fails", "", "bad"],
  "block.allocated": ["takes", "", "text"],
  "block.hashed": ["fills", ", now cached", "muted"],
  "block.hit": ["reuses", ", already computed", "good"],
  "block.copied": ["copies shared block {src} to {dst}", "", "accent"],
  "block.missed": ["misses its block {logical}", ": {reason}", "muted"],
  "block.released": ["releases", "", "muted"],
  "block.freed": ["freed", ", empty", "muted"],
  "block.freed.tail": ["freed", ", still cached", "muted"],
  "block.evicted": ["loses", ", evicted", "warn"],
  "draft.verified": ["keeps no draft", "", "warn"],
  "draft.verified.some": ["keeps {kept:draft}", "", "good"],
  "engine.option_changed": ["{name} is now {value}", ", it was {old}", "accent"],
  "invariant.violated": ["INVARIANT {name} violated", ": {detail}", "bad"],
  "log.gap": ["{lost:event} lost", ": what follows may be wrong", "bad"],
};

const NOTABLE = {
  "block.copied": true,
  "block.evicted": true,
  "block.hit": true,
  "engine.option_changed": true,
  "invariant.violated": true,
  "log.gap": true,
  "request.aborted": true,
  "request.arrived": true,
  "request.beam_pruned": true,
  "request.deferred": true,
  "request.finished": true,
  "request.forked": true,
  "request.preempted": true,
  "request.resumed": true,
};

const COLOURS = {
  "text": ["#d5dce8", "#1d2430"],
  "muted": ["#8b9bb0", "#5a6678"],
  "faint": ["#55637a", "#98a3b3"],
  "accent": ["#7aa7ff", "#1f58c7"],
  "good": ["#5fd38d", "#146c38"],
  "warn": ["#e8b04b", "#8a5a00"],
  "bad": ["#ff7b72", "#b3261e"],
  "shared": ["#ffffff", "#000000"],
  "cached": ["#7d8ca3", "#6b778a"],
  "hue0": ["#5cb8ff", "#0b63b0"],
  "hue1": ["#f2a33a", "#a85a00"],
  "hue2": ["#3ecf9a", "#0a7a55"],
  "hue3": ["#e88bc0", "#a1286f"],
  "hue4": ["#e6dc5a", "#746700"],
  "hue5": ["#ff8a6b", "#bf3b15"],
  "hue6": ["#b3a6ff", "#5b45c2"],
  "hue7": ["#a4d65e", "#4a7512"],
  "hue8": ["#46d9e6", "#006d80"],
  "hue9": ["#d977f2", "#8a1fa8"],
  "hue10": ["#c79a6b", "#7a4a1c"],
  "hue11": ["#ff6f9f", "#c2185b"],
};
const SPACING = 200;
const MOST_COPIES = 128;
const ENDS = new Set(["request.finished", "request.aborted", "request.beam_pruned"]);
const ENTERS = new Set(["block.allocated", "block.hit", "request.forked"]);

class Moment {
  constructor(header, state) {
    this.header = header;
    this.fold = new Fold(header, state);
    this.letters = new Letters();
    this.ages = new Ages(header.num_blocks);
  }

  apply(event) {
    if (this.fold.lostEvents === 0) {
      if (ENTERS.has(event.ev)) this.letters.assign(event.seq_id);
      else if (ENDS.has(event.ev)) this.letters.release(event.seq_id);
      this.ages.apply(this.fold, event);
    }
    this.fold.apply(event);
  }

  copy() {
    const twin = Object.create(Moment.prototype);
    twin.header = this.header;
    twin.fold = this.fold.copy();
    twin.letters = this.letters.copy();
    twin.ages = this.ages.copy();
    return twin;
  }

  letter(seqId) {
    return this.letters.of(seqId);
  }

  hueOf(seqId) {
    return this.letters.hue(this.letters.of(seqId));
  }

  owners(blockId) {
    const found = [];
    for (const [seqId, sequence] of this.fold.sequences) {
      const entry = sequence.block_table.indexOf(blockId);
      if (entry >= 0) found.push([seqId, entry]);
    }
    return found;
  }
  considered() {
    const at = this.fold.waiting.findIndex(
      (seqId) => this.fold.sequences.get(seqId).deferred?.[0] !== "grammar_not_compiled");
    return Math.max(at, 0);
  }
}

class Track {
  constructor({ header, state, events, name }) {
    Object.assign(this, { header, events, name });
    this.ends = []; // for each step: number of events until its end, step number, time
    this.marks = []; // notable moments: {at, step, kind}
    this.copies = [];
    this.owners = new Map(); // event of a block -> the sequence that it is about, at that time
    this.spacing = Math.max(SPACING, Math.ceil(events.length / MOST_COPIES));
    this.impossible = "";
    this.at = 0;
    this.moment = new Moment(header, state);
    let last = "";
    for (const [number, event] of events.entries()) {
      if (number % this.spacing === 0) this.copies.push(this.moment.copy());
      try {
        this.moment.apply(event);
      } catch {
        this.stopAt(number, event, state);
        break;
      }
      this.at = number + 1;
      if (event.ev === "block.hashed" || event.ev === "block.evicted") {
        this.owners.set(event, this.moment.ages.ownerOf(event));
      }
      if (NOTABLE[event.ev] && last !== `${event.step} ${event.ev}`) {
        last = `${event.step} ${event.ev}`;
        this.marks.push({ at: number + 1, step: event.step, kind: event.ev });
      }
      const end = this.ends.at(-1);
      if (end && end.step === event.step) Object.assign(end, { at: number + 1, t: event.t });
      else this.ends.push({ at: number + 1, step: event.step, t: event.t, used: 0 });
      const { fold } = this.moment;
      this.ends.at(-1).used = 1 - fold.freeQueue.length / fold.blocks.length;
    }
    if (!this.ends.length) this.ends.push({ at: 0, step: 0, t: header.mono, used: 0 });
  }

  stopAt(number, event, state) {
    this.impossible = `event ${event.seq}, ${event.ev}, is impossible after the events before it`;
    this.events = this.events.slice(0, number);
    this.moment = new Moment(this.header, state);
    this.at = 0;
    this.seek(number);
  }
  seek(count) {
    count = Math.min(Math.max(count, 0), this.events.length);
    if (count < this.at || count - this.at > this.spacing) {
      const copy = Math.min(Math.floor(count / this.spacing), this.copies.length - 1);
      if (copy >= 0 && (count < this.at || copy * this.spacing > this.at)) {
        this.moment = this.copies[copy].copy();
        this.at = copy * this.spacing;
      }
    }
    while (this.at < count) this.moment.apply(this.events[this.at++]);
    return this.moment;
  }
  endBy(t) {
    let low = 0, high = this.ends.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.ends[middle].t - this.header.mono <= t + 1e-9) low = middle;
      else high = middle - 1;
    }
    return this.ends[low];
  }

  ownerOf(event) {
    return this.owners.get(event) ?? event.seq_id ?? null;
  }
  eventsOfSteps(at, earlier = 0) {
    let start = at;
    const first = (this.events[at - 1]?.step ?? 0) - earlier;
    while (start > 0 && this.events[start - 1].step >= first) start -= 1;
    return this.events.slice(start, at);
  }
}
const MOST_BYTES = 64 * 2 ** 20;
const VERSION = 1;
const MOST_BLOCKS = 2 ** 16;

class BadRecording extends Error {}
function parseRecording(text, name = "The file") {
  if (text.length > MOST_BYTES) throw new BadRecording(tooLarge(name, text.length));
  const lines = text.split("\n");
  const header = headerOf(lines[0], name);
  const events = [];
  let state = null, unknown = 0, note = "", expected = header.first_seq ?? 0;
  const isCut = lines.at(-1) !== "";
  for (let number = 1; number < lines.length; number++) {
    if (lines[number] === "") continue;
    let event;
    try {
      event = JSON.parse(lines[number]);
    } catch {
      if (number === lines.length - 1 && isCut) {
        note = `${name} is cut off in its last line, so it ends after event ${expected - 1}.`;
        break;
      }
      throw new BadRecording(`${name} is damaged at line ${number + 1}: record or copy it again.`);
    }
    if (number === 1 && event.ev === "log.state") {
      state = event.state;
      continue;
    }
    if (!isEvent(event)) {
      throw new BadRecording(`${name} is damaged at line ${number + 1}: it is no event.`);
    }
    const first = event.ev === "log.gap" ? event.seq + 1 - event.lost : event.seq;
    if (first !== expected) {
      throw new BadRecording(`${name} is damaged at line ${number + 1}: expected event ${expected},`
        + ` found event ${event.seq}.`);
    }
    expected = event.seq + 1;
    if (KNOWN_KINDS.has(event.ev)) events.push(event);
    else unknown += 1;
  }
  if (!events.length) {
    throw new BadRecording(`${name} has a header but no event: record a run that has a step.`);
  }
  return { header, state, events, unknown, note, name };
}
function trackOf(text, name = "The file") {
  const whole = Array.isArray(text) ? `${text.map(asLine).join("\n")}\n` : text;
  const recording = parseRecording(whole, name);
  const track = new Track(recording);
  track.note = recording.note;
  if (track.impossible) {
    if (!track.events.length) throw new BadRecording(`${name} cannot be played: ${track.impossible}.`);
    track.note = `${name} ends here too early: ${track.impossible}.`;
  }
  return track;
}
async function trackOfFile(file) {
  if (file.size > MOST_BYTES) throw new BadRecording(tooLarge(file.name, file.size));
  const bytes = new Uint8Array(await file.arrayBuffer());
  const packed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const text = packed ? await gunzip(bytes, file.name) : new TextDecoder().decode(bytes);
  return trackOf(text, file.name);
}
async function unpack(base64, name) {
  return gunzip(Uint8Array.from(atob(base64), (one) => one.charCodeAt(0)), name);
}

async function gunzip(bytes, name) {
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const parts = [];
    let size = 0;
    for (const reader = stream.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > MOST_BYTES) throw new BadRecording(tooLarge(name, size));
      parts.push(value);
    }
    return await new Blob(parts).text();
  } catch (error) {
    if (error instanceof BadRecording) throw error;
    throw new BadRecording(`${name} is a damaged gzip file: copy it again.`);
  }
}

function headerOf(line, name) {
  let header;
  try {
    header = JSON.parse(line);
  } catch {
    header = null;
  }
  if (header?.ev !== "meta" || (header.schema ?? "minivllm.trace") !== "minivllm.trace") {
    throw new BadRecording(`${name} is not a minivllm recording: \`minivllm demo --record`
      + ` FILE\` writes one.`);
  }
  if ((header.version ?? 1) > VERSION) {
    throw new BadRecording(`${name} has version ${header.version} of the recording format, but`
      + ` this page plays versions up to ${VERSION}: open it with the minivllm that wrote it.`);
  }
  for (const field of ["num_blocks", "block_size", "max_num_seqs", "max_num_batched_tokens"]) {
    const value = header[field], most = field === "num_blocks" ? MOST_BLOCKS : 2 ** 31;
    if (!Number.isInteger(value) || value < 1 || value > most) {
      throw new BadRecording(`${name} cannot be shown: ${field} in its header must be from 1 to`
        + ` ${most.toLocaleString("en-US")}.`);
    }
  }
  return { mono: 0, ...header };
}

function isEvent(event) {
  return typeof event?.ev === "string" && Number.isInteger(event.seq)
    && Number.isInteger(event.step) && typeof event.t === "number";
}

function asLine(line) {
  return typeof line === "string" ? line.replace(/\n$/, "") : JSON.stringify(line);
}

function tooLarge(name, bytes) {
  return `${name} is larger than this page plays (${Math.ceil(bytes / 2 ** 20)} MB of at most`
    + ` ${MOST_BYTES / 2 ** 20}): \`minivllm replay FILE\` plays files of any size.`;
}
const START = { at: 0, step: 0, used: 0 };

function momentsOf(tracks) {
  if (tracks.length === 1) {
    const [track] = tracks;
    return [START, ...track.ends].map((end) => ({ t: end.t ?? track.header.mono, ends: [end] }));
  }
  const times = new Set([0]);
  for (const track of tracks) for (const end of track.ends) times.add(round(end.t - track.header.mono));
  const sorted = [...times].sort((a, b) => a - b);
  const rest = sorted.map((t) => ({ t, ends: tracks.map((track) => track.endBy(t)) }));
  return [{ t: 0, ends: tracks.map(() => START) }, ...rest];
}
function placeOfStep(moments, step) {
  const found = moments.findIndex(({ ends: [end] }) => end.at > 0 && end.step >= step);
  return found < 0 ? moments.length - 1 : found;
}

function round(t) {
  return Math.round(t * 1e6) / 1e6;
}
const PATHS = {
  start: "M5 4h2v12H5zM17 4v12l-9-6z",
  back: "M13 4v12L5 10zM14 4h2v12h-2z",
  play: "M6 4l11 6-11 6z",
  pause: "M5 4h4v12H5zM11 4h4v12h-4z",
  on: "M7 4v12l8-6zM4 4h2v12H4z",
  earlier: "M12 4l-6 6 6 6 1.5-1.5L9 10l4.5-4.5zM15 8.5a1.5 1.5 0 100 3 1.5 1.5 0 000-3",
  later: "M8 4l6 6-6 6-1.5-1.5L11 10 6.5 5.5zM5 8.5a1.5 1.5 0 100 3 1.5 1.5 0 000-3",
  slower: "M4 9h12v2H4z",
  faster: "M4 9h5V4h2v5h5v2h-5v5H9v-5H4z",
  link: "M8 6H6a4 4 0 000 8h2v-2H6a2 2 0 010-4h2zM12 6h2a4 4 0 010 8h-2v-2h2a2 2 0 000-4h-2zM7 9h6v2H7z",
};

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
const STYLE_SHEET = ".p-player, .p-zone, .p-error { color-scheme: light dark; --ground: light-dark(#fbfbf8, #10141c); --card: light-dark(#ffffff, #161c27); --edge: light-dark(#d6dbe4, #2a3444); --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; } [data-md-color-scheme=\"default\"] :is(.p-player, .p-zone, .p-error) { color-scheme: light; } [data-md-color-scheme=\"slate\"] :is(.p-player, .p-zone, .p-error) { color-scheme: dark; } .p-player { container-type: inline-size; background: var(--ground); color: var(--text); border: 1px solid var(--edge); border-radius: 10px; padding: 10px 12px 12px; margin: 1em 0; font: 13px/1.45 system-ui, -apple-system, \"Segoe UI\", Roboto, sans-serif; text-align: left; } .p-player:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; } .p-player *, .p-player *::before { box-sizing: border-box; } .p-player button { font: inherit; color: inherit; background: none; border: 0; padding: 0; margin: 0; cursor: pointer; text-align: left; } .p-player button:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; } .p-controls { display: flex; align-items: center; gap: 4px; flex-wrap: wrap; } .p-player .p-button { min-width: 32px; height: 32px; padding: 0 6px; border-radius: 7px; text-align: center; border: 1px solid var(--edge); background: var(--card); } .p-button svg { width: 18px; height: 18px; display: block; margin: auto; fill: currentColor; } .p-player .p-button.p-main { min-width: 44px; background: var(--accent); border-color: var(--accent); color: var(--ground); } .p-player .p-button:hover { border-color: var(--accent); color: var(--accent); } .p-player .p-button.p-main:hover { color: var(--ground); filter: brightness(1.1); } .p-step { font-weight: 600; padding: 0 8px; font-variant-numeric: tabular-nums; } .p-speed { min-width: 3.2em; text-align: center; color: var(--muted); font-variant-numeric: tabular-nums; } .p-gap { flex: 1; } .p-timebar { position: relative; height: 46px; margin: 8px 0 2px; border-radius: 7px; background: var(--card); border: 1px solid var(--edge); overflow: hidden; } .p-chart { position: absolute; inset: 0; display: flex; flex-direction: column; } .p-chart svg { width: 100%; flex: 1; min-height: 0; display: block; } .p-area { fill: var(--accent); opacity: 0.2; } .p-tick { vector-effect: non-scaling-stroke; stroke-width: 2; fill: none; } .p-stroke-good { stroke: var(--good); } .p-stroke-accent { stroke: var(--accent); } .p-stroke-warn { stroke: var(--warn); } .p-stroke-bad { stroke: var(--bad); } .p-timebar::after { content: \"\"; position: absolute; inset: 0 auto 0 calc(var(--now, 0%) - 1px); width: 2px; background: var(--accent); pointer-events: none; } .p-player .p-slider { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: ew-resize; touch-action: pan-y; } .p-timebar:focus-within { outline: 2px solid var(--accent); } .p-legend { display: flex; flex-wrap: wrap; gap: 0 14px; font-size: 11.5px; min-height: 18px; } .p-swatch { display: inline-block; width: 18px; height: 9px; background: var(--accent); opacity: 0.35; margin-right: 5px; } .p-note, .p-error { border-left: 3px solid var(--warn); padding: 4px 10px; margin: 6px 0; background: var(--card); color: var(--text); } .p-caption { color: var(--muted); font-size: 11.5px; margin: 4px 0; } .p-views { display: grid; gap: 14px; grid-template-columns: minmax(0, 1fr); } .p-columns { display: grid; gap: 10px; grid-template-columns: minmax(0, 1fr); } .p-column { display: grid; gap: 10px; align-content: start; grid-template-columns: minmax(0, 1fr); } @container (min-width: 640px) { .p-columns { grid-template-columns: minmax(0, 1.05fr) minmax(0, 1fr); } .p-two { grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); } .p-two .p-columns { grid-template-columns: minmax(0, 1fr); } .p-two .p-column { display: contents; } .p-two .p-panel-blocks { order: 1; } .p-two .p-panel-waiting { order: 2; } .p-two .p-panel-budget { order: 3; } .p-two .p-panel-events { order: 4; } .p-two .p-panel-queue { order: 5; } } .p-panel { contain: layout style; background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 8px 10px; min-width: 0; } .p-title { font-weight: 600; font-size: 12px; color: var(--muted); margin: 0 0 6px; white-space: pre-wrap; font-variant-numeric: tabular-nums; } .p-row { display: flex; justify-content: space-between; align-items: baseline; gap: 8px; } .p-player .p-small { font-size: 11px; padding: 1px 8px; border: 1px solid var(--edge); border-radius: 99px; color: var(--muted); } .p-player .p-small[aria-pressed=\"true\"] { color: var(--ground); background: var(--accent); border-color: var(--accent); } .p-player .p-small[hidden] { display: none; } .p-faint { color: var(--muted); } .p-muted { color: var(--muted); } .p-good { color: var(--good); } .p-warn { color: var(--warn); } .p-bad { color: var(--bad); } .p-accent { color: var(--accent); } .p-player .p-letter { display: inline-block; flex: none; width: 17px; height: 17px; line-height: 17px; border-radius: 4px; text-align: center; font: 700 11px/17px var(--mono); background: var(--own); color: var(--ground); } .p-slots { display: grid; gap: 5px; } .p-slot { border-left: 3px solid var(--own); background: color-mix(in srgb, var(--own) 7%, transparent); border-radius: 0 6px 6px 0; padding: 4px 8px; height: 66px; overflow: hidden; cursor: pointer; contain: layout paint style; } .p-slot.p-empty { --own: var(--edge); height: auto; min-height: 27px; cursor: default; background: none; border-left-style: dashed; } .p-roomy .p-slot.p-empty { height: 66px; } .p-slot.p-chosen, .p-line.p-chosen { box-shadow: inset 0 0 0 1.5px var(--own); } .p-slot-head { display: flex; align-items: center; gap: 6px; white-space: nowrap; } .p-name { font-weight: 600; overflow: hidden; text-overflow: ellipsis; max-width: 11em; flex: none; } .p-phase { font-size: 11px; text-transform: uppercase; letter-spacing: 0.03em; } .p-prefill { color: var(--accent); } .p-decode { color: var(--good); } .p-count { font: 11.5px var(--mono); min-width: 3.2em; } .p-meter { flex: 1 1 30px; min-width: 20px; max-width: 90px; height: 4px; border-radius: 2px; background: var(--edge); overflow: hidden; } .p-meter i { display: block; height: 100%; background: var(--own); } .p-table { font: 11px var(--mono); color: var(--muted); margin-left: auto; overflow: hidden; text-overflow: ellipsis; min-width: 0; flex: 0 1 auto; } .p-said { height: 38px; display: flex; flex-direction: column-reverse; overflow: hidden; margin-top: 1px; white-space: pre-wrap; overflow-wrap: anywhere; justify-content: flex-start; } .p-said > div { flex: none; min-height: 38px; } .p-prompt { color: var(--muted); font-style: italic; } .p-new { background: color-mix(in srgb, var(--own, var(--good)) 28%, transparent); border-radius: 3px; font-weight: 600; } .p-word:hover { text-decoration: underline; } .p-draft { color: var(--muted); } del.p-draft { color: var(--bad); } .p-blocks { display: grid; gap: 3px; grid-template-columns: repeat(auto-fill, minmax(36px, 1fr)); } .p-blocks.p-tiny { grid-template-columns: repeat(auto-fill, minmax(12px, 1fr)); gap: 1px; max-height: 320px; overflow: auto; } .p-blocks.p-cards { grid-template-columns: repeat(auto-fill, minmax(104px, 1fr)); max-height: 560px; overflow: auto; } .p-player .p-block { position: relative; height: 34px; contain: layout paint style; border-radius: 5px; overflow: hidden; border: 1px solid var(--edge); background: var(--ground); isolation: isolate; text-align: center; transition: border-color 0.4s; } .p-block::before { content: \"\"; position: absolute; inset: auto 0 0 0; height: calc(100% * var(--fill, 0)); z-index: -1; background: var(--own); opacity: 0.42; transition: height 0.25s; } .p-player .p-block.p-held { border-color: color-mix(in srgb, var(--own) 70%, var(--edge)); } .p-player .p-block.p-shared { border: 2px solid var(--text); } .p-shared::before { background: var(--stripes); opacity: 0.55; } .p-cached::before { background: repeating-linear-gradient(135deg, var(--own) 0 2px, transparent 2px 6px); opacity: 0.4; } .p-player .p-block.p-cached { border-style: dashed; } .p-player .p-block.p-free .p-id { color: var(--muted); } .p-player .p-block.p-touched { box-shadow: 0 0 0 1.5px var(--own, var(--muted)); } .p-player .p-block.p-chosen { outline: 2px solid var(--text); outline-offset: 0; } .p-player .p-block.p-dim { opacity: 0.5; } .p-id { position: absolute; left: 3px; top: 1px; font: 9.5px/1.2 var(--mono); color: var(--text); } .p-mark { font: 700 14px/34px var(--mono); padding-top: 3px; display: inline-block; } .p-cards .p-mark { font-size: 11px; line-height: 14px; padding: 0; position: absolute; left: 26px; top: 0; } .p-player .p-cards .p-block { height: 72px; text-align: left; } .p-cards .p-words { position: absolute; inset: 15px 3px 1px; font-size: 10.5px; line-height: 1.22; overflow: hidden; overflow-wrap: anywhere; white-space: pre-wrap; } .p-tiny .p-id, .p-tiny .p-mark { display: none; } .p-player .p-tiny .p-block { height: 12px; border-radius: 2px; } .p-sign { position: absolute; right: 2px; top: -1px; font: 700 12px/1.2 var(--mono); } .p-sign-hit { color: var(--good); } .p-sign-evicted { color: var(--bad); } .p-sign-copied_from, .p-sign-copied_to { color: var(--accent); } .p-age1 { opacity: 0.65; } .p-age2 { opacity: 0.35; } .p-in { color: var(--muted); } .p-cards .p-in, .p-in.p-new { color: var(--text); } .p-cards .p-block::before { opacity: 0.24; } .p-cards .p-shared::before { opacity: 0.3; } .p-out { color: var(--text); } .p-budget { display: flex; gap: 1px; height: 24px; background: var(--ground); border: 1px solid var(--edge); border-radius: 5px; overflow: hidden; } .p-player .p-share { min-width: 5px; background: var(--own); color: var(--ground); font: 700 11px/22px var(--mono); text-align: center; overflow: hidden; flex: 0 1 auto; } .p-player .p-share.p-prefill { color: var(--ground); } .p-queue { display: flex; flex-wrap: wrap; gap: 3px; align-items: center; font-size: 11px; height: 84px; overflow: auto; align-content: flex-start; scrollbar-width: thin; } .p-player .p-chip { font: 10.5px/16px var(--mono); min-width: 22px; text-align: center; padding: 0 3px; border: 1px solid var(--edge); border-radius: 4px; color: var(--muted); } .p-player .p-chip.p-cached { border: 1px dashed var(--own); color: var(--text); background: color-mix(in srgb, var(--own) 14%, transparent); } .p-waiting { height: 100px; } .p-waiting, .p-events, .p-queue { contain: strict; } .p-waiting, .p-events { overflow: auto; scrollbar-width: thin; } .p-events { height: 150px; } .p-player .p-line { display: flex; gap: 6px; align-items: baseline; width: 100%; padding: 1.5px 2px; border-radius: 4px; cursor: pointer; } .p-when { font: 10.5px var(--mono); color: var(--muted); min-width: 2.4em; text-align: right; } .p-player .p-line.p-old .p-letter { opacity: 0.6; } .p-line.p-old .p-name { font-weight: 400; } .p-line > span:last-child { min-width: 0; } .p-player .p-why { contain: layout style; margin-top: 10px; padding: 7px 10px; border-left: 3px solid var(--accent); background: var(--card); border-radius: 0 6px 6px 0; min-height: 54px; position: sticky; bottom: 0; z-index: 2; box-shadow: 0 -6px 10px -8px light-dark(#0003, #000a); } .p-why .p-words { margin-top: 4px; font: 12px/1.5 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; } .p-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; } .p-zone { display: block; border: 2px dashed light-dark(#98a3b3, #55637a); border-radius: 10px; padding: 22px; text-align: center; cursor: pointer; margin: 1em 0; font-family: system-ui, sans-serif; } .p-zone input { display: block; margin: 8px auto 0; max-width: 100%; } @container (max-width: 639px) { .p-column { display: contents; } .p-panel-blocks { order: 1; } .p-panel-waiting { order: 2; } .p-panel-budget { order: 3; } .p-panel-events { order: 4; } .p-panel-queue { order: 5; } } @container (max-width: 460px) { .p-player .p-button { min-width: 30px; padding: 0 4px; } .p-player .p-button.p-main { min-width: 40px; } .p-step { padding: 0 3px; } .p-controls { gap: 3px; } .p-player .p-wide, .p-speed, .p-table, .p-meter { display: none; } .p-blocks:not(.p-cards, .p-tiny) { grid-template-columns: repeat(8, minmax(0, 1fr)); } } @media (prefers-reduced-motion: no-preference) { .p-new { animation: p-fade 0.9s; } .p-player .p-block.p-touched { animation: p-touch 0.7s; } } @keyframes p-fade { from { background: color-mix(in srgb, var(--own, var(--good)) 70%, transparent); } } @keyframes p-touch { from { box-shadow: 0 0 0 4px color-mix(in srgb, var(--own, var(--muted)) 70%, transparent); } } @media print { .p-controls, .p-timebar { display: none; } }";
function addStyle() {
  if (document.getElementById("minivllm-player-style")) return;
  const colours = Object.entries(COLOURS)
    .map(([name, [dark, light]]) => `--${name}:light-dark(${light},${dark})`).join(";");
  const sheet = document.createElement("style");
  sheet.id = "minivllm-player-style";
  sheet.textContent = `.p-player,.p-zone,.p-error{${colours}}${STYLE_SHEET}`;
  document.head.append(sheet);
}
const MARKS = {
  "block.hit": ["good", "prefix hit"], "block.copied": ["accent", "copy-on-write"],
  "block.evicted": ["warn", "eviction"], "request.preempted": ["bad", "preemption"],
};
const SVG = "http://www.w3.org/2000/svg";

class TimeBar {
  constructor(moments, tracks, onseek) {
    this.slider = h("input", {
      type: "range", min: 0, max: moments.length - 1, value: 0, class: "p-slider",
      "aria-label": "Step", oninput: () => onseek(Number(this.slider.value)),
    });
    this.chart = h("div", { class: "p-chart", "aria-hidden": "true" });
    this.element = h("div", { class: "p-timebar" }, this.chart, this.slider);
    tracks.forEach((track, side) => this.chart.append(chartOf(moments, track, side)));
    this.legend = legendOf(tracks);
  }

  show(place, words) {
    this.slider.value = place;
    this.slider.setAttribute("aria-valuetext", words);
    const last = Math.max(Number(this.slider.max), 1);
    this.element.style.setProperty("--now", `${100 * place / last}%`);
  }
}

function chartOf(moments, track, side) {
  const last = Math.max(moments.length - 1, 1);
  const svg = svgOf("svg", { viewBox: `0 0 ${last} 100`, preserveAspectRatio: "none" });
  const most = mostUsed(track) || 1;
  let area = "M0 100";
  const placeOf = new Map();
  moments.forEach((moment, place) => {
    const end = moment.ends[side];
    area += `L${place} ${(100 - 60 * end.used / most).toFixed(1)}`;
    if (!placeOf.has(end.step)) placeOf.set(end.step, place);
  });
  svg.append(svgOf("path", { d: `${area}L${last} 100Z`, class: "p-area" }));
  Object.entries(MARKS).forEach(([kind, [style]], number) => {
    const places = track.marks
      .filter((mark) => mark.kind === kind && placeOf.has(mark.step))
      .map((mark) => `M${placeOf.get(mark.step)} ${number * 9}V${number * 9 + 9}`);
    svg.append(svgOf("path", { d: places.join(""), class: `p-tick p-stroke-${style}` }));
  });
  return svg;
}

function svgOf(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function mostUsed(track) {
  return track.ends.reduce((most, end) => Math.max(most, end.used), 0);
}

function legendOf(tracks) {
  const items = Object.entries(MARKS).map(([kind, [style, name]]) => {
    const steps = tracks.reduce(
      (sum, track) => sum + track.marks.filter((mark) => mark.kind === kind).length, 0);
    return steps ? h("span", { class: `p-${style}` }, `▎${name} in ${number(steps)}`) : null;
  });
  return h("div", { class: "p-legend" },
    h("span", { class: "p-muted" }, h("i", { class: "p-swatch" }), `blocks in use, at most ${
      tracks.map((track) => `${Math.round(100 * mostUsed(track))} %`).join(" and ")}`),
    ...items.filter(Boolean));
}
function word(fold, tokenId) {
  const piece = fold.pieces.get(tokenId);
  return piece === undefined ? ` ${tokenId}` : clean(piece);
}
function contentsOf(moment, id, owners) {
  const { fold, header } = moment, size = header.block_size;
  if (!owners.length) {
    const ids = fold.blocks[id].hash === null ? [] : moment.ages.content(id);
    return { ids, numPrompt: ids.length, isNew: () => false };
  }
  const computed = ([seqId]) => fold.sequences.get(seqId).num_computed_tokens;
  const [seqId, entry] = owners.reduce((a, b) => (computed(b) > computed(a) ? b : a));
  const sequence = fold.sequences.get(seqId), first = entry * size;
  const last = Math.min(
    Math.max(sequence.num_computed_tokens, first), first + size, fold.numTokens(sequence));
  const prompt = fold.requests.get(sequence.request_id).prompt_token_ids.slice(first, last);
  const skipped = sequence.num_prompt_tokens;
  const output = sequence.output_token_ids.slice(
    Math.max(first - skipped, 0), Math.max(last - skipped, 0));
  const written = fold.scheduled
    .filter((share) => owners.some(([one]) => one === share.seq_id))
    .map((share) => [
      Math.max(share.num_computed_tokens, fold.sequences.get(share.seq_id)?.num_cached_tokens ?? 0),
      share.num_computed_tokens + share.num_tokens,
    ]);
  return {
    ids: [...prompt, ...output],
    numPrompt: prompt.length,
    isNew: (index) => written.some(([from, to]) => first + index >= from && first + index < to),
  };
}
const SIGNS = { hit: "●", copied_from: "→", copied_to: "←", evicted: "×" };
const SIGN_WORDS = {
  hit: "found in the prefix cache", copied_from: "copied from", copied_to: "copied to",
  evicted: "evicted",
};
const MOST_CARDS = 128;

class Blocks {
  constructor() {
    this.grid = h("div", { class: "p-blocks", tabindex: 0, role: "group", "aria-label": "KV cache blocks" });
    this.title = h("div", { class: "p-title" });
    this.toggle = h("button", { class: "p-small", type: "button", "data-do": "words" }, "words");
    this.element = h("section", { class: "p-panel p-panel-blocks" },
      h("div", { class: "p-row" }, this.title, this.toggle), this.grid);
    this.cells = [];
    this.withWords = false;
  }

  draw(moment, chosenBlock, chosenSequence) {
    const { fold } = moment, count = fold.blocks.length;
    const used = count - fold.freeQueue.length;
    this.title.textContent = `KV blocks  ${number(used)} of ${number(count)} in use`;
    this.toggle.hidden = count > MOST_CARDS;
    this.toggle.setAttribute("aria-pressed", String(this.withWords));
    this.grid.classList.toggle("p-cards", this.withWords);
    this.grid.classList.toggle("p-tiny", count > 512);
    while (this.cells.length < count) {
      const id = this.cells.length;
      const cell = h("button", { class: "p-block", type: "button", tabindex: -1, "data-block": id });
      this.cells.push(cell);
      this.grid.append(cell);
    }
    const holders = this.holdersOf(fold);
    for (let id = 0; id < count; id++) {
      this.drawCell(this.cells[id], moment, id, holders.get(id) ?? [], chosenBlock, chosenSequence);
    }
  }

  holdersOf(fold) {
    const holders = new Map();
    for (const [seqId, sequence] of fold.sequences) {
      sequence.block_table.forEach((id, entry) => {
        const known = holders.get(id);
        if (known) known.push([seqId, entry]);
        else holders.set(id, [[seqId, entry]]);
      });
    }
    return holders;
  }

  drawCell(cell, moment, id, owners, chosenBlock, chosenSequence) {
    const look = lookOf(moment, id, owners);
    const entry = owners.find(([seqId]) => seqId === chosenSequence)?.[1];
    const key = [look.state, look.letter, look.hue, look.fill, look.sign, look.signAge,
      look.isTouched, look.count, entry ?? "", id === chosenBlock, this.withWords && look.stamp,
    ].join();
    redraw(cell, key, () => {
      cell.className = `p-block p-${look.state}${look.isTouched ? " p-touched" : ""}`
        + `${id === chosenBlock || entry !== undefined ? " p-chosen" : ""}`
        + `${chosenSequence && entry === undefined ? " p-dim" : ""}`;
      cell.style.cssText = `${look.style};--fill:${look.fill}`;
      cell.setAttribute("aria-label", look.label);
      const sign = look.sign
        ? h("b", { class: `p-sign p-sign-${look.sign} p-age${look.signAge}` }, SIGNS[look.sign]) : null;
      return [
        h("span", { class: "p-id" }, String(id)),
        h("span", { class: "p-mark" }, entry !== undefined ? `#${entry}` : look.mark),
        sign,
        this.withWords ? h("span", { class: "p-words" }, ...wordsIn(moment, id, owners)) : null,
      ].filter(Boolean);
    });
  }
}

function lookOf(moment, id, owners) {
  const { fold, header, ages } = moment, block = fold.blocks[id], size = header.block_size;
  const beat = ages.beat(id);
  const look = {
    state: "free", letter: "", hue: null, fill: 0, mark: "", style: "", count: block.ref_cnt,
    sign: beat?.kind ?? "", signAge: beat?.age ?? "", isTouched: ages.changed.has(id), stamp: "",
    label: `block ${id}, empty`,
  };
  if (owners.length) {
    const computed = Math.max(...owners.map(([seqId, entry]) =>
      fold.sequences.get(seqId).num_computed_tokens - entry * size));
    const written = Math.min(Math.max(computed, 0), size);
    const [seqId] = owners[0];
    look.state = owners.length > 1 ? "shared" : "held";
    look.letter = owners.map(([one]) => moment.letter(one)).join("");
    look.hue = owners.map(([one]) => moment.hueOf(one)).join();
    look.fill = written / size;
    look.mark = owners.length > 1 ? String(block.ref_cnt) : moment.letter(seqId);
    look.style = hueStyle(moment.hueOf(seqId));
    if (owners.length > 1) look.style += `;--stripes:${stripes(moment, owners)}`;
    look.stamp = `${written} ${owners[0]} ${look.isTouched && fold.step}`;
    look.label = `block ${id}, ${owners.length > 1 ? `shared by ${owners.length}` : `held by ${seqId}`},`
      + ` ${written} of ${size} tokens`;
  } else if (block.hash !== null) {
    const owner = ages.lastOwner(id), letter = moment.letter(owner);
    look.state = "cached";
    look.letter = look.mark = letter ?? "·";
    look.hue = moment.letters.hue(letter);
    look.fill = 1;
    look.style = hueStyle(look.hue);
    look.stamp = block.hash;
    look.label = `block ${id}, free, still cached`;
  }
  if (look.sign) look.label += `, ${SIGN_WORDS[look.sign]}`;
  return look;
}
function stripes(moment, owners) {
  const hues = [...new Set(owners.map(([one]) => moment.hueOf(one)))].slice(0, 4);
  const colour = (hue) => (hue === null ? "var(--cached)" : `var(--hue${hue})`);
  const width = 100 / hues.length;
  const stops = hues.map((hue, at) =>
    `${colour(hue)} ${(at * width).toFixed(0)}% ${((at + 1) * width).toFixed(0)}%`);
  return `linear-gradient(90deg,${stops.join(",")})`;
}

function wordsIn(moment, id, owners) {
  const held = contentsOf(moment, id, owners);
  const spans = held.ids.map((tokenId, at) => h("span", {
    class: `${at < held.numPrompt ? "p-in" : "p-out"}${held.isNew(at) ? " p-new" : ""}`,
  }, word(moment.fold, tokenId)));
  const missing = owners.length ? moment.header.block_size - held.ids.length : 0;
  if (missing > 0) spans.push(h("span", { class: "p-faint" }, " ╴".repeat(missing)));
  return spans;
}
function fillIn(template, facts) {
  return template.replace(/\{(\w+)(?::([^}]+))?\}/g, (_, name, noun) => {
    const fact = facts[name];
    if (typeof fact !== "number") return fact;
    return noun ? plural(fact, noun) : number(fact);
  });
}

function phrase(key, facts = {}) {
  return fillIn(PHRASES[key], facts);
}
function deferral(reason, need, free, limit = null) {
  let key = `defer.${reason}`;
  if (reason === "max_num_seqs") key += free ? ".free" : limit === null ? "" : ".limit";
  return PHRASES[key] ? phrase(key, { need, free, limit: limit ?? 0 }) : clean(String(reason));
}
function reasonToWait(moment, [reason, need, free]) {
  const key = `waits.${reason}${reason === "token_budget" && free ? ".free" : ""}`;
  if (!PHRASES[key]) return `waits: ${deferral(reason, need, free)}`;
  return phrase(key, { need, free, limit: moment.fold.maxNumSeqs });
}

function causeOfPreemption(need, free) {
  if (need === 0) return phrase("cause.failed");
  return phrase(need <= free ? "cause.slot" : "cause.blocks", { need, free });
}

function whyWaiting(moment, position) {
  const { fold } = moment, sequence = fold.sequences.get(fold.waiting[position]);
  if (position > moment.considered()) {
    return phrase("queue.behind", { name: shortName(fold.waiting[position - 1]) });
  }
  if (!sequence.deferred) return phrase("queue.new");
  const [reason, need] = sequence.deferred;
  if (reason === "max_num_seqs" && fold.running.length + need <= fold.maxNumSeqs) {
    return phrase("queue.slot");
  }
  return deferral(...sequence.deferred, fold.maxNumSeqs);
}

function miss(why) {
  return PHRASES[`miss.${why}`] ?? clean(String(why));
}
const FACTS = {
  "request.arrived": (e) => ["", { tokens: e.prompt_token_ids.length }],
  "request.admitted": entered,
  "request.resumed": entered,
  "request.deferred": (e) => ["", { reason: deferral(e.reason, e.need, e.free) }],
  "request.preempted": (e) => ["", {
    victim_of: shortName(e.victim_of), reason: causeOfPreemption(e.need, e.free),
  }],
  "request.forked": (e) => ["", { parent: shortName(e.parent) }],
  "request.beam_pruned": (e) => [(e.stop_reason ?? null) === null ? "" : ".complete", {}],
  "request.beams_found": (e) => ["", { texts: e.texts.length }],
  "request.finished": (e) => [e.reason === "length" ? ".length" : "", {}],
  "request.aborted": (e) => [e.error ? ".error" : "", {}],
  "block.missed": (e) => ["", { logical: e.logical, reason: miss(e.why) }],
  "block.freed": (e) => [e.position === "tail" ? ".tail" : "", {}],
  "draft.verified": (e) => [e.num_accepted ? ".some" : "", { kept: e.num_accepted }],
  "engine.option_changed": (e) => ["", { ...e, name: clean(String(e.name)) }],
  "invariant.violated": (e) => ["", { name: clean(e.name), detail: clean(e.detail) }],
};

function entered(e) {
  return [e.num_cached_tokens ? ".cached" : "", { slot: e.slot, cached: e.num_cached_tokens }];
}
function wordsOf(event) {
  const [form, facts] = FACTS[event.ev]?.(event) ?? ["", event];
  const words = EVENT_WORDS[event.ev + form];
  if (!words) return null;
  return { verb: fillIn(words[0], facts), after: fillIn(words[1], facts), style: words[2] };
}
function sentenceOf(event) {
  const words = wordsOf(event);
  if (!words) return null;
  const name = event.seq_id ? `${shortName(event.seq_id)} ` : "";
  const block = event.block_id === undefined ? "" : ` block ${event.block_id}`;
  return `${name}${words.verb}${block}${words.after}`;
}
function decisionsOf(track, events) {
  const rows = [], byKey = new Map(), waits = new Map();
  for (const event of events) {
    const words = wordsOf(event);
    if (!words) continue;
    if (event.ev === "request.deferred") {
      if (waits.get(event.seq_id) === event.reason) continue;
      waits.set(event.seq_id, event.reason);
    }
    const owner = track.ownerOf(event);
    const key = `${event.step} ${event.ev} ${owner} ${words.verb} ${words.after}`;
    let row = event.block_id === undefined ? undefined : byKey.get(key);
    if (!row) {
      rows.push((row = { ...words, step: event.step, owner, blocks: [] }));
      byKey.set(key, row);
    }
    if (event.block_id !== undefined) row.blocks.push(event.block_id);
  }
  for (const row of rows) row.text = `${row.verb} ${idRanges(row.blocks)}`.trim();
  return rows;
}
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
  letScroll(name) {
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "group");
    this.body.setAttribute("aria-label", name);
  }
}

class Waiting extends Panel {
  constructor() {
    super("waiting");
  }

  draw(moment, chosen) {
    const { waiting, sequences } = moment.fold;
    this.title.textContent = `Waiting  ${waiting.length}`;
    const rows = waiting.slice(0, MOST_ROWS).map((id, at) => [id, whyWaiting(moment, at)]);
    redraw(this.body, JSON.stringify([rows, chosen]), () => {
      if (!rows.length) return [h("div", { class: "p-faint" }, "none waiting")];
      return rows.map(([id, why], at) => {
        const { num_preemptions: count } = sequences.get(id);
        return h("button", {
          class: `p-line${id === chosen ? " p-chosen" : ""}`, type: "button", "data-sequence": id,
          style: hueStyle(moment.hueOf(id)),
        },
        letterOf(moment, id), h("span", { class: "p-name" }, shortName(id)),
        count ? h("span", { class: "p-warn" }, `↺${count}`) : null,
        h("span", { class: at ? "p-muted" : "" }, why));
      });
    });
  }
}

class FreeQueue extends Panel {
  constructor() {
    super("queue");
    this.letScroll("Free queue");
  }

  draw(moment) {
    const { freeQueue, blocks } = moment.fold;
    const cached = freeQueue.reduce((sum, id) => sum + (blocks[id].hash !== null), 0);
    this.title.textContent = `Free queue  ${number(freeQueue.length)}`
      + (cached ? `, ${number(cached)} still cached` : "");
    const shown = freeQueue.slice(0, MOST_CHIPS);
    const key = shown.map((id) => (blocks[id].hash === null ? id : `${id}c`)).join();
    redraw(this.body, key, () => [
      h("span", { class: "p-muted" }, freeQueue.length ? "next →" : "empty"),
      ...shown.map((id) => h("button", {
        class: `p-chip${blocks[id].hash === null ? "" : " p-cached"}`, type: "button", tabindex: -1,
        "data-block": id, style: hueStyle(moment.hueOf(moment.ages.lastOwner(id))),
      }, String(id))),
      ...(freeQueue.length > shown.length
        ? [h("span", { class: "p-muted" }, `and ${number(freeQueue.length - shown.length)} more`)] : []),
    ]);
  }
}

class Budget extends Panel {
  constructor() {
    super("budget");
  }

  draw(moment) {
    const { scheduled, budget } = moment.fold;
    const sum = (kind) => scheduled.reduce(
      (total, share) => total + (kind && share.kind !== kind ? 0 : share.num_tokens), 0);
    const used = sum(null);
    this.title.textContent = budget
      ? `Token budget  ${number(used)} of ${number(budget)}: ${number(sum("decode"))} decode,`
        + ` ${number(sum("prefill"))} prefill`
      : "Token budget  no step yet";
    const key = scheduled.map((share) => `${share.seq_id} ${share.num_tokens} ${share.kind}`).join();
    redraw(this.body, `${budget} ${key}`, () => scheduled.map((share) => h("button", {
      class: `p-share p-${share.kind}`, type: "button", tabindex: -1,
      "data-sequence": share.seq_id,
      style: `${hueStyle(moment.hueOf(share.seq_id))};`
        + `width:${(100 * share.num_tokens / Math.max(budget, used, 1)).toFixed(2)}%`,
      "aria-label": `${shortName(share.seq_id)}: ${plural(share.num_tokens, `${share.kind} token`)}`,
    }, share.num_tokens > 1 ? String(share.num_tokens) : "")));
  }
}

class Events extends Panel {
  constructor() {
    super("events");
    this.letScroll("Decisions");
  }
  draw(moment, track, at) {
    this.title.textContent = "Decisions";
    const step = track.events[at - 1]?.step;
    const rows = decisionsOf(track, track.eventsOfSteps(at, STEPS_OF_DECISIONS))
      .slice(-MOST_DECISIONS);
    const key = rows.map((row) => `${row.step === step} ${row.step} ${row.owner} ${row.text}`).join();
    redraw(this.body, key, () => {
      if (!rows.length) return [h("div", { class: "p-faint" }, "none in these steps")];
      return rows.reverse().map((row) => h("div", {
        class: `p-line${row.step === step ? "" : " p-old"}`, style: hueStyle(moment.hueOf(row.owner)),
        "data-sequence": row.owner, "data-block": row.blocks.at(-1),
      },
      h("span", { class: "p-when" }, number(row.step)),
      row.owner ? letterOf(moment, row.owner) : null,
      row.owner ? h("span", { class: "p-name" }, shortName(row.owner)) : null,
      h("span", { class: `p-${row.style}` }, row.text, h("span", { class: "p-muted" }, row.after))));
    });
  }
}
const WORDS_SHOWN = 64;
const MOST_SLOTS = 32;

class Slots {
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
function textOf(moment, sequence, share, numNew) {
  const { fold } = moment, size = moment.header.block_size;
  const request = fold.requests.get(sequence.request_id), out = sequence.output_token_ids;
  const from = Math.max(out.length - WORDS_SHOWN, 0);
  const parts = [];
  if (from) parts.push("… ");
  else parts.push(h("span", { class: "p-prompt" }, promptOf(fold, request)), " ");
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
const NAMED = 4;

function whySequence(moment, past, seqId) {
  const sequence = moment.fold.sequences.get(seqId);
  if (!sequence) return ended(moment, seqId);
  return sequence.status === "RUNNING" ? running(moment, past, seqId, sequence)
    : waiting(moment, past, seqId, sequence);
}

function listNames(seqIds) {
  let names = seqIds.map(shortName);
  if (names.length > NAMED) {
    names = [...names.slice(0, NAMED - 1), `${number(names.length - NAMED + 1)} more`];
  }
  if (names.length < 2) return names[0] ?? "no sequence";
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
function newest(past, wanted) {
  for (let at = past.length - 1; at >= 0; at--) if (wanted(past[at])) return past[at];
  return null;
}
function birth(past, seqId) {
  return newest(past, (e) => e.seq_id === seqId
    && (e.ev === "request.forked" || e.ev === "request.arrived"));
}

function waiting(moment, past, seqId, sequence) {
  const { fold } = moment, position = fold.waiting.indexOf(seqId), name = shortName(seqId);
  const considered = moment.considered(), first = fold.waiting[considered];
  const own = sequence.deferred;
  if (position <= considered && own?.[0] === "grammar_not_compiled") {
    return `${name} ${reasonToWait(moment, own)}; the requests behind it may pass.`;
  }
  const deferred = fold.sequences.get(first).deferred;
  const reason = deferred ? reasonToWait(moment, deferred) : "";
  let said;
  if (position > considered) {
    const ahead = reason || "the scheduler has not considered yet";
    said = `${name} is number ${number(position + 1)} in the queue, and the scheduler considers`
      + ` only the first: ${shortName(first)}, which ${ahead}`;
  } else if (reason) {
    const passes = considered
      ? ` but ${number(considered)}, whose grammars are not compiled yet,` : "";
    const behind = fold.waiting[considered + 1];
    const next = behind ? `; ${shortName(behind)} is next after it` : "";
    said = `${name} is the first in the queue${passes} and ${reason}`
      + `${holders(fold, sequence)}${next}`;
  } else if (fold.step === 0) {
    said = `${name} is the first in the queue, and no step has been planned yet: the first step`
      + ` will consider it`;
  } else {
    said = `${name} is the first in the queue and arrived after step ${number(fold.step)} was`
      + ` planned: the next step will consider it`;
  }
  return `${said}${preempted(fold, past, seqId, sequence)}.`;
}

function holders(fold, sequence) {
  if (!fold.running.length || !sequence.deferred) return "";
  const [reason] = sequence.deferred;
  if (reason === "max_num_seqs" || reason === "static_batch") {
    return ` (${listNames(fold.running)} run${fold.running.length > 1 ? "" : "s"})`;
  }
  if (!["no_blocks", "no_contiguous_run", "preempted_this_step"].includes(reason)) return "";
  const held = fold.running
    .map((id) => [fold.sequences.get(id).block_table.length, id])
    .sort((a, b) => b[0] - a[0] || (a[1] < b[1] ? 1 : -1))
    .slice(0, NAMED)
    .map(([count, id]) => `${shortName(id)} holds ${number(count)}`);
  return ` (${held.join(", ")} of ${plural(fold.blocks.length, "block")})`;
}

function preempted(fold, past, seqId, sequence) {
  if (sequence.status !== "PREEMPTED") return "";
  const again = `its ${plural(fold.numTokens(sequence), "token")} must be recomputed, except`
    + ` those still in the cache`;
  const event = newest(past, (e) => e.ev === "request.preempted" && e.seq_id === seqId);
  if (!event) return `; it was preempted, and ${again}`;
  const short = causeOfPreemption(event.need, event.free);
  const because = event.victim_of === seqId ? `because it ${short}`
    : `for ${shortName(event.victim_of)}, which ${short}`;
  return `; it was preempted in step ${number(event.step)} ${because}, and ${again}`;
}

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
  return `${none} so far: ${number(missing)} of its ${plural(known, "token")} are not computed`
    + ` yet.`;
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
const LOOKUPS_KEPT = 32;

function whyBlock(moment, past, id) {
  const { fold } = moment, block = fold.blocks[id];
  if (!block) {
    return `There is no block ${id}: the pool has ${plural(fold.blocks.length, "block")}, and the`
      + ` first is 0.`;
  }
  if (block.ref_cnt > 1) return shared(moment, past, id, block);
  if (block.ref_cnt === 1) return held(moment, past, id, block);
  const place = fold.freeQueue.indexOf(id) + 1;
  if (!place) {
    return `Block ${id} has just lost its last owner: the next event puts it on the free queue.`;
  }
  const where = `the ${ordinal(place)} of ${number(fold.freeQueue.length)} in the free queue`;
  if (block.hash !== null) {
    return `Block ${id} is free but still cached: ${left(moment, id)}its content is unchanged, so`
      + ` a prompt with the same beginning can reuse it; it is ${where}, and allocating it evicts`
      + ` that content.`;
  }
  if (!moment.ages.blocks[id]) {
    return `Block ${id} is empty: no sequence has held it in this recording so far; it is`
      + ` ${where}.`;
  }
  const why = moment.header.enable_prefix_caching ? "its content had no hash"
    : "prefix caching is off";
  return `Block ${id} is empty: ${left(moment, id)}${why}, so no lookup can find it; it is`
    + ` ${where}.`;
}

function held(moment, past, id, block) {
  const owners = moment.owners(id), size = moment.header.block_size;
  if (!owners.length) {
    return `Block ${id} is in use, but the block table that holds it is not known at this moment.`;
  }
  const [[seqId, logical]] = owners;
  const sequence = moment.fold.sequences.get(seqId);
  const written = Math.min(Math.max(sequence.num_computed_tokens - logical * size, 0), size);
  let use = "it has no hash yet, so no other sequence can find it";
  if (block.hash !== null) {
    use = "it is full and has a hash, so a prompt with the same beginning can share it";
  } else if (!moment.header.enable_prefix_caching) {
    use = "prefix caching is off, so no other sequence can find it";
  }
  return `Block ${id} is held by ${shortName(seqId)} alone, as entry ${number(logical)} of its`
    + ` block table${taken(moment, past, seqId, id)}: ${number(written)} of`
    + ` ${plural(size, "token")} are written, and ${use}.`;
}

function taken(moment, past, seqId, id) {
  const step = hitIn(past, seqId, id);
  if (step !== null) return `, found in the prefix cache in step ${number(step)}`;
  const born = moment.ages.blocks[id]?.born ?? null;
  return born === null ? "" : `, in use since step ${number(born)}`;
}

function shared(moment, past, id, block) {
  const owners = moment.owners(id).map(([seqId]) => seqId);
  const took = new Map(), found = new Map(), forked = new Map();
  for (const seqId of owners) {
    const hit = hitIn(past, seqId, id), own = hit === null ? tookIn(moment, past, seqId, id) : null;
    const fork = birth(past, seqId);
    if (hit !== null) found.set(seqId, hit);
    else if (own !== null) took.set(seqId, own);
    else if (fork?.ev === "request.forked" && !preemption(past, seqId, fork)) {
      forked.set(seqId, fork.step);
    }
  }
  const reasons = [];
  if (took.size) reasons.push(`${listNames([...took.keys()])} took it ${inSteps(took)}`);
  if (found.size) {
    reasons.push(`${listNames([...found.keys()])} found it in the prefix cache ${inSteps(found)}`);
  }
  if (forked.size) {
    const were = forked.size === 1 ? "was" : "were";
    reasons.push(`${listNames([...forked.keys()])} ${were} forked ${inSteps(forked)}`);
  }
  const because = reasons.join(", and ") || "how they got it is no longer in memory";
  return `Block ${id} is shared by ${listNames(owners)} (reference count`
    + ` ${number(block.ref_cnt)}): ${because}; ${costs(moment, id)}.`;
}

function tookIn(moment, past, seqId, id) {
  const age = moment.ages.blocks[id];
  const born = birth(past, seqId);
  if (!age || age.born === null || age.takenBy !== seqId || !born) return null;
  const lost = preemption(past, seqId, born);
  return !lost || lost.step < age.born ? age.born : null;
}

function preemption(past, seqId, since) {
  return newest(past, (e) =>
    e.ev === "request.preempted" && e.seq_id === seqId && e.seq > since.seq);
}

function costs(moment, id) {
  const size = moment.header.block_size;
  const written = moment.owners(id).map(([seqId, logical]) =>
    Math.min(moment.fold.sequences.get(seqId).num_computed_tokens - logical * size, size));
  const most = written.length ? Math.max(...written) : size;
  if (most >= size) {
    return `it is full, so its ${plural(size, "token")} are stored once for all of them`;
  }
  return `${number(Math.max(most, 0))} of its ${plural(size, "token")} are written, and the next`
    + ` sequence that writes into it copies it first`;
}

function inSteps(bySequence) {
  const steps = [...new Set(bySequence.values())].sort((a, b) => a - b);
  if (steps.length === 1) return `in step ${number(steps[0])}`;
  return `in steps ${number(steps[0])} to ${number(steps.at(-1))}`;
}
function hitIn(past, seqId, id) {
  let lookups = 0, group = "", found = null;
  for (let at = past.length - 1; at >= 0; at--) {
    const event = past[at];
    if (event.ev !== "block.hit" && event.ev !== "block.missed") continue;
    if (group !== `${event.step} ${event.seq_id}`) {
      if (found) return null; // its newest lookup had no such hit
      group = `${event.step} ${event.seq_id}`;
      lookups += 1;
      if (lookups > LOOKUPS_KEPT) return null;
    }
    if (event.seq_id !== seqId) continue;
    found = event;
    if (event.ev === "block.hit" && event.block_id === id) return event.step;
  }
  return null;
}

function left(moment, id) {
  const age = moment.ages.blocks[id];
  if (!age?.lastOwner) return "";
  return `${shortName(age.lastOwner)} held it last, until step ${number(age.touched)}, and `;
}
class View {
  constructor(track) {
    this.track = track;
    this.chosen = null; // {kind: "block" | "sequence", id}
    this.at = 0;
    this.slots = new Slots();
    this.blocks = new Blocks();
    this.waiting = new Waiting();
    this.queue = new FreeQueue();
    this.budget = new Budget();
    this.events = new Events();
    this.caption = h("div", { class: "p-caption" });
    this.why = h("div", { class: "p-why" });
    const columns = [
      [this.slots, this.waiting, this.events], [this.blocks, this.budget, this.queue],
    ].map((panels) => h("div", { class: "p-column" }, ...panels.map((panel) => panel.element)));
    this.element = h("div", { class: "p-view" },
      this.caption, h("div", { class: "p-columns" }, ...columns), this.why);
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
    this.slots.draw(moment, newTokens, sequence);
    this.blocks.draw(moment, block, sequence);
    this.waiting.draw(moment, sequence);
    this.queue.draw(moment);
    this.budget.draw(moment);
    this.events.draw(moment, this.track, at);
    this.caption.textContent = this.captionText();
    this.explain(this.chosen);
  }

  captionText() {
    const { header, name } = this.track;
    const policy = header.config?.batching && header.config.batching !== "continuous"
      ? `, ${header.config.batching} batching` : "";
    return `${name}: model ${header.model}, ${plural(header.num_blocks, "block")} of`
      + ` ${plural(header.block_size, "token")}${policy}`;
  }

  select(target) {
    const same = target && this.chosen?.kind === target.kind && this.chosen.id === target.id;
    this.chosen = same ? null : target;
    this.draw(this.at);
  }
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
    if (event.pointerType === "touch") return;
    this.explain(targetOf(event.target) ?? this.chosen);
  }

  explain(target) {
    const key = `${this.at} ${target?.kind} ${target?.id}`;
    redraw(this.why, key, () => {
      const past = this.track.events.slice(0, this.at);
      if (target?.kind === "block") {
        const words = wordsIn(this.moment, target.id, this.moment.owners(target.id));
        return [h("b", {}, "Why? "), whyBlock(this.moment, past, target.id),
          words.length ? h("div", { class: "p-words" }, ...words) : null].filter(Boolean);
      }
      const asked = target?.id ?? this.moment.fold.waiting[0];
      if (asked !== undefined) return [h("b", {}, "Why? "), whySequence(this.moment, past, asked)];
      return [this.summary()];
    });
  }
  summary() {
    const { fold } = this.moment, free = fold.freeQueue.length, count = fold.blocks.length;
    const running = fold.running.map(shortName).slice(0, 8).join(", ");
    return `Step ${number(fold.step)}: ${plural(fold.running.length, "sequence")} running`
      + `${running ? ` (${running})` : ""}, ${number(fold.waiting.length)} waiting,`
      + ` ${number(count - free)} of ${plural(count, "block")} in use.`;
  }
}

function targetOf(element) {
  const found = element.closest("[data-block],[data-sequence]");
  if (!found) return null;
  const { block, sequence } = found.dataset;
  return block !== undefined ? { kind: "block", id: Number(block) }
    : { kind: "sequence", id: sequence };
}
const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32];
const MOST_CARDS_AT_ONCE = 24;

function mountPlayer(element, options) {
  const names = options.names ?? [];
  const tracks = options.recordings.map((one, at) =>
    (typeof one === "string" || Array.isArray(one)
      ? trackOf(one, names[at] ?? (at ? "recording B" : "recording")) : one));
  if (!tracks.length) throw new BadRecording("There is no recording to play: give one or two.");
  addStyle();
  return new Player(element, tracks, options);
}

class Player {
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
    this.label.textContent = this.tracks.length === 1
      ? `step ${number(this.stepNumber)} of ${number(last)}`
      : `${this.moments[this.place].t.toFixed(2)} s: steps`
        + ` ${this.moments[this.place].ends.map((end) => number(end.step)).join(" and ")}`;
    const words = this.views.map((view) => view.summary()).join(" ");
    this.bar.show(this.place, this.label.textContent);
    if (this.timer === null) this.live.textContent = words;
    this.onmove(this.stepNumber);
  }

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
    this.playButton.replaceChildren(icon(this.isPlaying ? "pause" : "play"));
    this.playButton.setAttribute("aria-label", this.isPlaying ? "Pause (space)" : "Play (space)");
    this.speedLabel.textContent = `${SPEEDS[this.speed]}/s`;
  }

  destroy() {
    this.pause();
    this.element.remove();
    this.host.classList.remove("p-started");
  }

  pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const onButton = event.target.closest("button") && (event.key === " " || event.key === "Enter");
    const act = onButton ? null : KEYS[event.key];
    if (!act) return;
    act(this);
    event.preventDefault();
    event.stopPropagation();
  }

  link() {
    const names = this.tracks.map((track) => track.name).join(",");
    const hash = `#recording=${encodeURIComponent(names)}&step=${this.stepNumber}`;
    history.replaceState(null, "", hash);
    navigator.clipboard?.writeText(location.href).catch(() => {});
    this.live.textContent = `The address of this page now leads to step ${this.stepNumber}.`;
  }
}
const KEYS = {
  " ": (player) => player.toggle(),
  ArrowLeft: (player) => player.step(-1), h: (player) => player.step(-1),
  ArrowRight: (player) => player.step(1), l: (player) => player.step(1),
  "[": (player) => player.event(-1), "]": (player) => player.event(1),
  "{": (player) => player.notable(-1), "}": (player) => player.notable(1),
  Home: (player) => player.jump(0), End: (player) => player.jump(Infinity),
  "+": (player) => player.faster(1), "=": (player) => player.faster(1),
  "-": (player) => player.faster(-1),
  ArrowDown: (player) => player.views[0].selectNext(1), j: (player) => player.views[0].selectNext(1),
  ArrowUp: (player) => player.views[0].selectNext(-1), k: (player) => player.views[0].selectNext(-1),
  w: (player) => { player.live.textContent = player.views[0].why.textContent; },
  i: (player) => player.views.forEach((view) => {
    view.blocks.withWords = !view.blocks.withWords;
    view.draw(view.at);
  }),
  Escape: (player) => player.views.forEach((view) => view.select(null)),
};
const base = document.currentScript?.src.replace(/[^/]*$/, "") ?? "";
const registry = (window.minivllmRecordings ??= {});
const players = new Map();
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

async function loadInto(element, names, options = {}) {
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
  for (const target of [element, zone]) {
    target.addEventListener("dragover", (event) => event.preventDefault());
    target.addEventListener("drop", (event) => {
      event.preventDefault();
      open(event.dataTransfer.files);
    });
  }
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
})();
