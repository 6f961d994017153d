// The client in headless Chromium, on three real nodes.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { PresenceClient } from "../../Sources/WebClient/client.js";
import { Chromium, serve } from "./chromium.mjs";
import { Cluster, token, until } from "./cluster.mjs";
import { Network } from "./network.mjs";

/** The time from a change in one page to the display in another, in milliseconds. The target of a release build is 100. */
const PUSH_LIMIT = Number(process.env.PUSH_LIMIT ?? 100);
const KILL_LIMIT = Number(process.env.KILL_LIMIT ?? 4_000);
/** The time from the end of a sleep until the page and its user's status are right again, in milliseconds. */
const WAKE_LIMIT = 1_000;

let cluster;
let browser;
let site;
const clients = [];
let usersCount = 0;
const newUser = (name) => `${name}-${++usersCount}`;

before(async () => {
  cluster = await Cluster.start(3);
  site = await serve(fileURLToPath(new URL("../../Sources/WebClient", import.meta.url)));
  browser = await Chromium.start();
});
after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await browser?.stop();
  await site?.close();
  await cluster?.stop();
});

/** A client in Node, at a node of its own. */
function client(user, node) {
  const made = new PresenceClient({ addresses: [node.url], token: () => token(user), platform: "node" });
  clients.push(made);
  return made;
}

/** A page with a connected client, `client`. It keeps the statuses that it receives, and the time of each. */
async function page(user, addresses, { options = {}, ...how } = {}) {
  const made = await browser.open(`${site.url}/blank.html`, how);
  await made.evaluate(`(async () => {
    const { PresenceClient } = await import("/client.js");
    globalThis.client = new PresenceClient({ addresses: ${JSON.stringify(addresses)}, token: async () => ${JSON.stringify(token(user))},
      random: (() => { let isFirst = true; return () => (isFirst ? ((isFirst = false), 0) : Math.random()); })(),
      backoff: { initial: 50, max: 500 }, ...${JSON.stringify(options)} });
    globalThis.statuses = [];
    globalThis.states = [];
    client.on("userStatusChanged", (list) => statuses.push(...list.map((status) => ({ ...status, at: Date.now() }))));
    client.on("stateChanged", ({ state, reason }) => states.push([state, reason]));
    await client.connect();
  })()`);
  return made;
}

/** Follows a user in a page, and returns the known record. */
const follow = (page, user) =>
  page.evaluate(`client.subscribeUserStatus([${JSON.stringify(user)}], { sync: true }).then(() => client.statusOf(${JSON.stringify(user)}))`);
const textOf = (page, user) => page.evaluate(`client.statusOf(${JSON.stringify(user)})?.customStatus`);
const seen = (page, user) => page.evaluate(`statuses.filter(({ userID }) => userID === ${JSON.stringify(user)})`);
/** The number of sessions in the cluster. An open stream is a session. */
async function sessionsCount() {
  const counts = cluster.nodes.map(async ({ ops }) => {
    const metrics = await (await fetch(`http://127.0.0.1:${ops}/metrics`)).text();
    return Number(/^rollcall_sessions(?:\{[^}]*\})? (\d+)$/m.exec(metrics)[1]);
  });
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}
/** Waits until `count` sessions more than `base` are open. */
const sessions = (base, count) => until(`${count} sessions are open`, async () => (await sessionsCount()) === base + count);
/** The number of sessions once the clients of earlier tests are gone. */
async function base() {
  await Promise.all(clients.splice(0).map((client) => client.close()));
  await sessions(0, 0);
  return 0;
}

for (const useEventSource of [false, true]) {
  test(`A status that a page sets appears in a page at another node, over ${useEventSource ? "EventSource" : "fetch"}`, async () => {
    const [a, b] = cluster.nodes;
    const [annID, bobID] = [newUser("ann"), newUser("bob")];
    const ann = await page(annID, [a.url], { options: { useEventSource } });
    const bob = await page(bobID, [b.url], { options: { useEventSource } });
    assert.equal((await follow(bob, annID)).statusType, "ONLINE");
    const times = [];
    for (let index = 0; index < 20; index += 1) {
      const start = await ann.evaluate(`(() => { const at = Date.now(); client.setSelfStatus("text ${index}"); return at; })()`);
      const status = await until("bob's page has the text", async () =>
        (await seen(bob, annID)).find(({ customStatus }) => customStatus === `text ${index}`));
      times.push(status.at - start);
    }
    times.sort((left, right) => left - right);
    console.log(`# page to page (${useEventSource ? "EventSource" : "fetch"}): median ${times[10]} ms, most ${times.at(-1)} ms`);
    assert.ok(times[10] <= PUSH_LIMIT, `median ${times[10]} ms`);
    assert.deepEqual([ann.errors, bob.errors], [[], []]);
    await Promise.all([ann.close(), bob.close()]);
  });
}

test("contacts.html shows a hostile status and a hostile name as text", async () => {
  const [a] = cluster.nodes;
  const hostile = '<img src=x onerror="document.title=`hacked`">'.padEnd(256, "<b>x</b>");
  assert.equal(Buffer.byteLength(hostile), 256);
  const evilID = "<script>document.title=1</script><i>";
  const evil = client(evilID, a);
  await evil.connect();
  await evil.setSelfStatus(hostile);
  const query = new URLSearchParams({ contacts: evilID, address: a.url });
  const contacts = await browser.open(`${site.url}/examples/contacts.html?${query}#${token(newUser("ann"))}`);
  const shown = await until("the status is shown", async () => {
    const text = await contacts.evaluate("document.querySelector('#list li')?.textContent");
    return text?.includes("●") && text;
  });
  assert.equal(shown, `${evilID} ● ${hostile} (node)`);
  assert.equal(await contacts.evaluate("document.querySelectorAll('#list img, #list script, #list i').length"), 0);
  assert.equal(await contacts.evaluate("document.title"), "Contacts");
  // It is live, and the own status is set from the form.
  await evil.setSelfStatus("<b>calm</b>");
  await until("the next status is shown", async () => (await contacts.evaluate("document.querySelector('#list span').textContent")) === "● <b>calm</b> (node)");
  // A mark that turns the direction of text ends with the element of the status.
  await evil.setSelfStatus("\u202Eturned \u2067twice");
  await until("the turned status is shown", async () => (await contacts.evaluate("document.querySelector('#list span bdi').textContent")).includes("twice"));
  const isolation = "[...document.querySelectorAll('#list bdi')].map((element) => getComputedStyle(element).unicodeBidi)";
  assert.deepEqual(await contacts.evaluate(isolation), ["isolate", "isolate"]);
  await evil.logout();
  await until("the logout is shown", async () => (await contacts.evaluate("document.querySelector('#list span').textContent")) === "○ offline");
  assert.deepEqual(contacts.errors, []);
  await contacts.close();
});

test("Ten tabs have one session and one stream, and closing the leading tab loses no change", async () => {
  const [a, b] = cluster.nodes;
  const [annID, bobID, carlID] = [newUser("ann"), newUser("bob"), newUser("carl")];
  const others = (await base()) + 2;
  const [bob, carl] = [client(bobID, b), client(carlID, b)];
  await Promise.all([bob.connect(), carl.connect()]);
  await carl.subscribeUserStatus([annID], { sync: true });
  const annStates = [];
  const tabs = [];
  for (let index = 0; index < 10; index += 1) tabs.push(await page(annID, [a.url]));
  await until("carl sees ann", () => carl.statusOf(annID)?.statusType === "ONLINE");
  carl.on("userStatusChanged", (list) => annStates.push(...list.map(({ statusType }) => statusType)));
  await sessions(others, 1);
  // A follower's call is made by the leading tab, and every tab receives the answer's statuses.
  await follow(tabs[7], bobID);
  for (const tab of tabs) await until("every tab knows bob", async () => (await textOf(tab, bobID)) === "");
  let count = 0;
  for (let round = 0; round < 3; round += 1) {
    const leaders = [];
    for (const tab of tabs) if (await tab.evaluate("client.isLeading")) leaders.push(tab);
    assert.equal(leaders.length, 1);
    // Changes go on while the leading tab is closed.
    const changes = (async () => {
      for (let index = 0; index < 40; index += 1) await bob.setSelfStatus(`change ${++count}`);
    })();
    tabs.splice(tabs.indexOf(leaders[0]), 1);
    await leaders[0].close();
    await changes;
    await bob.setSelfStatus(`last of round ${round}`);
    const start = Date.now();
    for (const tab of tabs) await until("every tab has the last change", async () => (await textOf(tab, bobID)) === `last of round ${round}`);
    console.log(`# round ${round}: ${tabs.length} tabs have the last change ${Date.now() - start} ms after it`);
    for (const tab of tabs) {
      const versions = (await seen(tab, bobID)).map(({ version }) => version);
      assert.deepEqual(versions, [...new Set(versions)].sort());
    }
    await sessions(others, 1);
  }
  assert.deepEqual(annStates.filter((state) => state !== "ONLINE"), []);
  // A call of a follower works, and a logout in one tab logs all tabs out.
  await tabs[0].evaluate(`client.setSelfStatus("from a tab")`);
  await until("carl sees the text", () => carl.statusOf(annID)?.customStatus === "from a tab");
  await tabs[1].evaluate("client.logout()");
  for (const tab of tabs) await until("every tab is logged out", async () => (await tab.evaluate("client.state")) === "loggedOut");
  await until("carl sees the logout", () => carl.statusOf(annID)?.statusType === "UNLOGINED");
  for (const tab of tabs) {
    assert.deepEqual(tab.errors, []);
    await tab.close();
  }
  assert.equal(carl.statusOf(annID).statusType, "UNLOGINED");
});

test("A leading tab that calls close hands its session over", async () => {
  const [a, b] = cluster.nodes;
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const others = (await base()) + 1;
  const bob = client(bobID, b);
  await bob.connect();
  await sessions(others, 0);
  await bob.subscribeUserStatus([annID], { sync: true });
  const first = await page(annID, [a.url]);
  const second = await page(annID, [a.url]);
  await until("bob sees ann", () => bob.statusOf(annID)?.statusType === "ONLINE");
  const types = [];
  bob.on("userStatusChanged", (list) => types.push(...list.map(({ statusType }) => statusType)));
  assert.deepEqual([await first.evaluate("client.isLeading"), await second.evaluate("client.isLeading")], [true, false]);
  await first.evaluate("client.close()");
  assert.equal(await first.evaluate("client.state"), "closed");
  await until("the second tab leads", () => second.evaluate("client.isLeading && client.state === 'online'"));
  await sessions(others, 1);
  assert.deepEqual(types.filter((type) => type !== "ONLINE"), []);
  await Promise.all([first.close(), second.close()]);
});

test("A frozen leading tab gives its session to another tab, and follows it when it is resumed", async () => {
  const [a, b] = cluster.nodes;
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const others = (await base()) + 1;
  const bob = client(bobID, b);
  await bob.connect();
  const first = await page(annID, [a.url]);
  const second = await page(annID, [a.url]);
  await follow(second, bobID);
  await first.send("Page.setWebLifecycleState", { state: "frozen" });
  await until("the second tab leads", () => second.evaluate("client.isLeading && client.state === 'online'"));
  await bob.setSelfStatus("while it was frozen");
  await until("the second tab has the text", async () => (await textOf(second, bobID)) === "while it was frozen");
  await first.send("Page.setWebLifecycleState", { state: "active" });
  await until("the first tab has the text", async () => (await textOf(first, bobID)) === "while it was frozen");
  assert.equal(await first.evaluate("client.isLeading"), false);
  await sessions(others, 1);
  await Promise.all([first.close(), second.close()]);
});

/** Two tabs with one session, and a watcher of their user. */
async function twoTabs(addresses = [cluster.nodes[0].url]) {
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const others = (await base()) + 1;
  const bob = client(bobID, cluster.nodes[1]);
  await bob.connect();
  const first = await page(annID, addresses);
  const second = await page(annID, addresses);
  await bob.subscribeUserStatus([annID], { sync: true });
  assert.equal(bob.statusOf(annID)?.statusType, "ONLINE");
  assert.deepEqual([await first.evaluate("client.isLeading"), await second.evaluate("client.isLeading")], [true, false]);
  return { annID, bob, first, second, others };
}

/** Waits until the watcher sees the logout. A session that was left, also one in its grace, would keep the user ONLINE. */
async function seesLogout({ annID, bob, second, others }) {
  await until("the second tab is logged out", async () => (await second.evaluate("client.state")) === "loggedOut");
  await until("bob sees the logout", () => bob.statusOf(annID).statusType === "UNLOGINED");
  const { userStatusList: [status] } = await cluster.admin("queryOnlineStatus", { userIDs: [annID], withSessions: true });
  assert.deepEqual([status.statusType, status.sessions], ["UNLOGINED", []]);
  await sessions(others, 0);
}

for (const isClosed of [true, false]) {
  test(`A tab whose leading tab ${isClosed ? "has closed" : "hands the session over"} logs out before it has opened a session`, async () => {
    const tabs = await twoTabs();
    // The call waits for the tab that leads next, which has no session of its own yet.
    const [, logout] = await Promise.all([isClosed ? tabs.first.close() : tabs.first.evaluate("void client.close()"), tabs.second.evaluate("client.logout()")]);
    assert.deepEqual(logout, {});
    await seesLogout(tabs);
    assert.deepEqual(tabs.second.errors, []);
    await Promise.all([isClosed ? undefined : tabs.first.close(), tabs.second.close()]);
  });
}

test("A logout ends the session of a leading tab that stands still", async () => {
  const tabs = await twoTabs();
  const { sessionID } = await tabs.first.evaluate("client.session");
  // The browser holds its stream open. A call without an answer has the second tab take the lock.
  await tabs.first.pause();
  await tabs.second.evaluate("client.getVisibility()");
  await until("the second tab leads", () => tabs.second.evaluate("client.isLeading && client.state === 'online'"), 20_000);
  assert.notEqual((await tabs.second.evaluate("client.session")).sessionID, sessionID);
  await sessions(tabs.others, 2);
  await tabs.second.evaluate("client.logout()");
  await seesLogout(tabs);
  await tabs.first.resume();
  await Promise.all([tabs.first.close(), tabs.second.close()]);
});

test("A logout waits for the session that a new leading tab is opening, and ends it", async () => {
  const network = await Network.to(cluster.nodes[0].client);
  const tabs = await twoTabs([network.url]);
  const { connectionsCount } = network;
  // The first tab is gone. The request of the second one arrives, and its answer comes late.
  network.slow(300);
  await tabs.first.close();
  await until("the second tab opens a stream", async () => network.connectionsCount > connectionsCount
    && (await tabs.second.evaluate("client.isLeading && client.state !== 'online'")), 20_000);
  await tabs.second.evaluate("client.logout()");
  await seesLogout(tabs);
  assert.equal((await tabs.second.evaluate("states")).filter(([state]) => state === "online").length, 1);
  await tabs.second.close();
  await network.close();
});

test("A page that logs out while the app is still asked for its token never logs in", async () => {
  const annID = newUser("ann");
  const others = await base();
  const ann = await browser.open(`${site.url}/blank.html`);
  const result = await ann.evaluate(`import("/client.js").then(async ({ PresenceClient }) => {
    let give;
    const client = new PresenceClient({ addresses: [${JSON.stringify(cluster.nodes[0].url)}], token: () => new Promise((resolve) => (give = resolve)) });
    const states = [];
    client.on("stateChanged", ({ state }) => states.push(state));
    const login = client.connect().catch(({ code }) => code);
    while (!give) await new Promise((resolve) => setTimeout(resolve));
    const logout = client.logout();
    // The name of the group needs a token, and the leading tab another one.
    const giving = setInterval(() => give(${JSON.stringify(token(annID))}), 1);
    const results = [await logout, await login, states.at(-1)];
    clearInterval(giving);
    return [...results, states.includes("online")];
  })`);
  assert.deepEqual(result, [{}, -5, "loggedOut", false]);
  await sessions(others, 0);
  await ann.close();
});

test("A page whose laptop slept checks its stream at once", async () => {
  const [a, b] = cluster.nodes;
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const others = (await base()) + 1;
  const bob = client(bobID, b);
  await bob.connect();
  const ann = await page(annID, [a.url]);
  await follow(ann, bobID);
  const before = await ann.evaluate("client.session.sessionID");
  // The clock of the page jumps, as after a sleep: its next timer is a minute late.
  await ann.evaluate("{ const now = Date.now; Date.now = () => now() + 60_000; }");
  await until("another stream is open", async () => (await ann.evaluate("client.session.sessionID")) !== before);
  assert.deepEqual((await ann.evaluate("states")).map(([state]) => state), ["connecting", "online"]);
  await bob.setSelfStatus("awake");
  await until("the page has the text", async () => (await textOf(ann, bobID)) === "awake");
  await sessions(others, 1);
  await ann.close();
});

/**
 * The time for which the debugger pauses a page. The client takes a timer that is more than 5 s late for a sleep, and its timer runs every 5 s.
 *
 * The smallest `liveness.timeout` is 15 s. But the kernel acknowledges packets for a paused page, so no timeout ends its HTTP/1.1 connection.
 * The proxy ends the connections instead, with the same effect on the node: the session is lost.
 */
const PAUSE = 12_000;

test("A page that the debugger paused until its session was lost is right again within a second", async () => {
  const [a, b] = cluster.nodes;
  await base();
  const bobID = newUser("bob");
  const bob = client(bobID, b);
  await bob.connect();
  const sleepers = [
    { name: "fetch, connections reset while it slept", loss: "cut", options: {} },
    { name: "fetch, connections lost by the node alone", loss: "loseClients", options: {} },
    { name: "EventSource, connections lost by the node alone", loss: "loseClients", options: { useEventSource: true } },
  ];
  // Each page has a process of its own, so that each is paused and resumed alone.
  for (const sleeper of sleepers) {
    sleeper.userID = newUser("ann");
    sleeper.network = await Network.to(a.client);
    // The backoff is the default of the client.
    const options = { backoff: { initial: 500, max: 30_000 }, ...sleeper.options };
    sleeper.page = await page(sleeper.userID, [sleeper.network.url], { isPrivate: true, options });
    await follow(sleeper.page, bobID);
    await sleeper.page.evaluate(`{
      let lastRun = performance.now();
      globalThis.longestGap = 0;
      setInterval(() => { longestGap = Math.max(longestGap, performance.now() - lastRun); lastRun = performance.now(); }, 50);
    }`);
  }
  const heard = [];
  bob.on("userStatusChanged", (list) => heard.push(...list.map((status) => ({ ...status, at: Date.now() }))));
  await bob.subscribeUserStatus(sleepers.map(({ userID }) => userID), { sync: true });
  for (const { userID } of sleepers) assert.equal(bob.statusOf(userID)?.statusType, "ONLINE");
  for (const sleeper of sleepers) {
    assert.equal(await sleeper.page.evaluate("document.visibilityState"), "visible");
    sleeper.sessionID = await sleeper.page.evaluate("client.session.sessionID");
    await sleeper.page.pause();
    sleeper.pausedAt = Date.now();
    sleeper.network[sleeper.loss]();
  }
  for (const { userID } of sleepers) await until(`bob sees ${userID} offline`, () => bob.statusOf(userID)?.statusType === "OFFLINE");
  await bob.setSelfStatus("while they slept");
  for (const { name, userID, page: ann, network, pausedAt, sessionID } of sleepers) {
    await until("the pause is long enough", () => Date.now() - pausedAt > PAUSE, 2 * PAUSE);
    assert.ok(ann.isPaused);
    assert.equal(bob.statusOf(userID)?.statusType, "OFFLINE");
    const start = Date.now();
    await ann.resume();
    await until(`${name}: the page has the text`, async () => (await textOf(ann, bobID)) === "while they slept");
    const online = await until(`${name}: bob sees the user online`, () =>
      heard.find((status) => status.userID === userID && status.statusType === "ONLINE" && status.at >= start));
    const status = (await seen(ann, bobID)).find(({ customStatus }) => customStatus === "while they slept");
    const [statusTime, onlineTime] = [status.at - start, online.at - start];
    console.log(`# ${name}: the page is right ${statusTime} ms, and its user ONLINE ${onlineTime} ms after the pause`);
    assert.ok(statusTime >= 0 && statusTime <= WAKE_LIMIT, `${name}: the page is right after ${statusTime} ms`);
    assert.ok(onlineTime <= WAKE_LIMIT, `${name}: the user is ONLINE after ${onlineTime} ms`);
    // No script ran during the pause, and the session is a new one.
    assert.ok((await ann.evaluate("longestGap")) >= PAUSE);
    assert.notEqual(await ann.evaluate("client.session.sessionID"), sessionID);
    assert.equal(bob.statusOf(userID).statusType, "ONLINE");
    await ann.close();
    await network.close();
  }
});

for (const loss of ["cut", "silence"]) {
  test(`A page that was offline is right at once when it is online again (its connections: ${loss})`, async () => {
    const [a, b] = cluster.nodes;
    const [annID, bobID] = [newUser("ann"), newUser("bob")];
    await base();
    const bob = client(bobID, b);
    await bob.connect();
    const network = await Network.to(a.client);
    // The browser alone ends the wait: the next attempt is a minute away.
    const ann = await page(annID, [network.url], { options: { backoff: { initial: 60_000, max: 60_000 } } });
    await follow(ann, bobID);
    const conditions = { latency: 0, downloadThroughput: -1, uploadThroughput: -1 };
    await ann.send("Network.emulateNetworkConditions", { offline: true, ...conditions });
    await until("the page is offline", () => ann.evaluate("!navigator.onLine"));
    network[loss]();
    if (loss === "cut") await until("the page waits", () => ann.evaluate("client.state === 'waiting'"));
    await bob.setSelfStatus("while it was offline");
    assert.equal(await textOf(ann, bobID), "");
    network.heal();
    await ann.send("Network.emulateNetworkConditions", { offline: false, ...conditions });
    const start = Date.now();
    await until("the page has the text", async () => (await textOf(ann, bobID)) === "while it was offline", 8_000);
    console.log(`# right again ${Date.now() - start} ms after the page is online`);
    await ann.close();
    await network.close();
  });
}

test("A page of an origin that is not allowed reaches no node, and the log names the origin once", async () => {
  const [a] = cluster.nodes;
  const origin = site.url.replace("localhost", "staging.test");
  const stranger = await browser.open(`${origin}/blank.html`);
  const failure = await stranger.evaluate(`import("/client.js").then(async ({ PresenceClient, PresenceCode }) => {
    const client = new PresenceClient({ addresses: [${JSON.stringify(a.url)}], token: ${JSON.stringify(token("ann"))},
      backoff: { initial: 1, max: 2 }, loginAttemptsMax: 2 });
    const error = await client.connect().catch((error) => error);
    return [error.code === PresenceCode.unreachable, error.message];
  })`);
  assert.deepEqual(failure, [true, "-1 unreachable: TypeError: Failed to fetch"]);
  await until("the log names the origin", () => a.log.includes(`origin=${origin}`));
  assert.equal(a.log.split("corsOrigins does not allow").length, 2);
  await stranger.close();
});

test("The page of a frozen node is at another node within 12 s, and nobody sees an OFFLINE", async () => {
  const [a, b, c] = cluster.nodes;
  const [annID, bobID, plainID] = ["ann", "bob", "plain"].map(newUser);
  const ann = await page(annID, [c.url, a.url], { options: { deviceID: "laptop" } });
  const bob = await page(bobID, [b.url]);
  assert.equal(await ann.evaluate("client.session.node"), "c");
  const plain = await fetch(`${c.url}/v1/events?platform=web`, { headers: { Authorization: `Bearer ${token(plainID)}` } });
  const reader = plain.body.getReader();
  await reader.read();
  for (const userID of [annID, plainID]) {
    await follow(bob, userID);
    await until(`bob sees ${userID}`, () => bob.evaluate(`client.statusOf(${JSON.stringify(userID)})?.statusType === "ONLINE"`));
  }
  c.process.kill("SIGSTOP");
  try {
    const start = Date.now();
    await until("ann's page is at another node", async () => (await ann.evaluate("client.session.node")) === "a", 12_000);
    console.log(`# the page is elsewhere ${Date.now() - start} ms after its node froze`);
    // A plain stream asks for no comments. Its user is missed when the grace of the frozen node's sessions is over.
    await until("bob sees the user of the plain stream OFFLINE", () =>
      bob.evaluate(`client.statusOf(${JSON.stringify(plainID)})?.statusType === "OFFLINE"`), 30_000);
    await ann.evaluate(`client.setSelfStatus("still here")`);
    await until("bob sees the text", async () => (await textOf(bob, annID)) === "still here");
  } finally {
    c.process.kill("SIGCONT");
  }
  await until("the node is a member again", async () =>
    (await cluster.admin("clusterStatus", {}, a)).members.filter(({ state }) => state === "alive").length === 3, 30_000);
  assert.deepEqual((await seen(bob, annID)).filter(({ statusType }) => statusType !== "ONLINE"), []);
  assert.deepEqual((await ann.evaluate("states")).map(([state]) => state), ["connecting", "online"]);
  assert.deepEqual([ann.errors, bob.errors], [[], []]);
  await reader.cancel();
  await Promise.all([ann.close(), bob.close()]);
});

test("A drained node's page moves without an OFFLINE, and after the death of a node a page is right again", async () => {
  const [a, b, c] = cluster.nodes;
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const ann = await page(annID, [a.url, c.url]);
  const bob = await page(bobID, [b.url]);
  await follow(bob, annID);
  await follow(ann, bobID);
  assert.equal(await ann.evaluate("client.session.node"), "a");
  await cluster.admin("drain", {}, a);
  await until("ann's page is on another node", async () => (await ann.evaluate("client.session.node")) === "c", 20_000);
  assert.deepEqual((await ann.evaluate("states")).map(([state]) => state), ["connecting", "online"]);
  await cluster.kill(a);
  await cluster.restart(a);
  await cluster.kill(c);
  const start = Date.now();
  await Promise.all([ann.evaluate(`client.setSelfStatus("after the kill")`), bob.evaluate(`client.setSelfStatus("to ann")`)]);
  await until("both pages are right", async () => (await textOf(bob, annID)) === "after the kill" && (await textOf(ann, bobID)) === "to ann" &&
    (await ann.evaluate("client.session?.node")) === "a");
  const time = Date.now() - start;
  console.log(`# pages are right again ${time} ms after the death of a node`);
  assert.ok(time < KILL_LIMIT, `${time} ms`);
  assert.deepEqual((await seen(bob, annID)).filter(({ statusType }) => statusType !== "ONLINE"), []);
  assert.deepEqual([ann.errors, bob.errors], [[], []]);
});
