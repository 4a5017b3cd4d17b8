/* Elements and their texts. Data become text nodes and attributes, never markup. */

/** Objectives of `MCEIRL`: [value, label]. */
export const OBJECTIVES = [["likelihood", "likelihood"], ["discounted-likelihood", "discounted likelihood"], ["feature-matching", "feature matching"]];
const SVG = "http://www.w3.org/2000/svg";

/** An element with properties (attributes where they have a dash, or are `class` or `role`) and children. */
export function h(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name || "div");
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-") || key === "role" || key === "for") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.flat());
  return node;
}

/** A number for people: three digits, a real minus sign. */
export function shown(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (size === 0) text = "0";
  else if (size < 1e-4 || size >= 1e5) text = value.toExponential(1).replace("e-", "e−").replace("e+", "e");
  else text = String(Number(value.toPrecision(digits)));
  return text.replace(/^-/, "−");
}

/** A slider with its name and value above it. `format` turns the value into text. */
export function slider({ label, min, max, step, value, format = shown, onInput }) {
  const output = h("output", { textContent: format(value) });
  const input = h("input", { type: "range", min, max, step, value, "aria-label": label });
  input.oninput = () => {
    output.textContent = format(Number(input.value));
    onInput(Number(input.value));
  };
  const field = h("label.field", {}, h("span", {}, label, output), input);
  return Object.assign(field, {
    set(next) {
      input.value = next;
      output.textContent = format(next);
    },
    input,
  });
}

/** Buttons of which one is chosen. `choices` is [[value, label], …]. */
export function choices({ label, choices: all, value, onChoose }) {
  const buttons = all.map(([name, text]) => h("button", { type: "button", textContent: text, value: name }));
  const set = (next) => buttons.forEach((node) => node.setAttribute("aria-pressed", String(node.value === next)));
  buttons.forEach((node) => (node.onclick = () => (set(node.value), onChoose(node.value))));
  set(value);
  const group = h("div.choices", { role: "group", "aria-label": label }, buttons);
  return Object.assign(h("div.field", {}, h("span", { textContent: label }), group), { set });
}

export function select({ label, options, value, onChoose }) {
  const node = h("select", { "aria-label": label }, options.map(([name, text]) => h("option", { value: name, textContent: text })));
  node.value = value;
  node.onchange = () => onChoose(node.value);
  return Object.assign(h("label.field", {}, h("span", { textContent: label }), node), { set: (next) => (node.value = next), node });
}

export function checkbox({ label, checked, onChange }) {
  const input = h("input", { type: "checkbox", checked });
  input.onchange = () => onChange(input.checked);
  return Object.assign(h("label.check", {}, input, h("span", { textContent: label })), { input });
}
