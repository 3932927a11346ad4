import { h, hueStyle, node, redraw, setText } from "./dom.js";
import { idRanges, number, plural, shortName } from "./text.js";

// The second memory: its blocks, and the copies between it and the KV cache. The counterpart of
// tui/widgets/blocks/hostmap.py; hidden in a run with one memory.

const HOST_LEGEND = "full: only here, rescued from an eviction; hatched: in both; ↓ saved by this step, ↑ read.";
const SAME_RAM = " On a CPU both memories are the same RAM; only the virtual clock models the time of a copy.";

export class Host {
  constructor() {
    this.grid = h("div", { class: "p-blocks", tabindex: 0, role: "group", "aria-label": "Host memory blocks" });
    this.element = h("section", { class: "p-panel p-panel-host" }, (this.title = h("div", { class: "p-title" })),
      (this.copies = h("div", { class: "p-copies" })), this.grid, (this.key = h("div", { class: "p-key" })));
  }

  draw(moment, chosen) {
    const { hostBlocks, loads } = moment.fold, { stores } = moment.ages;
    this.element.hidden = !hostBlocks.length;
    if (!hostBlocks.length) return;
    const numHeld = hostBlocks.reduce((sum, block) => sum + (block.hash !== null), 0);
    setText(this.title, `Host memory  copies in ${number(numHeld)} of ${plural(hostBlocks.length, "block")}`);
    const saved = stores.size ? `${idRanges([...stores.values()])} → ${idRanges([...stores.keys()])}` : "none";
    const read = [...loads].filter(([, load]) => load.source === "host")
      .map(([id, load]) => `${shortName(id)} ${idRanges(load.host_blocks)} → ${idRanges(load.block_ids)}`);
    setText(this.copies, `↓ saves ${saved}\n↑ loads ${read.join(", ") || "none"}`);
    setText(this.key, HOST_LEGEND + (moment.header.config?.device !== "cuda" ? SAME_RAM : ""));
    this.grid.classList.toggle("p-tiny", hostBlocks.length > 512);
    const cached = new Set(moment.fold.blocks.map((block) => block.hash));
    const looks = hostBlocks.map((block, id) => {
      const owner = moment.ages.hostOwners.get(block.hash) ?? null;
      const state = block.hash === null ? "free" : cached.has(block.hash) ? "cached" : "held";
      const sign = block.ref_cnt ? "loading" : stores.has(id) && block.hash !== null ? "stored" : "";
      return [state, moment.letter(owner) ?? "", moment.hueOf(owner), sign];
    });
    redraw(this.grid, `${looks.join(" ")} ${chosen}`, () => looks.map(([state, letter, hue, sign], id) =>
      node("button", {
        key: id, class: `p-block p-${state}${id === chosen ? " p-chosen" : ""}`, type: "button",
        tabindex: -1, "data-host": id, style: `${hueStyle(hue)};--fill:${state === "free" ? 0 : 1}`,
        "aria-label": `the host's block ${id}, ${{ free: "empty", cached: "in both memories", held: "only here" }[state]}`,
      },
      node("span", { class: "p-id" }, String(id)), node("span", { class: "p-mark" }, letter),
      sign ? node("b", { key: "sign", class: `p-sign p-sign-${sign}` }, sign === "loading" ? "↑" : "↓") : null)));
  }
}
