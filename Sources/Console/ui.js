// Parts that several pages use: polling, problems, and dialogs that ask before an action.

import { CallError } from "./api.js";
import { fill, h } from "./dom.js";

/** The longest pause between two polls that fail, in milliseconds. */
const pauseMax = 15_000;

/**
 * Calls an async function again and again while it is started and the browser shows the tab. One call runs at a time. After a failure the
 * pause doubles, up to 15 s.
 */
export class Poller {
  #work;
  #interval;
  #onResult;
  #timer = null;
  #generation = 0;
  #failures = 0;
  #onVisibility = () => this.#restart();

  /** `onResult` receives null after a call, and the error after a failed one. */
  constructor(work, interval, onResult) {
    this.#work = work;
    this.#interval = interval;
    this.#onResult = onResult;
  }

  start() {
    document.addEventListener("visibilitychange", this.#onVisibility);
    this.#restart();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    this.#generation += 1;
    clearTimeout(this.#timer);
  }

  #restart() {
    clearTimeout(this.#timer);
    this.#generation += 1;
    if (!document.hidden) this.#poll(this.#generation);
  }

  async #poll(generation) {
    const began = performance.now();
    let problem = null;
    try {
      await this.#work(() => generation === this.#generation);
    } catch (error) {
      if (!(error instanceof CallError)) reportError(error); // A fault of the page: the browser's log has the place.
      problem = error;
    }
    if (generation !== this.#generation) return;
    this.#failures = problem ? this.#failures + 1 : 0;
    this.#onResult(problem);
    const pause = problem ? Math.min(pauseMax, this.#interval * 2 ** this.#failures) : this.#interval - (performance.now() - began);
    this.#timer = setTimeout(() => this.#poll(generation), Math.max(100, pause));
  }
}

/** The text of an error, with its code. */
export function describe(error) {
  const code = error.code ? ` (code ${error.code})` : "";
  const doubt = error.mayHaveActed ? " The change may have taken effect." : "";
  return `${error.detail ?? error.message}${code}${doubt}`;
}

/** A place for the error of a page or form. Screen readers read it when it changes. */
export function problemPlace() {
  const element = h("p", { class: "problem", role: "alert" });
  const show = (error) => {
    const text = error === null ? "" : describe(error);
    if (element.textContent !== text) element.textContent = text;
  };
  return { element, show };
}

/** A place for the result of an action. It takes the focus, and screen readers read it. */
export function resultPlace() {
  const element = h("div", { class: "result", role: "status", tabindex: "-1" });
  return { element, show: (...content) => fill(element, content), clear: () => fill(element) };
}

/** Runs an async function. An error appears in the problem place; one that is no `CallError` is a fault of the page, and is logged too. */
export async function attempt(problem, work) {
  problem.show(null);
  try {
    await work();
  } catch (error) {
    if (!(error instanceof CallError)) reportError(error);
    problem.show(error);
  }
}

/**
 * Makes a form call an async function, one call at a time. A `CallError` appears in the form's problem place. A second submission while
 * the first one runs is ignored.
 */
export function submitting(form, problem, work) {
  let isRunning = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isRunning) return;
    isRunning = true;
    form.setAttribute("aria-busy", "true");
    await attempt(problem, work);
    isRunning = false;
    form.removeAttribute("aria-busy");
  });
  return form;
}

/**
 * Asks before an action in a modal dialog, and carries it out. The label of the button names the action and its target. A failed action
 * leaves the dialog open with the error. Returns the action's result, or undefined after "Cancel" or Escape.
 */
export function ask({ title, content, label, isDangerous = true, action }) {
  const problem = problemPlace();
  const cancel = h("button", { type: "button", autofocus: true }, "Cancel");
  const confirm = h("button", { type: "button", class: isDangerous ? "danger" : "primary", id: "confirm" }, label);
  const dialog = h("dialog", { "aria-labelledby": "dialogTitle" },
    h("h2", { id: "dialogTitle" }, title), content, problem.element, h("div", { class: "buttons" }, cancel, confirm));
  return new Promise((resolve) => {
    let result;
    let isRunning = false;
    dialog.addEventListener("cancel", (event) => { if (isRunning) event.preventDefault(); });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    cancel.addEventListener("click", () => dialog.close());
    confirm.addEventListener("click", async () => {
      if (isRunning) return;
      isRunning = true;
      problem.show(null);
      cancel.disabled = true;
      confirm.setAttribute("aria-disabled", "true");
      dialog.setAttribute("aria-busy", "true");
      try {
        result = await action();
        isRunning = false;
        dialog.close();
      } catch (error) {
        if (!(error instanceof CallError)) reportError(error);
        problem.show(error);
      } finally {
        isRunning = false;
        cancel.disabled = false;
        confirm.removeAttribute("aria-disabled");
        dialog.removeAttribute("aria-busy");
      }
    });
    document.body.append(dialog);
    dialog.showModal();
    cancel.focus();
  });
}

/** Closes every open dialog without an action. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}
