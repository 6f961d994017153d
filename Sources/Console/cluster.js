// The page Cluster: members, the ring, readiness, and figures of load and disk.

import { call, metrics, readiness } from "./api.js";
import { bytes, count, duration, facts, fill, h, identifier, plural, rate, table, time, visible } from "./dom.js";
import { Poller, problemPlace } from "./ui.js";

const slotsTotal = 65_536;
const pollMilliseconds = 2_000;
/** Pages of metrics that are kept: figures cover the last minute. */
const pagesMax = 31;

const marks = { alive: "●", suspect: "◐", draining: "◒", dead: "✕", left: "○" };

/** A state with a mark, so that nobody needs its color. */
export function stateLabel(state) {
  return h("span", { class: `state ${Object.hasOwn(marks, state) ? state : ""}` },
    h("span", { "aria-hidden": "true" }, `${marks[state] ?? "?"} `), state ?? "unknown");
}

/** Columns that a node may leave out. */
const optionalColumns = [
  { key: "linkState", text: "Link" },
  { key: "slotsAcquiring", text: "Acquiring", isNumber: true },
  { key: "sessions", text: "Sessions", isNumber: true },
  { key: "commit", text: "Commit" },
];

export function createClusterPage(context) {
  const problem = problemPlace();
  const state = h("p", { class: "lead" });
  const membersPlace = h("div", null);
  const ring = h("div", { class: "ring" });
  const load = h("div");
  const store = h("div");
  let members = null;
  let columnKeys = null;
  let scrapes = [];

  const element = h("div", { class: "page" },
    h("h1", { tabindex: "-1" }, "Cluster"), problem.element, state,
    h("section", { "aria-labelledby": "membersTitle" }, h("h2", { id: "membersTitle" }, "Members"), membersPlace),
    h("div", { class: "columns" },
      h("section", { "aria-labelledby": "ringTitle" }, h("h2", { id: "ringTitle" }, "Ring"), ring),
      h("section", { "aria-labelledby": "loadTitle" }, h("h2", { id: "loadTitle" }, "Load of this node"), load),
      h("section", { "aria-labelledby": "storeTitle" }, h("h2", { id: "storeTitle" }, "Disk and links of this node"), store)));

  function showMembers(status) {
    const selection = getSelection();
    if (!selection.isCollapsed && membersPlace.contains(selection.anchorNode)) return; // New rows would end the selection.
    const extra = optionalColumns.filter(({ key }) => status.members.some((member) => member[key] !== undefined));
    const keys = extra.map(({ key }) => key).join();
    if (keys !== columnKeys) {
      columnKeys = keys;
      members = table(`Members as this node sees them`, [
        "Node", "State", "Address", { text: "Weight", isNumber: true }, { text: "Slots", isNumber: true },
        { text: "Share", isNumber: true }, "Started", "Version", ...extra,
      ], { isCaptionHidden: true });
      fill(membersPlace, members.element);
    }
    members.show(status.members.map((member) => [
      [identifier(member.node), member.node === status.node && h("span", { class: "note" }, " this node")],
      stateLabel(member.state), identifier(member.address ?? "–"), count(member.weight), count(member.slotsOwned),
      share(member.slotsOwned), time(startOf(member)), member.version === undefined ? "unknown" : identifier(member.version),
      ...extra.map(({ key, isNumber }) => member[key] === undefined ? "–" : isNumber ? count(member[key]) : identifier(shorten(key, member[key]))),
    ]));
  }

  function showState(status, ready) {
    const alive = status.members.filter(isUp).length;
    const suspect = status.members.filter((member) => member.state === "suspect").length;
    const dead = status.members.filter((member) => member.state === "dead").length;
    const versions = new Set(status.members.filter(isUp).map((member) => member.version).filter((version) => version !== undefined));
    fill(state,
      h("span", { class: `badge ${ready.isReady ? "good" : "bad"}` }, ready.isReady ? "✓ Ready" : `✕ Not ready: ${ready.text}`), " ",
      `${plural(alive, "member")} up`, suspect > 0 && `, ${suspect} suspect`,
      dead > 0 && h("strong", null, `, ${dead} dead (${dead === 1 ? "it counts" : "they count"} towards the quorum)`),
      `. Node `, identifier(status.node), ` owns ${share(status.members.find((member) => member.node === status.node)?.slotsOwned ?? 0)} of the slots.`,
      versions.size > 1 && h("strong", null, " The members run different versions."));
  }

  function showFigures(now, earlier) {
    const refused = now.rate("rollcall_admission_refused_total", earlier);
    fill(load, facts([
      ["Sessions", count(now.sum("rollcall_sessions"))],
      ["Users online, owned", count(now.sum("rollcall_users_online"))],
      ["Connections", `${count(now.sum("rollcall_connections"))} of ${count(now.sum("rollcall_connections_max", { port: "clients" }))}`],
      ["Calls waiting for owners", count(now.sum("rollcall_operations_waiting"))],
      ...["login", "operation", "resume"].map((kind) => [
        { login: "Logins in progress", operation: "Operations in progress", resume: "Resumes in progress" }[kind],
        `${count(now.sum("rollcall_admission_in_progress", { kind }))} of ${count(now.sum("rollcall_admission_limit", { kind }))}`]),
      ["Refused as overload", refused === undefined ? count(now.sum("rollcall_admission_refused_total")) : alarm(refused > 0, perSecond(refused))],
      ["Delay of the event loops", alarm((now.max("rollcall_loop_delay_seconds") ?? 0) > 0.1, duration(now.max("rollcall_loop_delay_seconds")))],
      ["Push latency, 99 %", quantile(now.quantile("rollcall_push_latency_seconds", 0.99, earlier))],
      ["CPU", earlier ? `${rate(now.rate("process_cpu_seconds_total", earlier) * 100)} %` : "–"],
      ["Memory", bytes(now.sum("process_resident_memory_bytes"))],
    ]));
    const failures = now.sum("rollcall_store_failures_total");
    const unwritten = now.sum("rollcall_store_rows_unwritten");
    const down = now.sum("rollcall_links", { state: "down" });
    fill(store, facts([
      ["Commits", perSecond(now.rate("rollcall_store_commits_total", earlier))],
      ["Commit latency, 99 %", quantile(now.quantile("rollcall_store_commit_seconds", 0.99, earlier))],
      ["Failed transactions", alarm(failures > 0, count(failures))],
      ["Rows waiting for the disk", count(now.sum("rollcall_store_rows_waiting"))],
      ["Rows kept after a failure", alarm(unwritten > 0, count(unwritten))],
      ["Answers waiting for a disk", count(now.sum("rollcall_writes_waiting"))],
      ["Replica lag", duration(now.sum("rollcall_replica_lag_seconds"))],
      ["Slots acquiring", count(now.sum("rollcall_slots_acquiring"))],
      ["Links up", count(now.sum("rollcall_links", { state: "up" }))],
      ["Links down", alarm(down > 0, count(down))],
      ["Waiting for peers", count(now.sum("rollcall_link_queue_depth") ?? 0)],
      ["Clock error", alarm(now.sum("rollcall_clock_error_seconds") > 0, duration(now.sum("rollcall_clock_error_seconds")))],
    ]));
  }

  const poller = new Poller(async (isCurrent) => {
    const [status, ready, now] = await Promise.all([call("clusterStatus"), readiness(), metrics()]);
    if (!isCurrent()) return;
    showState(status, ready);
    showMembers(status);
    fill(ring, ringPicture(status.members));
    showFigures(now, scrapes[0]);
    scrapes = [...scrapes, now].slice(-pagesMax);
  }, pollMilliseconds, (error) => {
    problem.show(error);
    context.fresh(error);
  });

  return {
    element,
    start() {
      scrapes = []; // A rate across a pause would hide what happens now.
      poller.start();
    },
    stop: () => poller.stop(),
  };
}

function isUp(member) { return member.state === "alive" || member.state === "draining"; }

/** The start of a member's process, in milliseconds since 1970. */
function startOf(member) { return member.startTime ?? member.startedAt; }

function shorten(key, value) { return key === "commit" ? String(value).slice(0, 12) : String(value); }

function share(slots) { return slots === undefined ? "–" : `${(slots / slotsTotal * 100).toFixed(2)} %`; }

function perSecond(value) { return value === undefined ? "–" : `${rate(value)} / s`; }

function alarm(isBad, text) { return isBad ? h("strong", { class: "alarm" }, `▲ ${text}`) : text; }

function quantile(seconds) { return seconds === undefined ? "–" : seconds === Infinity ? "over the last bucket" : `≤ ${duration(seconds)}`; }

/** The ring as a picture: one arc a member, in proportion to the slots that it owns. The table of members says the same. */
function ringPicture(members) {
  const owners = members.filter((member) => member.slotsOwned > 0);
  const owned = owners.reduce((total, member) => total + member.slotsOwned, 0);
  const radius = 70;
  const gap = owners.length > 1 ? Math.min(0.03, 1 / owners.length) : 0;
  let start = 0;
  const arcs = owners.map((member, index) => {
    const size = member.slotsOwned / Math.max(slotsTotal, owned) * 2 * Math.PI;
    const middle = start + size / 2;
    const shade = `arc shade${index % 4} ${member.state === "alive" ? "" : "troubled"}`;
    const title = h("title", null, `${visible(member.node)}: ${count(member.slotsOwned)} slots, ${share(member.slotsOwned)}, ${member.state}`);
    const arc = owners.length === 1 && size > 6.28
      ? h("circle", { r: radius, class: shade, fill: "none" }, title)
      : h("path", { d: arcPath(radius, start + gap / 2, start + Math.max(size - gap / 2, gap)), class: shade, fill: "none" }, title);
    start += size;
    const [x, y] = point(radius + 22, middle);
    const anchor = x < -10 ? "end" : x > 10 ? "start" : "middle";
    const name = [...visible(member.node)];
    const label = size > 0.25 && h("text", { x: x.toFixed(1), y: (y + 4).toFixed(1), "text-anchor": anchor },
      name.length > 12 ? `${name.slice(0, 11).join("")}…` : name.join(""));
    return [arc, label];
  });
  return h("svg", { viewBox: "-190 -112 380 224", role: "img", "aria-label": `The ring: ${owners.map((member) =>
    `${visible(member.node)} ${share(member.slotsOwned)}`).join(", ") || "no member owns slots"}.` },
    h("circle", { r: radius, class: "track", fill: "none" }), arcs,
    h("text", { class: "total", y: "-2", "text-anchor": "middle" }, count(owned)),
    h("text", { class: "unit", y: "16", "text-anchor": "middle" }, owned === slotsTotal ? "slots owned" : `of ${count(slotsTotal)} owned`));
}

function point(radius, angle) { return [radius * Math.sin(angle), -radius * Math.cos(angle)]; }

function arcPath(radius, from, to) {
  const [x1, y1] = point(radius, from);
  const [x2, y2] = point(radius, to);
  return `M${x1.toFixed(2)} ${y1.toFixed(2)}A${radius} ${radius} 0 ${to - from > Math.PI ? 1 : 0} 1 ${x2.toFixed(2)} ${y2.toFixed(2)}`;
}
