/* Models: the causal and the path model side by side, of RiskyPath and of the scene. */

import { h, shown, slider, svg } from "./dom.js";
import { COLOURS, drawChart, newChart } from "./chart.js";
import { createMap } from "./grid_map.js";

const NAMES = { causal: "causal model (MCE)", path: "path model (MaxEnt)" };
const TURN = Math.log(2);

/** The four states of RiskyPath; the width of an arrow is its chance. */
function riskyDrawing() {
  const places = { start: [60, 90], detour: [200, 30], goal: [360, 60], hazard: [360, 150] };
  const edges = [["start", "detour", "safe"], ["detour", "goal", "safe"], ["start", "goal", "risky"], ["start", "hazard", "risky"]];
  const lines = edges.map(([from, to, action]) => {
    const [[x, y], [u, v]] = [places[from], places[to]];
    const gap = 20 / Math.hypot(u - x, v - y);
    const at = (share) => [x + (u - x) * share, y + (v - y) * share];
    const turn = (Math.atan2(v - y, u - x) * 180) / Math.PI;
    const [[x1, y1], [x2, y2]] = [at(gap), at(1 - gap)];
    const tip = svg("path", { d: "M-8 -5 L0 0 L-8 5", transform: `translate(${x2} ${y2}) rotate(${turn})` });
    const line = svg("g", { fill: "none", "stroke-linecap": "round", "stroke-linejoin": "round" }, svg("line", { x1, y1, x2, y2 }), tip);
    line.dataset.action = action;
    return line;
  });
  const [reward, hazard] = [svg("text", { x: 385, y: 64 }), svg("text", { x: 385, y: 154 })];
  const nodes = Object.entries(places).flatMap(([name, [x, y]]) => {
    const dot = svg("circle", { cx: x, cy: y, r: 11 });
    dot.style.fill = { goal: "var(--goal)", hazard: "var(--hazard)" }[name] ?? "var(--soft)";
    return name === "goal" || name === "hazard" ? [dot] : [dot, svg("text", { x, y: y + (name === "start" ? 30 : -18), "text-anchor": "middle" }, name)];
  });
  const texts = [svg("text", { x: 116, y: 46, "text-anchor": "end" }, "safe"), svg("text", { x: 190, y: 138, "text-anchor": "middle" }, "risky: ½ each")];
  const drawing = svg("svg", { class: "chart", viewBox: "0 0 510 180", role: "img", "aria-label": "RiskyPath: a sure detour to the goal, or a gamble" }, lines, nodes, texts, reward, hazard);
  return {
    drawing,
    update(level) {
      reward.textContent = "goal: 1 a step";
      hazard.textContent = `hazard: ${shown(level)}`;
      lines.forEach((line) => {
        line.style.stroke = line.dataset.action === "safe" ? "var(--soft)" : "var(--hazard)";
        line.style.strokeWidth = "2.5";
      });
    },
  };
}

function riskySection(app) {
  const settings = { discount: 0.9, hazard: -1, safe: 17, risky: 3 };
  const chart = newChart("The chance of the risky action, by discount");
  const table = h("table");
  const wait = h("p.note", {}, "The first time, both models are compiled, which takes a while …");
  const drawing = riskyDrawing();
  const control = (label, name, min, max, step, format = shown) => slider({ label, min, max, step, value: settings[name], format,
    onInput: (value) => ((settings[name] = value), ask()) });

  async function ask() {
    const answer = await app.ask("risky", settings);
    if (answer.kind === "error") app.complain(answer.message);
    if (answer.kind !== "risky") return;
    wait.hidden = true;
    drawing.update(settings.hazard);
    const curves = Object.keys(NAMES).map((name, i) => ({ name: NAMES[name], x: answer.curve.discounts, y: answer.curve[name], colour: COLOURS[i],
      dots: [[answer.discount, answer.chances[name]]] }));
    drawChart(chart, { curves, xlabel: "discount γ", ylabel: "chance of the risky action", low: 0, rule: { x: TURN, label: "log 2" } });
    const rows = Object.keys(NAMES).map((name) => h("tr", {}, h("td", {}, NAMES[name]), h("td", {}, shown(answer.chances[name])),
      h("td", {}, answer.learned ? shown(answer.learned[name]) : "–")));
    table.replaceChildren(h("tr", {}, h("th", {}, ""), h("th", {}, "chance of the risk"), h("th", {}, "learned reward of the goal")), ...rows);
  }

  const element = h("div.split", {},
    h("div.stack", {}, h("div.card", {}, drawing.drawing), h("div.card.fields", {},
      control("Discount γ", "discount", 0.05, 0.99, 0.01, (v) => v.toFixed(2)), control("Reward of the hazard", "hazard", -100, 0, 0.5),
      control("Safe choices observed", "safe", 0, 50, 1), control("Risky choices observed", "risky", 0, 50, 1))),
    h("div.stack", {}, h("div.card", {}, wait, chart), h("div.card", {}, h("div.scroll", {}, table),
      h("p.note", {}, "The path model counts lucky outcomes as if they had been chosen, so that it takes the gamble once γ is above log 2. From the same choices the two models learn another reward."))));
  drawing.update(settings.hazard);
  return { element, ask };
}

export function modelsView(app) {
  const { state } = app;
  const risky = riskySection(app);
  const columns = Object.fromEntries(Object.keys(NAMES).map((name) => [name, {
    reward: createMap({ title: "Reward", small: NAMES[name], signed: true }),
    behaviour: createMap({ title: "What follows", small: "in the true dynamics" }),
  }]));
  const note = h("p.note");
  let asked = null;

  async function ask() {
    const { scene, fit } = state;
    if (!fit || asked === fit.id) return;
    asked = fit.id;
    note.textContent = "Both models are being fitted; the first time, that takes a while.";
    const answer = await app.ask("models", { scene });
    if (answer.kind === "stale") return;
    note.textContent = answer.kind === "error" ? answer.message : "";
    if (answer.kind !== "models") return;
    pair.hidden = false;
    for (const name of Object.keys(NAMES)) {
      const found = answer[name];
      columns[name].reward.update({ board: scene.board, values: found.reward });
      columns[name].behaviour.update({ board: scene.board, values: found.model, policy: found.policy, capped: scene.ends });
      if (!found.converged) note.textContent += `The fit of the ${NAMES[name]} ${found.message}. `;
    }
  }

  let isShown = false;
  app.on("fit", () => isShown && ask());
  app.on("show", (_, name) => {
    isShown = name === "models";
    if (!isShown) return;
    risky.ask();
    ask();
  });
  const panels = Object.values(columns).flatMap(({ reward, behaviour }) => [reward.element, behaviour.element]);
  const pair = h("div.pair", { hidden: true }, panels);
  const grid = h("div.card.stack", {}, h("h3", {}, "The scene under both models"), note, pair);
  return [
    h("h2", {}, "Did they choose the outcome, or only the action?"),
    h("p.lead", {}, "Two models of a demonstrator. The causal one chooses actions, and the world their outcomes; the path model weighs whole paths, luck included. Where moves are certain they agree."),
    risky.element,
    h("div", { className: "stack" }, h("div"), grid),
  ];
}
