import { h } from "./dom.js";

// `Editor`: a plain text area with line numbers, that can show one line as wrong.

export class Editor {
  constructor(label, rows) {
    this.numbers = h("div", { class: "pg-numbers", "aria-hidden": "true" });
    this.area = h("textarea", {
      rows, spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off",
      "aria-label": label,
      oninput: () => this.count(),
      onscroll: () => { this.numbers.scrollTop = this.area.scrollTop; },
      onkeydown: (event) => this.pressed(event),
    });
    this.element = h("div", { class: "pg-editor" }, this.numbers, this.area);
    this.count();
  }

  get text() { return this.area.value; }

  set text(text) {
    this.area.value = text;
    this.area.scrollTop = 0;
    this.count();
  }

  count() {
    this.wrong = null;
    this.draw();
  }

  draw() {
    const total = this.area.value.split("\n").length;
    this.numbers.replaceChildren(...Array.from({ length: total }, (_, at) =>
      h("div", { class: at + 1 === this.wrong ? "pg-wrong" : "" }, `${at + 1}`)));
    this.numbers.scrollTop = this.area.scrollTop;
  }

  // Marks a line; null marks none.
  mark(line) {
    this.wrong = line;
    this.draw();
    if (line !== null) this.scrollTo(line);
  }

  scrollTo(line) {
    const height = this.area.scrollHeight / Math.max(this.area.value.split("\n").length, 1);
    this.area.scrollTop = Math.max((line - 4) * height, 0);
  }

  // A new line begins below the one above. Tab leaves the editor, as the keyboard needs it.
  pressed(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing) return;
    const { value, selectionStart } = this.area;
    const before = value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
    const margin = /^ */.exec(before)[0] + (before.trimEnd().endsWith(":") ? "    " : "");
    event.preventDefault();
    this.area.setRangeText(`\n${margin}`, selectionStart, this.area.selectionEnd, "end");
    this.count();
  }
}
