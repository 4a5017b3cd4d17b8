/* Colour scales that readers with any colour vision can tell apart, for light and for dark. */

const AMOUNTS = {
  light: ["#fbfdf3", "#e3f3c5", "#a9dcb8", "#5fc0c0", "#2b97bd", "#2264a6", "#16307c"],
  dark: ["#20293a", "#1f4763", "#1f6d88", "#2f97a0", "#6cc3a4", "#bfe3a4", "#fbf7bd"],
};
const SIGNED = {
  light: ["#3b1768", "#7564ab", "#bdb7d9", "#f6f6f7", "#fac37f", "#dd8115", "#8f4003"],
  dark: ["#d6c8ff", "#9d86e0", "#5f4f93", "#272d3a", "#8a5620", "#dd8a2c", "#ffcf8f"],
};

const FAINT = {
  light: ["#fdfbfd", "#f0e3ee", "#dcc4d9", "#c09fbd", "#9f7aa0"],
  dark: ["#20293a", "#383450", "#574a70", "#806893", "#b595be"],
};

export function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const parsed = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));

/** The colour at a share from 0 to 1 of a list of colours: [red, green, blue]. */
function between(colours, share) {
  const at = Math.min(Math.max(share, 0), 1) * (colours.length - 1);
  const low = Math.min(Math.floor(at), colours.length - 2);
  const [one, other] = [parsed(colours[low]), parsed(colours[low + 1])];
  return one.map((part, i) => Math.round(part + (other[i] - part) * (at - low)));
}

/** A scale for some values: from 0 up, or symmetric about 0 if any is negative or `signed`. `top` caps it; `faint` is pale. */
export function scaleOf(values, { signed = false, faint = false, top = null } = {}) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  const largest = top ?? known.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  // Rounding errors about 0 are no values to colour.
  const high = largest > 1e-12 ? largest : 1;
  const isSigned = signed || known.some((value) => value < 0);
  const colours = (isSigned ? SIGNED : faint ? FAINT : AMOUNTS)[isDark() ? "dark" : "light"];
  const low = isSigned ? -high : 0;
  const rgb = (value) => between(colours, (value - low) / (high - low));
  return {
    low,
    high,
    isCapped: known.some((value) => value > high * (1 + 1e-9)),
    fill: (value) => `rgb(${rgb(value).join(" ")})`,
    /** Ink that can be read on the colour of a value. */
    on: (value) => {
      const [red, green, blue] = rgb(value);
      return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#1d2433" : "#ffffff";
    },
  };
}
