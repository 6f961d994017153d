// Builds elements, and formats values for people. Every text becomes a text node: names and statuses come from strangers.

const svgNames = new Set(["svg", "path", "circle", "line", "polyline", "text", "title", "desc", "g"]);

/**
 * Creates an element. A property that begins with `on` adds a listener; `true` sets an empty attribute; `false`, null and undefined set none.
 * Children are elements, texts, numbers or arrays of these; null, undefined and false are left out.
 */
export function h(name, properties, ...children) {
  const element = svgNames.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...flat(children));
  return element;
}

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => child instanceof Node ? child : document.createTextNode(String(child)));
}

let lastID = 0;

/** An ID for an element that a label or a description refers to. */
export function freshID(prefix) { return `${prefix}-${++lastID}`; }

/**
 * A text from a stranger, isolated from the direction of the text around it. Characters that force a direction appear as code points: they
 * could show "exe.png" for "gnp.exe".
 */
export function stranger(text) { return h("bdi", { class: "stranger" }, forced(text)); }

function forced(text) { return String(text).replace(/[\u202a-\u202e\u2066-\u2069]/g, escaped); }

function escaped(character) { return `\\u{${character.codePointAt(0).toString(16)}}`; }

/** A text of this program with names in backticks, which become code. */
export function prose(text) {
  return text.split("`").map((part, index) => index % 2 === 1 ? h("code", null, part) : part);
}

/** A name that identifies something. Characters that cannot be seen appear as code points, because two names must not look alike. */
export function identifier(name) { return h("bdi", { class: "id" }, visible(name)); }

/** The text with each invisible character written as \u{…}. */
export function visible(text) {
  return String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, escaped);
}

/**
 * A table that scrolls sideways in its own region, which the keyboard reaches. Columns: texts, or `{text, isNumber}`. In a narrow window
 * the rows of a stacked table become blocks, with the name of the column before each value.
 */
export function table(caption, columns, { isCaptionHidden = false, isStacked = columns.length > 2 } = {}) {
  const id = freshID("caption");
  const body = h("tbody");
  const role = (name) => isStacked ? name : null; // A block loses the role that the element has in a table.
  if (isStacked) body.setAttribute("role", "rowgroup");
  const element = h("div", { class: isStacked ? "scroll stacked" : "scroll", tabindex: "0", role: "region", "aria-labelledby": id },
    h("table", { role: role("table"), "aria-labelledby": id },
      h("caption", { id, class: isCaptionHidden ? "unseen" : null }, caption),
      h("thead", { role: role("rowgroup") }, h("tr", { role: role("row") }, columns.map((column) =>
        h("th", { scope: "col", role: role("columnheader"), class: column.isNumber ? "number" : null }, column.text ?? column)))),
      body));
  /** Shows rows of cells. The first cell of a row is its header. Without rows the table shows `empty`. */
  const show = (rows, empty = "None") => fill(body, rows.length === 0
    ? h("tr", { role: role("row") }, h("td", { colspan: columns.length, role: role("cell"), class: "empty" }, empty))
    : rows.map((cells) => h("tr", { role: role("row") }, cells.map((cell, index) => h(index === 0 ? "th" : "td", {
      scope: index === 0 ? "row" : null, role: role(index === 0 ? "rowheader" : "cell"),
      class: columns[index].isNumber ? "number" : null, "data-column": isStacked ? columns[index].text ?? columns[index] : null,
    }, h("span", { class: "cell" }, cell))))));
  return { element, show };
}

/** A list of terms and values. Values of null are left out. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined)
    .map(([term, value]) => h("div", null, h("dt", null, term), h("dd", null, value))));
}

/** A field with its label. */
export function field(label, control, help) {
  const id = control.id || freshID("field");
  control.id = id;
  const helpID = help ? `${id}-help` : null;
  if (helpID) control.setAttribute("aria-describedby", helpID);
  return h("div", { class: "field" }, h("label", { for: id }, label), control, help && h("p", { class: "help", id: helpID }, help));
}

// Formats.

const integers = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value) { return value === undefined || value === null ? "–" : integers.format(value); }

export function rate(value) { return value === undefined ? "–" : value < 10 && value !== Math.round(value) ? value.toFixed(1) : count(value); }

export function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds === 0) return "0 ms";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  if (seconds < 120) return `${Number(seconds.toPrecision(3))} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

export function bytes(value) {
  if (value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  while (value >= 1024 && index < units.length - 1) { value /= 1024; index += 1; }
  return `${index === 0 ? value : value.toFixed(1)} ${units[index]}`;
}

const times = new Intl.DateTimeFormat("en-CA", { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" });
const clocks = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** A time in milliseconds since 1970, as local time with the age. 0 and absent times are a dash. */
export function time(milliseconds) {
  if (!milliseconds) return "–";
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) return "–";
  return h("time", { datetime: date.toISOString(), title: date.toISOString() },
    `${times.format(date).replace(",", "")} (${age(Math.round((Date.now() - milliseconds) / 1000))})`);
}

function age(seconds) { return seconds === 0 ? "now" : seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`; }

export function clock(milliseconds = Date.now()) { return clocks.format(milliseconds); }

export function plural(number, one, many = `${one}s`) { return `${count(number)} ${number === 1 ? one : many}`; }
