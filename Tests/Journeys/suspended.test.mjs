// Stories of clients whose processes are suspended behind nginx, with its shipped file.
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { phone } from "./phone.mjs";
import { BEHIND_PROXIES, startProxy } from "./proxies.mjs";
import { Receiver } from "./receiver.mjs";
import { SLACK } from "./stream.mjs";
import { assert, story, until } from "./story.mjs";

// The certificate of the proxy is the story's own.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
process.removeAllListeners("warning");

/** The shortest time that a policy can name. Behind a proxy the kernel of a suspended client would otherwise keep the user ONLINE. */
const TIMEOUT_SECONDS = 15;

/** Starts a laptop: a process with the JavaScript client, which sets a text for an hour and then does nothing by itself. */
function startLaptop(s, user, { url }, options) {
  const child = fork(fileURLToPath(new URL("laptop.mjs", import.meta.url)), [JSON.stringify({ ...options, addresses: [url], token: s.token(user),
    text: `${user}'s desk`, keepRelationships: true })], { execArgv: ["--no-warnings"], stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const laptop = { heard: { statuses: [] }, session: null, relationships: { friends: [] }, suspend: () => child.kill("SIGSTOP"), wake: () => child.kill("SIGCONT") };
  child.on("message", ({ statuses, ...known }) => {
    laptop.heard.statuses.push(...statuses);
    Object.assign(laptop, known);
  });
  s.atEnd(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  });
  return laptop;
}

/** Starts an app with the Swift SDK that does the same. */
async function startApp(s, user, { url, certificate }, options) {
  const app = await phone(s, user, { ...options, addresses: [url], certificate });
  await app.setSelfStatus(`${user}'s desk`);
  return app;
}

const STORIES = [
  ["I closed my laptop on the train, Bob thought all evening that I read his words, and when I opened it I had none of them", startLaptop],
  ["My phone froze the app in my pocket, Bob thought all evening that I read his words, and when I took it out I had none of them", startApp],
];
for (const [name, start] of STORIES) story(name, async (s) => {
  const proxy = await startProxy(s, "nginx");
  const receiver = await Receiver.of(s, ["stateChange"]);
  await s.policy({ "liveness.timeout": TIMEOUT_SECONDS });
  await s.befriend("ann", "bob");
  const bob = await s.stream("bob", { url: proxy.url, flags: ["-k", "--http2"], platform: "android" });
  assert.deepEqual((await s.ok("bob", "subscribeUserStatus", { userIDs: ["carl"] })).errorUserList, []);
  // Carl's device is as idle as Ann's, and is not suspended.
  const [ann, carl] = await Promise.all(["ann", "carl"].map((user) => start(s, user, proxy, { platform: "macos", deviceID: `laptop-of-${user}` })));
  const desk = { statusType: "ONLINE", customStatus: "ann's desk", onlinePlatforms: ["macos"] };
  await bob.sees("ann", desk);
  await bob.sees("carl", { ...desk, customStatus: "carl's desk" });
  const friends = () => ann.relationships.friends.map(({ userID }) => userID).sort().join();
  await until("the devices have their sessions, and Ann's has her list", () => ann.session && carl.session && friends() === "bob");
  const before = { ann: ann.session.sessionID, carl: carl.session.sessionID, told: bob.statuses("ann").length };

  // The kernel of the device still acknowledges what nginx sends, and nginx reads what the node sends.
  ann.suspend();
  const closed = Date.now();
  await s.ok("bob", "setSelfStatus", { customStatus: "call me" }, { node: 1 });
  await s.befriend("dora", "ann");
  const gone = await bob.sees("ann", { statusType: "OFFLINE" }, 30);
  const silence = Date.now() - closed;
  // A client gives three signs of life in each timeout, and the user has offlineGrace, two seconds, to return.
  assert.ok(silence >= (TIMEOUT_SECONDS * 2 / 3) * 1_000 && silence <= (TIMEOUT_SECONDS + 5) * 1_000 * SLACK, `OFFLINE after ${silence} ms`);
  assert.deepEqual([gone.customStatus, gone.onlinePlatforms, bob.statuses("ann").length], ["ann's desk", [], before.told + 1]);
  assert.deepEqual(await s.status("bob", "ann"), gone);
  await until(() => `the webhook: ${receiver.actions("ann")}`, () => receiver.of("ann").some(({ action, reason, deviceID, platform }) =>
    action === "Disconnect" && reason === "TimeOut" && platform === "macos"));

  // The device wakes. It has what was said and done, in one session.
  ann.wake();
  const back = await bob.sees("ann", desk);
  assert.ok(back.lastOnlineStatusUpdateTime > gone.lastOnlineStatusUpdateTime);
  await until("Ann reads Bob's words", () => ann.heard.statuses.findLast(({ userID }) => userID === "bob")?.customStatus === "call me");
  await until("Ann has her new friend", () => friends() === "bob,dora");
  await until("Ann's client has another session", () => ann.session.sessionID !== before.ann);
  const { userStatusList } = await s.admin("queryOnlineStatus", { userIDs: ["ann", "carl"], withSessions: true }, { node: 2 });
  assert.deepEqual(userStatusList.map(({ sessions }) => sessions.map(({ sessionID, platform, deviceID }) => [sessionID, platform, deviceID])),
    [[[ann.session.sessionID, "macos", "laptop-of-ann"]], [[before.carl, "macos", "laptop-of-carl"]]], "an idle client keeps its session");
  await s.settled(["bob", bob]);
  assert.equal(bob.statuses("ann").length, before.told + 2, "Bob is told of one end and one return");
  const seen = bob.statuses("carl").filter(({ statusType }) => statusType !== "UNLOGINED");
  assert.deepEqual([...new Set(seen.map(({ statusType, lastOnlineStatusUpdateTime }) => `${statusType} ${lastOnlineStatusUpdateTime}`))],
    [`ONLINE ${bob.last("carl").lastOnlineStatusUpdateTime}`], "Carl never left");
  assert.deepEqual(receiver.actions("carl").filter((action) => action === "Disconnect"), []);
}, { cluster: { environment: BEHIND_PROXIES }, seconds: 90 });
