// A table of a list that the node answers by pages.

import { CallError } from "./api.js";
import { count, h, table } from "./dom.js";
import { problemPlace } from "./ui.js";

/** Pages that "Previous" can go back. */
const backMax = 1_000;

/**
 * A table with the buttons "Previous", "Next" and "Reload". `load(cursor)` returns `{rows, next?, total?, note?}`; the first page has
 * the cursor undefined. The note stands beside the position.
 */
export function pagedTable({ caption, columns, empty, load, isCaptionHidden = true }) {
  const { element: view, show } = table(caption, columns, { isCaptionHidden });
  const problem = problemPlace();
  const position = h("span", { class: "position", role: "status" });
  const previous = h("button", { type: "button", class: "plain", disabled: true, "aria-label": `Previous page: ${caption}` }, "Previous");
  const next = h("button", { type: "button", class: "plain", disabled: true, "aria-label": `Next page: ${caption}` }, "Next");
  const reload = h("button", { type: "button", class: "plain", "aria-label": `Reload: ${caption}` }, "Reload");
  let back = [];
  let current = { cursor: undefined, first: 1 };
  let following;
  let generation = 0;

  async function go(target, newBack) {
    generation += 1;
    const own = generation;
    try {
      const { rows, next: cursor, total, note } = await load(target.cursor);
      if (own !== generation) return;
      current = target;
      back = newBack.slice(-backMax);
      following = cursor;
      problem.show(null);
      show(rows, empty);
      position.textContent = rows.length === 0 ? total ? `none of ${count(total)}` : "none"
        : `${count(current.first)} to ${count(current.first + rows.length - 1)}${total === undefined ? "" : ` of ${count(total)}`}`;
      if (note) position.textContent += `, ${note}`;
      const focused = document.activeElement;
      previous.disabled = back.length === 0;
      next.disabled = cursor === undefined;
      next.value = rows.length;
      // A button that becomes disabled would lose the focus to the page.
      if ((focused === next || focused === previous) && focused.disabled) reload.focus();
    } catch (error) {
      if (own !== generation) return;
      if (!(error instanceof CallError)) reportError(error);
      position.textContent = "";
      problem.show(error);
    }
  }

  previous.addEventListener("click", () => go(back.at(-1), back.slice(0, -1)));
  next.addEventListener("click", () => go({ cursor: following, first: current.first + Number(next.value) }, [...back, current]));
  reload.addEventListener("click", () => go(current, back));

  return {
    element: h("div", null, problem.element, view, h("div", { class: "pager" }, position, previous, next, reload)),
    first: () => go({ cursor: undefined, first: 1 }, []),
  };
}
