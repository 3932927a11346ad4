import { shortName } from "./text.js";

// One letter and colour per sequence, the same as on the dashboard (tui/state/letters.py).

const ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const NUM_HUES = 12;
const HUES_FOR_OTHERS = 4;
const MOST_OF_ONE = NUM_HUES / 4;
const NO_LETTER = "*";

export class Letters {
  constructor() {
    this.given = new Map(); // sequence -> letter
    this.holders = new Map(); // letter -> sequence, in the order of giving
    this.hues = new Map(); // letter -> colour, the newest last
    this.live = new Set();
    this.numFree = ALPHABET.length;
  }

  copy() {
    const copy = Object.assign(new Letters(), this);
    for (const name of ["given", "holders", "hues"]) copy[name] = new Map(this[name]);
    copy.live = new Set(this.live);
    return copy;
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

  // A colour that no live sequence has, unused for longest; siblings share when few are left.
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
    // No tie: two colours that are both in use have different ages.
    return (own.length ? own : order).reduce((best, hue) =>
      live[hue] < live[best] || (live[hue] === live[best] && newest[hue] < newest[best]) ? hue : best);
  }
}

function requestOfSequence(seqId) {
  const dot = seqId.lastIndexOf(".");
  return dot < 0 ? "" : seqId.slice(0, dot);
}
