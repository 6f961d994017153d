// The console in a headless Chromium, against a cluster of three nodes under the load simulator. The tests run in order: each continues where
// the one before ended.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Chromium } from "./chromium.mjs";
import { Cluster, token, until } from "./cluster.mjs";
import { Load, load } from "./load.mjs";
import { withPalette } from "./png.mjs";
import { focused, lowContrast, tooWide } from "./inspect.mjs";
import { presetValues } from "../../Sources/Console/apps.js";

const markupID = `<img src=x onerror="window.owned=1">`;
const markupStatus = `<script>window.owned=1</script><img src=x onerror="window.owned=1"><b>busy</b>`;
const assetBytesMax = 125_000;
const screenshotBytesMax = 120_000;
/** Characters that turn the text after them around, and hide the end of a name. */
const turned = "\u202egnp.exe";
const family = "\u{1f469}\u200d\u{1f469}\u200d\u{1f467}\u200d\u{1f466}";
/** Friend requests to alice, by users with IDs of strangers. */
const requestsToAlice = [
  { userID: `\u202eecila${family}`, addWording: `<script>window.owned=1</script>${turned}` },
  { userID: "W".repeat(64), addWording: "W".repeat(120) },
];
const groupsOfAlice = ["<b>owned</b>", family, "W".repeat(30), "\u202etxt"];
const profileOfAlice = {
  Nick: `<img src=x onerror="window.owned=1">${turned}`, FaceUrl: "javascript:window.owned=1", Location: "W".repeat(500),
  SelfSignature: { base64: "wyg=" }, Gender: 2, Birthday: 20_000_101, Level: 3, AllowType: "CONFIRM",
};
const pages = ["cluster", "live", "users", "apps", "webhooks", "actions"];
/** The number of failed rounds that open a circuit. */
const failuresMax = 5;

/** The users that follow alice. */
const followersCount = 6;
/** The users that log in before the first test, besides those of the load: alice, bob, the user with markup, and the followers. */
const testUsersCount = 3 + followersCount;

let cluster, browser, page, served, simulator, changesBefore, receiver;
const requests = [];
const faults = [];
const violations = [];
const largeScreenshots = [];
const lowContrasts = [];
let contrastChecks = 0;

/** Opens a page of the browser that records requests, errors and violations of the policy. */
async function openPage(path) {
  const opened = await browser.page();
  opened.on("Network.requestWillBeSent", ({ request }) => requests.push(request.url));
  opened.on("Runtime.exceptionThrown", ({ exceptionDetails }) => faults.push(exceptionDetails.exception?.description ?? exceptionDetails.text));
  opened.on("Runtime.consoleAPICalled", ({ type, args }) => { if (type === "error") faults.push(JSON.stringify(args)); });
  opened.on("Log.entryAdded", ({ entry }) => { if (entry.level === "error" && entry.source !== "network") faults.push(entry.text); });
  opened.on("Audits.issueAdded", ({ issue }) => { if (issue.code === "ContentSecurityPolicyIssue") violations.push(JSON.stringify(issue.details)); });
  await opened.send("Page.addScriptToEvaluateOnNewDocument", {
    source: `addEventListener("securitypolicyviolation", (event) => console.error("violation", event.violatedDirective, event.blockedURI));`,
  });
  await size(1280, 900, opened);
  await opened.goto(`${served.origin}${path}`);
  return opened;
}

function size(width, height, of = page) {
  return of.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
}

function theme(name, of = page) {
  return of.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: name }] });
}

async function signIn(text, of = page) {
  await of.until(() => document.activeElement?.id === "token");
  await of.evaluate(() => { document.getElementById("token").value = ""; });
  await of.type(text);
  await of.press("Enter");
}

async function show(name) {
  await page.click(`nav a[href="#${name}"]`);
  await page.until((wanted) => document.querySelector("nav [aria-current]")?.hash === `#${wanted}`, { values: [name] });
}

/** Sets the value of a field as a person does, with the events. */
async function set(selector, value, of = page) {
  await of.evaluate((wanted, text) => {
    const element = document.querySelector(wanted);
    element.focus();
    element.value = text;
    for (const type of ["input", "change"]) element.dispatchEvent(new Event(type, { bubbles: true }));
  }, selector, value);
}

/** Clicks the button that has this text. */
async function press(text, of = page) {
  await of.until((wanted) => {
    for (const marked of document.querySelectorAll("[data-pressed]")) marked.removeAttribute("data-pressed");
    const scope = document.querySelector("dialog[open]") ?? document;
    const button = [...scope.querySelectorAll("button")].find((one) => one.textContent.trim() === wanted && one.checkVisibility() && !one.disabled);
    button?.setAttribute("data-pressed", "");
    return Boolean(button);
  }, { values: [text], what: `a button "${text}"` });
  await of.click("[data-pressed]");
}

function text(selector) { return page.evaluate((wanted) => document.querySelector(wanted)?.innerText ?? null, selector); }

function shows(selector, part, { seconds = 10, of = page } = {}) {
  return of.until((wanted, words) => document.querySelector(wanted)?.innerText.includes(words), { values: [selector, part], seconds, what: `${selector} shows "${part}"` });
}

/**
 * Measures the contrast of what the page shows in both themes, and takes screenshots of 1,440 and 360 px, from the element `top` on. The
 * last tests judge both.
 */
async function screenshots(name, top = "header") {
  for (const scheme of ["dark", "light"]) {
    await theme(scheme);
    for (const line of await page.evaluate(lowContrast)) lowContrasts.push(`${name} in ${scheme}: ${line}`);
    contrastChecks += 1;
    if (!process.env.SCREENSHOTS) continue;
    for (const [width, height, suffix] of [[1440, 900, ""], [360, 740, "-narrow"]]) {
      await size(width, height);
      await page.evaluate((selector) => document.querySelector(selector).scrollIntoView(), top);
      const image = withPalette(await page.screenshot());
      if (image.length > screenshotBytesMax) largeScreenshots.push(`${name}${suffix} in ${scheme} has ${image.length} bytes`);
      await mkdir(process.env.SCREENSHOTS, { recursive: true });
      await writeFile(join(process.env.SCREENSHOTS, `console-${name}${suffix}-${scheme}.png`), image);
    }
    await size(1280, 900);
  }
}

/** A receiver of webhooks. It accepts deliveries, or refuses all of them. */
class Receiver {
  /** The versions of the events in accepted deliveries. */
  versions = [];
  /** Whether the next deliveries are answered with 500. */
  isBroken = false;
  #server;

  static async start() {
    const started = new Receiver();
    started.#server = createServer(async (request, response) => {
      const parts = [];
      for await (const part of request) parts.push(part);
      if (!started.isBroken) started.versions.push(...JSON.parse(Buffer.concat(parts)).events.map(({ version }) => version));
      response.writeHead(started.isBroken ? 500 : 204).end();
    });
    started.#server.listen(0, "127.0.0.1");
    await once(started.#server, "listening");
    started.url = `http://127.0.0.1:${started.#server.address().port}/rollcall?<b>owned</b>`;
    return started;
  }

  stop() {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** The rows of a table, each as the texts of its cells. */
function rowsOf(selector) {
  return page.evaluate((wanted) => [...document.querySelectorAll(`${wanted} tbody tr`)].map((row) => [...row.children].map((cell) => cell.textContent)), selector);
}

/** A selector of the table with a caption. It marks the table. */
async function tableOf(caption) {
  await page.until((words) => {
    const found = [...document.querySelectorAll("#page caption")].find((one) => one.textContent === words)?.closest(".scroll");
    for (const marked of document.querySelectorAll("[data-chosen]")) marked.removeAttribute("data-chosen");
    found?.setAttribute("data-chosen", "");
    return Boolean(found);
  }, { values: [caption], what: `a table "${caption}"` });
  return "[data-chosen]";
}

/** The answer of an operation without a body, as the page gets it. */
function asPage(operation) {
  return page.evaluate(async (name, bearer) => (await fetch(`/admin/v1/${name}`, {
    method: "POST", body: "{}", headers: { authorization: `Bearer ${bearer}` },
  })).json(), operation, cluster.admin);
}

/** The sum of the numbers of a column, without those of a row of totals. */
function sumOf(rows, column) {
  return rows.reduce((sum, row) => sum + Number(row[column].replace(/[▲ ,]/g, "")), 0);
}

before(async () => {
  cluster = await Cluster.start();
  served = process.env.CONSOLE_PROXY
    ? await (await import(pathToFileURL(resolve(process.env.CONSOLE_PROXY)))).start(cluster)
    : { origin: `http://${cluster.nodes[0].ops}`, close: () => undefined };
  const [a, b, c] = cluster.nodes;
  simulator = await Load.start(cluster.nodes);
  // The simulator begins to change statuses when all its users are logged in and see each other.
  await until(async () => (await changes()).every((count) => count > 0), { what: "the load has begun" });
  await cluster.logIn("alice", { node: a, platform: "web", customStatus: "in a meeting" });
  await cluster.logIn("alice", { node: b, platform: "ios" });
  await cluster.logIn("bob", { node: b, platform: "android", customStatus: "on the road" });
  await cluster.logIn(markupID, { node: c, customStatus: markupStatus });
  await cluster.act("alice", "subscribeUserStatus", { userIDs: ["bob", markupID, "mallory"] });
  await cluster.act("alice", "addFriend", { userID: "bob", remark: markupStatus.slice(0, 96) });
  await cluster.act("alice", "addBlackList", { userIDs: ["mallory"] });
  await cluster.act("alice", "createFriendGroup", { groupNames: groupsOfAlice, userIDs: ["bob"] });
  await cluster.act("alice", "modifySelfProfile", { values: profileOfAlice });
  await cluster.act("carol", "modifySelfProfile", { values: { AllowType: "CONFIRM", Nick: family } });
  await cluster.act("alice", "addFriend", { userID: "carol", addWording: "hello", addSource: "AddSource_Type_Web" });
  for (const { userID, addWording } of requestsToAlice) await cluster.act(userID, "addFriend", { userID: "alice", addWording });
  receiver = await Receiver.start();
  for (let number = 0; number < followersCount; number += 1) {
    await cluster.logIn(`user-${String(number).padStart(3, "0")}`, { node: cluster.nodes[number % 3] });
    await cluster.act(`user-${String(number).padStart(3, "0")}`, "subscribeUserStatus", { userIDs: ["alice", "user-000", "user-001"] });
  }
  browser = await Chromium.open({ flags: ["--disable-lcd-text"] });
  page = await openPage("/console");
});

/**
 * The status changes that each node has carried out. The simulator makes most of them. The tests of "Follow live" and of webhooks make some.
 * A test shows that the load runs by a count that grows.
 */
function changes() { return cluster.counters("rollcall_operations_total", /operation="setSelfStatus",code="0"/); }

// Each test proves that the load ran while the test ran. A change comes every 100 ms on average.
beforeEach(async () => { if (!simulator.isFinished) changesBefore = await changes(); });
afterEach(async () => {
  if (simulator.isFinished) return;
  assert.ok(simulator.isAlive, `the simulator has ended: ${simulator.output}`);
  const what = `the load runs: ${simulator.output}`;
  await until(async () => (await changes()).some((count, index) => count > changesBefore[index]), { seconds: 5, what });
});

// A failed test leaves no dialog behind, so the next one can reach the page.
afterEach(() => page.evaluate(() => document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close())));

after(async () => {
  await browser?.close();
  receiver?.stop();
  served?.close();
  await simulator?.close();
  await cluster?.stop();
});

test("Every asset has the strict content security policy, and together the assets are small", async () => {
  const folder = new URL("../../Sources/Console/", import.meta.url);
  let total = 0;
  for (const name of await readdir(folder)) {
    const path = name === "index.html" ? "/console" : `/console/${name}`;
    const answer = await fetch(served.origin + path);
    assert.equal(answer.status, 200, path);
    const rules = new Set((answer.headers.get("content-security-policy") ?? "").split(";").map((rule) => rule.trim()));
    for (const rule of [
      "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'", "form-action 'none'",
      "base-uri 'none'", "frame-ancestors 'none'",
    ]) assert.ok(rules.has(rule), `${path} lacks ${rule}`);
    const length = (await answer.arrayBuffer()).byteLength;
    assert.equal(length, (await stat(new URL(name, folder))).size, `${path} is not the file of Sources/Console`);
    total += length;
  }
  assert.ok(total <= assetBytesMax, `${total} bytes`);
  console.log(`# assets: ${total} bytes`);
});

test("The keyboard alone reaches the sign-in, and a refused token is answered with the detail and the code", async () => {
  await page.until(() => document.activeElement?.id === "token");
  await page.press("Tab", { shift: true });
  assert.equal((await page.evaluate(focused)).text, "Skip to content");
  await page.press("Tab");
  assert.deepEqual(await page.evaluate(focused).then(({ id, hasOutline }) => ({ id, hasOutline })), { id: "token", hasOutline: true });
  await page.press("Tab");
  assert.equal((await page.evaluate(focused)).text, "Sign in");
  await page.press("Tab", { shift: true });
  await screenshots("login");
  await page.type("no token");
  await page.press("Enter");
  await shows("#loginReason", "three parts");
  await signIn(`${cluster.admin.slice(0, -4)}AAAA`);
  await shows("#loginReason", "6014");
  await signIn(token("alice"));
  await shows("#loginReason", "(code 403)");
});

test("An admin token opens the page Cluster, and the browser stores it nowhere", async () => {
  await signIn(cluster.admin);
  await page.until(() => document.activeElement?.tagName === "H1" && document.activeElement.textContent === "Cluster");
  const stored = await page.evaluate(async () => ({
    local: localStorage.length, session: sessionStorage.length, cookie: document.cookie, field: document.getElementById("token").value,
    databases: (await indexedDB.databases()).length, state: history.state, address: location.href,
  }));
  assert.deepEqual(stored, { local: 0, session: 0, cookie: "", field: "", databases: 0, state: null, address: `${served.origin}/console` });
});

test("Cluster shows each member once in the table and once in the ring, and the shares add up", async () => {
  await page.until(() => document.querySelectorAll("tbody tr").length === 3 && document.querySelectorAll(".arc").length === 3);
  const seen = await page.evaluate(() => ({
    nodes: [...document.querySelectorAll("tbody th .id")].map((one) => one.textContent).sort(),
    shares: [...document.querySelectorAll("tbody tr")].reduce((sum, row) => sum + parseFloat(row.children[5].textContent), 0),
    label: document.querySelector(".ring svg").getAttribute("aria-label"), state: document.querySelector(".lead").innerText,
    arcs: [...document.querySelectorAll("path.arc")].reduce((sum, arc) => sum + arc.getTotalLength(), 0),
    titles: [...document.querySelectorAll(".arc title")].map((one) => one.textContent),
  }));
  assert.deepEqual(seen.nodes, ["a", "b", "c"]);
  assert.ok(Math.abs(seen.shares - 100) < 0.05, `the shares add up to ${seen.shares}`);
  assert.match(seen.label, /a 3\d\.\d\d %, b 3\d\.\d\d %, c 3\d\.\d\d %/);
  assert.match(seen.state, /✓ Ready 3 members up\. Node a owns 3\d/);
  assert.ok(seen.arcs > 0.95 * 2 * Math.PI * 70 && seen.arcs < 2 * Math.PI * 70, `the arcs have a length of ${seen.arcs}`);
  const { members } = await cluster.call("clusterStatus");
  for (const { node, slotsOwned } of members) {
    assert.ok(seen.titles.some((title) => title.startsWith(`${node}: ${slotsOwned.toLocaleString("en-US")} slots`)), node);
  }
  const sessions = (await (await fetch(`http://${cluster.nodes[0].ops}/metrics`)).text()).match(/^rollcall_sessions (\d+)$/m)[1];
  await page.until((wanted) => [...document.querySelectorAll(".facts div")].some((row) => row.innerText.replace(/\s+/g, " ") === `Sessions ${wanted}`), { values: [sessions] });
  await shows(".facts", "Delay of the event loops");
  await screenshots("cluster");
});

test("Cluster shows the start and the version of each member, unknown where the node does not say it, and a difference between them", async () => {
  const { members } = await asPage("clusterStatus");
  const shown = async () => Object.fromEntries((await rowsOf(await tableOf("Members as this node sees them"))).map((row) => [row[0].slice(0, 1), row.slice(6, 8)]));
  const starts = await shown();
  for (const { node, startTime, startedAt } of members) {
    const local = await page.evaluate((at) => new Date(at).toTimeString().slice(0, 8), startTime ?? startedAt);
    assert.ok(starts[node][0].includes(local), `${starts[node][0]} shows ${local}`);
  }
  const versions = { a: "1.0.0", b: `1.1.0${turned}` };
  await page.send("Fetch.enable", { patterns: [{ urlPattern: "*/admin/v1/clusterStatus" }] });
  const answer = ({ requestId }) => page.send("Fetch.fulfillRequest", {
    requestId, responseCode: 200, body: Buffer.from(JSON.stringify({
      node: "a", members: members.map(({ version, ...member }) => ({ ...member, ...(versions[member.node] ? { version: versions[member.node] } : {}) })),
    })).toString("base64"),
  });
  page.on("Fetch.requestPaused", answer);
  await shows(".lead", "The members run different versions.");
  const mixed = await shown();
  assert.deepEqual(["a", "b", "c"].map((node) => mixed[node][1]), ["1.0.0", "1.1.0\\u{202e}gnp.exe", "unknown"]);
  page.off("Fetch.requestPaused", answer);
  await page.send("Fetch.disable");
  const real = members.map((member) => member.version ?? "unknown");
  await until(async () => {
    const rows = await shown();
    return members.every(({ node }, index) => rows[node][1] === real[index]);
  }, { what: "the page shows the versions of the node" });
});

test("Live shows the load of every node, and totals that are the sums", async () => {
  await show("live");
  const names = ["All nodes", "a", "b", "c"];
  const total = testUsersCount + load.users;
  const read = async () => rowsOf(await tableOf("Load of the whole cluster"));
  await until(async () => {
    const rows = await read();
    return rows.length === names.length && Number(rows[0][1]) === total && rows.every((row) => !row.includes("–"));
  }, { what: `the totals count ${total} users` });
  const rows = await read();
  assert.deepEqual(rows.map(([name]) => name), names);
  for (const column of [1, 2, 3]) assert.equal(Number(rows[0][column]), sumOf(rows.slice(1), column), `column ${column}`);
  const { nodes } = await asPage("clusterLoad");
  // Alice has a session on each of two nodes.
  assert.equal(nodes.reduce((sum, { sessions }) => sum + sessions, 0), total + 1);
  assert.deepEqual(nodes.map(({ usersOnline }) => usersOnline), (await cluster.counters("rollcall_users_online")));
  await shows("#totals", `${total} users of this app are online.`);
});

test("Each chart of Live has the local times on its axis, five minutes from end to end", async () => {
  await page.until(() => [...document.querySelectorAll(".axis span")].every((one) => /^\d\d:\d\d:\d\d$/.test(one.textContent)));
  const charts = await page.evaluate(() => [...document.querySelectorAll(".chart .axis")].map((axis) => [...axis.children].map((one) => {
    const [hours, minutes, seconds] = one.textContent.split(":").map(Number);
    return hours * 3_600 + minutes * 60 + seconds;
  })));
  assert.equal(charts.length, 5);
  for (const seconds of charts) {
    const steps = seconds.slice(1).map((second, index) => (second - seconds[index] + 86_400) % 86_400);
    assert.ok(steps.length === 4 && steps.every((step) => step >= 73 && step <= 78), `steps of ${steps} s`);
  }
  const now = await page.evaluate(() => (new Date().getHours() * 60 + new Date().getMinutes()) * 60 + new Date().getSeconds());
  const age = (now - charts[0].at(-1) + 86_400) % 86_400;
  assert.ok(age <= 10, `the axis ends ${age} s ago`);
});

test("Live draws the samples of recentLoad, says them in words, and reads each second by keyboard", async () => {
  await show("live");
  await page.until(() => document.querySelectorAll(".chart").length === 5 && /push/.test(document.querySelector("[role=status]").textContent));
  // Five whole seconds, and the present one.
  let samples = [];
  await until(async () => {
    ({ samples } = await asPage("recentLoad"));
    return samples.length >= 6;
  }, { seconds: 10, what: "the node has six samples of its load" });
  // A third of the load's pushes leave node a. The sample of the present second may be incomplete.
  const pushes = samples.slice(-6, -1).map((sample) => sample.pushes);
  const pushesExpected = 5 * load.changesPerSecond * load.watch / 3;
  assert.equal(pushes.length, 5);
  assert.ok(pushes.reduce((sum, count) => sum + count, 0) > pushesExpected / 3, `pushes: ${pushes}; about ${Math.round(pushesExpected)} in 5 s are expected`);
  assert.ok(samples.at(-1).sessions >= Math.floor((testUsersCount + load.users) / 3));
  await page.until(() => [...document.querySelectorAll(".series0")].filter((line) => (line.getAttribute("d").match(/L/g) ?? []).length > 3).length >= 4, { seconds: 30 });
  assert.match(await text(".lead"), /^Node a, last \d+ seconds?: [\d,]+ logins?, .* pushe?s?.* sessions? open, \d+ users? online\.$/);
  // The chart shows the pushes of the load, and changes from second to second.
  const pushesShown = () => text(".chart:nth-child(2) .value");
  const firstShown = await pushesShown();
  await until(async () => parseFloat(await pushesShown()) > 0 && await pushesShown() !== firstShown, { seconds: 10, what: "the chart shows other pushes" });
  await page.evaluate(() => document.querySelector(".plot").focus());
  await page.press("ArrowLeft");
  await page.press("ArrowLeft");
  const first = await page.evaluate(() => ({ when: document.querySelector(".when").textContent, value: document.querySelector(".plot").ariaValueText }));
  assert.match(first.when, /^\d\d:\d\d:\d\d$/);
  assert.ok(first.value.startsWith(`${first.when}: Logins `), first.value);
  await page.press("End");
  await shows(".when", "now");
  await press("Pause");
  await press("Continue");
  await screenshots("live");
});

test("Users lists who is online by pages, and shows markup in an ID and in a status as text", async () => {
  await show("users");
  await page.until(() => document.querySelectorAll("section:last-child tbody tr").length === 50);
  const all = testUsersCount + load.users;
  await shows(".position", `1 to 50 of ${all}`);
  await screenshots("users-online");
  await page.evaluate(() => document.querySelector('[aria-label="Next page: Users online in this app"]').focus());
  await page.press("Enter");
  await shows(".position", `51 to 100 of ${all}`);
  await page.evaluate(() => document.querySelector('[aria-label="Previous page: Users online in this app"]').click());
  await shows(".position", `1 to 50 of ${all}`);
  await set("#userID", markupID);
  await press("Show user");
  await page.until(() => document.querySelector("#detailTitle") !== null);
  assert.equal(await text("#detailTitle"), `User ${markupID}`);
  await shows(".detail .facts", markupStatus);
  await shows(".detail .scroll", `device of ${markupID}`);
  assert.equal(await page.evaluate(() => window.owned ?? document.querySelectorAll("main img, main script, main b").length), 0);
  await set("#userID", "alice");
  await press("Show user");
  await page.until(() => document.querySelector("#detailTitle")?.textContent === "User alice");
  await shows(".detail", "in a meeting");
  await page.until(() => document.querySelectorAll(".detail .pager").length === 5);
  await shows(".detail", "1 to 3 of 3");
  await page.until((name) => [...document.querySelectorAll(".detail button.link")].filter((one) => one.textContent === name).length === 1, { values: [markupID] });
  await shows(".detail", "Follows\n3 of 3,000");
  await shows(".detail", "mallory");
  assert.equal(await page.evaluate(() => window.owned ?? document.querySelectorAll("main img, main script, main b").length), 0);
  await screenshots("users");
});

test("A user has friend requests, groups, a profile and a number of followers, and texts of strangers stay texts", async () => {
  const facts = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll(".detail .facts div")].map((row) => [...row.children].map((one) => one.textContent))));
  await page.until((number) => [...document.querySelectorAll(".detail .facts div")].some((row) => row.textContent === `Followers${number}`), { values: [followersCount] });
  const rows = await rowsOf(await tableOf("Friend requests"));
  const escaped = (name) => name.replace(/[\u200d\u202e]/g, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
  assert.deepEqual(rows.map((row) => row.slice(0, 5)).sort(), [
    ["carol", "sent", family, "hello", "AddSource_Type_Web"],
    ...requestsToAlice.map(({ userID, addWording }) => [escaped(userID), "received", "–", addWording.replace("\u202e", "\\u{202e}"), "–"]),
  ].sort());
  await shows(".detail", "1 to 3 of 3");
  await shows(".detail", `1 to ${rows.length}, ${requestsToAlice.length} unread`);
  const groups = await rowsOf(await tableOf("Groups of friends"));
  assert.deepEqual(groups, groupsOfAlice.map((name) => [name.replace("\u202e", "\\u{202e}"), "1", "bob"]));
  const shown = await facts();
  assert.equal(shown.Nickname, profileOfAlice.Nick.replace("\u202e", "\\u{202e}"));
  assert.equal(shown.Picture, profileOfAlice.FaceUrl);
  assert.equal(shown.Location, profileOfAlice.Location);
  assert.deepEqual([shown.Signature, shown.Gender, shown.Birthday, shown.Level, shown["Allow type"]], ["wyg= (bytes in base64)", "female", "2000-01-01", "3", "CONFIRM"]);
  // A text is isolated from the direction of the text around it, and a URL leads nowhere.
  const texts = await page.evaluate(() => [...document.querySelectorAll(".detail .stranger")].map((one) => getComputedStyle(one).unicodeBidi));
  assert.ok(texts.length > 10 && texts.every((one) => one === "isolate"), texts.join());
  assert.equal(await page.evaluate(() => window.owned ?? document.querySelectorAll("main a, main img, main script, main b").length), 0);
  await page.evaluate(() => document.querySelector("#profileTitle").scrollIntoView());
  await screenshots("user-lists", "#profileTitle");
});

test("Follow live shows a change within two seconds, and a bad user ID is answered with the code", async () => {
  await page.click("#follow");
  const began = Date.now();
  await cluster.act("alice", "setSelfStatus", { customStatus: "<i>back</i> soon" });
  await shows(".detail .changes", "<i>back</i> soon", { seconds: 4 });
  assert.ok(Date.now() - began < 2_000 + (process.env.ROLLCALL_IS_SLOW ? 2_000 : 0), `${Date.now() - began} ms`);
  await page.click("#follow");
  await set("#userID", "x".repeat(80));
  await press("Show user");
  await shows(".problem", "7003");
});

test("Explain says in words why a blocked viewer sees OFFLINE", async () => {
  await set("#viewer", "mallory");
  await set("#target", "alice");
  await press("Explain");
  await shows(".explanation", "alice is ONLINE at its owner");
  await shows(".explanation", "mallory is shown OFFLINE");
  await shows(".explanation", "alice has blocked mallory since 20");
  await shows(".explanation", "the viewer does not follow the target");
  await set("#viewer", "user-000");
  await press("Explain");
  await shows(".explanation", "the viewer follows the target since 20");
  await shows(".explanation", "the owner's version");
});

test("Apps shows each setting with its range and value, and an edit out of range is refused before the call", async () => {
  await show("apps");
  await page.until(() => document.querySelectorAll(".setting").length > 40);
  const policy = await cluster.call("getAppPolicy");
  assert.equal(await page.evaluate(() => document.querySelectorAll(".setting").length), Object.keys(policy.settings).length);
  await shows('[data-name="friends.max"]', "1 to 10,000");
  await shows('[data-name="rate.query"]', "1 to 10,000 calls in 1 to 3,600 s, or no limit");
  await shows('[data-name="users.forgetAfter"]', "0, or 86,400 to 315,360,000");
  const document = await (await fetch(`${served.origin}/openapi.json`)).json();
  const { properties } = document.paths["/admin/v1/setAppPolicy"].post.requestBody.content["application/json"].schema.properties.settings;
  const helps = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll(".setting")].map((row) => [row.dataset.name, row.querySelector(".help").textContent])));
  for (const name of Object.keys(policy.settings)) {
    const part = [properties[name], ...properties[name].anyOf ?? []].find((one) => one.description !== undefined);
    assert.ok(helps[name].startsWith(part.description.replaceAll("`", "")), `${name}: ${helps[name]}`);
    assert.ok(helps[name].endsWith(presetValues(name, part["x-presets"])), `${name}: ${helps[name]}`);
  }
  assert.match(helps["subscription.maxPerSubscriber"], /Presets: rollcall, commsease, zim 3000; tencent 200; rongcloud 1000\.$/);
  await screenshots("apps");
  await set('[data-name="friends.max"] input[type=number]', "10001");
  await press("Review changes");
  await page.until(() => document.querySelector('[data-name="friends.max"] input:invalid') === document.activeElement);
  assert.equal(await page.evaluate(() => document.querySelector("dialog")), null);
});

test("Without /openapi.json the page Apps says so, and still shows the policy", async () => {
  const other = await openPage("/console#apps");
  await other.send("Fetch.enable", { patterns: [{ urlPattern: "*/openapi.json" }] });
  other.on("Fetch.requestPaused", ({ requestId }) => other.send("Fetch.fulfillRequest", { requestId, responseCode: 404 }));
  await signIn(cluster.admin, other);
  await shows("#page .problem", "/openapi.json answered 404", { of: other });
  await other.until(() => document.querySelectorAll(".setting").length > 40);
  await shows('[data-name="friends.max"]', "The range is not known", { of: other });
  await other.close();
  await page.send("Page.bringToFront");
});

test("A changed setting is shown as a difference, and is the policy of every node after the confirmation", async () => {
  await set('[data-name="friends.max"] input[type=number]', "2500");
  await set('[data-name="liveness.timeoutByPlatform"] input[type=text]', "web=60, ios=120");
  await set('[data-name="rate.chain"] select', "no");
  await shows("#editCount", "3 edits");
  await press("Review changes");
  await page.until(() => document.querySelector("dialog[open]"));
  const rows = await page.evaluate(() => [...document.querySelectorAll("dialog tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent)));
  assert.deepEqual(rows, [
    ["rate.chain", "20 calls in 5 s", "no limit"], ["liveness.timeoutByPlatform", "none", "ios=120, web=60"], ["friends.max", "3000", "2500"],
  ]);
  await screenshots("apps-difference");
  await press("Cancel");
  await page.until(() => document.querySelector("dialog") === null);
  assert.equal((await cluster.call("getAppPolicy")).settings["friends.max"], 3_000);
  await press("Review changes");
  await press("Apply 3 changes to default");
  await shows(".result", "Applied.");
  await shows(".result", "2500");
  for (const node of cluster.nodes) {
    const { settings } = await cluster.call("getAppPolicy", {}, node);
    assert.deepEqual([settings["friends.max"], settings["rate.chain"], settings["liveness.timeoutByPlatform"]], [2_500, false, { web: 60, ios: 120 }]);
  }
});

test("A policy that somebody else changed meanwhile is not overwritten", async () => {
  await set('[data-name="friends.max"] input[type=number]', "2600");
  await press("Review changes");
  await page.until(() => document.querySelector("dialog[open]"));
  await cluster.call("setAppPolicy", { settings: { "friends.max": 2_700 } });
  await press("Apply 1 change to default");
  await shows("dialog .problem", "Somebody else has changed this policy");
  await press("Cancel");
  await press("Discard edits");
  await page.until(() => document.querySelector('[data-name="friends.max"] input').value === "2700");
  assert.equal((await cluster.call("getAppPolicy")).settings["friends.max"], 2_700);
});

test("Another preset discards the overrides, and the result lists each value that changed", async () => {
  await set("#preset", "tencent");
  await press("Review changes");
  await shows("dialog", "discards all overrides");
  const before = (await cluster.call("getAppPolicy")).settings;
  const preview = (await rowsOf("dialog")).filter(([name]) => name !== "preset").sort();
  await shows("#presetEffect", `It changes ${preview.length} settings`);
  await screenshots("apps-preset");
  await press("Apply 1 change to default");
  await shows(".result", "subscription.maxPerSubscriber");
  assert.deepEqual((await rowsOf(".result")).filter(([name]) => name !== "preset").sort(), preview, "the preview is what has changed");
  const { preset, settings } = await cluster.call("getAppPolicy");
  assert.equal(preset, "tencent");
  const changed = Object.keys(settings).filter((name) => JSON.stringify(settings[name]) !== JSON.stringify(before[name]));
  assert.deepEqual(preview.map(([name]) => name), changed.sort());
  assert.ok(preview.some((row) => row.join() === "friends.max,2700,3000"), "the preview has the override that ends");
  await cluster.call("setAppPolicy", { preset: "rollcall" });
});

test("A typed secret switches webhooks on, and no page, dialog or result shows it", async () => {
  const secret = "a secret of the console's test";
  const url = "http://127.0.0.1:9/rollcall";
  const isShown = () => page.evaluate((word) => document.documentElement.outerHTML.includes(word)
    || [...document.querySelectorAll("input")].some((one) => one.type !== "password" && one.value.includes(word)), secret);
  await show("apps");
  await press("Discard edits");
  await page.until(() => document.querySelector("#preset").value === "rollcall");
  await set('[data-name="webhook.secret"] input[type=password]', "too short");
  await set('[data-name="webhook.url"] input[type=text]', url);
  await press("Review changes");
  await page.until(() => document.querySelector('[data-name="webhook.secret"] input:invalid') === document.activeElement);
  await set('[data-name="webhook.secret"] input[type=password]', secret);
  await press("Review changes");
  await page.until(() => document.querySelector("dialog[open]"));
  const rows = await page.evaluate(() => [...document.querySelectorAll("dialog tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent)));
  assert.deepEqual(rows, [["webhook.url", "none", url], ["webhook.secret", "none", "a new secret"]]);
  assert.equal(await isShown(), false);
  await press("Apply 2 changes to default");
  await shows(".result", "Applied.");
  assert.equal(await isShown(), false);
  let { settings } = await cluster.call("getAppPolicy");
  assert.deepEqual([settings["webhook.url"], settings["webhook.secret"]], [url, "(set)"]);
  assert.equal(await page.evaluate(() => document.querySelector('[data-name="webhook.secret"] input').value), "");
  // An empty field keeps the secret, and another one replaces it.
  await shows("#editCount", "No edits.");
  await set('[data-name="webhook.secret"] input[type=password]', `${secret}, the second`);
  await press("Review changes");
  await press("Apply 1 change to default");
  await page.until(() => document.querySelector("dialog") === null && document.querySelectorAll(".result tbody tr").length === 1);
  await shows(".result", "webhook.secret");
  await cluster.call("setAppPolicy", { settings: { "webhook.url": null, "webhook.secret": null } });
});

test("Webhooks shows a receiver that is off, switches it on with a typed secret, and counts what it accepts", async () => {
  const secret = "another secret of the test";
  await show("webhooks");
  await shows("#webhookState", "○ Off");
  await shows("#receiver", "Secret\nnone");
  await set("#webhookURL", receiver.url);
  await set("#webhookSecret", "too short");
  await press("Review receiver");
  await page.until(() => document.querySelector("#webhookSecret:invalid") === document.activeElement);
  await set("#webhookSecret", secret);
  await press("Review receiver");
  await page.until(() => document.querySelector("dialog[open]"));
  assert.deepEqual(await rowsOf("dialog"), [["webhook.url", "none", receiver.url], ["webhook.secret", "none", "a new secret"]]);
  await press("Apply to default");
  await shows("#webhookState", "✓ On");
  await shows("#receiver", "Secret\nset, never shown");
  await shows("#receiver", receiver.url);
  assert.equal(await page.evaluate((word) => document.documentElement.outerHTML.includes(word)
    || [...document.querySelectorAll("input")].some((one) => one.value.includes(word)), secret), false);
  assert.equal(await page.evaluate(() => document.querySelectorAll("main b").length), 0);
  await cluster.act("alice", "setSelfStatus", { customStatus: "hooked" });
  await until(() => receiver.versions.length > 0, { what: "the receiver has an event" });
  const read = async () => rowsOf(await tableOf("Deliveries by node"));
  await until(async () => sumOf(await read(), 4) > 0, { what: "the page counts an accepted delivery" });
  // Nodes may still have waited for the URL of the test before.
  await until(async () => JSON.stringify((await read()).map((row) => row.slice(0, 3))) === JSON.stringify(["a", "b", "c"].map((node) => [node, "● closed", "0"])), {
    what: "no delivery fails",
  });
  receiver.isBroken = true;
  for (let number = 0; number < 120; number += 1) await cluster.act("alice", "setSelfStatus", { customStatus: `change ${number}` });
  await page.until(() => /Attempts fail at|The receiver fails at/.test(document.querySelector("#webhookState").textContent), { seconds: 20 });
  await until(async () => sumOf(await read(), 5) > 0, { what: "the page counts a failed delivery" });
  // A user has at most 100 events that wait. The older ones become dead letters.
  await until(async () => sumOf(await rowsOf(await tableOf("Dead letters by node")), 2) > 0, { what: "the page counts dead letters" });
});

test("A kick names the user in its button, holds the focus in the dialog, and ends the user's sessions", async () => {
  const session = await cluster.logIn("eve", { node: cluster.nodes[1] });
  await show("actions");
  await set("#kickUser", "eve");
  await set("#kickReason", "tested");
  await page.press("Enter");
  await page.until(() => document.querySelector("dialog[open]"));
  assert.equal((await page.evaluate(focused)).text, "Cancel");
  await screenshots("actions-kick");
  await page.press("Tab");
  assert.deepEqual(await page.evaluate(focused).then(({ text: name, hasOutline }) => ({ name, hasOutline })), { name: "Kick eve", hasOutline: true });
  for (let times = 0; times < 4; times += 1) {
    await page.press("Tab");
    const { tag, isInDialog } = await page.evaluate(focused);
    assert.ok(isInDialog || tag === "BODY", `the focus leaves the dialog to ${tag}`);
  }
  await page.press("Escape");
  await page.until(() => document.querySelector("dialog") === null);
  assert.equal((await page.evaluate(focused)).id, "kickReason");
  assert.equal(session.hasEnded, false);
  await page.press("Enter");
  await press("Kick eve");
  await shows(".changes", "Kicked eve.");
  await until(() => session.hasEnded, { what: "the session of eve has ended" });
  assert.match(session.text, /event: onKickedOffline\r?\n(?:.*\r?\n)?data: {"reason":"tested"}/);
});

test("Webhooks shows the circuit of a receiver that fails, and a replay delivers kept events once more", async () => {
  await show("webhooks");
  await shows("#webhookState", "The receiver fails at", { seconds: 60 });
  const rows = await rowsOf(await tableOf("Deliveries by node"));
  const open = rows.filter((row) => row[1] === "✕ open");
  assert.ok(open.length > 0 && open.every((row) => Number(row[2]) >= failuresMax), JSON.stringify(rows));
  assert.ok(rows.some((row) => !/^0 B$/.test(row[3])), "events wait");
  await screenshots("webhooks");
  receiver.isBroken = false;
  // A change of the URL has the nodes try the new one at once.
  await set("#webhookURL", `${receiver.url}&next`);
  await press("Review receiver");
  await press("Apply to default");
  await shows("#webhookState", "✓ On", { seconds: 40 });
  const earlier = receiver.versions.length;
  const repeated = () => receiver.versions.length - new Set(receiver.versions).size;
  assert.ok(earlier > 0);
  const before = repeated();
  await page.evaluate(() => {
    const date = new Date(Date.now() - 3_600_000);
    const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
    const input = document.querySelector("#replaySince");
    input.value = local;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await press("Replay…");
  await shows("dialog", "with their old versions");
  await press("Replay events of default");
  await page.until(() => /\d+ events? (is|are) delivered once more\. (All events|Older events)/.test(document.querySelector("#page").innerText));
  await until(() => repeated() > before, { what: "the receiver gets an event that it had before" });
  await cluster.call("setAppPolicy", { settings: { "webhook.url": null, "webhook.secret": null } });
  await shows("#webhookState", "○ Off");
  await show("actions");
});

test("Tab reaches every control of the page Actions in order, and shows each with an outline", async () => {
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  const expected = await page.evaluate(() => [...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")]
    .filter((one) => one.checkVisibility() && !one.disabled).map((one) => one.id || one.textContent.trim()));
  await page.evaluate(() => document.querySelector(".skip").focus());
  await page.press("Tab"); // From here on the browser shows the focus: a key moved it.
  await page.press("Tab", { shift: true });
  const reached = [];
  for (let times = 0; times < expected.length; times += 1) {
    const { id, text: name, hasOutline } = await page.evaluate(focused);
    assert.ok(hasOutline, `${id || name} has no outline`);
    reached.push(id || name);
    await page.press("Tab");
  }
  assert.deepEqual(reached, expected);
});

test("The skip link moves the focus to the content and keeps the page", async () => {
  await page.evaluate(() => document.querySelector(".skip").focus());
  await page.press("Enter");
  await page.until(() => document.activeElement.id === "main" && location.hash === "#actions");
});

test("Before a node is killed, no session of the load is lost, and no status change fails unless a node is overloaded", async () => {
  assert.deepEqual(await cluster.counters("rollcall_sessions_disconnected_total"), [0, 0, 0]);
  const failures = (codes) => cluster.counters("rollcall_operations_total", new RegExp(`operation="setSelfStatus",code="${codes}"`));
  assert.deepEqual(await failures("(?!0\"|50002\")\\d+"), [0, 0, 0]);
  // A debug build on a busy machine answers a few calls with 50002.
  const sum = (counts) => counts.reduce((total, count) => total + count, 0);
  const [overloaded, succeeded] = [sum(await failures("50002")), sum(await changes())];
  assert.ok(overloaded < succeeded / 10, `${overloaded} calls met an overloaded node, ${succeeded} succeeded`);
});

test("A killed member is offered to be forgotten, and is no member of any node after the confirmation", async () => {
  await cluster.kill("c");
  await until(async () => (await cluster.call("clusterStatus")).members.find(({ node }) => node === "c")?.state === "dead", { seconds: 30, what: "c is dead" });
  await show("cluster");
  await shows(".lead", "1 dead");
  await show("live");
  await shows("#totals", "c (dead, no answer)");
  await show("actions");
  await page.until(() => document.querySelector("#forgetMember")?.value === "c");
  await press("Forget…");
  await shows("dialog", "Do not forget a node that will return");
  await press("Forget c");
  await shows(".changes", "Removed c from the cluster.");
  for (const node of cluster.nodes.slice(0, 2)) {
    const isDead = async () => (await cluster.call("clusterStatus", {}, node)).members.some((member) => member.node === "c" && member.state === "dead");
    await until(async () => !await isDead(), { what: `${node.name} has no dead member c` });
  }
});

test("A drain asks first, and leaves the node not ready and without slots", async () => {
  await press("Drain this node…");
  await shows("dialog", "Only a restart ends the drain");
  await press("Drain node a");
  await shows(".changes", "Node a is draining");
  await until(async () => (await cluster.call("clusterStatus")).members.find(({ node }) => node === "a").slotsOwned === 0, { what: "a owns no slots" });
  await screenshots("actions");
  await show("cluster");
  await shows(".lead", "Not ready: draining");
});

test("At 360 px no page scrolls sideways", async () => {
  await size(360, 740);
  for (const name of pages) {
    await show(name);
    if (name === "users") {
      await set("#userID", "alice");
      await press("Show user");
      await shows(".detail", "of 3\n");
      await page.until(() => document.querySelectorAll(".detail .pager").length === 5 && document.querySelector("#profile .facts"));
    }
    if (name === "live") await page.until(() => document.querySelectorAll("#totals tbody tr").length > 1);
    if (name === "webhooks") await page.until(() => document.querySelectorAll(".scroll tbody tr").length > 1);
    await page.until((wanted) => wanted !== "apps" || document.querySelectorAll(".setting").length > 40, { values: [name] });
    assert.deepEqual(await page.evaluate(tooWide), [], name);
  }
  await size(1280, 900);
});

test("At 360 px the slots and the start of each member are in sight, with their names", async () => {
  await size(360, 740);
  await show("cluster");
  const { members } = await cluster.call("clusterStatus");
  const known = members.filter(({ state }) => state !== "left").length;
  await page.until((number) => document.querySelectorAll(".stacked tbody tr").length >= number, { values: [known] });
  const cells = await page.evaluate(() => [...document.querySelectorAll('.stacked [data-column="Slots"], .stacked [data-column="Started"]')].map((cell) => {
    const box = cell.getBoundingClientRect();
    return { name: getComputedStyle(cell, "::before").content, text: cell.innerText, left: box.left, right: box.right };
  }));
  assert.ok(cells.length >= 2 * known, `${cells.length} cells`);
  for (const { name, text: value, left, right } of cells) {
    assert.ok(["\"Slots\"", "\"Started\""].includes(name) && /\d/.test(value), `${name}: ${value}`);
    assert.ok(left >= 0 && right <= 360, `${name} reaches from ${left} to ${right} px`);
  }
  const { nodes } = await page.send("Accessibility.getFullAXTree");
  const roles = nodes.filter((node) => !node.ignored).map((node) => node.role?.value);
  for (const role of ["table", "row", "rowheader", "cell"]) assert.ok(roles.includes(role), `a stacked table has the role ${role}`);
  await size(1280, 900);
});

test("Every control has a name for a screen reader, and every page has its landmarks and one main heading", async () => {
  const named = new Set(["button", "link", "textbox", "searchbox", "combobox", "checkbox", "spinbutton", "slider", "region", "image", "table"]);
  for (const name of pages) {
    await show(name);
    await page.until((wanted) => wanted !== "apps" || document.querySelectorAll(".setting").length > 40, { values: [name] });
    const { nodes } = await page.send("Accessibility.getFullAXTree");
    const seen = nodes.filter((node) => !node.ignored);
    assert.deepEqual(seen.filter((node) => named.has(node.role?.value) && !node.name?.value).map((node) => node.role.value), [], name);
    for (const role of ["banner", "navigation", "main", "contentinfo"]) {
      assert.equal(seen.filter((node) => node.role?.value === role).length, 1, `${role} of ${name}`);
    }
    assert.equal(await page.evaluate(() => [...document.querySelectorAll("h1")].filter((one) => one.checkVisibility()).length), 1, name);
  }
});

test("An operation that the node does not have is named, and the page stays usable", async () => {
  await page.send("Fetch.enable", { patterns: [{ urlPattern: "*/admin/v1/recentLoad" }] });
  const refuse = ({ requestId }) => page.send("Fetch.fulfillRequest", {
    requestId, responseCode: 404, body: Buffer.from(`{"code":404,"status":404,"detail":"no such operation"}`).toString("base64"),
  });
  page.on("Fetch.requestPaused", refuse);
  await show("live");
  await shows("#page .problem", "This node does not know recentLoad.");
  page.off("Fetch.requestPaused", refuse);
  await page.send("Fetch.disable");
  await page.until(() => document.querySelector("#page .problem").textContent === "");
});

test("A node that cannot be reached is reported, and its figures return without a reload", async () => {
  await show("cluster");
  const network = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
  await page.send("Network.emulateNetworkConditions", { ...network, offline: true });
  await shows("#page .problem", "The node cannot be reached.");
  await shows("#freshness", "No new figures since");
  const problems = () => page.evaluate(() => [...document.querySelectorAll(".problem")].map((one) => one.textContent).join());
  assert.doesNotMatch(await problems(), /may have taken effect/);
  await show("users");
  await press("Show user");
  await page.until(() => /cannot be reached/.test(document.querySelector("#page .problem").textContent));
  assert.doesNotMatch(await problems(), /may have taken effect/);
  // The same failure of a call that changes something leaves a doubt.
  await show("actions");
  await press("Drain this node…");
  await press("Drain node a");
  await shows("dialog .problem", "The node cannot be reached. The change may have taken effect.");
  await press("Cancel");
  await show("cluster");
  await page.send("Network.emulateNetworkConditions", { ...network, offline: false });
  await page.until(() => document.querySelector("#page .problem").textContent === "", { seconds: 20 });
  await shows("#freshness", "Node a answered at");
});

test("A token that expires leads to the sign-in, and a new one back to the same page with its contents", async () => {
  await press("Sign out");
  await signIn(token("operator", { isAdmin: true, seconds: 6 }));
  await page.until(() => document.activeElement?.tagName === "H1");
  await show("actions");
  await set("#kickUser", "somebody");
  await page.until(() => document.activeElement?.id === "token", { seconds: 20, what: "the sign-in appears" });
  assert.match(await text("#loginReason"), /expired|refuses the token/);
  assert.equal(await page.evaluate(() => document.getElementById("page").checkVisibility()), false);
  await signIn(cluster.admin);
  await page.until(() => document.querySelector("#kickUser")?.checkVisibility());
  assert.deepEqual(await page.evaluate(() => [location.hash, document.querySelector("#kickUser").value]), ["#actions", "somebody"]);
  await press("Sign out");
  await signIn(cluster.admin);
  await page.until(() => document.querySelector("#kickUser")?.checkVisibility());
  assert.equal(await page.evaluate(() => document.querySelector("#kickUser").value), "", "Sign out forgets what the pages show");
});

test("The load ran until here: the simulator moved its users from the lost nodes, and saw each status that it expected", async () => {
  assert.ok(simulator.isAlive);
  const { code, report } = await simulator.finish();
  const { lost, stale, phantom, duplicate, junk } = report;
  console.log(`# load: ${report.changes} changes and ${report.pushes} pushes in ${report.loadSeconds.toFixed(1)} s, p99 ${report.changeToPush.p99} ms, `
    + `${report.reconnects} reconnects, ${report.moves} moves, errors ${JSON.stringify(report.errorsByCode)}`);
  assert.deepEqual({ code, lost, stale, phantom, duplicate, junk }, { code: 0, lost: 0, stale: 0, phantom: 0, duplicate: 0, junk: 0 }, simulator.output);
  assert.ok(report.secondsToConverge !== undefined, "the views have converged");
  assert.ok(report.changes > 0.7 * load.changesPerSecond * report.loadSeconds, `${report.changes} changes in ${report.loadSeconds} s`);
  // The killed node broke the streams of its users, and the drained node asked its users to move.
  assert.ok(report.reconnects > 0 && report.moves > 0, `${report.reconnects} reconnects, ${report.moves} moves`);
  // The kill and the drain may fail a few calls:
  // - "connection": the connection of the call broke.
  // - "not live": the user had no stream when its change was due.
  // - 50001 and 50002: the owner of the user was moving, or a node was overloaded by the users that moved to it.
  const errors = Object.entries(report.errorsByCode);
  assert.deepEqual(errors.filter(([error]) => !["connection", "not live", "50001", "50002"].includes(error)), []);
  const failed = errors.reduce((sum, [, count]) => sum + count, 0);
  assert.ok(failed < report.changes / 10, `${failed} calls failed`);
});

test("The browser reports no violation of the policy, no error of a script and no request to another origin", async () => {
  assert.deepEqual(violations, []);
  assert.deepEqual(faults, []);
  assert.deepEqual(requests.filter((url) => !url.startsWith(`${served.origin}/`) && !url.startsWith("data:")), []);
  assert.ok(requests.length > 50, `the test saw ${requests.length} requests`);
  assert.equal(requests.filter((url) => url.includes("eyJ")).length, 0, "a token is in a URL");
});

test("Every text has a contrast of at least 4.5:1 in both themes, and the screenshots are small", () => {
  assert.deepEqual(lowContrasts, []);
  assert.deepEqual(largeScreenshots, []);
  assert.equal(contrastChecks, 24, "the sign-in, each page, the lists of a user, and three dialogs, in both themes");
});

test("A planted inline style and a planted error of a script are reported, so the tests above can fail", async () => {
  await page.evaluate(() => {
    document.body.setAttribute("style", "color: red");
    setTimeout(() => { throw new Error("planted"); });
  });
  await until(() => violations.length > 0 && faults.some((fault) => fault.includes("planted")), { what: "a violation and an error" });
});
