// Adds to pages that work without it: copying, asking before what cannot be taken back, the plot, and saying so when a part of a
// page cannot be brought up to date.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  const label = button.textContent;
  let back;
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    button.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not copied");
    clearTimeout(back);
    back = setTimeout(() => { button.textContent = label; }, 1500);
  });
}

for (const form of document.querySelectorAll("form[data-confirm]")) {
  form.addEventListener("submit", (event) => {
    if (!confirm(form.dataset.confirm)) event.preventDefault();
  });
}

// What is said goes with the next answer, which replaces the whole part.
const unanswered = ({ ctx }) => {
  const part = ctx && document.querySelector(ctx.sourceElement.getAttribute("hx-target"));
  if (!part || ctx.hx?.redirect) return;
  const said = part.querySelector(":scope > [data-unanswered]") ?? document.createElement("p");
  said.textContent = ctx.sourceElement.matches("form") ? "No answer came. Please try again in a minute."
    : "This list is out of date: no answer came. It is asked for again every few seconds.";
  if (said.parentNode) return;
  said.className = "error";
  said.dataset.unanswered = "";
  said.setAttribute("role", "alert");
  if (ctx.sourceElement.matches("form")) part.replaceChildren(said); else part.prepend(said);
};
document.addEventListener("htmx:error", (event) => unanswered(event.detail));
document.addEventListener("htmx:response:error", (event) => {
  const { ctx } = event.detail;
  if (!ctx.response.headers.get("Content-Type")?.startsWith("text/html")) ctx.hx.reswap = "none"; // not a page's part: of a proxy, say
  if (ctx.hx.reswap === "none") unanswered(event.detail);
});

const plot = () => document.querySelector("[data-plot]");
if (plot() && window.uPlot) {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const day = uPlot.fmtDate("{D} {MMM} {YYYY}");
  const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC");
  const draw = () => {
    const at = plot();
    at.replaceChildren();
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const bars = uPlot.paths.bars({ size: [0.7, 40] });
    // Bars are stacked: each series is drawn with those behind it added, the tallest first.
    const [days, allow, review, block] = JSON.parse(at.dataset.plot);
    const sum = (...columns) => days.map((_, i) => columns.reduce((n, c) => n + c[i], 0));
    const own = [null, allow, review, block];
    const series = (label, name, index) => ({
      label, fill: color(name), stroke: color(name), width: 0, paths: bars, points: { show: false },
      value: (_, __, ___, i) => (i == null ? own[index].reduce((n, d) => n + d, 0) : own[index][i]).toLocaleString("en"),
    });
    new uPlot({
      width: at.clientWidth, height: 220, tzDate: utc, padding: [8, 8, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { range: (_, min, max) => [min - 43200, max + 43200] }, y: { range: (_, __, max) => [0, Math.max(5, Math.ceil(max * 1.1))] } },
      axes: [{ ...axis, grid: { show: false }, size: 36, gap: 8, values: "{D} {MMM}" }, { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5] }],
      series: [
        { label: "Day", value: (_, seconds) => (seconds == null ? "all " + days.length : day(utc(seconds))) },
        series("allow", "--allow", 1), series("review", "--review", 2), series("block", "--block", 3),
      ],
    }, [days, sum(allow, review, block), sum(review, block), block], at);
  };
  draw();
  let width = plot().clientWidth;
  addEventListener("resize", () => {
    if (plot().clientWidth !== width) { width = plot().clientWidth; draw(); }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.addEventListener("htmx:after:swap", () => { if (!plot().hasChildNodes()) draw(); });
}
