"use strict";
// Copy buttons; links without the fields that were left empty; no two steps back for one and the same place.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
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

document.addEventListener("formdata", (event) => {
  if (event.target.method !== "get") return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

// A field that was changed and the button that was then pressed ask for the same rows.
document.addEventListener("htmx:beforeHistoryUpdate", ({ detail: { history: step } }) => {
  if (step.type === "push" && step.path === location.pathname + location.search) step.type = "replace";
});
