// The page Live: the totals of the cluster, and the load of this node in the last five minutes, each second.

import { call } from "./api.js";
import { chart } from "./chart.js";
import { count, duration, h, identifier, plural, rate, table, visible } from "./dom.js";
import { Poller, problemPlace } from "./ui.js";

const samplesMax = 300;
/** The time between two text summaries. A screen reader reads each of them. */
const summaryMilliseconds = 15_000;
/** The time between two readings of the totals. Each asks every node. */
const totalsMilliseconds = 2_000;
/** Readings of the totals that are kept: rates cover the last ten seconds. */
const readingsMax = 6;

export function createLivePage(context) {
  const problem = problemPlace();
  const summary = h("p", { class: "lead", role: "status" });
  const pause = h("button", { type: "button", class: "plain" }, "Pause");
  const charts = [
    chart({ title: "Sessions a second", format: rate, series: [series("Logins", "logins"), series("Logouts", "logouts"), series("Lost", "lost")] }),
    chart({ title: "Changes and pushes a second", format: rate, series: [series("Pushes", "pushes"), series("Changes", "changes")] }),
    chart({
      title: "Latency from change to push", format: duration,
      series: [latency("99 %", "p99"), latency("50 %", "p50"), latency("Slowest", "max")],
    }),
    chart({ title: "Operations a second", format: rate, series: [series("Operations", "operations"), series("Refused", "refused")] }),
    chart({ title: "Online now", format: count, series: [series("Sessions", "sessions"), series("Users online, owned", "usersOnline")] }),
  ];
  const totals = createTotals();
  const element = h("div", { class: "page" },
    h("div", { class: "titleRow" }, h("h1", { tabindex: "-1" }, "Live"), pause), problem.element, summary, totals.element,
    h("p", { class: "help" }, "The charts show the last five minutes of this node alone. In a chart, the arrow keys choose the second to read."),
    h("div", { class: "charts" }, charts.map((one) => one.element)));

  let summarizedAt = -Infinity;
  let isPaused = false;

  function showSummary(node, samples) {
    if (performance.now() - summarizedAt < summaryMilliseconds || samples.length === 0) return;
    summarizedAt = performance.now();
    const last = samples.slice(-10);
    const total = (key) => last.reduce((sum, sample) => sum + (sample[key] ?? 0), 0);
    const slowest = Math.max(0, ...last.map((sample) => sample.latencySeconds?.max ?? 0));
    const newest = samples.at(-1);
    summary.textContent = `Node ${visible(node)}, last ${plural(last.length, "second")}: ${plural(total("logins"), "login")}, `
      + `${plural(total("logouts"), "logout")}, ${count(total("lost"))} lost, ${plural(total("changes"), "change")}, `
      + `${plural(total("pushes"), "push", "pushes")}${slowest > 0 ? ` within ${duration(slowest)}` : ""}, ${count(total("refused"))} refused. `
      + `${plural(newest.sessions ?? 0, "session")} open, ${plural(newest.usersOnline ?? 0, "user")} online.`;
  }

  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const poller = new Poller(async (isCurrent) => {
    const { node, samples } = await call("recentLoad");
    if (!isCurrent()) return;
    const shown = samples.slice(-samplesMax);
    for (const one of charts) one.show(shown, samplesMax);
    showSummary(node, shown);
  }, isCalm ? 5_000 : 1_000, (error) => {
    problem.show(error);
    context.fresh(error);
  });

  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.textContent = isPaused ? "Continue" : "Pause";
    for (const one of [poller, totals.poller]) if (isPaused) one.stop(); else one.start();
  });

  return {
    element,
    start() {
      summarizedAt = -Infinity;
      if (isPaused) return;
      poller.start();
      totals.poller.start();
    },
    stop() {
      poller.stop();
      totals.poller.stop();
    },
  };
}

/** The counters of `clusterLoad` that the page shows as rates. */
const counters = ["logins", "logouts", "lost"];

/** The load of every node, and the totals of the cluster. */
function createTotals() {
  const problem = problemPlace();
  const number = (text) => ({ text, isNumber: true });
  const nodes = table("Load of the whole cluster", [
    "Node", number("Users online"), number("Sessions"), number("Listeners"), number("Logins / s"), number("Logouts / s"), number("Lost / s"),
  ]);
  const app = h("p", { class: "help" });
  let readings = [];

  function showNodes(loads, members) {
    const rows = loads.map((load) => ({ load, rates: counters.map((key) => rateOf(load, key, readings)) }));
    const sum = (values) => values.some((value) => value === undefined) ? undefined : values.reduce((total, value) => total + value, 0);
    const missing = members.filter(({ node, state }) => state !== "left" && !loads.some((load) => load.node === node));
    nodes.show([
      [h("strong", null, "All nodes"), count(sum(loads.map((load) => load.usersOnline))), count(sum(loads.map((load) => load.sessions))),
        count(sum(loads.map((load) => load.listeners))),
        ...counters.map((_, index) => rate(sum(rows.map(({ rates }) => rates[index]))))],
      ...rows.map(({ load, rates }) => [identifier(load.node), count(load.usersOnline), count(load.sessions), count(load.listeners), ...rates.map(rate)]),
      ...missing.map(({ node, state }) => [[identifier(node), ` (${state}, no answer)`], "–", "–", "–", "–", "–", "–"]),
    ]);
  }

  const poller = new Poller(async (isCurrent) => {
    const [{ nodes: loads }, { members }] = await Promise.all([call("clusterLoad"), call("clusterStatus")]);
    if (!isCurrent()) return;
    const now = performance.now();
    showNodes(loads, members);
    readings = [...readings, { time: now, loads }].slice(-readingsMax);
    const total = loads.reduce((sum, load) => sum + load.usersOnlineOfApp, 0);
    app.textContent = `${plural(total, "user")} of this app ${total === 1 ? "is" : "are"} online. The table counts the users of all apps at their owners, open sessions, and streams that hear without being seen.`;
  }, totalsMilliseconds, (error) => problem.show(error));

  return { element: h("section", { id: "totals" }, problem.element, nodes.element, app), poller };
}

/** The rise of a counter of a node, a second. Undefined without an earlier reading of the same process. */
export function rateOf(load, key, readings, now = performance.now()) {
  const isSame = (one) => one.node === load.node && one.startedAt === load.startedAt;
  const earlier = readings.find(({ loads }) => loads.some(isSame));
  if (!earlier || now <= earlier.time) return undefined;
  return Math.max(0, load[key] - earlier.loads.find(isSame)[key]) / (now - earlier.time) * 1000;
}

function series(label, key) { return { label, value: (sample) => sample[key] }; }

function latency(label, key) { return { label, value: (sample) => sample.latencySeconds?.[key] ?? null }; }
