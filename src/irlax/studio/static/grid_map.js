/* A map of a grid: a number in each cell (or one for each move), with needles for the policy, and a legend.

   createMap({ title, small, signed, faint, onChoose, isThumb }) → { element, update(data), choose(cell) }
   data: { board, values, policy, open, caption } with values [row][column] (or [row][column][move]), null in walls;
   `policy` is null where walks end: there the mark of the cell is drawn, elsewhere needles. */

import { h, shown, svg } from "./dom.js";
import { scaleOf } from "./colours.js";

/* Cells that are pointed at in one map are shown in all of them. */
const maps = new Set();
const NEEDLES = [[0, -1], [1, 0], [0, 1], [-1, 0]];
const GLYPHS = {
  G: "M0 -.3 L.09 -.1 L.31 -.08 L.14 .07 L.19 .29 L0 .17 L-.19 .29 L-.14 .07 L-.31 -.08 L-.09 -.1 Z",
  X: "M0 -.27 L.3 .25 H-.3 Z M0 -.08 V.07 M0 .15 V.16",
  S: "M0 -.2 a.2 .2 0 1 0 .001 0",
};
/* The triangle of each move in a cell: up, right, down, left. */
const CORNERS = [
  [[0, 0], [1, 0]],
  [[1, 0], [1, 1]],
  [[1, 1], [0, 1]],
  [[0, 1], [0, 0]],
];

function pointAt(cell) {
  maps.forEach((map) => map.point(cell));
}

/** A needle from the middle of a cell in the direction of a move, as long as the move is likely. */
function needle(row, column, move, chance) {
  const [x, y] = [column + 0.5, row + 0.5];
  const [right, down] = NEEDLES[move];
  const [length, half] = [0.46 * chance, 0.12];
  const tip = `${x + right * length} ${y + down * length}`;
  return `M${x - down * half} ${y + right * half} L${tip} L${x + down * half} ${y - right * half} Z`;
}

/** The needles of all cells: in one path for each ink, so that they can be read on light and on dark cells. */
function needles(policy, inkOf) {
  const parts = new Map();
  policy.forEach((line, row) => line.forEach((chances, column) => chances?.forEach((chance, move) => {
    if (chance === null || !(chance > 0.06)) return;
    const ink = inkOf(row, column);
    parts.set(ink, [...(parts.get(ink) ?? []), needle(row, column, move, chance)]);
  })));
  return [...parts].map(([fill, d]) => svg("path", { class: "needle", fill, d: d.join(" ") }));
}

export function createMap({ title, small = "", signed = false, faint = false, onChoose = null, isThumb = false }) {
  let data = null;
  let scale = null;
  let chosen = null;
  const tiles = svg("g");
  const above = svg("g");
  const ring = svg("rect", { class: "ring", width: 1, height: 1, rx: 0.08, visibility: "hidden" });
  const choice = svg("rect", { class: "ring chosen", width: 1, height: 1, rx: 0.08, visibility: "hidden" });
  const drawing = svg("svg", { role: "img" }, tiles, above, choice, ring);
  const bar = h("canvas", { width: 132, height: 1 });
  const [low, high, at] = [h("span"), h("span"), h("div.at")];
  const ends = h("div", {}, low, high);
  const legend = h("div.legend", { "aria-hidden": "true" }, at, bar, ends);
  const subtitle = h("small", { textContent: small });
  const heading = h("header", {}, h("h3", {}, title, subtitle), legend);
  const empty = h("p.empty", { hidden: true });
  const element = h("div.map", {}, isThumb ? null : heading, h("div.plane", {}, drawing, empty));
  if (isThumb) element.classList.add("thumb");
  if (onChoose) element.classList.add("choosing");

  function drawLegend() {
    const context = bar.getContext("2d");
    for (let x = 0; x < bar.width; x++) {
      context.fillStyle = scale.fill(scale.low + ((scale.high - scale.low) * x) / (bar.width - 1));
      context.fillRect(x, 0, 1, 1);
    }
    low.textContent = shown(scale.low, 2);
    high.textContent = (scale.isCapped ? "≥ " : "") + shown(scale.high, 2);
  }

  function tile(value, row, column) {
    if (value === null || value === undefined) return [svg("rect", { class: "tile wall", x: column, y: row, width: 1, height: 1 })];
    if (!Array.isArray(value)) {
      const isOpen = data.open?.[row]?.[column];
      const rect = svg("rect", { class: "tile", x: column, y: row, width: 1, height: 1, fill: scale.fill(value) });
      return isOpen ? [rect, svg("rect", { class: "tile open", x: column, y: row, width: 1, height: 1 })] : [rect];
    }
    return value.map((each, move) => {
      const [one, other] = CORNERS[move].map(([x, y]) => `${column + x},${row + y}`);
      const fill = each === null ? "var(--wall)" : scale.fill(each);
      return svg("polygon", { class: "tile", points: `${one} ${other} ${column + 0.5},${row + 0.5}`, fill });
    });
  }

  function glyph(row, column) {
    const character = data.board[row][column];
    if (!GLYPHS[character] || data.policy?.[row][column]?.some((chance) => chance !== null)) return [];
    const value = [data.values[row][column]].flat()[0];
    const node = svg("path", { class: "glyph onpaint", d: GLYPHS[character], transform: `translate(${column + 0.5} ${row + 0.5})` });
    node.style.setProperty("--on", value === null ? "var(--ink)" : scale.on(value));
    return [node];
  }

  /** The top of the scale: absorbing cells, where all time is spent in the end, would drown the others. */
  function topOf(values) {
    if (!data.capped) return null;
    const others = values.map((line, row) => line.filter((_, column) => !"GX".includes(data.board[row][column])));
    const most = Math.max(0, ...others.flat(2).filter((value) => value !== null));
    return most || null;
  }

  function update(next) {
    data = next;
    const isEmpty = !data.values;
    [drawing, legend].forEach((node) => (node.style.visibility = isEmpty ? "hidden" : "visible"));
    empty.hidden = !isEmpty;
    empty.textContent = data.caption ?? "";
    subtitle.textContent = data.small ?? small;
    if (!data.board) return;
    const [height, width] = [data.board.length, data.board[0].length];
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (isEmpty) {
      tiles.replaceChildren();
      above.replaceChildren();
      return;
    }
    scale = scaleOf(data.values.flat(2), { signed, faint, top: topOf(data.values) });
    drawing.setAttribute("aria-label", `${title}: from ${shown(scale.low)} to ${shown(scale.high)}`
      + (onChoose ? ". Arrow keys choose a cell." : ""));
    tiles.replaceChildren(...data.values.flatMap((line, row) => line.flatMap((value, column) => tile(value, row, column))));
    const glyphs = data.board.flatMap((line, row) => [...line].flatMap((_, column) => glyph(row, column)));
    above.replaceChildren(...glyphs, ...(data.policy ? needles(data.policy, (row, column) => scale.on(data.values[row][column] ?? 0)) : []));
    if (!isThumb) drawLegend();
  }

  function placed(node, cell) {
    const isThere = cell && data?.board && cell[0] < data.board.length && cell[1] < data.board[0].length;
    node.setAttribute("visibility", isThere ? "visible" : "hidden");
    if (!isThere) return;
    node.setAttribute("x", cell[1]);
    node.setAttribute("y", cell[0]);
  }

  function point(cell) {
    if (!data?.values || isThumb) return;
    placed(ring, cell);
    const value = cell && data.values[cell[0]]?.[cell[1]];
    const texts = [value].flat().map((each) => shown(each));
    at.textContent = cell && value !== undefined ? (texts.length > 1 ? ["↑", "→", "↓", "←"].map((arrow, i) => arrow + texts[i]).join(" ") : texts[0]) : "";
  }

  function cellOf(event) {
    const box = drawing.getBoundingClientRect();
    const [height, width] = [data.board.length, data.board[0].length];
    const cell = [Math.floor(((event.clientY - box.top) / box.height) * height), Math.floor(((event.clientX - box.left) / box.width) * width)];
    return cell[0] >= 0 && cell[1] >= 0 && cell[0] < height && cell[1] < width ? cell : null;
  }

  const isFree = (row, column) => (data.board[row]?.[column] ?? "#") !== "#";

  /** The next free cell in a direction, over walls. */
  function beyond([row, column], [down, right]) {
    do [row, column] = [row + down, column + right];
    while (data.board[row]?.[column] === "#");
    return isFree(row, column) ? [row, column] : null;
  }

  function firstFree() {
    const row = data.board.findIndex((line) => /[^#]/.test(line));
    return row < 0 ? null : [row, data.board[row].search(/[^#]/)];
  }

  if (!isThumb) {
    drawing.onpointermove = (event) => data?.values && pointAt(cellOf(event));
    drawing.onpointerleave = () => pointAt(null);
  }
  if (onChoose) {
    drawing.setAttribute("tabindex", "0");
    drawing.onclick = (event) => data?.values && cellOf(event) && onChoose(cellOf(event));
    drawing.onkeydown = (event) => {
      const step = { ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowDown: [1, 0], ArrowLeft: [0, -1] }[event.key];
      if (!step || !data?.values) return;
      event.preventDefault();
      const next = chosen ? beyond(chosen, step) : firstFree();
      if (next) onChoose(next);
    };
  }
  const map = {
    element,
    update,
    point,
    choose(cell) {
      chosen = cell;
      placed(choice, cell);
    },
    redraw: () => data && update(data),
    forget: () => maps.delete(map),
  };
  maps.add(map);
  return map;
}

/** After a change of theme, whose colours are other ones. */
export function redrawMaps() {
  maps.forEach((map) => map.redraw());
}
