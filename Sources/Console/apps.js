// The page Apps: the policy of the token's app, its changes as a difference, and their result.

import { CallError, call, openAPIDocument } from "./api.js";
import { facts, field, fill, freshID, h, identifier, plural, prose, table, visible } from "./dom.js";
import { ask, attempt, problemPlace, resultPlace } from "./ui.js";

export function createAppsPage(context) {
  const problem = problemPlace();
  const result = resultPlace();
  const head = h("div");
  const filter = h("input", { type: "search", id: "settingFilter", autocomplete: "off", spellcheck: "false" });
  const preset = h("select", { id: "preset" });
  const place = h("div", { class: "settings" });
  const review = h("button", { type: "submit", class: "primary" }, "Review changes");
  const discard = h("button", { type: "button", class: "plain" }, "Discard edits");
  const form = h("form", { "aria-label": "Policy" },
    h("div", { class: "inline" }, field("Preset", preset, "Another preset discards all overrides."), field("Filter settings", filter)),
    place, h("div", { class: "buttons sticky" }, h("span", { id: "editCount", role: "status" }), discard, review));
  const element = h("div", { class: "page" },
    h("h1", { tabindex: "-1" }, "Apps"), problem.element, result.element, head, form);

  let policy = null;
  let rows = [];

  async function load() {
    const reading = openAPIDocument().catch((error) => {
      if (!(error instanceof CallError)) throw error;
      problem.show(error); // Without ranges the policy can still be read and changed: the node checks each value.
      return {};
    });
    const [answer, document] = await Promise.all([call("getAppPolicy"), reading]);
    policy = answer;
    const schemas = document.components?.schemas?.AppPolicy?.properties ?? {};
    const request = document.paths?.["/admin/v1/setAppPolicy"]?.post?.requestBody?.content?.["application/json"]?.schema;
    const editable = request?.properties?.settings?.properties ?? {};
    fill(preset, (schemas.preset?.enum ?? [policy.preset]).map((name) => h("option", { value: name }, name)));
    preset.value = policy.preset;
    fill(head, facts([["App", identifier(policy.app)], ["Preset", policy.preset], ["Version", h("code", null, policy.version)]]));
    rows = Object.entries(policy.settings).map(([name, value]) =>
      createSetting(name, value, { ...schemas.settings?.properties?.[name], ...notes(editable[name]) }, policy.preset, showCount));
    fill(place, groups(rows));
    showFilter();
    showCount();
  }

  function showFilter() {
    const words = filter.value.toLowerCase().trim();
    for (const group of place.children) {
      let isAnyShown = false;
      for (const row of group.querySelectorAll(".setting")) {
        row.hidden = words !== "" && !row.dataset.name.toLowerCase().includes(words);
        isAnyShown ||= !row.hidden;
      }
      group.hidden = !isAnyShown;
    }
  }

  function edits() { return rows.filter((row) => row.isEdited()); }

  function showCount() {
    const number = edits().length + (preset.value === policy?.preset ? 0 : 1);
    const text = number === 0 ? "No edits." : `${number} ${number === 1 ? "edit" : "edits"}, not yet applied.`;
    const shown = form.querySelector("#editCount");
    if (shown.textContent !== text) shown.textContent = text;
  }

  async function reviewChanges() {
    if (policy === null) {
      await load();
      return;
    }
    const changes = edits().map((row) => ({
      name: row.name, before: policy.settings[row.name], after: row.read(), isSecret: row.isSecret, presets: row.presets,
    }));
    const isPresetNew = preset.value !== policy.preset;
    if (changes.length === 0 && !isPresetNew) {
      result.show(h("p", null, "There is nothing to apply: no setting differs."));
      result.element.focus();
      return;
    }
    const request = {
      ...(isPresetNew ? { preset: preset.value } : {}),
      ...(changes.length > 0 ? { settings: Object.fromEntries(changes.map(({ name, after }) => [name, after])) } : {}),
    };
    const before = policy;
    const kept = new Set(changes.filter(({ after }) => after !== null).map(({ name }) => name));
    const presetsOf = (name) => rows.find((row) => row.name === name)?.presets;
    const byPreset = isPresetNew ? presetChanges(policy.settings, presetsOf, preset.value, kept) : { changes: [], unknown: [] };
    const difference = table("Changes", ["Setting", "Now", "New"]);
    difference.show([
      ...(isPresetNew ? [["preset", removed(policy.preset), added(preset.value)]] : []),
      ...changes.filter(({ after }) => after !== null || !isPresetNew).map(({ name, before: was, after, isSecret, presets }) => [
        name, removed(writeSetting(name, was)),
        added(after !== null ? isSecret ? "a new secret" : writeSetting(name, after)
          : presets?.[policy.preset] === undefined ? "value of the preset" : writeSetting(name, presets[policy.preset])),
      ]),
      ...byPreset.changes.map(({ name, before: was, after }) => [name, removed(writeSetting(name, was)), added(writeSetting(name, after))]),
    ]);
    const number = changes.length + (isPresetNew ? 1 : 0);
    const answer = await ask({
      title: `Change the policy of app ${visible(policy.app)}?`, isDangerous: isPresetNew,
      content: [
        difference.element,
        isPresetNew && h("p", { id: "presetEffect" },
          `The preset ${preset.value} discards all overrides. It changes ${plural(byPreset.changes.length, "setting")}: the table has them.`,
          byPreset.unknown.length > 0 && ` The node does not state its values of ${plural(byPreset.unknown.length, "setting")}.`),
        h("p", { class: "help" }, "Every live node follows the new policy when the node answers."),
      ],
      label: `Apply ${number} ${number === 1 ? "change" : "changes"} to ${visible(policy.app)}`,
      action: () => changePolicy(before, request),
    });
    if (!answer) return;
    await load();
    // A secret is shown as "(set)" before and after.
    const isNewSecret = (name) => changes.some((change) => change.isSecret && change.name === name);
    const took = Object.keys(answer.settings).filter((name) =>
      isNewSecret(name) || write(answer.settings[name]) !== write(before.settings[name]));
    const outcome = table("Settings that changed", ["Setting", "Before", "Now"]);
    outcome.show([
      ...(answer.preset === before.preset ? [] : [["preset", removed(before.preset), added(answer.preset)]]),
      ...took.map((name) => [
        name, removed(writeSetting(name, before.settings[name])), added(writeSetting(name, answer.settings[name])),
      ]),
    ], "No value changed.");
    result.show(
      h("p", null, h("strong", null, "Applied."), " The policy has the version ", h("code", null, answer.version), "."), outcome.element);
    result.element.focus();
  }


  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(problem, reviewChanges);
  });
  form.addEventListener("invalid", () => {
    // An invalid field that the filter hides could not show its message.
    filter.value = "";
    showFilter();
  }, true);
  preset.addEventListener("change", showCount);
  filter.addEventListener("input", showFilter);
  filter.addEventListener("keydown", (event) => { if (event.key === "Enter") event.preventDefault(); });
  discard.addEventListener("click", () => {
    result.clear();
    attempt(problem, load);
  });

  return {
    element,
    start() {
      // Edits stay while another page is open.
      if (policy === null || edits().length === 0) attempt(problem, async () => {
        await load();
        context.fresh(null);
      });
    },
    stop() { return undefined; },
  };
}

function removed(text) { return h("del", null, text); }

function added(text) { return h("ins", null, text); }

/** The settings in groups by the first part of their names. A name without parts is in "general", unless it heads a group. */
function groups(rows) {
  const found = new Map();
  for (const row of rows) {
    const [first, rest] = row.name.split(".");
    const key = rest !== undefined || rows.some(({ name }) => name.startsWith(`${first}.`)) ? first : "general";
    found.set(key, [...(found.get(key) ?? []), row.element]);
  }
  return [...found].map(([key, elements]) => {
    const id = freshID("group");
    return h("section", { class: "group", "aria-labelledby": id }, h("h2", { id }, key), elements);
  });
}

/**
 * The default, the presets' values, the description and the form of a secret, which a node may state beside the range of a setting. A
 * setting that a request may also set to null has them in an alternative.
 */
function notes(schema = {}) {
  const parts = [schema, ...schema.anyOf ?? []];
  const values = ["default", "description", "x-presets", "writeOnly", "pattern"].map((key) => [key, parts.find((part) => part[key] !== undefined)?.[key]]);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** The values of a setting in all presets, in words: presets with the same value stand together. */
export function presetValues(name, presets) {
  const found = new Map();
  for (const [preset, value] of Object.entries(presets)) {
    const text = writeSetting(name, value);
    found.set(text, [...(found.get(text) ?? []), preset]);
  }
  if (found.size === 1) return `All presets: ${[...found.keys()][0]}.`;
  return `Presets: ${[...found].map(([text, names]) => `${names.join(", ")} ${text}`).join("; ")}.`;
}

/**
 * The settings that another preset would change: `{name, before, after}`. A setting that `edited` names is not among them, because it gets
 * an override of its own. Settings whose value in the preset is not known are in `unknown`.
 */
export function presetChanges(settings, presetsOf, preset, edited) {
  const names = Object.keys(settings).filter((name) => !edited.has(name));
  const [known, unknown] = [true, false].map((isKnown) => names.filter((name) => (presetsOf(name)?.[preset] !== undefined) === isKnown));
  const changes = known.map((name) => ({ name, before: settings[name], after: presetsOf(name)[preset] }))
    .filter(({ before, after }) => write(before) !== write(after));
  return { changes, unknown };
}

/** Changes the policy of the app, unless it has another version than `before`. */
export async function changePolicy(before, request) {
  const current = await call("getAppPolicy");
  if (current.version !== before.version) {
    throw new CallError({
      detail: "Somebody else has changed this policy since the page read it. Cancel, and discard the edits to read it again.",
    });
  }
  return call("setAppPolicy", request);
}

/** One setting: its range, its default and its control. */
function createSetting(name, value, schema, presetName, onEdit) {
  const isSecret = schema.writeOnly === true || name.endsWith(".secret");
  const control = isSecret ? createSecretControl(value, schema) : createControl(name, value, schema);
  const presetValue = schema["x-presets"]?.[presetName] ?? (presetName === "rollcall" ? schema.default : undefined);
  const isOverridden = presetValue !== undefined && write(presetValue) !== write(value);
  const reset = h("input", { type: "checkbox", id: freshID("reset") });
  const helpID = freshID("help");
  const element = h("div", { class: "setting", role: "group", "aria-label": name },
    h("div", { class: "row" },
      h("label", { for: control.first.id, class: "name" }, name, isOverridden && h("span", { class: "note" }, " overridden")), control.element),
    h("div", { class: "foot" },
      h("p", { class: "help", id: helpID },
        schema.description && [prose(schema.description), " "],
        isSecret ? "The value is never shown. Nobody can read it, so keep a copy." :
        schema.type === "boolean" || schema.enum ? `Values: ${range(schema)}.` : sentence(range(schema)),
        schema["x-presets"] ? ` ${presetValues(name, schema["x-presets"])}`
          : presetValue !== undefined && ` Preset ${presetName}: ${writeSetting(name, presetValue)}.`),
      (presetValue === undefined || isOverridden) && h("span", { class: "check" }, reset,
        h("label", { for: reset.id }, "use the preset", h("span", { class: "unseen" }, `'s value of ${name}`)))));
  element.dataset.name = name;
  control.first.setAttribute("aria-describedby", helpID);
  const row = {
    name, element, isSecret, presets: schema["x-presets"],
    /** The value to set; null ends the override. */
    read: () => reset.checked ? null : control.read(),
    isEdited: () => reset.checked || write(control.read()) !== write(value),
  };
  element.addEventListener("input", () => {
    control.setDisabled(reset.checked);
    element.classList.toggle("edited", row.isEdited());
    onEdit();
  });
  return row;
}

/** A control for the type of a setting. */
function createControl(name, value, schema) {
  const id = freshID("setting");
  const alternatives = schema.anyOf ?? [schema];
  const object = alternatives.find((one) => one.type === "object" && one.properties);
  if (object) return createRateControl(id, name, value, object);
  if (schema.type === "boolean" || typeof value === "boolean") return createSelect(id, value, [true, false]);
  if (schema.enum) return createSelect(id, value, schema.enum);
  if (typeof value === "number") {
    const limits = alternatives.flatMap((one) => [one.const, one.minimum, one.maximum]).filter((limit) => limit !== undefined);
    const first = h("input", {
      type: "number", id, step: "1", required: true, value: String(value),
      min: limits.length > 0 ? Math.min(...limits) : null, max: limits.length > 0 ? Math.max(...limits) : null,
    });
    return single(first, () => Number(first.value));
  }
  if (Array.isArray(value)) return createListControl(id, name, value, schema.items?.enum ?? value);
  if (typeof value === "object" && value !== null) return createMapControl(id, value, schema);
  const first = h("input", { type: "text", id, value: String(value) });
  return single(first, () => first.value);
}

/** A secret is typed, and never shown. An empty field keeps the present one. */
function createSecretControl(value, schema) {
  const first = h("input", {
    type: "password", id: freshID("setting"), autocomplete: "new-password", spellcheck: "false", pattern: schema.pattern,
    placeholder: value === "" ? "none" : "set; type another one to replace it",
    title: schema.pattern && "16 to 256 printable ASCII characters",
  });
  return single(first, () => first.value === "" ? value : first.value);
}

function single(first, read) {
  return { element: first, first, read, setDisabled(isDisabled) { first.disabled = isDisabled; } };
}

function createSelect(id, value, choices) {
  const first = h("select", { id }, choices.map((choice) => h("option", { value: String(choice) }, String(choice))));
  first.value = String(value);
  return single(first, () => choices.find((choice) => String(choice) === first.value));
}

/** A limit of calls: so many calls in so many seconds, or none. */
function createRateControl(id, name, value, schema) {
  const number = (key, fallback) => h("input", {
    type: "number", step: "1", required: true, min: schema.properties[key]?.minimum, max: schema.properties[key]?.maximum,
    value: String(value === false ? fallback : value[key]), "aria-label": `${name}, ${key}`,
  });
  const first = h("select", { id }, h("option", { value: "no" }, "no limit"), h("option", { value: "yes" }, "limit"));
  first.value = value === false ? "no" : "yes";
  const [calls, seconds] = [number("calls", 20), number("seconds", 5)];
  const fields = h("span", { class: "rate" }, calls, " calls in ", seconds, " s");
  const update = () => { fields.hidden = first.value === "no"; calls.disabled = seconds.disabled = first.disabled || fields.hidden; };
  first.addEventListener("input", update);
  update();
  return {
    element: h("span", { class: "rate" }, first, fields), first,
    read: () => first.value === "no" ? false : { calls: Number(calls.value), seconds: Number(seconds.value) },
    setDisabled(isDisabled) {
      first.disabled = isDisabled;
      update();
    },
  };
}

/** Some words of a list. */
function createListControl(id, name, value, words) {
  const boxes = words.map((word, index) => h("input", {
    type: "checkbox", id: index === 0 ? id : freshID("word"), value: word, "aria-label": `${name}, ${word}`,
  }));
  for (const box of boxes) box.checked = value.includes(box.value);
  return {
    element: h("span", { class: "rate" }, boxes.flatMap((box) => [box, ` ${box.value} `])), first: boxes[0],
    read: () => boxes.filter((box) => box.checked).map((box) => box.value),
    setDisabled(isDisabled) { for (const box of boxes) box.disabled = isDisabled; },
  };
}

/** A map of names to values, written as `web=60, ios=120`. */
function createMapControl(id, value, schema) {
  const isNumeric = schema.additionalProperties?.type === "integer";
  const first = h("input", {
    type: "text", id, spellcheck: "false", autocomplete: "off",
    pattern: "\\s*([A-Za-z0-9._\\-]+\\s*=\\s*[A-Za-z0-9]+\\s*(,\\s*(?=\\S)|$))*",
    title: isNumeric ? "NAME=SECONDS, NAME=SECONDS" : "NAME=TYPE, NAME=TYPE", value: pairs(value), placeholder: "none",
  });
  return single(first, () => Object.fromEntries(first.value.split(",").filter((part) => part.includes("=")).map((part) => {
    const [key, text] = part.split("=").map((piece) => piece.trim());
    return [key, isNumeric && /^\d+$/.test(text) ? Number(text) : text];
  })));
}

function pairs(value) { return Object.keys(value).sort().map((key) => `${key}=${value[key]}`).join(", "); }

/** A value of a setting as text. Equal values have equal texts. */
export function write(value) {
  if (value === false) return "false";
  if (value === null || typeof value !== "object") return String(value);
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value.calls === "number" && typeof value.seconds === "number") return `${value.calls} calls in ${value.seconds} s`;
  return pairs(value) || "none";
}

/** A value of a setting as text, where `false` of a limit of calls is "no limit", and an empty text is "none". */
function writeSetting(name, value) { return value === false && name.startsWith("rate.") ? "no limit" : write(value) || "none"; }

function sentence(text) { return `${text[0].toUpperCase()}${text.slice(1)}.`; }

/** The range of a setting, in words. */
function range(schema) {
  if (schema.anyOf) return schema.anyOf.map(range).join(", or ");
  if (schema.enum) return schema.enum.join(", ");
  if (schema.items?.enum) return `any of ${range(schema.items)}`;
  if (schema.type === "string" && schema.maxLength !== undefined) return `at most ${schema.maxLength} bytes`;
  if (schema.const !== undefined) return schema.const === false ? "no limit" : String(schema.const);
  if (schema.type === "boolean") return "true, false";
  if (schema.minimum !== undefined && schema.maximum !== undefined) {
    return `${schema.minimum.toLocaleString("en-US")} to ${schema.maximum.toLocaleString("en-US")}`;
  }
  if (schema.properties?.calls) return `${range(schema.properties.calls)} calls in ${range(schema.properties.seconds)} s`;
  if (schema.additionalProperties) return `at most ${schema.maxProperties} names, each with ${range(schema.additionalProperties)}`;
  return "the range is not known";
}
