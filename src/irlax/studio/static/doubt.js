/* Doubt: what the walks cannot tell, as something to move. */

import { h, shown, slider } from "./dom.js";
import { createMap } from "./grid_map.js";
import { drawChart, newChart } from "./chart.js";

const TEXTS = {
  constant: ["The same for every cell", "Nobody's choices depend on it."],
  potential: ["A potential", "What it adds on the way in, it takes on the way out."],
  "no effect": ["No effect", "It changes the reward of no move here."],
  cell: ["Around the chosen cell", "A potential there: behaviour stays as it is."],
  open: ["What these walks leave open there", "Elsewhere behaviour changes; along the walks hardly."],
  least: ["The least certain thing they do tell", "In standard deviations. The likelihood falls."],
};

const titleOf = (name, kinds) => TEXTS[name.startsWith("null") ? kinds[Number(name.slice(4))] : name === "potential" ? "cell" : name];

export function doubtView(app) {
  const { state } = app;
  const choose = (cell) => state.fit && state.fit.scene.board[cell[0]][cell[1]] !== "#" && app.chooseCell(cell);
  const reward = createMap({ title: "Reward", small: "click a cell to choose it", signed: true, onChoose: choose });
  const behaviour = createMap({ title: "Model", small: "where it then goes" });
  const rows = h("div.card");
  const [change, walked, likelihood] = [h("b"), h("b"), h("b")];
  const same = h("div.fact", {}, change, "largest change of the policy");
  const facts = h("div.card.facts", {}, same, h("div.fact", {}, walked, "of it, where walks went"), h("div.fact", {}, likelihood, "log likelihood"));
  const chart = newChart("Log likelihood along the least certain direction");
  const curve = h("div.card", {}, h("h3", {}, "How fast the likelihood falls"), chart);
  const nothing = h("p.note");
  let sizes = {};
  let moved = null;
  let thumbs = [];

  function show() {
    const { fit, doubt } = state;
    const board = fit?.scene.board ?? state.scene?.board;
    const now = moved ?? fit;
    const empty = { board, values: null, caption: "Draw a walk first." };
    reward.update(fit ? { board, values: now.reward } : empty);
    behaviour.update(fit ? { board, values: now.model, policy: now.policy, capped: fit.scene.ends } : empty);
    reward.choose(state.cell);
    change.textContent = moved ? shown(moved.policy_change, 2) : "0";
    walked.textContent = moved ? shown(moved.change_where_walked, 2) : "0";
    same.classList.toggle("same", !moved || moved.policy_change < 1e-8);
    likelihood.textContent = now ? shown(now.log_likelihood, 5) : "–";
    curve.hidden = !doubt?.curve.length;
    if (curve.hidden) return;
    const [x, y] = [doubt.curve.map(([at]) => at), doubt.curve.map(([, value]) => value)];
    const onCurve = Object.entries(sizes).every(([name, size]) => name === "least" || size === 0);
    const marker = [sizes.least ?? 0, onCurve ? now.log_likelihood : NaN];
    drawChart(chart, { curves: [{ x, y }], xlabel: "standard deviations along the direction", ylabel: "log likelihood", marker: onCurve ? marker : null });
  }

  async function move() {
    const { fit, cell } = state;
    if (!fit) return;
    const isBack = Object.values(sizes).every((size) => size === 0);
    const answer = await app.ask("move", { of: fit.id, cell: state.doubt.cell ?? null, sizes });
    if (answer.kind === "error") app.complain(answer.message);
    if (answer.kind !== "move" || answer.of !== state.fit?.id || cell !== state.cell) return;
    moved = isBack ? null : answer;
    show();
  }

  function drawRows() {
    const { doubt, fit } = state;
    thumbs.forEach((thumb) => thumb.forget());
    thumbs = [];
    sizes = {};
    moved = null;
    if (!doubt) {
      rows.replaceChildren(h("p.note", {}, state.fit ? "…" : "There is nothing to doubt yet."));
      return;
    }
    const list = Object.entries(doubt.directions).map(([name, picture]) => {
      const [title, note] = titleOf(name, doubt.kinds);
      const isLeast = name === "least";
      const thumb = createMap({ title, signed: true, isThumb: true });
      thumb.update({ board: fit.scene.board.map((line) => line.replace(/[GXS]/g, ".")), values: picture });
      thumbs.push(thumb);
      const span = isLeast ? doubt.reach : Math.min(Math.max(doubt.span, 1), 20);
      const control = slider({ label: title, min: -span, max: span, step: span / 60, value: 0, onInput: (value) => {
        sizes = { ...sizes, [name]: value };
        move();
      } });
      control.input.dataset.direction = name;
      return h("div.direction", {}, thumb.element, h("div", {}, control, h("p.note", {}, note)));
    });
    const hidden = doubt.null_dim;
    nothing.textContent = `Of ${doubt.num_parameters} numbers, no behaviour reveals ${hidden}`
      + (doubt.open_dim ? `, and these walks leave ${doubt.open_dim} more open.` : ".")
      + (state.cell || fit.scene.reward === "marks" ? "" : " Click a cell of the reward to see what is open there.");
    const reset = h("button.button", { type: "button", textContent: "Back to the estimate", onclick: () => (drawRows(), show()) });
    rows.replaceChildren(...list, h("div.row", {}, reset), nothing);
  }

  app.on("scene", () => (sizes = {}));
  app.on("fit", () => (drawRows(), show()));
  app.on("doubt", () => (drawRows(), show()));

  return [
    h("h2", {}, "What else would explain it?"),
    h("p.lead", {}, "Many rewards lead to the same behaviour. Each slider moves the reward in a direction that the walks cannot tell, and the policy stays as it is."),
    h("div.split", {}, h("div.stack", {}, rows, facts), h("div.stack", {}, h("div.card", {}, h("div.pair", {}, reward.element, behaviour.element)), curve)),
  ];
}
