/* Draw: a grid and walks in it, and the reward that follows. */

import { OBJECTIVES, checkbox, choices, h, select, shown, slider, svg } from "./dom.js";
import { create } from "./grid_editor.js";
import { createMap } from "./grid_map.js";

const SIZES = [5, 8, 10, 12, 15, 20, 30];
const REWARDS = [["cells", "cells"], ["moves", "moves"], ["marks", "marks"]];
/* Milliseconds after which a wait is explained. */
const LONG = 1500;
const MEANINGS = [
  ["Slip", "the probability with which a move goes in a random direction."],
  ["Discount γ", "how much a reward counts if it comes one step later: 0.9 is nine tenths."],
  ["Horizon", "the number of steps that are planned for; ∞ if there is no last one."],
  ["A reward of", "cells: a number for each cell. Moves: for each cell and direction. Marks: for goals and for hazards."],
  ["Objective", "what is maximised: the likelihood of each step, the same with later steps counting less, or the match of visits."],
  ["Penalty l2", "how strongly rewards are pulled to 0."],
];
/* Larger grids have a horizon at first: without one, a fit takes long. */
const LARGE = 20;

/** The strip that says how well steps are predicted. */
function likelihoodStrip() {
  const [model, chance] = [h("i"), h("i.faint")];
  const [modelText, chanceText, note] = [h("b"), h("span"), h("p.note")];
  const element = h("div.card", {}, h("h3", {}, "How well the steps are predicted"), h("div.likely", {},
    h("span", {}, "model"), h("div.bar", {}, model), modelText,
    h("span", {}, "chance"), h("div.bar", {}, chance), chanceText), note);
  function update({ fit }) {
    const mean = (total) => (fit && fit.choices ? Math.exp(total / fit.choices) : 0);
    model.style.width = `${100 * mean(fit?.log_likelihood)}%`;
    chance.style.width = `${100 * mean(fit?.chance)}%`;
    modelText.textContent = fit ? shown(mean(fit.log_likelihood), 2) : "–";
    chanceText.textContent = fit ? shown(mean(fit.chance), 2) : "–";
    note.textContent = fit ? `Log likelihood ${shown(fit.log_likelihood, 4)}, by chance ${shown(fit.chance, 4)}; `
      + `${fit.choices} steps in ${fit.walks} ${fit.walks === 1 ? "walk" : "walks"}. Bars are probabilities of a step (geometric means).` : "";
  }
  return { element, update };
}

/** The weights of marks, with their standard errors. */
function weightList() {
  const table = h("table");
  const element = h("div.card", { hidden: true }, h("h3", {}, "The reward of a mark"), table);
  function update({ fit, doubt }) {
    const entries = Object.entries(fit?.parameters ?? {});
    element.hidden = !entries.length;
    const rows = entries.map(([name, value], i) => h("tr", {}, h("td", {}, name), h("td", {}, shown(value)),
      h("td", {}, `± ${shown(doubt?.error_list[i] ?? null)}`)));
    table.replaceChildren(h("tr", {}, h("th", {}, "mark"), h("th", {}, "reward"), h("th", {}, "standard error")), ...rows);
  }
  return { element, update };
}

/** The hatching of cells without a standard error. */
function patterns() {
  const lines = svg("path", { d: "M-1 1 l2 -2 M0 4 l4 -4 M3 5 l2 -2", stroke: "currentColor", "stroke-width": ".6", opacity: ".35" });
  const pattern = svg("pattern", { id: "hatch", width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "scale(.08)" }, lines);
  const holder = svg("svg", { width: 0, height: 0, "aria-hidden": "true" }, svg("defs", {}, pattern));
  holder.style.position = "absolute";
  return holder;
}

export function drawView(app) {
  const { state } = app;
  const place = h("div");
  let editor = null;
  const change = (fields) => {
    const scene = { ...state.scene, ...fields };
    editor.update(scene, { record: true });
    app.setScene(scene, { by: "draw" });
  };

  const size = select({ label: "Size", options: [], value: "", onChoose: (value) => change(resized(state.scene, Number(value))) });
  const slip = slider({ label: "Slip", min: 0, max: 0.6, step: 0.05, value: 0, format: (v) => v.toFixed(2), onInput: (v) => change({ slip: v }) });
  const discount = slider({ label: "Discount γ", min: 0.5, max: 0.99, step: 0.01, value: 0.9, format: (v) => v.toFixed(2), onInput: (v) => change({ discount: v }) });
  const horizon = slider({ label: "Horizon", min: 5, max: 205, step: 5, value: 205, format: (v) => (v > 200 ? "∞" : String(v)),
    onInput: (v) => change({ horizon: v > 200 ? null : v }) });
  const ends = checkbox({ label: "Walks end at goals and hazards", checked: true, onChange: (v) => change(v ? { ends: v, ...cutAtEnds(state.scene) } : { ends: v }) });
  const reward = choices({ label: "A reward of", choices: REWARDS, value: "cells", onChoose: (v) => change({ reward: v }) });
  const objective = select({ label: "Objective", options: OBJECTIVES, value: "likelihood", onChoose: (v) => change({ objective: v }) });
  const l2 = slider({ label: "Penalty l2", min: -4, max: 0, step: 0.1, value: -1.7, format: (v) => shown(10 ** v, 2),
    onInput: (v) => change({ l2: Number((10 ** v).toPrecision(3)) }) });
  const controls = h("div.card.stack", {}, h("div.fields", {}, slip, discount, horizon, size), ends,
    h("div.fields", {}, reward, objective, l2, h("p.note", {}, "A little of l2 keeps the reward finite when few walks are drawn.")),
    h("details", {}, h("summary", {}, "What these mean"), h("dl", {}, MEANINGS.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]))));

  const maps = {
    reward: createMap({ title: "Reward", small: "what explains the walks", signed: true }),
    errors: createMap({ title: "Standard error", small: "how uncertain it is", faint: true }),
    expert: createMap({ title: "Walks", small: "where they go" }),
    model: createMap({ title: "Model", small: "where it goes, its policy" }),
  };
  const strip = likelihoodStrip();
  const weights = weightList();

  function drawMaps() {
    const { fit, doubt } = state;
    const board = fit?.scene.board ?? state.scene?.board;
    const nothing = { board, values: null, caption: "Draw a walk: drag from cell to cell." };
    maps.reward.update(fit ? { board, values: fit.reward } : nothing);
    maps.expert.update(fit ? { board, values: fit.expert, capped: fit.scene.ends } : nothing);
    maps.model.update(fit ? { board, values: fit.model, policy: fit.policy, capped: fit.scene.ends } : nothing);
    const why = fit?.scene.objective !== "likelihood" ? "Standard errors are those of the likelihood." : "This grid is too large for it here.";
    const errors = doubt?.errors;
    const isKnown = errors?.flat(2).some((value) => value !== null);
    maps.errors.update(isKnown ? { board, values: errors } : { board, values: null, caption: fit ? (doubt ? (fit.scene.reward === "marks" ? "It stands beside each weight." : why) : "…") : "" });
    strip.update(state);
    weights.update(state);
  }

  app.on("scene", (_, by) => {
    const { scene } = state;
    if (!editor) {
      editor = create(place, scene, (next) => app.setScene(next, { by: "editor", since: lastPointerUp ?? performance.now() }));
    } else if (by !== "editor" && by !== "draw") editor.update(scene, { record: true });
    const [height, width] = [scene.board.length, scene.board[0].length];
    const sizes = SIZES.map((each) => [String(each), `${each} × ${each}`]);
    const isKnown = height === width && SIZES.includes(height);
    const options = isKnown ? sizes : [["0", `${height} × ${width}`], ...sizes];
    size.node.replaceChildren(...options.map(([value, text]) => h("option", { value, textContent: text })));
    size.set(isKnown ? String(height) : "0");
    slip.set(scene.slip);
    discount.set(scene.discount);
    horizon.set(scene.horizon ?? 205);
    ends.input.checked = scene.ends;
    reward.set(scene.reward);
    objective.set(scene.objective);
    l2.set(Math.log10(Math.max(scene.l2, 1e-4)));
  });
  app.on("preview", (_, values) => maps.reward.update({ board: state.scene.board, values, small: "not finished yet" }));
  let waiting = null;
  app.on("busy", (_, isBusy) => {
    clearTimeout(waiting);
    if (!isBusy) return;
    app.say("Inferring the reward …");
    waiting = setTimeout(() => app.say("Inferring the reward … The first fit on a grid of this size is compiled, which takes some seconds."), LONG);
  });
  app.on("fit", () => {
    const { fit } = state;
    if (fit) app.say(`The fit ${fit.message} in ${fit.iterations} steps, ${Math.round(1000 * fit.seconds)} ms.`
      + (fit.missing_mass > 0.01 ? ` ${Math.round(100 * fit.missing_mass)}% of the discounted visits lie after the ends of walks.` : ""));
    else app.say("Draw a walk to begin.");
    drawMaps();
  });
  app.on("doubt", drawMaps);

  let lastPointerUp = null;
  place.addEventListener("pointerup", (event) => {
    lastPointerUp = event.timeStamp;
    setTimeout(() => (lastPointerUp = null));
  }, { capture: true });

  for (const field of [reward, objective]) field.classList.add("wide");
  return [
    patterns(),
    h("h2", {}, "What did they want?"),
    h("p.lead", {}, "Draw what somebody did. The reward that explains it best appears beside it, with how sure that is."),
    h("div.split", {},
      h("div.stack", {}, h("div.card", {}, place), controls),
      h("div.stack", {}, h("div.card", {}, h("div.pair", {}, Object.values(maps).map((map) => map.element))), weights.element, strip.element)),
  ];
}

/** The scene with another size: what is drawn stays in the corner at the top left, walks that leave the grid go. */
function resized(scene, side) {
  if (!side) return {};
  const row = (line) => line.slice(0, side).padEnd(side, ".");
  const board = Array.from({ length: side }, (_, i) => row(scene.board[i] ?? ""));
  const fits = (walk) => walk.every(([down, right]) => down < side && right < side);
  const large = side > LARGE && scene.horizon === null ? { horizon: 60 } : {};
  const isMoves = scene.reward === "moves" && side > 15 ? { reward: "cells" } : {};
  const all = board.every((line) => [...line].every((cell) => cell === "#")) ? { board: board.map(() => ".".repeat(side)) } : {};
  return { board, demonstrations: scene.demonstrations.filter(fits), ...large, ...isMoves, ...all };
}

/** Walks that stop at the first goal or hazard. */
function cutAtEnds(scene) {
  const cut = (walk) => {
    const end = walk.findIndex(([row, column]) => "GX".includes(scene.board[row][column]));
    return end < 0 ? walk : walk.slice(0, end + 1);
  };
  return { demonstrations: scene.demonstrations.map(cut).filter((walk) => walk.length > 1) };
}
