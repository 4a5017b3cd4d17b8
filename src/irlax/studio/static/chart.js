/* A chart of curves over a common x.

   drawChart(svg, { curves: [{ name, x, y, colour, dots }], xlabel, ylabel, marker: [x, y], rule: { x, label } }) */

import { shown, svg } from "./dom.js";

const [WIDTH, HEIGHT] = [520, 210];
const [MARGIN, LINE] = [{ left: 56, right: 14, bottom: 40 }, 18];
export const COLOURS = ["light-dark(#0072b2, #6cb6ec)", "light-dark(#d55e00, #ff9550)", "light-dark(#00785a, #3ccfa4)",
  "light-dark(#b0508a, #e3a0c8)", "light-dark(#9a6c00, #f0c04a)"];

/** Round numbers between two ends. */
function ticks(low, high, most = 5) {
  const raw = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(value);
  return found;
}

export function newChart(label) {
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
}

export function drawChart(target, { curves, xlabel, ylabel, marker = null, rule = null, low = null }) {
  // Above the curves there is a line of text for the label, and one for each name.
  const above = LINE * Math.max(1, curves.filter(({ name }) => name).length) + 4;
  const known = curves.flatMap(({ x, y }) => x.map((at, i) => [at, y[i]]).filter(([, value]) => value !== null && Number.isFinite(value)));
  if (!known.length) return target.replaceChildren();
  const [xs, ys] = [known.map(([x]) => x), known.map(([, y]) => y)];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  let [bottom, top] = [low ?? Math.min(...ys), Math.max(...ys)];
  if (top === bottom) [bottom, top] = [bottom - 1, top + 1];
  const pad = (top - bottom) * 0.06;
  [bottom, top] = [low ?? bottom - pad, top + pad];
  const x = (value) => MARGIN.left + ((value - left) / (right - left || 1)) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (value) => HEIGHT - MARGIN.bottom - ((value - bottom) / (top - bottom)) * (HEIGHT - above - MARGIN.bottom);
  const parts = [];
  for (const value of ticks(bottom, top, 4)) {
    parts.push(svg("line", { class: "axis", x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: y(value), y2: y(value) }));
    parts.push(svg("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, shown(value)));
  }
  for (const value of ticks(left, right, 6)) {
    parts.push(svg("text", { x: x(value), y: HEIGHT - MARGIN.bottom + 17, "text-anchor": "middle" }, shown(value)));
  }
  parts.push(svg("text", { x: (WIDTH + MARGIN.left) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, xlabel));
  parts.push(svg("text", { x: 4, y: 12 }, ylabel));
  if (rule) {
    parts.push(svg("line", { class: "rule", x1: x(rule.x), x2: x(rule.x), y1: above, y2: HEIGHT - MARGIN.bottom }));
    parts.push(svg("text", { x: x(rule.x) - 6, y: HEIGHT - MARGIN.bottom - 8, "text-anchor": "end" }, rule.label));
  }
  curves.forEach((curve, number) => {
    const colour = curve.colour ?? COLOURS[number % COLOURS.length];
    const pieces = curve.x.map((at, i) => (curve.y[i] === null ? "" : `${x(at)},${y(curve.y[i])}`)).filter(Boolean);
    const line = svg("polyline", { class: "curve", points: pieces.join(" ") });
    line.style.stroke = colour;
    parts.push(line);
    if (curve.name) {
      const name = svg("text", { x: WIDTH - MARGIN.right, y: 12 + LINE * number, "text-anchor": "end" }, curve.name);
      name.style.fill = colour;
      name.style.fontWeight = 600;
      parts.push(name);
    }
    for (const [at, value] of curve.dots ?? []) {
      const dot = svg("circle", { class: "dot", cx: x(at), cy: y(value), r: 6 });
      dot.style.fill = colour;
      parts.push(dot);
    }
  });
  if (marker) {
    const dot = svg("circle", { class: "dot", cx: x(marker[0]), cy: y(Math.max(marker[1], bottom)), r: 6.5 });
    dot.style.fill = "var(--accent)";
    parts.push(dot);
  }
  target.replaceChildren(...parts);
}
