/* What if: the learned reward on a changed grid, beside the truth where it is known. */

import { h, shown, slider } from "./dom.js";
import { create } from "./grid_editor.js";
import { createMap } from "./grid_map.js";

const NAMES = { learned: "the learned reward", truth: "the true reward", chance: "chance" };

export function whatIfView(app) {
  const { state } = app;
  const place = h("div");
  let editor = null;
  let changed = null;
  let isShown = false;
  const reward = createMap({ title: "The learned reward", small: "", signed: true });
  const learned = createMap({ title: "The learned reward", small: "where it leads" });
  const truth = createMap({ title: "The true reward", small: "where it leads" });
  const bars = h("div.bars");
  const returns = h("div.stack", {}, h("h3", {}, "True return of what follows"), bars, h("p.note", {}, "Of the soft policies, which also like to leave choices open."));
  const slip = slider({ label: "Slip", min: 0, max: 0.6, step: 0.05, value: 0, format: (v) => v.toFixed(2),
    onInput: (v) => set({ ...changed, slip: v }) });
  const back = h("button.button", { type: "button", textContent: "Back to the grid of the walks", onclick: () => restart() });

  function set(scene) {
    changed = scene;
    editor.update(scene);
    ask();
  }

  /** The grid that was learned on, without its walks, which start where they did. */
  function restart() {
    const { scene } = state;
    changed = { ...scene, board: withStarts(scene), demonstrations: [] };
    slip.set(scene.slip);
    if (!editor) editor = create(place, changed, (next) => ((changed = next), ask()), { tools: ["wall", "goal", "hazard", "start", "erase"], walks: false });
    else editor.update(changed);
    ask();
  }

  function withStarts(scene) {
    const starts = new Set(scene.demonstrations.map(([cell]) => String(cell)));
    return scene.board.map((line, row) => [...line].map((cell, column) => (cell === "S" || (cell === "." && starts.has(String([row, column]))) ? "S" : cell)).join(""));
  }

  async function ask() {
    const { fit } = state;
    if (!isShown || !changed) return;
    if (!fit) return show(null);
    // Another fit is on its way, or there is none of what is drawn now.
    if (fit.scene !== state.scene) return null;
    const answer = await app.ask("what-if", { of: fit.id, scene: changed });
    if (answer.kind === "error") app.complain(answer.message);
    if (answer.kind === "what-if") show(answer);
  }

  function show(answer) {
    const { board } = changed;
    const empty = { board, values: null, caption: "Draw a walk first." };
    const part = (found) => (found ? { board, values: found.model, policy: found.policy, capped: changed.ends } : empty);
    reward.update(answer ? { board, values: answer.learned.reward, small: changed.reward === "marks" ? "it moves with the marks" : "it stays in its cells" } : empty);
    learned.update(part(answer?.learned));
    truth.update(answer?.truth ? part(answer.truth) : { board, values: null, caption: "The truth is known in some of the examples only." });
    returns.hidden = !answer?.returns;
    if (returns.hidden) return;
    const all = Object.entries(answer.returns);
    const [least, most] = [Math.min(0, ...all.map(([, value]) => value)), Math.max(1e-9, ...all.map(([, value]) => value))];
    bars.replaceChildren(...all.flatMap(([name, value]) => {
      const bar = h("i");
      bar.style.width = `${(100 * (value - least)) / (most - least)}%`;
      bar.style.background = { learned: "var(--accent)", truth: "var(--goal)" }[name] ?? "var(--soft)";
      return [h("span", {}, NAMES[name]), h("div", {}, bar), h("b", {}, shown(value))];
    }));
  }

  app.on("fit", () => state.scene && isShown && restart());
  app.on("show", (_, name) => {
    isShown = name === "what-if";
    if (isShown && state.scene) restart();
  });

  return [
    h("h2", {}, "What would they do elsewhere?"),
    h("p.lead", {}, "Move a wall or the goal, or make the floor more slippery: a reward says what follows, where a record of behaviour cannot."),
    h("div.split", {}, h("div.stack", {}, h("div.card", {}, place), h("div.card.stack", {}, slip, h("div.row", {}, back))),
      h("div.stack", {}, h("div.card", {}, h("div.pair", {}, learned.element, truth.element, reward.element, returns)))),
  ];
}
