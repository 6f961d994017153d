// A chart of the last seconds: lines in SVG, a legend with values, and a cursor for mouse and keyboard.

import { clock, fill, h } from "./dom.js";

const width = 300;
const height = 100;
/** The parts of the time axis, with a label at the end of each. */
const axisParts = 4;

/**
 * A chart with up to three series: `{label, value(sample)}`, where a value may be null. `format` writes a value. `show(samples, seconds)`
 * draws the samples of the last seconds, each at its time. The newest one is at the right edge.
 */
export function chart({ title, series, format }) {
  const paths = series.map((_, index) => h("path", { class: `series series${index}`, fill: "none" }));
  const cursor = h("line", { class: "cursor", y1: 0, y2: height, visibility: "hidden" });
  const top = h("span", { class: "top" });
  const values = series.map(() => h("span", { class: "value" }));
  const when = h("span", { class: "when" });
  const plot = h("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    [25, 50, 75].map((y) => h("line", { class: "grid", x1: 0, x2: width, y1: y, y2: y })),
    [1, 2, 3].map((part) => h("line", { class: "grid", x1: part * width / axisParts, x2: part * width / axisParts, y1: 0, y2: height })),
    paths, cursor);
  const axis = Array.from({ length: axisParts + 1 }, () => h("span"));
  const frame = h("div", {
    class: "plot", tabindex: "0", role: "slider", "aria-label": `${title}: second to read`, "aria-orientation": "horizontal",
    "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0,
  }, top, plot);
  const element = h("figure", { class: "chart" },
    h("figcaption", null, h("h2", null, title), when), frame, h("div", { class: "axis", "aria-hidden": "true" }, axis),
    h("ul", { class: "legend" }, series.map(({ label }, index) => h("li", null,
      h("svg", { viewBox: "0 0 24 8", class: "key", "aria-hidden": "true" }, h("path", { d: "M0 4H24", class: `series series${index}` })),
      `${label} `, values[index]))));

  let samples = [];
  /** The time from end to end, in milliseconds. */
  let span = 1_000;
  /** The time of the sample under the cursor; null for the newest sample. */
  let chosen = null;

  const x = (sample) => (1 - (samples.at(-1).time - sample.time) / span) * width;

  function showValues() {
    const found = chosen === null ? -1 : samples.findIndex((sample) => sample.time >= chosen);
    if (found < 0) chosen = null;
    const index = found < 0 ? samples.length - 1 : found;
    const sample = samples[index];
    series.forEach(({ value }, position) => { values[position].textContent = sample ? text(value(sample)) : "–"; });
    when.textContent = sample && chosen !== null ? clock(sample.time) : "now";
    if (chosen === null) cursor.setAttribute("visibility", "hidden");
    else {
      cursor.setAttribute("visibility", "visible");
      cursor.setAttribute("x1", x(sample));
      cursor.setAttribute("x2", x(sample));
    }
    frame.setAttribute("aria-valuemax", Math.max(0, samples.length - 1));
    frame.setAttribute("aria-valuenow", Math.max(0, index));
    // Only the focused chart changes its text: a screen reader would read every change.
    if (sample && (chosen !== null || document.activeElement !== frame)) {
      frame.setAttribute("aria-valuetext", `${clock(sample.time)}: ${series.map(({ label, value }) => `${label} ${text(value(sample))}`).join(", ")}`);
    }
  }

  /** Writes the local times of the axis. The newest sample is at its right end. */
  function showTimes() {
    const newest = samples.at(-1)?.time;
    axis.forEach((label, part) => {
      label.textContent = newest === undefined ? "" : clock(newest - (axisParts - part) / axisParts * span);
    });
  }

  function text(value) { return value === null || value === undefined ? "–" : format(value); }

  function choose(index) {
    chosen = index >= samples.length - 1 ? null : samples[Math.max(0, index)]?.time ?? null;
    showValues();
  }

  frame.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const pointed = (samples.at(-1)?.time ?? 0) - (1 - (event.clientX - box.left) / box.width) * span;
    // The nearest sample; of two, the later one.
    choose(samples.findLastIndex(({ time }, index) => index === 0 || time + samples[index - 1].time <= 2 * pointed));
  });
  frame.addEventListener("pointerleave", () => choose(samples.length - 1));
  frame.addEventListener("keydown", (event) => {
    const index = chosen === null ? samples.length - 1 : samples.findIndex((sample) => sample.time >= chosen);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -30, PageUp: 30, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(step === -Infinity ? 0 : step === Infinity ? samples.length - 1 : index + step);
  });

  return {
    element,
    show(newSamples, seconds) {
      span = seconds * 1_000;
      samples = newSamples.filter(({ time }) => time >= newSamples.at(-1).time - span);
      const highest = Math.max(0, ...samples.flatMap((sample) => series.map(({ value }) => value(sample) ?? 0)));
      const scale = niceLimit(highest);
      fill(top, format(scale));
      series.forEach(({ value }, index) => {
        let isDrawing = false;
        let line = "";
        samples.forEach((sample) => {
          const number = value(sample);
          if (number === null || number === undefined) { isDrawing = false; return; }
          const at = `${x(sample).toFixed(1)} ${(height - number / scale * height).toFixed(1)}`;
          line += isDrawing ? `L${at}` : `M${at}h0`;
          isDrawing = true;
        });
        paths[index].setAttribute("d", line || "M0 0");
      });
      showTimes();
      showValues();
    },
  };
}

/** The smallest of 1, 2 and 5 times a power of ten that is not below a value. */
function niceLimit(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((limit) => limit >= value * 0.9999);
}
