/* Draw a grid and walks in it: walls and marks by painting, demonstrations by dragging from cell to cell.

   The file stands alone: it imports nothing and fetches nothing, and its styles live in a shadow root.

   import { create } from "./grid_editor.js";
   const editor = create(element, scene, onChange, options);

   element     where the editor is put; what is in it stays.
   scene       { board: ["..#", ".SG"], demonstrations: [[[row, column], …], …], ends: true, … }
               `board` has a string for each row: "." free, "#" wall, "S" start, "G" goal, "X" hazard. A demonstration is
               a list of at least two cells, each a neighbour of the one before. With `ends` (the default) a walk stops
               at a goal or hazard. All other fields are kept as they are. A scene is never changed: each change makes
               another one.
   onChange    called as onChange(scene, editor) after each finished change of the user, undo and redo included.
   options     { tools: some of TOOLS, in order; tool: the first one; walks: false hides the walks }

   It returns
     update(scene, { record })   show another scene; with record: true the one before can be undone, and without it a
                                 scene of another size cannot be undone to. Calls no onChange.
     destroy()                   remove everything.
     undo(), redo()              as the buttons do; they call onChange.
     scene                       the scene that is shown (read only).

   Colours are CSS variables of the element, each with a default for light and dark:
   --paper --ink --soft --line --accent --wall --goal --hazard --walk. */

export const TOOLS = ["walk", "wall", "goal", "hazard", "start", "erase"];

const MARKS = { wall: "#", goal: "G", hazard: "X", start: "S", erase: "." };
const LABELS = { walk: "Walk", wall: "Wall", goal: "Goal", hazard: "Hazard", start: "Start", erase: "Erase" };
const ICONS = {
  walk: "M2 12 H7 V4 H13 M10.5 1.8 L13.2 4 L10.5 6.2",
  wall: "M2 3 H14 V13 H2 Z M2 8 H14 M6 3 V8 M10 8 V13",
  goal: "M8 1.6 L9.9 5.9 L14.4 6.3 L11 9.3 L12 13.8 L8 11.4 L4 13.8 L5 9.3 L1.6 6.3 L6.1 5.9 Z",
  hazard: "M8 2 L14.5 13.5 H1.5 Z M8 6 V9.6 M8 11.2 V12",
  start: "M8 3 a5 5 0 1 0 0.01 0 M8 6.5 a1.5 1.5 0 1 0 0.01 0",
  erase: "M6 13.5 L2.5 10 L9.5 3 L14 7.5 L8 13.5 Z M6 13.5 H14",
  undo: "M6 2.5 L2.5 6 L6 9.5 M2.5 6 H9.5 a4 4 0 0 1 0 8 H6",
  redo: "M10 2.5 L13.5 6 L10 9.5 M13.5 6 H6.5 a4 4 0 0 0 0 8 H10",
};
const STEPS = { ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowDown: [1, 0], ArrowLeft: [0, -1] };
/* A pointer is in a cell only if it is this far inside, so that a trembling hand does not walk back and forth. */
const MARGIN = 0.14;
const MOST_UNDONE = 200;

const STYLE = `
:host { --_paper: var(--paper, #fff); --_ink: var(--ink, #1d2433); --_soft: var(--soft, #5b6579);
  --_line: var(--line, #dfe3ea); --_accent: var(--accent, #0b6e99); --_wall: var(--wall, #4a5468);
  --_goal: var(--goal, #00785a); --_hazard: var(--hazard, #c44e00); --_walk: var(--walk, #0072b2); display: block; }
@media (prefers-color-scheme: dark) {
  :host { --_paper: var(--paper, #1b202b); --_ink: var(--ink, #e7eaf0); --_soft: var(--soft, #a3adbf);
    --_line: var(--line, #343b4a); --_accent: var(--accent, #6bb8dc); --_wall: var(--wall, #78839a);
    --_goal: var(--goal, #3ccfa4); --_hazard: var(--hazard, #ff9550); --_walk: var(--walk, #6cb6ec); } }
.bar { display: flex; flex-wrap: wrap; gap: 1px; margin: 0 0 10px; }
button { font: inherit; font-size: 12px; line-height: 1; color: var(--_soft); background: none; cursor: pointer;
  border: 1px solid transparent; border-radius: 7px; padding: 0 5px; min-height: 36px; display: inline-flex; gap: 4px;
  align-items: center; }
button:hover:not(:disabled) { color: var(--_ink); background: color-mix(in srgb, var(--_ink) 6%, transparent); }
button[aria-pressed="true"] { color: var(--_ink); border-color: var(--_line);
  background: color-mix(in srgb, var(--_accent) 14%, transparent); }
button:disabled { opacity: .35; cursor: default; }
button:focus-visible, .grid:focus-visible { outline: 2px solid var(--_accent); outline-offset: 2px; }
button svg { width: 16px; height: 16px; fill: none; stroke: currentColor; stroke-width: 1.5; stroke-linejoin: round;
  stroke-linecap: round; }
.bar { align-items: center; }
.gap { flex: 1; }
[data-name="undo"] .label, [data-name="redo"] .label { display: none; }
.grid { display: block; width: 100%; touch-action: none; user-select: none; -webkit-user-select: none; cursor: crosshair;
  border-radius: 6px; }
.cell { fill: var(--_paper); stroke: var(--_line); stroke-width: .03; }
.cell.wall { fill: var(--_wall); stroke: var(--_wall); }
.mark { fill: none; stroke-width: .07; pointer-events: none; stroke-linejoin: round; stroke-linecap: round; }
.mark.G { stroke: var(--_goal); fill: color-mix(in srgb, var(--_goal) 22%, transparent); }
.mark.X { stroke: var(--_hazard); fill: color-mix(in srgb, var(--_hazard) 18%, transparent); }
.mark.S { stroke: var(--_soft); }
.walk { fill: none; stroke: var(--_walk); stroke-width: .12; stroke-linejoin: round; stroke-linecap: round; opacity: .78; }
.walk.new { opacity: 1; stroke-width: .16; }
.tip { fill: var(--_walk); }
.cursor { fill: none; stroke: var(--_accent); stroke-width: .08; opacity: 0; pointer-events: none; }
.grid:focus-visible .cursor { opacity: 1; }
.said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (max-width: 480px) { button { padding: 0 7px; min-height: 40px; } button .label { display: none; }
  button[aria-pressed="true"] .label { display: inline; } }
`;

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes = {}, children = []) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function button(name, label, onClick) {
  const node = document.createElement("button");
  const text = Object.assign(document.createElement("span"), { className: "label", textContent: label });
  node.append(svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, [svg("path", { d: ICONS[name] })]), text);
  Object.assign(node, { type: "button", title: label, onclick: onClick });
  node.setAttribute("aria-label", label);
  node.dataset.name = name;
  return node;
}

/** The drawing of a mark in a cell of size 1 whose corner is (column, row). */
export function mark(character, row, column) {
  const at = `translate(${column + 0.5} ${row + 0.5})`;
  const shapes = {
    G: "M0 -.3 L.09 -.1 L.31 -.08 L.14 .07 L.19 .29 L0 .17 L-.19 .29 L-.14 .07 L-.31 -.08 L-.09 -.1 Z",
    X: "M0 -.27 L.3 .25 H-.3 Z M0 -.08 V.07 M0 .15 V.16",
    S: "M0 -.2 a.2 .2 0 1 0 .001 0",
  };
  return svg("path", { class: `mark ${character}`, d: shapes[character], transform: at });
}

/** Whether a walk may stand in a cell. */
const isFree = (board, [row, column]) => board[row]?.[column] !== undefined && board[row][column] !== "#";
const isEnd = (scene, [row, column]) => scene.ends !== false && "GX".includes(scene.board[row][column]);
const same = (one, other) => one[0] === other[0] && one[1] === other[1];

/** A scene with another character in a cell; walks end where the cell no longer lets them go on. */
function painted(scene, cell, character) {
  const [row, column] = cell;
  if (scene.board[row][column] === character) return scene;
  const board = scene.board.map((line, r) => (r === row ? line.slice(0, column) + character + line.slice(column + 1) : line));
  const next = { ...scene, board };
  const cut = (walk) => {
    const blocked = walk.findIndex((at) => !isFree(board, at));
    const ended = walk.findIndex((at) => isEnd(next, at));
    const length = Math.min(blocked < 0 ? walk.length : blocked, ended < 0 ? walk.length : ended + 1);
    return walk.slice(0, length);
  };
  return { ...next, demonstrations: scene.demonstrations.map(cut).filter((walk) => walk.length > 1) };
}

/** A walk that goes on towards a cell, one step at a time, around corners but not through walls. */
function extended(scene, walk, target) {
  const path = [...walk];
  for (let steps = 0; steps < 60; steps++) {
    const [row, column] = path.at(-1);
    const [down, right] = [target[0] - row, target[1] - column];
    if ((!down && !right) || (path.length > 1 && isEnd(scene, [row, column]))) break;
    const moves = [[Math.sign(down), 0], [0, Math.sign(right)]].filter(([r, c]) => r || c);
    if (Math.abs(right) > Math.abs(down)) moves.reverse();
    const next = moves.map(([r, c]) => [row + r, column + c]).find((cell) => isFree(scene.board, cell));
    if (!next) break;
    path.push(next);
  }
  return path;
}

/** The points of a walk: each walk is a little beside the others, so that equal ones can be told apart. */
function points(walk, number) {
  const shift = 0.5 + 0.055 * (((number * 3) % 7) - 3);
  return walk.map(([row, column]) => [column + shift, row + shift]);
}

export function create(element, scene, onChange = () => {}, options = {}) {
  const tools = options.tools ?? TOOLS;
  let tool = options.tool ?? tools[0];
  let past = [];
  let future = [];
  let gesture = null; // { before, walk } while a pointer is down or a walk is drawn by keys
  let cursor = [0, 0];
  let walking = false; // by keys

  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  const bar = Object.assign(document.createElement("div"), { className: "bar" });
  bar.setAttribute("role", "toolbar");
  bar.setAttribute("aria-label", "Tools");
  const choices = tools.map((name) => button(name, LABELS[name], () => choose(name)));
  const back = button("undo", "Undo", () => undo());
  const forth = button("redo", "Redo", () => redo());
  const gap = Object.assign(document.createElement("span"), { className: "gap" });
  bar.append(...choices, gap, back, forth);
  const cells = svg("g");
  const walks = svg("g");
  const marks = svg("g");
  const frame = svg("rect", { class: "cursor", width: 0.9, height: 0.9, rx: 0.1 });
  const grid = svg("svg", { class: "grid", tabindex: "0", role: "application" }, [cells, walks, marks, frame]);
  const said = Object.assign(document.createElement("div"), { className: "said" });
  said.setAttribute("role", "status");
  root.append(bar, grid, said);
  element.append(host);

  function choose(name) {
    tool = name;
    choices.forEach((node) => node.setAttribute("aria-pressed", String(node.dataset.name === tool)));
  }

  function draw() {
    const [height, width] = [scene.board.length, scene.board[0].length];
    grid.setAttribute("viewBox", `-.04 -.04 ${width + 0.08} ${height + 0.08}`);
    grid.setAttribute("aria-label", `A grid of ${height} rows and ${width} columns with ${scene.demonstrations.length} walks. `
      + "Arrow keys move, Enter paints, or starts and ends a walk, Delete removes a walk.");
    const [shapes, drawn] = [[], []];
    scene.board.forEach((line, row) => [...line].forEach((character, column) => {
      const kind = character === "#" ? "cell wall" : "cell";
      shapes.push(svg("rect", { class: kind, x: column, y: row, width: 1, height: 1 }));
      if ("GXS".includes(character)) drawn.push(mark(character, row, column));
    }));
    cells.replaceChildren(...shapes);
    marks.replaceChildren(...drawn);
    drawWalks();
    back.disabled = !past.length;
    forth.disabled = !future.length;
  }

  function drawWalks() {
    if (options.walks === false) return;
    const all = gesture?.walk ? [...scene.demonstrations, gesture.walk] : scene.demonstrations;
    walks.replaceChildren(...all.flatMap((walk, number) => drawnWalk(points(walk, number), number === scene.demonstrations.length)));
    frame.setAttribute("x", cursor[1] + 0.05);
    frame.setAttribute("y", cursor[0] + 0.05);
  }

  function drawnWalk(path, isNew) {
    const [end, before] = [path.at(-1), path.at(-2) ?? path.at(-1)];
    const turn = (Math.atan2(end[1] - before[1], end[0] - before[0]) * 180) / Math.PI;
    const line = svg("polyline", { class: isNew ? "walk new" : "walk", points: path.map((at) => at.join(",")).join(" ") });
    const first = svg("circle", { class: "tip", cx: path[0][0], cy: path[0][1], r: 0.11 });
    const tip = svg("path", { class: "tip", d: "M.2 0 L-.1 -.17 L-.1 .17 Z", transform: `translate(${end}) rotate(${turn})` });
    return path.length > 1 ? [line, first, tip] : [first];
  }

  /** The change is finished: `before` can be undone. */
  function finish(before, message) {
    if (before === scene) return draw();
    past = [...past, before].slice(-MOST_UNDONE);
    future = [];
    said.textContent = message;
    draw();
    onChange(scene, editor);
  }

  function undo() {
    if (!past.length) return;
    future = [scene, ...future];
    scene = past.at(-1);
    past = past.slice(0, -1);
    said.textContent = "Undone.";
    draw();
    onChange(scene, editor);
  }

  function redo() {
    if (!future.length) return;
    past = [...past, scene];
    [scene, ...future] = future;
    said.textContent = "Done again.";
    draw();
    onChange(scene, editor);
  }

  /** The cell below a pointer, and whether it is well inside. */
  function cellAt(event) {
    const box = grid.getBoundingClientRect();
    const [height, width] = [scene.board.length, scene.board[0].length];
    const x = ((event.clientX - box.left) / box.width) * (width + 0.08) - 0.04;
    const y = ((event.clientY - box.top) / box.height) * (height + 0.08) - 0.04;
    const cell = [Math.floor(y), Math.floor(x)];
    const inside = cell[0] >= 0 && cell[1] >= 0 && cell[0] < height && cell[1] < width;
    const depth = Math.min(x - cell[1], y - cell[0], 1 - (x - cell[1]), 1 - (y - cell[0]));
    return inside ? { cell, isDeep: depth > MARGIN } : null;
  }

  function startWalk(cell) {
    const possible = isFree(scene.board, cell) && !isEnd(scene, cell);
    if (!possible) said.textContent = "A walk starts in a free cell.";
    return possible ? [cell] : null;
  }

  function endWalk(walk) {
    const before = scene;
    if (walk.length > 1) scene = { ...scene, demonstrations: [...scene.demonstrations, walk] };
    finish(before, `Walk ${scene.demonstrations.length}, ${walk.length - 1} steps.`);
  }

  /** Without the last walk that passes a cell. */
  function withoutWalk(cell) {
    const last = scene.demonstrations.findLastIndex((walk) => walk.some((at) => same(at, cell)));
    return last < 0 ? scene : { ...scene, demonstrations: scene.demonstrations.filter((_, number) => number !== last) };
  }

  function paint(cell) {
    scene = painted(scene, cell, MARKS[tool]);
    draw();
  }

  grid.onpointerdown = (event) => {
    const at = cellAt(event);
    if (!at || event.button || gesture) return;
    event.preventDefault();
    grid.focus({ focusVisible: false, preventScroll: true });
    grid.setPointerCapture(event.pointerId);
    [cursor, walking] = [at.cell, false];
    if (tool === "walk") {
      const walk = startWalk(at.cell);
      gesture = walk && { before: scene, walk };
      return drawWalks();
    }
    const isBare = tool === "erase" && scene.board[at.cell[0]][at.cell[1]] === ".";
    gesture = { before: scene };
    if (isBare) scene = withoutWalk(at.cell);
    paint(at.cell);
  };

  grid.onpointermove = (event) => {
    if (!gesture || walking) return;
    for (const each of event.getCoalescedEvents?.() ?? [event]) {
      const at = cellAt(each);
      if (!at) continue;
      if (!gesture.walk) paint(at.cell);
      else if (at.isDeep) gesture.walk = extended(scene, gesture.walk, at.cell);
      cursor = at.cell;
    }
    drawWalks();
  };

  grid.onpointerup = () => {
    if (!gesture || walking) return;
    const { before, walk } = gesture;
    gesture = null;
    if (walk) endWalk(walk);
    else finish(before, "Painted.");
  };

  function cancel() {
    if (gesture) scene = gesture.before;
    [gesture, walking] = [null, false];
    draw();
  }
  grid.onpointercancel = cancel;
  grid.onblur = () => walking && cancel();

  function move([down, right]) {
    const next = [cursor[0] + down, cursor[1] + right];
    if (next[0] < 0 || next[1] < 0 || next[0] >= scene.board.length || next[1] >= scene.board[0].length) return;
    if (walking) {
      const walk = extended(scene, gesture.walk, next);
      if (!same(walk.at(-1), next)) return;
      gesture.walk = walk;
    }
    cursor = next;
    said.textContent = `Row ${next[0] + 1}, column ${next[1] + 1}.`;
    drawWalks();
  }

  function act() {
    if (tool !== "walk") {
      const before = scene;
      scene = painted(scene, cursor, MARKS[tool]);
      return finish(before, `${LABELS[tool]}.`);
    }
    if (!walking) {
      const walk = startWalk(cursor);
      [gesture, walking] = [walk && { before: scene, walk }, walk !== null];
      return drawWalks();
    }
    const { walk } = gesture;
    [gesture, walking] = [null, false];
    return endWalk(walk);
  }

  host.onkeydown = (event) => {
    const key = event.key;
    if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "z") event.shiftKey ? redo() : undo();
    else if ((event.ctrlKey || event.metaKey) && key.toLowerCase() === "y") redo();
    else if (root.activeElement !== grid || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (STEPS[key]) move(STEPS[key]);
    else if (key === "Enter" || key === " ") act();
    else if (key === "Escape") cancel();
    else if (tools[Number(key) - 1]) choose(tools[Number(key) - 1]);
    else if (key === "Delete" || key === "Backspace") {
      const before = scene;
      scene = withoutWalk(cursor);
      finish(before, "Walk removed.");
    } else return;
    event.preventDefault();
  };

  const editor = {
    get scene() {
      return scene;
    },
    update(next, { record = false } = {}) {
      const isResized = next.board.length !== scene.board.length || next.board[0].length !== scene.board[0].length;
      if (record) [past, future] = [[...past, scene].slice(-MOST_UNDONE), []];
      else if (isResized) [past, future] = [[], []];
      [scene, gesture, walking] = [next, null, false];
      cursor = [Math.min(cursor[0], next.board.length - 1), Math.min(cursor[1], next.board[0].length - 1)];
      draw();
    },
    destroy: () => host.remove(),
    undo,
    redo,
  };
  choose(tool);
  draw();
  return editor;
}
