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
  onComplete: () => { // headings in order, everything within a region
    for (const head of document.querySelectorAll("h3.opblock-tag, .swagger-ui h4")) head.setAttribute("aria-level", "2");
    for (const [name, value] of [["role", "region"], ["aria-label", "About"]])
      document.querySelector(".information-container").setAttribute(name, value);
  },
});
