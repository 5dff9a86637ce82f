"use strict";
// Runs in the head, before anything is drawn: a reader who chose light or dark never sees the other one flash.
(() => {
  const root = document.documentElement;
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const keep = (name) => { try { name ? localStorage.setItem("theme", name) : localStorage.removeItem("theme"); } catch { /* private mode */ } };
  const apply = (name) => {
    if (name === "light" || name === "dark") root.dataset.theme = name; else delete root.dataset.theme;
    for (const button of document.querySelectorAll("[data-theme-switch]"))
      button.setAttribute("aria-label", `Colours: ${name || "as the system has them"}`);
    document.dispatchEvent(new CustomEvent("themechange"));
  };
  apply(kept());
  document.addEventListener("DOMContentLoaded", () => apply(kept()));
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-theme-switch]")) return;
    const next = { light: "dark", dark: null }[root.dataset.theme ?? ""];
    const name = next === undefined ? "light" : next;
    keep(name);
    apply(name);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new CustomEvent("themechange")));
})();
