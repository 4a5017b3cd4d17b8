/* Keep: examples, saving and loading, the Python that does the same, and light or dark. */

import { h } from "./dom.js";
import { redrawMaps } from "./grid_map.js";

const THEMES = ["", "light", "dark"];
const THEME_NAMES = { "": "Auto", light: "Light", dark: "Dark" };

function dialog(title, ...children) {
  const close = h("button.button", { type: "button", textContent: "Close" });
  const node = h("dialog", { "aria-label": title }, h("header", {}, h("h2", { textContent: title }), close), ...children);
  close.onclick = () => node.close();
  document.body.append(node);
  return node;
}

function saveDialog(app) {
  const name = h("input.grow", { type: "text", value: "scene", maxLength: 60, "aria-label": "Name" });
  const said = h("p.note", { role: "status" });
  const write = async (what) => {
    said.textContent = what === "fit" ? "Fitting and saving …" : "Saving …";
    const answer = await app.ask("save", { scene: app.state.scene, name: name.value, what });
    if (answer.kind === "error") said.textContent = answer.message;
    else if (answer.kind === "save") said.replaceChildren(`Written: ${answer.written}, in the folder ${app.state.folder}.`, ...(what === "fit"
      ? [" Open it here, or by ", h("code", { textContent: `irlax show "${answer.written}"` }), ", ", h("code", {}, "irlax report"), " or ", h("code", {}, "irlax.load"), "."] : []));
  };
  const download = () => {
    const text = JSON.stringify(app.state.scene, null, 1);
    const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: `${name.value}.scene.json` });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  const file = h("input", { type: "file", accept: ".json,application/json", hidden: true });
  file.onchange = async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    if (chosen.size > 2 ** 20) return (said.textContent = `${chosen.name} is too large for a scene.`);
    try {
      const answer = await app.ask("load", { scene: JSON.parse(await chosen.text()) });
      if (answer.kind === "error") throw new Error(answer.message);
      node.close();
      app.show("draw");
      app.setScene(answer.scene);
    } catch (error) {
      said.textContent = `${chosen.name} is not a scene: ${error.message}`;
    }
    file.value = "";
  };
  const button = (textContent, onclick, kind = "button.button") => h(kind, { type: "button", textContent, onclick });
  const node = dialog("Save and load", h("div.stack", {}, h("div.row", {}, name, button("Save scene", () => write("scene"), "button.button.main"), button("Save fit", () => write("fit"))),
    h("div.row", {}, button("Download the scene", download), button("Load from a file …", () => file.click()), file), said,
    h("p.note", {}, "A fit is a folder, with its MDP and its walks as files that ", h("code", {}, "irlax fit"), " reads too. Scenes of the folder are under Open.")));
  return node;
}

function codeDialog(app) {
  const code = h("pre", { tabIndex: 0 });
  const said = h("span.note", { role: "status" });
  const copy = h("button.button.main", { type: "button", textContent: "Copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      said.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(code);
      said.textContent = "Selected: copy it by Ctrl+C.";
    }
  } });
  const node = dialog("The same in Python", h("div.stack", {}, code, h("div.row", {}, copy, said)));
  return Object.assign(node, { async fill() {
    said.textContent = "";
    const answer = await app.ask("code", { scene: app.state.scene });
    code.textContent = answer.kind === "code" ? answer.code : answer.message;
    node.showModal();
  } });
}

function theme() {
  const read = () => {
    try {
      return localStorage.getItem("theme") ?? "";
    } catch {
      return "";
    }
  };
  const button = h("button.button", { type: "button" });
  const set = (name) => {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    button.textContent = THEME_NAMES[name];
    button.title = `Colours: ${THEME_NAMES[name].toLowerCase()}`;
    button.setAttribute("aria-label", button.title);
    redrawMaps();
  };
  button.onclick = () => {
    const name = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "") + 1) % THEMES.length];
    try {
      localStorage.setItem("theme", name);
    } catch {
      // Without storage the choice holds for this page only.
    }
    set(name);
  };
  set(THEMES.includes(read()) ? read() : "");
  return button;
}

export function keepActions(app) {
  const scenes = h("select", { "aria-label": "Examples" });
  app.on("show", (state, name) => {
    if (name !== "presets") return;
    const options = state.presets.map((scene, i) => h("option", { value: i, textContent: scene.title }));
    scenes.replaceChildren(h("option", { value: "", textContent: "Examples …" }), ...options);
  });
  scenes.onchange = () => {
    if (scenes.value !== "") app.setScene(app.state.presets[Number(scenes.value)]);
    scenes.value = "";
  };
  const [save, code] = [saveDialog(app), codeDialog(app)];
  const button = (textContent, onclick) => h("button.button", { type: "button", textContent, onclick });
  return [scenes, button("Save", () => save.showModal()), button("Python", () => code.fill()), theme()];
}
