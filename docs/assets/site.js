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

// A link to a place in a page that has moved arrives as #place-of-the-page#place-in-it. Open the second if the page still
// has it, or else the first. `MOVED` names headings that are called differently now.
const MOVED = { "go-on": "read-on", "write-it-yourself": "exercises" };

function openOldPlace() {
  const names = location.hash.split("#").slice(1).reverse();
  if (names.length === 1 && document.getElementById(names[0])) return;
  const place = names.flatMap((name) => [name, MOVED[name]]).find((name) => name && document.getElementById(name));
  if (place) location.replace(`#${place}`);
}
openOldPlace();
