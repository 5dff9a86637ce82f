"use strict";
// Copy buttons; links without the fields that were left empty; no two steps back for one and the same place.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  if (button.dataset.copyFrom) await script(document.getElementById(button.dataset.copy));
  const text = document.getElementById(button.dataset.copy).textContent;
  const said = button.dataset.said ?? button.textContent;
  button.dataset.said = said;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = said; }, 1500);
});

// The training script: fetched when its preview is opened or it is copied for the first time.
const script = async (to) => {
  const from = document.querySelector(`[data-copy="${to.id}"][data-copy-from]`).dataset.copyFrom;
  to.textContent ||= await (await fetch(from)).text();
};
document.addEventListener("toggle", ({ target }) => {
  const shown = target.querySelector?.("[data-load]");
  if (shown && target.open) script(document.getElementById(shown.dataset.load));
}, true);

document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

// A fact that is corrected: its field in the form, filled in, with the question opened.
document.addEventListener("click", ({ target }) => {
  const fact = target.closest("[data-fill]");
  const field = fact && document.querySelector(fact.getAttribute("href"));
  if (!field) return;
  for (let box = field.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  if (fact.dataset.over !== undefined || !field.value) field.value = fact.dataset.fill;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  if (field.name === "n_train") document.getElementById("f-size").value = ""; // the number says it
  field.focus();
  field.select?.();
});

// On a phone a table is a list of its rows: each cell is named by the head of its column.
const named = () => {
  for (const table of document.querySelectorAll(":is(.grid, .stack):not([data-named])")) {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, n) => { if (cell.tagName === "TD") cell.dataset.name ??= heads[n]; });
    table.dataset.named = "";
  }
};
document.addEventListener("htmx:afterSettle", named);
named();

// "/" goes to the search, Ctrl+K or ⌘K to the palette, "?" shows the keys.
const palette = document.getElementById("palette");
document.addEventListener("keydown", (event) => {
  const writing = event.target.closest("input, textarea, select, [contenteditable]");
  const key = event.key === "k" && (event.ctrlKey || event.metaKey) ? "palette" : writing ? "" : event.key;
  if (!["palette", "/", "?"].includes(key)) return;
  event.preventDefault();
  if (key === "/") document.getElementById("find").select();
  if (key === "?") document.getElementById("keys-help").togglePopover();
  if (key !== "palette") return;
  if (palette.open) { palette.close(); return; }
  palette.showModal();
  const query = document.getElementById("palette-q");
  query.select();
  query.dispatchEvent(new Event("opened"));
});
palette.addEventListener("click", ({ target }) => { if (target === palette || target.closest("a")) palette.close(); });

// Arrow keys walk through what a search found, Enter takes the first in the palette, Escape leaves.
document.addEventListener("keydown", (event) => {
  const search = event.target.closest(".find");
  if (!search) return;
  const stops = [search.querySelector("[type=search]"), ...search.querySelectorAll("[aria-live] a")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Escape") event.target.blur();
  if (event.key === "Enter" && event.target === stops[0] && stops[1] && palette.contains(search)) {
    event.preventDefault();
    stops[1].click();
  }
  if (!step || stops.length < 2) return;
  event.preventDefault();
  stops[(stops.indexOf(event.target) + step + stops.length) % stops.length].focus();
});

// Views that the reader keeps: their names and addresses stay in this browser.
const views = document.querySelector("[data-views]");
if (views) {
  const keep = views.querySelector("[data-keep-view]");
  const read = () => { try { return JSON.parse(localStorage.getItem("views")) ?? []; } catch { return []; } };
  const write = (all) => { try { localStorage.setItem("views", JSON.stringify(all)); } catch { /* private mode */ } draw(); };
  const draw = () => {
    for (const old of views.querySelectorAll(".kept")) old.remove();
    for (const [name, query] of read()) {
      const box = Object.assign(document.createElement("span"), { className: "kept" });
      const link = Object.assign(document.createElement("a"), { textContent: name, href: location.pathname + query });
      const drop = Object.assign(document.createElement("button"), { type: "button", textContent: "✕", ariaLabel: `Forget ${name}` });
      drop.onclick = () => write(read().filter(([other]) => other !== name));
      box.append(link, " ", drop);
      keep.before(box, " ");
    }
  };
  keep.hidden = false;
  keep.onclick = () => {
    const said = [...new URLSearchParams(location.search)].map(([field, value]) => field === "sort" ? "" : value);
    const name = prompt("Name of this view", said.filter(Boolean).join(", ") || "All runs")?.trim();
    if (name) write([...read().filter(([other]) => other !== name), [name, location.search]]);
  };
  draw();
}

// A field that was changed and the button that was then pressed ask for the same rows.
document.addEventListener("htmx:beforeHistoryUpdate", ({ detail: { history: step } }) => {
  if (step.type === "push" && step.path === location.pathname + location.search) step.type = "replace";
});

// What looks again by itself ([data-live]) takes nothing from whoever reads it: what is open stays open, what is
// scrolled stays there, the focus too; a window out of sight asks for nothing.
const kept = (box) => [...box.querySelectorAll("details[id], .scroll[id]")];
document.addEventListener("htmx:beforeRequest", (event) => {
  const box = event.target;
  if (box.dataset.live === undefined) return;
  if (document.hidden || box.querySelector(":popover-open, input:checked")) event.preventDefault();
});
document.addEventListener("htmx:beforeSwap", ({ detail: { target } }) => {
  if (target.dataset.live === undefined) return;
  const was = kept(target).map(({ id, open, scrollLeft, scrollTop }) => ({ id, open, scrollLeft, scrollTop }));
  const at = target.contains(document.activeElement) ? document.activeElement : null;
  const href = at && !at.id ? at.getAttribute("href") : null;
  document.addEventListener("htmx:afterSwap", () => {
    for (const { id, open, scrollLeft, scrollTop } of was) {
      const now = document.getElementById(id);
      if (!now) continue;
      if (open !== undefined) now.open = open;
      now.scrollLeft = scrollLeft;
      now.scrollTop = scrollTop;
    }
    const links = href === null ? [] : [...document.getElementById(target.id).querySelectorAll("a")];
    links.find((link) => link.getAttribute("href") === href)?.focus({ preventScroll: true });
  }, { once: true });
});

// On a phone the strip of tabs is wider than the window: the one that is read stays in sight.
const reached = () => {
  const tab = document.getElementById(location.hash.slice(1))?.closest(".tab");
  const entry = tab && document.querySelector(`.tabs a[href="#${tab.id}"]`)?.parentElement, strip = entry?.parentElement;
  if (strip) strip.scrollLeft += entry.getBoundingClientRect().left - strip.getBoundingClientRect().left - (strip.clientWidth - entry.clientWidth) / 2;
};
addEventListener("hashchange", reached);
document.addEventListener("DOMContentLoaded", reached);
