"use strict";
// Draws every [data-chart] that is seen: its option is JSON beside it, its colours are the page's ("var(--series-1)").
// The library is fetched for the first of them.
(() => {
  const drawn = new Map();
  const address = document.currentScript.dataset.library;
  let fetched;
  const library = () => fetched ??= new Promise((done, failed) => {
    document.head.append(Object.assign(document.createElement("script"), { src: address, onload: done, onerror: failed }));
  });
  let probe;

  const colour = (text) => text.replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => {
    probe.style.color = "";
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  const painted = (value) => {
    if (typeof value === "string") return value.includes("var(--") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(painted);
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, painted(item)]));
    return value;
  };

  const theme = () => painted({
    color: [1, 2, 3, 4, 5, 6, 7, 8].map((i) => `var(--series-${i})`),
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: "var(--text)" },
    legend: { textStyle: { color: "var(--text)" }, inactiveColor: "var(--line)", pageTextStyle: { color: "var(--text)" } },
    dataZoom: {
      borderColor: "var(--line)", textStyle: { color: "var(--quiet)" }, handleStyle: { color: "var(--back)", borderColor: "var(--axis)" },
      dataBackground: { lineStyle: { color: "var(--axis)" }, areaStyle: { color: "var(--line)" } },
    },
    ...Object.fromEntries(["valueAxis", "categoryAxis", "logAxis", "timeAxis"].map((axis) => [axis, {
      axisLine: { lineStyle: { color: "var(--axis)" } },
      axisTick: { lineStyle: { color: "var(--axis)" } },
      axisLabel: { color: "var(--quiet)", hideOverlap: true },
      nameTextStyle: { color: "var(--quiet)" },
      splitLine: { lineStyle: { color: "var(--line)" } },
    }])),
  });

  const button = (text, label, act) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: text, title: label, ariaLabel: label });
    made.addEventListener("click", act);
    return made;
  };
  const tools = (box) => {
    const figure = box.closest("figure"), caption = figure?.querySelector("figcaption");
    if (!caption || caption.querySelector(".tools")) return;
    const title = caption.querySelector("b").textContent, tools = Object.assign(document.createElement("span"), { className: "tools" });
    tools.append(
      button("PNG", `${title} as PNG`, () => {
        const picture = drawn.get(box).getDataURL({ pixelRatio: 2, backgroundColor: colour("var(--back)") });
        Object.assign(document.createElement("a"), { href: picture, download: `${title}.png` }).click();
      }),
      button("Enlarge", `Enlarge ${title}`, () => document.fullscreenElement ? document.exitFullscreen() : figure.requestFullscreen()),
    );
    caption.append(" ", tools);
  };

  const draw = async (box) => {
    const source = document.getElementById(box.dataset.chart);
    if (!source) return;
    drawn.get(box)?.dispose();
    drawn.delete(box);
    if (!box.clientWidth) { // in a tab that is not shown: once it is
      sizes.observe(box);
      box.dataset.drawn = "later";
      return;
    }
    await library();
    if (drawn.has(box) || !box.isConnected) return;
    const option = painted(JSON.parse(source.textContent));
    // On the canvas: a tooltip of HTML would need style attributes, which the page's policy forbids.
    option.tooltip = {
      renderMode: "richText", confine: true, backgroundColor: colour("var(--raised)"), borderColor: colour("var(--axis)"),
      textStyle: { color: colour("var(--text)"), fontSize: 12 }, ...option.tooltip,
    };
    option.animation = false;
    const chart = echarts.init(box, theme(), { renderer: "canvas" });
    chart.setOption(option);
    if (option.linked) chart.on("click", (hit) => { const to = hit.data?.href; if (to?.startsWith("/")) location.assign(to); });
    if (option.group) echarts.connect(chart.group = option.group);
    drawn.set(box, chart);
    tools(box);
    sizes.observe(box);
    box.dataset.drawn = "true";
  };

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (drawn.has(target)) drawn.get(target).resize();
      else if (target.clientWidth) draw(target);
    }
  });
  const all = () => {
    if (!probe) {
      probe = document.createElement("i");
      probe.hidden = true;
      document.body.append(probe);
    }
    for (const [box, chart] of drawn) if (!box.isConnected) { chart.dispose(); drawn.delete(box); sizes.unobserve(box); }
    for (const box of document.querySelectorAll("[data-chart]")) draw(box);
  };

  document.addEventListener("themechange", () => { if (probe) all(); });
  document.addEventListener("DOMContentLoaded", all);
  document.addEventListener("htmx:afterSettle", all);
})();
