/* Open: runs side by side, a live one, and a table with an MDP to be fitted. */

import { OBJECTIVES, checkbox, h, select, shown, slider } from "./dom.js";
import { COLOURS, drawChart, newChart } from "./chart.js";
import { createMap } from "./grid_map.js";

const WAIT = 1000;

function tableOf({ title, columns, rows, notes }) {
  const head = columns.some(Boolean) ? [h("tr", {}, columns.map((text) => h("th", { textContent: text })))] : [];
  const body = rows.map((row) => h("tr", {}, row.map((text) => h("td", { textContent: text }))));
  const table = h("table", {}, title ? h("caption", { textContent: title }) : null, head, body);
  return h("div", {}, h("div.scroll", {}, table), notes.map((text) => h("p.note", { textContent: text })));
}

/** A reward over states that are not a grid: bars from the middle for each state. */
function barsOf({ states, reward, expert, model }) {
  const most = Math.max(1e-12, ...reward.map((value) => Math.abs(value ?? 0)));
  const rows = states.flatMap((name, i) => {
    const bar = h("i");
    bar.style.width = `${(50 * Math.abs(reward[i] ?? 0)) / most}%`;
    bar.style.marginLeft = reward[i] < 0 ? `${50 - (50 * Math.abs(reward[i])) / most}%` : "50%";
    bar.style.background = reward[i] < 0 ? "var(--hazard)" : "var(--accent)";
    return [h("span", { textContent: name }), h("div", {}, bar), h("span", {}, `${shown(reward[i])} · visits ${shown(expert[i], 2)}, model ${shown(model[i], 2)}`)];
  });
  return h("div.bars", {}, rows);
}

function mapsOf({ title, board, policy, ...values }) {
  const heading = title ? h("h3", { textContent: title }) : null;
  if (!board) return h("div.stack", {}, heading, barsOf(values));
  const maps = [
    [createMap({ title: "Reward", signed: true }), { board, values: values.reward }],
    [createMap({ title: "Model", small: "visits and policy" }), { board, values: values.model, policy, capped: true }],
    [createMap({ title: "Demonstrator", small: "visits" }), { board, values: values.expert, capped: true }],
  ];
  maps.forEach(([map, data]) => map.update(data));
  return h("div.stack", {}, heading, h("div.pair", {}, maps.map(([map]) => map.element)));
}

function curvesOf({ step, ...columns }) {
  return Object.entries(columns).map(([name, y], i) => {
    const chart = newChart(name);
    drawChart(chart, { curves: [{ x: step, y, colour: COLOURS[i % COLOURS.length] }], xlabel: "step", ylabel: name });
    return chart;
  });
}

export function runCard(name, answer, reportOf = null) {
  const link = reportOf && h("a", { href: `report/${reportOf.split("/").map(encodeURIComponent).join("/")}`, target: "_blank", rel: "noopener", textContent: "the full report" });
  const state = h("p.note", { textContent: `${answer.method}: the fit ${answer.message}. ` });
  if (link) state.append(link);
  const [first, ...others] = answer.tables;
  const more = others.length ? h("details", {}, h("summary", { textContent: "More of the summary" }), others.map(tableOf)) : null;
  const curves = answer.curves.step ? h("details", {}, h("summary", { textContent: "Curves of the solver" }), curvesOf(answer.curves)) : null;
  const isLong = first && first.rows.length > 30;
  const table = first && (isLong ? h("details", {}, h("summary", { textContent: `${first.rows.length} parameters` }), tableOf(first)) : tableOf(first));
  return h("article.card.stack", {}, h("h3", { textContent: name }), state, answer.maps.map(mapsOf), table, more, curves);
}

/** A run that is being written: its numbers as curves, from second to second. */
function liveCard(app, name, onDone) {
  const [charts, state] = [h("div.stack"), h("p.note")];
  const element = h("article.card.stack", {}, h("h3", { textContent: `${name}, live` }), state, charts);
  const columns = new Map();
  let offset = 0;
  let isClosed = false;

  function add(lines) {
    for (const { step, ...numbers } of lines) {
      for (const [key, value] of Object.entries(numbers)) {
        if (!columns.has(key)) {
          const chart = newChart(key);
          charts.append(chart);
          columns.set(key, { chart, x: [], y: [] });
        }
        columns.get(key).x.push(step);
        columns.get(key).y.push(value);
      }
    }
    let number = 0;
    for (const [key, { chart, x, y }] of columns) drawChart(chart, { curves: [{ x, y, colour: COLOURS[number++ % COLOURS.length] }], xlabel: "step", ylabel: key });
    const steps = columns.size ? [...columns.values()][0].x : [];
    state.textContent = steps.length ? `${steps.length} steps, the last one ${shown(steps.at(-1), 6)}.` : "Waiting for the first step.";
  }

  async function follow() {
    if (isClosed) return;
    const answer = await app.ask("watch", { run: name, offset });
    if (isClosed) return;
    if (answer.kind === "error") return app.complain(answer.message);
    if (answer.kind === "watch") {
      if (answer.offset < offset) columns.forEach((column) => ([column.x, column.y] = [[], []]));
      offset = answer.offset;
      if (answer.lines.length || !columns.size) add(answer.lines);
      if (answer.finished) return onDone();
    }
    setTimeout(follow, WAIT);
  }
  follow();
  return { element, close: () => (isClosed = true) };
}

export function openView(app) {
  const [list, scenes, shelf] = [h("div.list"), h("div.list"), h("div.runs")];
  const opened = new Map();

  async function open(name, kind) {
    if (opened.has(name)) return;
    const waiting = h("article.card", {}, h("p.note", { textContent: `Opening ${name} …` }));
    opened.set(name, { element: waiting, close: () => {} });
    shelf.append(waiting);
    if (kind === "live") return replace(name, liveCard(app, name, () => (close(name), open(name, "run"), refresh())));
    const answer = await app.ask("open", { run: name });
    // It may have been closed, and opened again, in the meantime.
    if (opened.get(name)?.element !== waiting) return;
    if (answer.kind === "error") {
      close(name);
      app.complain(answer.message);
    } else if (answer.kind === "open") replace(name, { element: runCard(name, answer, name), close: () => {} });
  }

  function replace(name, card) {
    opened.get(name)?.element.replaceWith(card.element);
    opened.set(name, card);
  }

  function close(name) {
    opened.get(name)?.close();
    opened.get(name)?.element.remove();
    opened.delete(name);
  }

  async function refresh() {
    const found = await app.ask("files");
    if (found.kind !== "files") return found.kind === "error" && app.complain(found.message);
    const row = (name, kind) => checkbox({ label: kind === "live" ? `${name} (live)` : name, checked: opened.has(name),
      onChange: (isOn) => (isOn ? open(name, kind) : close(name)) });
    const rows = [...found.live.map((name) => row(name, "live")), ...found.runs.map((name) => row(name, "run"))];
    list.replaceChildren(...(rows.length ? rows : [h("p.note", {}, "No runs in this folder. ", h("code", {}, "fit.save(path)"), " and ", h("code", {}, "irlax fit"), " write them.")]));
    const saved = found.scenes.map((name) => h("button.button", { type: "button", textContent: name, onclick: () => load(name) }));
    scenes.replaceChildren(...(saved.length ? [h("div.row", {}, saved)] : [h("p.note", {}, "No scenes in this folder.")]));
    form.set(found);
  }

  async function load(name) {
    const answer = await app.ask("load", { file: name });
    if (answer.kind === "error") return app.complain(answer.message);
    app.show("draw");
    return app.setScene(answer.scene);
  }

  const form = tableForm(app, (name, answer) => {
    close(name);
    const card = runCard(name, answer);
    opened.set(name, { element: card, close: () => {} });
    shelf.prepend(card);
  });
  const again = h("button.button", { type: "button", textContent: "Refresh", onclick: refresh });

  app.on("show", async (_, name, first = {}) => {
    if (name === "open") await refresh();
    if (name !== "first") return;
    if (first.run) open(first.run, "run");
    if (first.live) open(first.live, "live");
    await refresh();
    form.choose(first);
  });
  return [
    h("h2", {}, "Runs and data"),
    h("p.lead", {}, "Fits that were saved, side by side; a fit that is running; a table of choices with an MDP, to be fitted here."),
    h("div.split", {}, h("div.card", {}, h("div.row", {}, h("h3.grow", {}, "Runs"), again), list), h("div.pair.wide", {},
      h("div.card", {}, h("h3", {}, "Scenes"), scenes), form.element)),
    h("div.stack", {}, h("div"), shelf),
  ];
}

function tableForm(app, onFit) {
  const table = select({ label: "Table (.csv, .parquet)", options: [], value: "", onChoose: () => {} });
  const mdp = select({ label: "MDP (.npz)", options: [], value: "", onChoose: () => {} });
  const reward = select({ label: "A reward of", options: [["s", "states"], ["sa", "states and actions"]], value: "s", onChoose: () => {} });
  const objective = select({ label: "Objective", options: OBJECTIVES, value: "likelihood", onChoose: () => {} });
  const l2 = slider({ label: "Penalty l2", min: -4, max: 0, step: 0.1, value: -2, format: (v) => shown(10 ** v, 2), onInput: () => {} });
  const names = { episode: "episode", time: "t", state: "state", action: "action" };
  const columns = Object.entries(names).map(([name, value]) => [name, h("input", { type: "text", value, "aria-label": `Column of the ${name}` })]);
  const note = h("p.note");
  const button = h("button.button.main", { type: "button", textContent: "Fit", onclick: fit });

  async function fit() {
    if (!table.node.value || !mdp.node.value) return (note.textContent = "Choose a table and an MDP from the folder of the studio.");
    note.textContent = "Fitting …";
    const fields = { table: table.node.value, mdp: mdp.node.value, reward: reward.node.value, objective: objective.node.value, l2: Number((10 ** l2.input.value).toPrecision(3)) };
    const answer = await app.ask("table", { ...fields, columns: Object.fromEntries(columns.map(([name, input]) => [name, input.value])) });
    note.textContent = answer.kind === "error" ? answer.message : "";
    if (answer.kind === "table") onFit(`${fields.table} in ${fields.mdp}`, answer);
    return null;
  }

  const inputs = columns.map(([name, input]) => h("label.field", {}, h("span", {}, `Column: ${name}`), input));
  const element = h("div.card.stack", {}, h("h3", {}, "Fit a table"), table, mdp, reward, objective, l2, h("details", {}, h("summary", {}, "Columns"), h("div.fields", {}, inputs)), button, note);
  return {
    element,
    set(found) {
      const fill = (field, files) => {
        const before = field.node.value;
        field.node.replaceChildren(...files.map((name) => h("option", { value: name, textContent: name })));
        if (files.includes(before)) field.set(before);
      };
      fill(table, found.tables);
      fill(mdp, found.mdps);
    },
    choose(first) {
      if (first.table) table.set(first.table);
      if (first.mdp) mdp.set(first.mdp);
    },
  };
}
