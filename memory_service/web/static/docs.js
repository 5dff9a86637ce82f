"use strict";
// The theme of the pages, as the library's style sheet has it.
const dark = matchMedia("(prefers-color-scheme: dark)");
const scheme = () => {
  const { theme } = document.documentElement.dataset;
  document.documentElement.classList.toggle("dark-mode", theme ? theme === "dark" : dark.matches);
};
document.addEventListener("themechange", scheme);
scheme();

window.ui = SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#description",
  deepLinking: false, // an address in each button: keyboards and readers stumble over it
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  onComplete: () => document.querySelectorAll("h3.opblock-tag").forEach((head) => head.setAttribute("aria-level", "2")),
});
