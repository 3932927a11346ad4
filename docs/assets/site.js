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
