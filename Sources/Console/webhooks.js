// The page Webhooks: the receiver of the app, the deliveries of every node, dead letters, and replays.

import { call } from "./api.js";
import { changePolicy } from "./apps.js";
import { bytes, count, facts, field, fill, freshID, h, identifier, plural, table, time, visible } from "./dom.js";
import { Poller, ask, problemPlace, resultPlace, submitting } from "./ui.js";

const pollMilliseconds = 2_000;
/** The kinds of events that an app may choose. */
const kinds = ["stateChange", "friends", "profile"];

export function createWebhooksPage(context) {
  const problem = problemPlace();
  const state = h("p", { class: "lead", role: "status" });
  const number = (text) => ({ text, isNumber: true });
  const nodes = table("Deliveries by node", [
    "Node", "Circuit", number("Failures in a row"), number("Waiting"), number("Accepted"), number("Failed"), number("Events"),
  ]);
  const letters = table("Dead letters by node", [
    "Node", number("Older than 24 h"), number("Too many of a user"), number("Too much of an app or node"),
  ]);
  const receiver = createReceiver(context);
  const element = h("div", { class: "page" }, h("h1", { tabindex: "-1" }, "Webhooks"), problem.element, state,
    h("section", null, nodes.element,
      h("p", { class: "help" }, "Circuit, failures in a row and waiting bytes are those of this app. The other counts are those of all apps, ",
        "since the start of each node. The node's log names the cause of each failure.")),
    h("section", null, letters.element,
      h("p", { class: "help" }, "A dead letter is an event that a node has given up. The next event of the user has the whole record.")),
    h("div", { class: "columns" }, receiver.element, createReplay(context)));

  function show(policy, loads) {
    const url = policy.settings["webhook.url"];
    const open = loads.filter((load) => load.webhook.isCircuitOpen).length;
    const failing = loads.filter((load) => load.webhook.failuresInARow > 0).length;
    const text = url === "" ? "○ Off" : open > 0 ? `✕ The receiver fails at ${plural(open, "node")}`
      : failing > 0 ? `▲ Attempts fail at ${plural(failing, "node")}` : "✓ On";
    // A screen reader would read the same state again.
    if (state.textContent !== text) {
      fill(state, h("span", { class: `badge ${failing > 0 && url !== "" ? "bad" : "good"}`, id: "webhookState" }, text));
    }
    receiver.showPresent(policy);
    nodes.show(loads.map(({ node, webhook, webhooksOfAllApps: all }) => [
      identifier(node), h("span", { class: `state ${webhook.isCircuitOpen ? "dead" : "alive"}` }, webhook.isCircuitOpen ? "✕ open" : "● closed"),
      count(webhook.failuresInARow), bytes(webhook.bytesWaiting), count(all.accepted), count(all.failed), count(all.events),
    ]));
    letters.show(loads.map(({ node, webhooksOfAllApps: all }) => [
      identifier(node), ...[all.expired, all.full, all.backlog].map((value) => value > 0 ? h("strong", { class: "alarm" }, `▲ ${count(value)}`) : "0"),
    ]));
  }

  const poller = new Poller(async (isCurrent) => {
    const [policy, { nodes: loads }] = await Promise.all([call("getAppPolicy"), call("clusterLoad")]);
    if (isCurrent()) show(policy, loads);
  }, pollMilliseconds, (error) => {
    problem.show(error);
    context.fresh(error);
  });
  return { element, start: () => poller.start(), stop: () => poller.stop() };
}

/** The receiver of the app, and the form that changes it. */
function createReceiver(context) {
  const problem = problemPlace();
  const result = resultPlace();
  const present = h("div", { id: "receiver" });
  const url = h("input", { type: "text", id: "webhookURL", autocomplete: "off", spellcheck: "false", autocapitalize: "none", inputmode: "url" });
  const secret = h("input", {
    type: "password", id: "webhookSecret", autocomplete: "new-password", spellcheck: "false", pattern: "[ -~]{16,256}",
    title: "16 to 256 printable ASCII characters",
  });
  const boxes = kinds.map((kind) => h("input", { type: "checkbox", id: freshID("kind"), value: kind }));
  const events = h("fieldset", null, h("legend", null, "Events"),
    boxes.map((box) => h("span", { class: "check" }, box, h("label", { for: box.id }, box.value))));
  let policy = null;
  /** The version of the policy that the fields show. */
  let shownVersion = null;

  function showPresent(answer) {
    policy = answer;
    const { settings } = answer;
    fill(present, facts([
      ["App", identifier(answer.app)], ["URL", settings["webhook.url"] === "" ? "none" : identifier(settings["webhook.url"])],
      ["Secret", settings["webhook.secret"] === "" ? "none" : "set, never shown"],
      ["Events", visible(settings["webhook.events"].join(", "))],
    ]));
    const isEdited = secret.value !== "" || (shownVersion !== null && form.matches(":focus-within"));
    if (shownVersion === answer.version || isEdited) return; // The fields keep what somebody types.
    shownVersion = answer.version;
    url.value = settings["webhook.url"];
    for (const box of boxes) box.checked = settings["webhook.events"].includes(box.value);
  }

  const form = submitting(h("form", { "aria-label": "Receiver" },
    field("URL", url, "HTTPS. An empty field switches webhooks off."),
    field("New secret", secret, "16 to 256 printable ASCII characters. An empty field keeps the present one. The value is never shown."),
    events, h("div", { class: "buttons start" }, h("button", { type: "submit", class: "primary" }, "Review receiver"))), problem, async () => {
    const before = policy ?? await call("getAppPolicy");
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    const differs = (name, value) => JSON.stringify(before.settings[name]) !== JSON.stringify(value);
    const settings = {
      ...(differs("webhook.url", url.value.trim()) ? { "webhook.url": url.value.trim() === "" ? null : url.value.trim() } : {}),
      ...(secret.value === "" ? {} : { "webhook.secret": secret.value }),
      ...(differs("webhook.events", chosen) ? { "webhook.events": chosen } : {}),
    };
    if (Object.keys(settings).length === 0) {
      result.show(h("p", null, "There is nothing to apply: no setting of the receiver differs."));
      result.element.focus();
      return;
    }
    const write = (name, value) => name === "webhook.secret" ? value === "" ? "none" : "set"
      : Array.isArray(value) ? value.join(", ") || "none" : value || "none";
    const difference = table("Changes", ["Setting", "Now", "New"]);
    difference.show(Object.entries(settings).map(([name, value]) => [
      name, h("del", null, visible(write(name, before.settings[name]))),
      h("ins", null, name === "webhook.secret" ? "a new secret" : visible(write(name, value))),
    ]));
    const answer = await ask({
      title: `Change the webhook of app ${visible(context.app)}?`, label: `Apply to ${visible(context.app)}`,
      isDangerous: settings["webhook.url"] === null,
      content: [difference.element, h("p", { class: "help" }, "Deliveries that wait go to the new URL, signed with the new secret.")],
      action: () => changePolicy(before, { settings }),
    });
    if (!answer) return;
    secret.value = "";
    shownVersion = null;
    showPresent(answer);
    result.show(h("p", null, h("strong", null, "Applied."), " The policy has the version ", h("code", null, answer.version), "."));
    result.element.focus();
  });
  return {
    element: h("section", { "aria-labelledby": "receiverTitle" }, h("h2", { id: "receiverTitle" }, "Receiver"),
      present, form, problem.element, result.element),
    showPresent,
  };
}

/** The form that delivers kept events once more. */
function createReplay(context) {
  const problem = problemPlace();
  const result = resultPlace();
  const since = h("input", { type: "datetime-local", id: "replaySince", step: "1", required: true });
  const form = submitting(h("form", { "aria-label": "Replay" },
    field("Events since (local time)", since, "The nodes keep the last two delivered events of each user, for 24 h."),
    h("div", { class: "buttons start" }, h("button", { type: "submit" }, "Replay…"))), problem, async () => {
    const milliseconds = new Date(since.value).getTime();
    const answer = await ask({
      title: `Replay the webhook events of app ${visible(context.app)}?`, label: `Replay events of ${visible(context.app)}`, isDangerous: false,
      content: [
        h("p", null, "The receiver gets the kept events since ", time(milliseconds), " once more, with their old versions."),
        h("p", { class: "help" }, "A receiver that drops old versions must first forget the versions of these users."),
      ],
      action: () => call("replayWebhooks", { since: milliseconds }),
    });
    if (!answer) return;
    result.show(h("p", null, `${plural(answer.events, "event")} ${answer.events === 1 ? "is" : "are"} delivered once more. `,
      answer.isComplete ? "All events since that time are kept." : "Older events of some users are not kept any more."));
    result.element.focus();
  });
  return h("section", { "aria-labelledby": "replayTitle" }, h("h2", { id: "replayTitle" }, "Replay"), form, problem.element, result.element);
}
