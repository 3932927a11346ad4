import { become, h, hueStyle, node, setText } from "./dom.js";
import { number, plural } from "./text.js";
import { contentsOf, word } from "./words.js";

// The block map: one card per block, with its owner's letter and colour and how full it is.
// A cell is drawn again only if what it shows has changed.

const SIGNS = {
  hit: "●", copied_from: "→", copied_to: "←", evicted: "×", stored: "↓", rescued: "≡", loading: "↑",
};
const SIGN_WORDS = {
  hit: "found in the prefix cache", copied_from: "copied from", copied_to: "copied to",
  evicted: "evicted", stored: "saved in the host's memory",
  rescued: "evicted, and the host has it", loading: "being loaded",
};
const MOST_CARDS = 128;
const FEWEST = 64; // that are drawn, used or not
const KEY = "letter: the owner; digit: the number of owners; hatched: free, still cached."
  + " ● found in the cache, × evicted, → ← copied.";
const HOST_KEY = " With a second memory: ↓ saved there, ≡ evicted but saved, ↑ being loaded.";

export class Blocks {
  constructor() {
    this.grid = h("div", { class: "p-blocks", tabindex: 0, role: "group", "aria-label": "KV cache blocks" });
    this.title = h("div", { class: "p-title" });
    this.toggle = h("button", { class: "p-small", type: "button", "data-do": "words" }, "words");
    this.element = h("section", { class: "p-panel p-panel-blocks" },
      h("div", { class: "p-row" }, this.title, this.toggle), this.grid,
      (this.rest = h("div", { class: "p-muted" })), (this.key = h("div", { class: "p-key" }, KEY)));
    this.cells = [];
    this.withWords = false;
  }

  // numUsed: the blocks of this recording that are used at any time
  draw(moment, numUsed, chosenBlock, chosenSequence) {
    const { fold } = moment, all = fold.blocks.length;
    const count = all > MOST_CARDS ? Math.min(all, Math.max(numUsed, FEWEST)) : all;
    setText(this.title, `KV blocks  ${number(fold.numUsed)} of ${number(all)} in use`);
    setText(this.rest, count < all ? `+ ${plural(all - count, "block")} never used` : "");
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
    setText(this.key, fold.hostBlocks.length ? KEY + HOST_KEY : KEY);
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
      look.isTouched, look.count, entry ?? Boolean(chosenSequence), id === chosenBlock, this.withWords && look.stamp,
    ].join();
    become(cell, key, () => node("button", {
      class: `p-block p-${look.state}${look.isTouched ? " p-touched" : ""}`
        + `${id === chosenBlock || entry !== undefined ? " p-chosen" : ""}`
        + `${chosenSequence && entry === undefined ? " p-dim" : ""}`,
      style: `${look.style};--fill:${look.fill}`, "aria-label": look.label,
    },
    node("span", { class: "p-id" }, String(id)),
    node("span", { class: "p-mark" }, entry !== undefined ? `#${entry}` : look.mark),
    look.sign ? node("b", {
      key: "sign", class: `p-sign p-sign-${look.sign} p-age${look.signAge}`,
    }, SIGNS[look.sign]) : null,
    this.withWords ? node("span", { key: "words", class: "p-words" }, ...wordsIn(moment, id, owners))
      : null));
  }
}

function lookOf(moment, id, owners) {
  const { fold, header, ages } = moment, block = fold.blocks[id], size = header.block_size;
  const isLoading = [...fold.loads.values()].some((load) => load.block_ids.includes(id));
  const known = ages.beat(id), isNew = known?.age === 0;
  const beat = isLoading && !isNew ? { kind: "loading", age: 0 } : known;
  const look = {
    state: "free", letter: "", hue: null, fill: 0, mark: "", style: "", count: block.ref_cnt,
    sign: beat?.kind ?? "", signAge: beat?.age ?? "", isTouched: ages.changed.has(id), stamp: "",
    label: `block ${id}, empty`,
  };
  if (owners.length) {
    const written = moment.numWritten(id, owners), [seqId] = owners[0];
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
    const isKept = block.ref_cnt > 0; // no sequence has it: it is leased
    look.state = isKept ? "held" : "cached";
    look.letter = look.mark = letter ?? "·";
    look.hue = moment.letters.hue(letter);
    look.fill = 1;
    look.style = hueStyle(look.hue);
    look.stamp = block.hash;
    look.label = `block ${id}, ${isKept ? "kept for another engine" : "free, still cached"}`;
  }
  if (look.sign) look.label += `, ${SIGN_WORDS[look.sign]}`;
  return look;
}

// Up to four owners as stripes of their colours.
function stripes(moment, owners) {
  const hues = [...new Set(owners.map(([one]) => moment.hueOf(one)))].slice(0, 4);
  const colour = (hue) => (hue === null ? "var(--cached)" : `var(--hue${hue})`);
  const width = 100 / hues.length;
  const stops = hues.map((hue, at) =>
    `${colour(hue)} ${(at * width).toFixed(0)}% ${((at + 1) * width).toFixed(0)}%`);
  return `linear-gradient(90deg,${stops.join(",")})`;
}

export function wordsIn(moment, id, owners) {
  const held = contentsOf(moment, id, owners);
  const spans = held.ids.map((tokenId, at) => node("span", {
    class: `${at < held.numPrompt ? "p-in" : "p-out"}${held.isNew(at) ? " p-new" : ""}`,
  }, word(moment.fold, tokenId)));
  const missing = owners.length ? moment.header.block_size - held.ids.length : 0;
  if (missing > 0) spans.push(node("span", { class: "p-faint" }, " ╴".repeat(missing)));
  return spans;
}
