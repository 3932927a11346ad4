// What happened to each block: last owner, age, content, and the signs of the newest steps.
// The counterpart of tui/state/block_histories.py.

export const STEPS_OF_BEATS = 3;

export class Ages {
  constructor(numBlocks, hostBlocks = []) {
    this.blocks = new Array(numBlocks).fill(null);
    this.changed = new Set(); // blocks that the current step has touched
    this.beats = []; // for each of the last steps, current first: block -> what happened
    this.lastScheduled = null;
    // Hash of each block in the host's memory -> the sequence that had the block last.
    this.hostOwners = new Map();
    for (const { hash } of hostBlocks) if (hash !== null) this.hostOwners.set(hash, null);
    this.stores = new Map(); // the host's block -> the block that the current step copies into it
  }

  copy() {
    const copy = new Ages(0);
    copy.blocks = this.blocks.map((age) => age && { ...age });
    copy.changed = new Set(this.changed);
    copy.beats = this.beats.map((one) => new Map(one));
    copy.lastScheduled = this.lastScheduled;
    copy.hostOwners = new Map(this.hostOwners);
    copy.stores = new Map(this.stores);
    return copy;
  }

  // fold: before the event
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
    if (event.ev === "block.hashed") return event.seq_id ?? this.lastScheduled;
    if (event.ev === "block.evicted" || event.ev === "kv.store") return this.lastOwner(event.block_id);
    return event.seq_id ?? null;
  }

  // The sign of a block and its age in steps, or null.
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
    ages.stores.clear();
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
    const owner = event.seq_id ?? ages.lastScheduled;
    ages.touch(event.block_id, event.step, owner);
    const sequence = fold.sequences.get(owner), size = fold.header.block_size;
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
    ages.note(event.block_id, ages.hostOwners.has(event.hash) ? "rescued" : "evicted");
  },
  "kv.store"(ages, event) {
    ages.hostOwners.set(event.hash, ages.lastOwner(event.block_id));
    ages.stores.set(event.host_block, event.block_id);
    ages.note(event.block_id, "stored");
  },
  "kv.lost"(ages, event) {
    ages.hostOwners.delete(event.hash);
  },
};
