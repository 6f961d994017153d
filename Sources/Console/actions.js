// The page Actions: kick a user, drain this node, remove a dead member. Each asks first, and names its target in the button.

import { call } from "./api.js";
import { clock, field, fill, h, identifier, visible } from "./dom.js";
import { ask, problemPlace, submitting } from "./ui.js";

/** Results that the page keeps. */
const resultsMax = 20;

export function createActionsPage(context) {
  const results = h("ol", { class: "changes", role: "log", "aria-label": "Results" });
  const element = h("div", { class: "page" }, h("h1", { tabindex: "-1" }, "Actions"),
    h("section", { class: "results", "aria-labelledby": "resultsTitle" }, h("h2", { id: "resultsTitle" }, "Results"), results,
      h("p", { class: "help" }, "The page keeps the last 20 results until you sign out.")));

  function report(...content) {
    results.prepend(h("li", null, `${clock()} `, content));
    while (results.children.length > resultsMax) results.lastChild.remove();
  }

  const forget = createForget(report);
  element.querySelector("h1").after(
    h("div", { class: "columns" }, createKick(report, context), createDrain(report, context), forget.element));
  return { element, start: forget.load, stop() { return undefined; } };
}

function createKick(report, context) {
  const problem = problemPlace();
  const user = h("input", { type: "text", id: "kickUser", autocomplete: "off", spellcheck: "false", autocapitalize: "none", required: true });
  const reason = h("input", { type: "text", id: "kickReason", autocomplete: "off" });
  const form = submitting(h("form", null,
    field("User ID", user), field("Reason (optional)", reason, "The user's clients receive this text."),
    h("button", { type: "submit" }, "Kick…")), problem, async () => {
    const userID = user.value;
    const status = (await call("queryOnlineStatus", { userIDs: [userID] })).userStatusList?.[0];
    const done = await ask({
      title: `Kick ${visible(userID)}?`, label: `Kick ${visible(userID)}`,
      content: [
        h("p", null, "All sessions of ", identifier(userID), " in app ", identifier(context.app),
          " end. The node refuses the user's older tokens for the next 30 days."),
        h("p", null, "The user is ", h("strong", null, status?.statusType ?? "unknown"),
          status?.onlinePlatforms?.length ? ` on ${visible(status.onlinePlatforms.join(", "))}.` : "."),
      ],
      action: async () => {
        await call("kick", { userID, ...(reason.value === "" ? {} : { reason: reason.value }) });
        return true;
      },
    });
    if (!done) return;
    report("Kicked ", identifier(userID), ".");
    form.reset();
  });
  return h("section", { class: "panel", "aria-labelledby": "kickTitle" },
    h("h2", { id: "kickTitle" }, "Kick a user"), h("p", { class: "help" }, "Ends all sessions of a user on all nodes."), form, problem.element);
}

function createDrain(report, context) {
  const problem = problemPlace();
  const form = submitting(h("form", null, h("button", { type: "submit", id: "drainButton" }, "Drain this node…")), problem, async () => {
    const node = visible(context.node);
    const answer = await ask({
      title: `Drain node ${node}?`, label: `Drain node ${node}`,
      content: h("p", null, "The node moves its slots and clients to the other nodes, and is not ready from now on. ",
        "Its process keeps running. Only a restart ends the drain."),
      action: () => call("drain"),
    });
    if (!answer) return;
    if (answer.isDraining) report("Node ", identifier(context.node), " is draining. Stop its process when its sessions are 0.");
    else report("Node ", identifier(context.node), " is not draining: no other node is alive that could take its slots.");
  });
  return h("section", { class: "panel", "aria-labelledby": "drainTitle" },
    h("h2", { id: "drainTitle" }, "Drain this node"),
    h("p", { class: "help" }, "Prepares the node that serves this page, ", identifier(context.node), ", for its stop."), form, problem.element);
}

function createForget(report) {
  const problem = problemPlace();
  const member = h("select", { id: "forgetMember", required: true });
  const submit = h("button", { type: "submit" }, "Forget…");
  const state = h("p", { role: "status" });
  const memberField = field("Dead member", member);

  async function load() {
    const { members } = await call("clusterStatus");
    const dead = members.filter(({ state: current }) => current === "dead");
    const chosen = member.value;
    fill(member, dead.map(({ node }) => h("option", { value: node }, visible(node))));
    if (dead.some(({ node }) => node === chosen)) member.value = chosen;
    memberField.hidden = submit.hidden = dead.length === 0;
    state.textContent = dead.length === 0 ? `No member is dead (${members.length} known).` : "";
  }

  const reload = h("button", { type: "button", class: "plain" }, "Look again");
  const form = submitting(h("form", null, state, memberField, h("div", { class: "buttons start" }, submit, reload)), problem, async () => {
    const node = member.value;
    const done = await ask({
      title: `Forget ${visible(node)}?`, label: `Forget ${visible(node)}`,
      content: [
        h("p", null, "The cluster removes ", identifier(node), " for good: it no longer counts towards the quorum."),
        h("p", null, h("strong", null, "Do not forget a node that will return with its data."), " Changes that only its disk has are lost."),
      ],
      action: async () => {
        await call("forget", { node });
        return true;
      },
    });
    if (!done) return;
    report("Removed ", identifier(node), " from the cluster.");
    await load();
    if (submit.hidden) reload.focus();
  });
  const guarded = () => load().then(() => problem.show(null), (error) => problem.show(error));
  reload.addEventListener("click", guarded);
  return {
    element: h("section", { class: "panel", "aria-labelledby": "forgetTitle" },
      h("h2", { id: "forgetTitle" }, "Forget a dead member"),
      h("p", { class: "help" }, "A dead node counts towards the quorum until it is removed."), form, problem.element),
    load: guarded,
  };
}
