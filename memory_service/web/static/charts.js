"use strict";
// Draws every [data-chart]: its option is JSON beside it, its colours are the page's ("var(--series-1)").
(() => {
  const drawn = new Map();
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
      axisLabel: { color: "var(--quiet)" },
      nameTextStyle: { color: "var(--quiet)" },
      splitLine: { lineStyle: { color: "var(--line)" } },
    }])),
  });

  const draw = (box) => {
    const source = document.getElementById(box.dataset.chart);
    if (!source) return;
    drawn.get(box)?.dispose();
    if (!box.clientWidth) { // in a tab that is not shown: once it is
      drawn.delete(box);
      sizes.observe(box);
      box.dataset.drawn = "later";
      return;
    }
    const option = painted(JSON.parse(source.textContent));
    // On the canvas: a tooltip of HTML would need style attributes, which the page's policy forbids.
    option.tooltip = {
      renderMode: "richText", confine: true, backgroundColor: colour("var(--raised)"), borderColor: colour("var(--axis)"),
      textStyle: { color: colour("var(--text)"), fontSize: 12 }, ...option.tooltip,
    };
    option.animation = false;
    const chart = echarts.init(box, theme(), { renderer: "canvas" });
    chart.setOption(option);
    if (box.closest("[data-connected]")) { // one pointer for all of them
      chart.group = "connected";
      echarts.connect("connected");
    }
    if (option.linked) chart.on("click", (hit) => { const to = hit.data?.href; if (to?.startsWith("/")) location.assign(to); });
    drawn.set(box, chart);
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
