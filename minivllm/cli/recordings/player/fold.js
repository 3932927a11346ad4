// `Fold`: the engine's state, derived from its events alone, as in minivllm/events/fold.py.
// A test plays recordings in both and compares the state after every event.

const COUNTERS = [
  "finished_requests", "aborted_requests", "num_preemptions", "prefix_cache_queries",
  "prefix_cache_hits", "resumed_hit_tokens", "external_prefix_cache_hits", "evicted_blocks",
  "stored_blocks", "lost_blocks", "forked_sequences", "copied_blocks", "prompt_tokens",
  "generation_tokens", "scheduled_tokens",
  "spec_decode_num_drafts", "spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens",
  "invariant_violations",
];
export const HISTORY_LENGTH = 64;

export class Fold {
  // state: the line `log.state` of a recording that begins in the middle of a run
  constructor(header, state = null) {
    this.header = header;
    this.step = state?.step ?? 0;
    this.budget = state?.budget ?? 0;
    this.blocks = state ? state.blocks.map(blockOf)
      : Array.from({ length: header.num_blocks }, () => blockOf({}));
    this.freeQueue = state ? [...state.free_queue] : this.blocks.map((_, id) => id).slice(header.reserved_blocks ?? 0);
    this.waiting = [...(state?.waiting ?? [])];
    this.running = [...(state?.running ?? [])];
    this.requests = new Map(Object.entries(state?.requests ?? {}).map(([id, r]) => [id, requestOf(r)]));
    this.sequences = new Map(Object.entries(state?.sequences ?? {}).map(([id, s]) => [id, sequenceOf(s)]));
    this.scheduled = (state?.scheduled ?? []).map(shareOf);
    this.maxNumSeqs = state?.max_num_seqs ?? header.max_num_seqs;
    this.maxNumBatchedTokens = state?.max_num_batched_tokens ?? header.max_num_batched_tokens;
    this.counters = Object.fromEntries(COUNTERS.map((name) => [name, state?.counters?.[name] ?? 0]));
    // Texts of token ids. Folds of one recording share the map; an earlier fold counts fewer.
    this.pieces = new Map(Object.entries(state?.token_pieces ?? {}).map(([id, text]) => [+id, text]));
    this.numPieces = this.pieces.size;
    this.hostBlocks = state?.host_blocks ? state.host_blocks.map(blockOf)
      : Array.from({ length: header.num_cpu_blocks ?? 0 }, () => blockOf({}));
    this.hostQueue = state?.host_queue ? [...state.host_queue] : this.hostBlocks.map((_, id) => id);
    this.loads = new Map(Object.entries(state?.loads ?? {}));
    this.leases = new Map(Object.entries(state?.leases ?? {}));
    this.history = [];
    this.lostEvents = 0;
    this.t = header.mono;
  }

  apply(event) {
    if (this.lostEvents === 0) APPLY[event.ev]?.(this, event);
    this.t = event.t;
  }

  copy() {
    const copy = Object.assign(Object.create(Fold.prototype), this);
    copy.blocks = this.blocks.map((block) => ({ ...block }));
    copy.hostBlocks = this.hostBlocks.map((block) => ({ ...block }));
    copy.loads = new Map(this.loads);
    copy.leases = new Map(this.leases);
    copy.requests = new Map();
    for (const [id, one] of this.requests) copy.requests.set(id, { ...one, seq_ids: [...one.seq_ids] });
    copy.sequences = new Map();
    for (const [id, one] of this.sequences) copy.sequences.set(id, copyOfSequence(one));
    copy.scheduled = this.scheduled.map((share) => ({ ...share }));
    copy.counters = { ...this.counters };
    for (const name of ["freeQueue", "hostQueue", "waiting", "running", "history"]) {
      copy[name] = [...this[name]];
    }
    return copy;
  }

  get numUsed() {
    return this.blocks.length - (this.header.reserved_blocks ?? 0) - this.freeQueue.length;
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
  "step.withdrawn"(fold, event) {
    const share = fold.shareOf(event.seq_id);
    remove(fold.scheduled, share);
    fold.counters.scheduled_tokens -= share.num_tokens;
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
  "kv.store"(fold, event) {
    Object.assign(fold.hostBlocks[event.host_block], { hash: event.hash, parent: event.parent });
    remove(fold.hostQueue, event.host_block);
    fold.hostQueue.push(event.host_block);
    fold.counters.stored_blocks += 1;
  },
  "kv.lost"(fold, event) {
    Object.assign(fold.hostBlocks[event.host_block], { hash: null, parent: null });
    fold.counters.lost_blocks += 1;
  },
  "kv.load"(fold, event) {
    const { seq_id, slot, block_ids, host_blocks, source = "host" } = event;
    Object.assign(get(fold.sequences, seq_id), { status: "WAITING_FOR_REMOTE_KVS", slot });
    fold.loads.set(seq_id, { block_ids, host_blocks, source });
    for (const id of host_blocks) {
      if (fold.hostBlocks[id].ref_cnt === 0) remove(fold.hostQueue, id);
      fold.hostBlocks[id].ref_cnt += 1;
    }
  },
  "kv.loaded"(fold, event) {
    fold.counters.external_prefix_cache_hits += event.num_tokens;
    for (const id of [...get(fold.loads, event.seq_id).host_blocks].reverse()) {
      const block = fold.hostBlocks[id];
      block.ref_cnt -= 1;
      if (block.ref_cnt) continue;
      if (block.hash === null) fold.hostQueue.unshift(id);
      else fold.hostQueue.push(id);
    }
    fold.loads.delete(event.seq_id);
  },
  "kv.lease"(fold, event) {
    fold.leases.set(String(event.lease), event.block_ids);
    for (const id of event.block_ids) fold.blocks[id].ref_cnt += 1;
  },
  "kv.released"(fold, event) {
    for (const id of get(fold.leases, String(event.lease))) fold.blocks[id].ref_cnt -= 1;
    fold.leases.delete(String(event.lease));
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

// Kinds that change no state. A kind in neither list was written by a newer engine.
const NO_CHANGE = [
  "step.end", "block.missed", "attention.mass", "attention.tokens", "moe.routed",
  "kernel.traced", "token.explained",
];
export const KNOWN_KINDS = new Set([...Object.keys(APPLY), ...NO_CHANGE]);

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

// The state as one JSON value, with the names and in the order of Python's `EngineState`.
export function stateOf(fold) {
  return {
    step: fold.step, blocks: fold.blocks, free_queue: fold.freeQueue, waiting: fold.waiting,
    running: fold.running, requests: [...fold.requests], sequences: [...fold.sequences],
    budget: fold.budget, scheduled: fold.scheduled, max_num_seqs: fold.maxNumSeqs,
    max_num_batched_tokens: fold.maxNumBatchedTokens, counters: fold.counters,
    token_pieces: [...fold.pieces].slice(0, fold.numPieces),
    host_blocks: fold.hostBlocks, host_queue: fold.hostQueue, loads: Object.fromEntries(fold.loads),
    leases: Object.fromEntries(fold.leases),
  };
}
