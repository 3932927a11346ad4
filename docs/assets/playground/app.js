import { h, option } from "./dom.js";
import { Editor } from "./editor.js";
import { ExerciseDesk } from "./exercises.js";
import { OptionsForm } from "./options.js";
import { Python } from "./python.js";
import { Results } from "./results.js";
import { TRIES } from "./tries.js";

// The playground: the page's parts, and what happens when one presses Run.

const OWN = "own";
const OWN_ARRIVALS = `arrival,prompt_tokens,output_tokens,prefix_group,prefix_tokens,priority
0.0,120,40,,,1
0.0,120,40,,,1
0.1,200,30,manual,96,0
0.4,220,30,manual,96,0
`;
const UNCHANGED = "";
const PATIENCE = 40; // seconds; Python stops a loop in the method itself after 10
const FIRST = "FCFSRequestQueue.choose_victim";

export async function start(place, base) {
  const answer = await fetch(`${base}traces.json`);
  const playground = new Playground(await answer.json());
  place.replaceChildren(playground.element);
  await playground.connect(base);
}

class Playground {
  constructor(traces) {
    this.traces = traces;
    this.options = new OptionsForm();
    this.results = new Results();
    this.status = h("p", { class: "pg-status", role: "status" });
    this.trouble = h("p", { class: "pg-trouble", role: "alert", hidden: true });
    this.trace = h("select", { id: "pg-trace", onchange: () => this.chooseTrace() },
      traces.map(({ name, title }) => option(name, title)), option(OWN, "Your own arrivals"));
    this.arrivals = h("textarea", { rows: 6, wrap: "off", "aria-label": "Arrivals, one line for each request" });
    this.arrivals.value = OWN_ARRIVALS;
    this.method = h("select", { id: "pg-method", onchange: () => this.chooseMethod(), disabled: true },
      option(UNCHANGED, "None: the engine's own code"));
    this.editor = new Editor("The method's code", 12);
    this.reset = h("button", { type: "button", class: "md-button", onclick: () => this.chooseMethod() }, "Undo all changes");
    this.run = h("button", { type: "button", class: "md-button md-button--primary", onclick: () => this.play(), disabled: true }, "Run both");
    this.both = h("input", { type: "checkbox", id: "pg-both" });
    this.tries = TRIES.map((one) => h("button", { type: "button", class: "md-button", disabled: true, onclick: () => this.tryOut(one) }, one.title));
    this.code = h("div", { hidden: true }, this.editor.element, this.reset);
    this.desk = new ExerciseDesk();
    this.element = this.page();
    this.fill(TRIES[0]);
  }

  page() {
    const part = (title, ...parts) => h("section", {}, h("h2", {}, title), ...parts);
    return h("div", {
      class: "pg",
      onkeydown: (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !this.desk.element.contains(event.target)) this.play();
      },
    },
    part("Three things to try", h("p", { class: "pg-run" }, this.tries)),
    part("The requests", h("label", { class: "pg-wide" }, h("span", { class: "pg-label" }, "Trace"), this.trace), this.arrivals),
    part("The options", this.options.element,
      h("p", {}, h("label", {}, this.both, " The original gets my options: compare only the code"))),
    part("The code", h("label", { class: "pg-wide" }, h("span", { class: "pg-label" }, "Method to change"), this.method), this.code),
    h("p", { class: "pg-run pg-bar" }, this.run, this.status), this.trouble, this.results.element,
    part("Exercises", this.desk.element));
  }

  async connect(base) {
    this.python = new Python(base, (sentence, loading) => {
      this.status.textContent = loading ? "" : sentence;
      this.run.textContent = loading ? sentence : "Run both";
    });
    try {
      this.methods = await this.python.ask("methods", undefined, 30);
      await this.desk.connect(this.python);
    } catch (error) {
      this.complain(error.message);
      return;
    }
    const modules = Map.groupBy(this.methods, ({ module }) => module);
    for (const [module, methods] of modules) {
      this.method.append(h("optgroup", { label: module }, methods.map(({ name }) => option(`${module}:${name}`, name))));
    }
    for (const control of [this.method, this.run, ...this.tries]) control.disabled = false;
    this.chooseFirstMethod();
  }

  get chosen() { return this.methods.find(({ module, name }) => `${module}:${name}` === this.method.value); }

  // Before Python is ready there are no methods to change, and the first thing to try changes none.
  fill({ trace, options, both = false, replace = null }) {
    this.trace.value = trace;
    this.chooseTrace();
    this.options.set(options);
    this.both.checked = both;
    if (this.methods) this.chooseFirstMethod();
    if (replace) this.editor.text = this.editor.text.replace(...replace);
  }

  async tryOut(one) {
    if (this.run.disabled) return;
    this.fill(one);
    await this.play();
    this.results.element.scrollIntoView();
  }

  chooseFirstMethod() {
    const first = this.methods.find(({ name }) => name === FIRST);
    this.method.value = `${first.module}:${first.name}`;
    this.chooseMethod();
  }

  // Own arrivals begin with the options and step times of the first trace.
  chooseTrace() {
    this.now = this.traces.find(({ name }) => name === this.trace.value) ?? this.traces[0];
    this.arrivals.hidden = this.trace.value !== OWN;
    this.options.show(this.now.options);
  }

  chooseMethod() {
    const method = this.chosen;
    this.code.hidden = method === undefined;
    if (method) this.editor.text = method.source;
  }

  question() {
    const method = this.chosen;
    const edited = method && this.editor.text !== method.source;
    return {
      run: this.now.run,
      arrivals: this.trace.value === OWN ? this.arrivals.value : null,
      options: this.options.changed(),
      options_for_both: this.both.checked,
      edit: edited ? { module: method.module, name: method.name, text: this.editor.text } : null,
    };
  }

  async play() {
    if (this.run.disabled) return;
    this.run.disabled = true;
    this.complain("");
    this.editor.mark(null);
    this.status.textContent = "Running …";
    const began = performance.now();
    try {
      const sides = await this.python.ask("play_text", JSON.stringify(this.question()), PATIENCE);
      this.status.textContent = `Both runs took ${((performance.now() - began) / 1000).toFixed(1)} s.`;
      this.show(sides);
    } catch (error) {
      this.complain(`${error.message}.`);
    }
    this.run.disabled = false;
  }

  show(sides) {
    const { original, yours } = sides;
    const error = yours.error ?? original.error;
    if (error) this.complain(error);
    if (yours.line) this.editor.mark(yours.line);
    if (original.error) return;
    this.results.show(sides);
  }

  complain(sentence) {
    this.trouble.textContent = sentence;
    this.trouble.hidden = sentence === "";
  }
}
