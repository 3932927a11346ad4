import { h, option } from "./dom.js";
import { Editor } from "./editor.js";

// `ExerciseDesk`: an exercise's file, and the checker's report. What is written stays in this
// browser's storage, for each exercise.

const PATIENCE = 90;
const KEPT = "minivllm.exercise.";

export class ExerciseDesk {
  constructor() {
    this.choice = h("select", { id: "pg-exercise", onchange: () => this.choose(), disabled: true }, option("", "Choose one"));
    this.editor = new Editor("The exercise's file", 24);
    this.editor.area.addEventListener("input", () => this.keep());
    this.checking = h("button", { type: "button", class: "md-button md-button--primary", onclick: () => this.check() }, "Check");
    this.again = h("button", { type: "button", class: "md-button", onclick: () => this.choose(true) }, "Start again");
    this.next = h("button", { type: "button", class: "md-button", onclick: () => this.toTodo() }, "Next part");
    this.hint = h("button", { type: "button", class: "md-button", onclick: () => this.showHint() }, "Hint");
    this.report = h("div", { class: "pg-report", role: "status" });
    this.stage = h("div", { class: "player" });
    this.work = h("div", { hidden: true }, this.stage, this.editor.element,
      h("p", { class: "pg-run" }, this.checking, this.next, this.hint, this.again), this.report);
    this.element = h("div", {},
      h("label", { class: "pg-wide" }, h("span", { class: "pg-label" }, "Exercise"), this.choice), this.work);
  }

  async connect(python) {
    this.python = python;
    const exercises = await python.ask("exercises", undefined, 30);
    const parts = Map.groupBy(exercises, ({ title, level }) =>
      (title.startsWith("Find the bug") ? "Find the bug" : level === "core" ? "Core" : "More"));
    for (const label of ["Core", "Find the bug", "More"]) {
      this.choice.append(h("optgroup", { label }, parts.get(label).map(({ name, title }) => option(name, title))));
    }
    this.choice.disabled = false;
  }

  async choose(anew = false) {
    const name = this.choice.value;
    this.work.hidden = name === "";
    this.report.replaceChildren();
    if (name === "") return;
    if (anew === true) localStorage.removeItem(KEPT + name);
    this.start = await this.python.ask("exercise_text", name, 30);
    this.editor.text = localStorage.getItem(KEPT + name) ?? this.start.text;
    this.shown = 0;
    this.editor.mark(null);
    this.play(this.start.recording);
    this.toTodo();
  }

  // "Find the bug" begins with a recording of an engine that has one.
  play(recording) {
    this.player?.destroy();
    this.player = recording && window.mountPlayer
      ? window.mountPlayer(this.stage, { recordings: [recording], names: ["an engine with a bug"], step: 1 })
      : null;
    if (!this.player) this.stage.replaceChildren();
    this.next.hidden = recording !== null;
  }

  keep() {
    localStorage.setItem(KEPT + this.choice.value, this.editor.text);
  }

  // The next place to write at, after the cursor; from the end, the first again.
  toTodo() {
    const { area, text } = this.editor;
    const at = text.indexOf("# TODO", area.selectionStart + 1);
    const place = at < 0 ? text.indexOf("# TODO") : at;
    if (place < 0) return;
    area.setSelectionRange(place, place);
    this.editor.scrollTo(text.slice(0, place).split("\n").length);
  }

  showHint() {
    const hints = this.start.hints;
    this.report.append(h("p", {}, `Hint ${this.shown + 1} of ${hints.length}: ${hints[this.shown]}`));
    this.shown = (this.shown + 1) % hints.length;
  }

  async check() {
    this.checking.disabled = true;
    this.report.replaceChildren(h("p", {}, "Checking …"));
    const question = JSON.stringify({ name: this.choice.value, text: this.editor.text });
    try {
      this.show(await this.python.ask("check_text", question, PATIENCE));
    } catch (error) {
      this.report.replaceChildren(h("p", { class: "pg-trouble" }, `${error.message}.`));
    }
    this.checking.disabled = false;
  }

  show(found) {
    if (found.error) {
      this.report.replaceChildren(h("p", { class: "pg-trouble" }, found.error));
      return;
    }
    const line = (passed, text) => h("li", { class: passed ? "pg-ok" : "pg-fail" }, `${passed ? "ok" : "FAIL"}  ${text}`);
    const rest = found.passed ? [h("p", {}, this.start.recording ? "Passed: this is the first step that breaks a rule." : "Passed: your code does what the engine's does.")]
      : [found.failure.length ? h("pre", {}, h("code", { tabindex: 0 }, found.failure.join("\n"))) : null,
        found.untouched ? h("p", {}, "Nothing is written yet, so all of this is expected.")
          : found.hint ? h("p", {}, `Hint: ${found.hint}`) : null];
    this.report.replaceChildren(
      h("p", {}, `${found.score} of ${found.max_score} checks passed in ${found.seconds.toFixed(1)} s.`),
      h("ul", {}, found.behaviours.map(({ name, passed }) => line(passed, name))),
      ...rest.filter((one) => one !== null));
  }
}
