import { Ages } from "./ages.js";
import { Fold } from "./fold.js";
import { Letters } from "./letters.js";
import { NOTABLE, PASSED_REASONS } from "./labels.js";

// `Moment`: everything that the page draws of one moment. `Track`: a recording, at any moment.
// A track keeps a copy of its moment every few hundred events, so a seek replays only a few.

const SPACING = 200;
const MOST_COPIES = 128;
const ENDS = new Set(["request.finished", "request.aborted", "request.beam_pruned"]);
const ENTERS = new Set(["block.allocated", "block.hit", "request.forked"]);

export class Moment {
  constructor(header, state) {
    this.header = header;
    this.fold = new Fold(header, state);
    this.letters = new Letters();
    this.ages = new Ages(header.num_blocks, this.fold.hostBlocks);
  }

  apply(event) {
    if (this.fold.lostEvents === 0) {
      // A sequence takes its first blocks before the event that admits it.
      if (ENTERS.has(event.ev)) this.letters.assign(event.seq_id);
      else if (ENDS.has(event.ev)) this.letters.release(event.seq_id);
      this.ages.apply(this.fold, event);
    }
    this.fold.apply(event);
  }

  copy() {
    const copy = Object.create(Moment.prototype);
    copy.header = this.header;
    copy.fold = this.fold.copy();
    copy.letters = this.letters.copy();
    copy.ages = this.ages.copy();
    return copy;
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

  // How many slots of a block have a token. With a hash, all: its owner may still wait.
  numWritten(blockId, owners) {
    const size = this.header.block_size, { blocks, sequences } = this.fold;
    if (blocks[blockId].hash !== null) return size;
    const written = owners.map(([seqId, entry]) =>
      sequences.get(seqId).num_computed_tokens - entry * size);
    return Math.min(Math.max(0, ...written), size);
  }

  // Position of the waiting sequence that the scheduler considers.
  considered() {
    const at = this.fold.waiting.findIndex(
      (seqId) => !PASSED_REASONS[this.fold.sequences.get(seqId).deferred?.[0]]);
    return Math.max(at, 0);
  }
}

export class Track {
  // Plays the whole recording once, or up to an event that is impossible after those before it.
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
    // Blocks and slots from here on are never used.
    const { blocks, sequences } = this.moment.fold;
    this.numBlocks = 1 + blocks.findLastIndex((block) => block.ref_cnt > 0 || block.hash !== null);
    this.numSlots = 1 + Math.max(-1, ...[...sequences.values()].map(({ slot }) => slot ?? -1));
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
      this.numBlocks = Math.max(this.numBlocks, 1 + (event.block_id ?? -1));
      this.numSlots = Math.max(this.numSlots, 1 + (event.slot ?? -1));
      if (["block.hashed", "block.evicted", "kv.store"].includes(event.ev)) {
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
      this.ends.at(-1).used = fold.numUsed / (fold.blocks.length - (header.reserved_blocks ?? 0));
    }
    if (!this.ends.length) this.ends.push({ at: 0, step: 0, t: header.mono, used: 0 });
  }

  stopAt(number, event, state) {
    this.impossible = `event ${event.seq}, ${event.ev}, is impossible after the events before it`;
    this.events = this.events.slice(0, number);
    // The moment may have applied a part of the event.
    this.moment = new Moment(this.header, state);
    this.at = 0;
    this.seek(number);
  }

  // The moment after the first `count` events. It changes with the next call.
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

  // The last step that has ended by engine time `t` since the start.
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

  // The events before `at` of the current step and of the `earlier` steps before it.
  eventsOfSteps(at, earlier = 0) {
    let start = at;
    const first = (this.events[at - 1]?.step ?? 0) - earlier;
    while (start > 0 && this.events[start - 1].step >= first) start -= 1;
    return this.events.slice(start, at);
  }
}
