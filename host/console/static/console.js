// Adds to pages that work without it: copying, asking before what cannot be taken back, and the plot.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!confirm(form.dataset.confirm)) event.preventDefault();
  });
}

const plot = document.querySelector("[data-plot]");
if (plot && window.uPlot) {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = () => {
    plot.replaceChildren();
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } };
    const bars = uPlot.paths.bars({ size: [0.7, 40] });
    // Bars are stacked: each series is drawn with those behind it added, the tallest first.
    const [days, allow, review, block] = JSON.parse(plot.dataset.plot);
    const sum = (...columns) => days.map((_, i) => columns.reduce((n, c) => n + c[i], 0));
    const own = [null, allow, review, block];
    const series = (label, name, index) => ({
      label, fill: color(name), stroke: color(name), width: 0, paths: bars, points: { show: false },
      value: (_, __, ___, i) => (i == null ? "–" : own[index][i]),
    });
    new uPlot({
      width: plot.clientWidth, height: 220, tzDate: (ts) => uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"),
      scales: { x: { range: (_, min, max) => [min - 43200, max + 43200] }, y: { range: (_, __, max) => [0, Math.max(5, Math.ceil(max * 1.1))] } },
      axes: [{ ...axis, values: "{D} {MMM}" }, { ...axis, size: 44 }],
      series: [{ label: "Day", value: "{YYYY}-{MM}-{DD}" }, series("allow", "--allow", 1), series("review", "--review", 2), series("block", "--block", 3)],
    }, [days, sum(allow, review, block), sum(review, block), block], plot);
  };
  draw();
  let width = plot.clientWidth;
  addEventListener("resize", () => {
    if (plot.clientWidth !== width) { width = plot.clientWidth; draw(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
