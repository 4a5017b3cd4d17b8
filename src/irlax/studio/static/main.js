/* The page: one scene, its last fit, and the views that show them. Numbers come from the server; here they are drawn. */

import { h } from "./dom.js";
import { redrawMaps } from "./grid_map.js";
import { connect } from "./socket.js";
import { keepActions } from "./keep.js";
import { drawView } from "./draw.js";
import { doubtView } from "./doubt.js";
import { whatIfView } from "./what_if.js";
import { modelsView } from "./models.js";
import { openView } from "./open.js";

const find = (selector) => document.querySelector(selector);

/** What all views share. `on(name, listener)` is called as `listener(state)` after "scene", "fit" or "doubt" changed;
    "preview" comes with the reward of a fit that is not finished. */
const state = {
  scene: null,
  /** The answer to the last fit, the scene that it is of, and its id; null while there is no walk. */
  fit: null,
  doubt: null,
  cell: null,
  presets: [],
  folder: "",
};
const listeners = { scene: [], preview: [], fit: [], doubt: [], busy: [], show: [] };
const emit = (name, ...more) => listeners[name].forEach((listener) => listener(state, ...more));

const banner = (text) => {
  find(".banner").textContent = text;
  find(".banner").hidden = !text;
};

const ask = connect({ onLost: banner });

export const app = {
  state,
  ask,
  on: (name, listener) => listeners[name].push(listener),
  setScene,
  /** A line at the bottom of the page; what went wrong stands at its top. */
  say: (text) => (find(".status").textContent = text),
  complain: banner,
  chooseCell,
  show,
};

/** Another scene, drawn or loaded: everything follows. `since` is when the user was done, to measure how long it took. */
function setScene(scene, { by = null, since = performance.now() } = {}) {
  state.scene = scene;
  emit("scene", by);
  return refit(since);
}

async function refit(since) {
  const scene = state.scene;
  emit("busy", true);
  let isSeen = false;
  /** The time until the frame after the first map, and until the one after all of the fit. */
  const measure = (name) => requestAnimationFrame(() => performance.measure(name, { start: since, end: performance.now() }));
  const answer = await ask("fit", { scene }, (preview) => {
    if (scene !== state.scene) return;
    isSeen = true;
    emit("preview", preview.reward);
    measure("pointer-up to reward map");
  });
  if (answer.kind === "stale" || scene !== state.scene) return;
  emit("busy", false);
  if (answer.kind === "error") {
    banner(answer.message);
    app.say("There is no fit of what is drawn now; the last one is shown.");
    return;
  }
  banner("");
  state.fit = answer.empty ? null : { ...answer, scene };
  state.doubt = null;
  emit("fit");
  if (!answer.empty) {
    if (!isSeen) measure("pointer-up to reward map");
    measure("pointer-up to fit");
  }
  if (state.fit) await askDoubt();
}

async function askDoubt() {
  const { fit } = state;
  const cell = state.cell && fit.scene.board[state.cell[0]]?.[state.cell[1]] !== "#" ? state.cell : null;
  const answer = await ask("doubt", { of: fit.id, cell: cell && fit.scene.board[cell[0]]?.[cell[1]] ? cell : null });
  if (answer.kind !== "doubt" || answer.of !== state.fit?.id) {
    if (answer.kind === "error") banner(answer.message);
    return;
  }
  state.doubt = answer;
  emit("doubt");
}

function chooseCell(cell) {
  state.cell = cell;
  if (state.fit) askDoubt();
}

/* The views, as tabs. */
const VIEWS = [
  ["draw", "Draw", drawView],
  ["doubt", "Doubt", doubtView],
  ["what-if", "What if", whatIfView],
  ["models", "Models", modelsView],
  ["open", "Open", openView],
];
const panels = new Map();
const tabs = VIEWS.map(([name, label]) => {
  const tab = h("button", { type: "button", role: "tab", textContent: label, id: `tab-${name}`, "aria-controls": name });
  tab.onclick = () => show(name);
  return tab;
});

function show(name) {
  VIEWS.forEach(([each], i) => {
    const isShown = each === name;
    tabs[i].setAttribute("aria-selected", String(isShown));
    tabs[i].tabIndex = isShown ? 0 : -1;
    panels.get(each).hidden = !isShown;
  });
  emit("show", name);
}

find("nav").append(...tabs);
find("nav").onkeydown = (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  const at = tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true");
  const next = (at + step + tabs.length) % tabs.length;
  show(VIEWS[next][0]);
  tabs[next].focus();
};
for (const [name, , view] of VIEWS) {
  const panel = h("section", { id: name, role: "tabpanel", "aria-labelledby": `tab-${name}` });
  panels.set(name, panel);
  find("main").append(panel);
  panel.append(...view(app));
}
find(".actions").append(...keepActions(app));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawMaps);

async function start() {
  const first = await ask("hello");
  if (first.kind !== "hello") return;
  [state.presets, state.folder] = [first.presets, first.folder];
  find(".where").textContent = `irlax ${first.version} · folder ${first.folder}`;
  emit("show", "presets");
  const { scene, ...opened } = first.first;
  show(Object.keys(opened).length ? "open" : "draw");
  if (Object.keys(opened).length) emit("show", "first", opened);
  await setScene(scene ?? first.presets[0]);
}

show("draw");
start();
