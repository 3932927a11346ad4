// The search index is the largest file of the site. Over http the theme requests it with every page; this holds the
// request back until the search is opened. From disk the theme waits by itself, unless it has `search.highlight`.
(() => {
  const opened = new Promise((resolve) => {
    document.addEventListener("change", ({ target }) => target.id === "__search" && resolve());
  });
  const { open, send } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (method, url, ...rest) {
    this.waitsForSearch = String(url).endsWith("search/search_index.json");
    open.call(this, method, url, ...rest);
  };
  XMLHttpRequest.prototype.send = function (body) {
    if (this.waitsForSearch) opened.then(() => send.call(this, body));
    else send.call(this, body);
  };
})();
