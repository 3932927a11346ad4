import { h, option } from "./dom.js";

// `OptionsForm`: the engine's options, under vLLM's names. Each shows the original's value.

const FIELDS = [
  { name: "scheduling_policy", label: "Policy", choices: ["fcfs", "priority"] },
  { name: "batching", label: "Batching", choices: ["continuous", "static", "sequential"] },
  { name: "kv_cache_allocator", label: "Memory", choices: ["paged", "contiguous"] },
  { name: "max_num_batched_tokens", label: "Token budget of a step" },
  { name: "max_num_seqs", label: "Sequences at once" },
  { name: "num_gpu_blocks_override", label: "Number of blocks" },
  { name: "block_size", label: "Block size, in tokens" },
  { name: "enable_chunked_prefill", label: "Chunked prefill", yes: true },
  { name: "enable_prefix_caching", label: "Prefix caching", yes: true },
];

export class OptionsForm {
  constructor() {
    this.inputs = new Map();
    this.notes = new Map();
    this.element = h("div", { class: "pg-options" }, FIELDS.map((field) => this.field(field)));
  }

  field({ name, label, choices, yes }) {
    const input = choices ? h("select", {}, choices.map((one) => option(one, one)))
      : h("input", yes ? { type: "checkbox" } : { type: "number", min: 1, inputmode: "numeric" });
    input.addEventListener("input", () => this.mark());
    const note = h("span", { class: "pg-was" });
    this.inputs.set(name, input);
    this.notes.set(name, note);
    return h("label", { class: yes ? "pg-yes" : "" }, h("span", { class: "pg-label" }, label),
      input, h("code", {}, name), note);
  }

  // The options of the recording; yours begin as these.
  show(original) {
    this.original = original;
    for (const [name, input] of this.inputs) {
      if (input.type === "checkbox") input.checked = original[name];
      else input.value = original[name];
    }
    this.mark();
  }

  set(values) {
    for (const [name, value] of Object.entries(values)) this.inputs.get(name).value = value;
    this.mark();
  }

  mark() {
    const changed = this.changed();
    for (const [name, note] of this.notes) {
      const was = this.original[name];
      note.textContent = name in changed ? `was ${was === true ? "on" : was === false ? "off" : was}` : "";
    }
  }

  value(name) {
    const input = this.inputs.get(name);
    if (input.type === "checkbox") return input.checked;
    return input.type === "number" ? Number(input.value) : input.value;
  }

  // The options that differ from the original's.
  changed() {
    const values = [...this.inputs.keys()].map((name) => [name, this.value(name)]);
    return Object.fromEntries(values.filter(([name, value]) => value !== this.original[name]));
  }
}
