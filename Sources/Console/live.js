// The page Live: the load of this node in the last five minutes, each second.

import { call } from "./api.js";
import { chart } from "./chart.js";
import { count, duration, h, plural, rate, visible } from "./dom.js";
import { Poller, problemPlace } from "./ui.js";

const samplesMax = 300;
/** The time between two text summaries. A screen reader reads each of them. */
const summaryMilliseconds = 15_000;

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
  const element = h("div", { class: "page" },
    h("div", { class: "titleRow" }, h("h1", { tabindex: "-1" }, "Live"), pause), problem.element, summary,
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
    if (isPaused) poller.stop(); else poller.start();
  });

  return {
    element,
    start() {
      summarizedAt = -Infinity;
      if (!isPaused) poller.start();
    },
    stop: () => poller.stop(),
  };
}

function series(label, key) { return { label, value: (sample) => sample[key] }; }

function latency(label, key) { return { label, value: (sample) => sample.latencySeconds?.[key] ?? null }; }
