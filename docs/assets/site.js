// Two things that the theme leaves out, for whoever reads by ear or by keyboard: the search dialog has a name, and a table
// that is wider than the window can be reached with Tab and scrolled with the arrows, but only while it is.

const search = document.querySelector(".md-search");
if (search) search.setAttribute("aria-label", "Search");

const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

// The theme puts each table into its box when it pleases, and may do it after this script has run.
function watchTables() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) sizes.observe(box);
}
new MutationObserver(watchTables).observe(document.querySelector(".md-content"), { childList: true, subtree: true });
watchTables();

// The questions of a lesson take an answer: a number, or one of the choices. The right answer and the comments on wrong
// ones are in the fold under the question, which opens at the guess. Guesses stay in this browser, and a mark beside a link
// to a page says how many of its questions are answered. Without JavaScript the folds are all there is.

const KEPT = "minivllm.learn";
const pageOf = (address) => address.split(/[?#]/)[0].split("/").at(-1);
const number = (text) => parseFloat(text.replaceAll(",", ""));

function stored(value) {
  try {
    if (value) localStorage.setItem(KEPT, JSON.stringify(value));
    return JSON.parse(localStorage.getItem(KEPT)) ?? {};
  } catch {
    return {}; // a browser may refuse storage; then nothing is remembered
  }
}

function make(tag, attributes, ...children) {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
}

class Question {
  constructor(box, fold, at) {
    const text = box.querySelector(":scope > p:not(.admonition-title)").textContent;
    this.fold = fold;
    this.key = `${at} ${text.slice(0, 60)}`;
    this.right = fold.querySelector(":scope > p > strong:first-child")?.textContent.replace(/\.$/, "") ?? "";
    this.choices = [...box.querySelectorAll(":scope > ol > li")];
    const list = [...fold.querySelectorAll(":scope > p")].find((one) => one.textContent === "If you expected")?.nextElementSibling;
    this.comments = [...(list?.children ?? [])].map((one) => one.textContent.split(/: (.*)/s));
    this.said = make("p", { className: "q-said", role: "status" });
    if (this.choices.length === 0 && Number.isNaN(number(this.right))) return; // an answer in words stays in its fold
    this.controls = this.choices.length ? this.buttons() : [this.field(fold)];
    fold.before(this.said);
  }

  buttons() {
    return this.choices.map((item) => {
      const [text, parts] = [item.textContent.trim(), [...item.childNodes]];
      const button = make("button", { type: "button", className: "q-choice", onclick: () => this.onguess(text) }, ...parts);
      item.append(button);
      return button;
    });
  }

  field(fold) {
    const input = make("input", { inputMode: "decimal", autocomplete: "off", ariaLabel: "Your answer, a number", placeholder: "a number" });
    const button = make("button", { type: "submit" }, "Check");
    const onsubmit = (event) => {
      event.preventDefault();
      if (!Number.isNaN(number(input.value))) this.onguess(input.value.trim());
      else input.focus();
    };
    const inside = make("fieldset", {}, input, " ", button);
    fold.before(make("form", { className: "q-form", onsubmit }, inside));
    return inside;
  }

  verdict(given) {
    const same = (one) => one === given || (this.choices.length === 0 && number(one) === number(given));
    if (same(this.right)) return [true, `Right: ${this.right}.`];
    const comment = this.comments.find(([expected]) => same(expected))?.[1];
    // Measured and large numbers need not be exact.
    const room = /[.,]\d/.test(this.right) ? 0.1 : 0.01;
    const off = Math.abs(number(given) - number(this.right)) / Math.abs(number(this.right));
    if (!comment && this.choices.length === 0 && off <= room) return [true, `Close enough: ${this.right}.`];
    const other = this.comments.find(([expected]) => expected.startsWith("another "))?.[1];
    return [false, `You said ${given}. ${comment ?? other ?? "The engine’s answer is another one."}`];
  }

  show(given) {
    const [right, sentence] = given === undefined ? [null, ""] : this.verdict(given);
    this.said.textContent = sentence;
    this.said.className = `q-said ${right === null ? "" : right ? "q-right" : "q-wrong"}`;
    for (const control of this.controls) control.disabled = given !== undefined;
    return right;
  }
}

const questions = [...document.querySelectorAll(".admonition.question")]
  .map((box, at) => [box, box.querySelector(":scope > details.success"), at])
  .filter(([, fold]) => fold)
  .map((parts) => new Question(...parts))
  .filter((one) => one.controls);
const here = pageOf(location.pathname);
let given = stored()[here]?.given ?? {};

function keep() {
  const kept = stored();
  kept[here] = { given, of: questions.length };
  stored(kept);
  draw();
}

const progress = make("p", { className: "q-progress" });

function draw() {
  const right = questions.map((one) => one.show(given[one.key])).filter((one) => one !== null);
  if (questions.length) {
    const score = right.length ? `, ${right.filter(Boolean).length} right` : "";
    const again = make("button", { type: "button", onclick: () => { given = {}; keep(); } }, "Start again");
    progress.replaceChildren(`${right.length} of ${questions.length} questions answered${score}. `, ...(right.length ? [again] : []));
  }
  const kept = stored();
  for (const link of document.querySelectorAll(".md-nav a.md-nav__link[href], .md-content td:first-child > a[href]")) {
    const page = !link.hash && kept[pageOf(link.href)];
    link.querySelector(".q-mark")?.remove();
    const done = page ? Object.keys(page.given).length : 0;
    if (done) link.append(make("span", { className: "q-mark" }, done < page.of ? ` ${done}/${page.of}` : " ✓"));
  }
}

for (const one of questions) {
  one.onguess = (guess) => {
    given[one.key] = guess;
    one.fold.open = true;
    keep();
  };
}
if (questions.length) document.querySelector("article h1")?.after(progress);
draw();
