// Stories behind nginx and HAProxy, with their shipped files.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { browserOf } from "./page.mjs";
import { BEHIND_PROXIES, proxy } from "./proxies.mjs";
import { assert, story, until } from "./story.mjs";

// The certificates of the proxies are the story's own.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
process.removeAllListeners("warning");

story("My phone is on one address and my tablet on the other, and while you updated a server Bob saw me leave and I lost his words", async (s) => {
  const [nginx, haproxy] = await Promise.all([proxy(s, "nginx"), proxy(s, "haproxy")]);
  // HAProxy asks each node for its health before it sends anybody there.
  await until("HAProxy has nodes", async () => (await fetch(`${haproxy}/openapi.json`).catch(() => ({}))).status === 200);
  await s.befriend("ann", "bob");
  const browser = await browserOf(s);
  const phone = await s.client("ann", { addresses: [nginx], platform: "ios", deviceID: "phone", keepRelationships: true });
  const page = await browser.open("ann", [haproxy], { platform: "web", deviceID: "laptop" });
  let tablet = await s.stream("ann", { url: haproxy, flags: ["-k", "--http2"], platform: "ipad", query: { deviceID: "tablet" } });
  const bob = await s.stream("bob", { url: haproxy, flags: ["-k", "--http2"], platform: "android" });
  const carl = await s.stream("carl", { url: nginx, flags: ["-k", "--http2"] });
  assert.match(bob.head, /^HTTP\/2 200/);
  await s.ok("carl", "subscribeUserStatus", { userIDs: ["ann"] });
  for (const stream of [bob, carl]) await stream.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ios", "ipad", "web"] });
  // In the browser Ann blocks Carl. Her phone has it in its list, and Carl sees her no more.
  await page.evaluate('client.addBlackList(["carl"])');
  await carl.sees("ann", { statusType: "OFFLINE", customStatus: "", onlinePlatforms: [] });
  await until("the phone has the block", () => phone.relationships.blocked[0] === "carl");
  await tablet.hears("onBlackListAdded", ({ userIDs }) => userIDs[0] === "carl");
  const hidden = carl.statuses("ann").length;

  // An operator drains the node of the tablet. Bob talks on, by calls through both proxies.
  const drained = s.nodes.find(({ id }) => id === tablet.connected.node);
  const { code } = await s.command("cluster", "drain", "--ops", `http://127.0.0.1:${drained.ops}`);
  assert.equal(code, 0);
  let words = 0;
  const say = async () => {
    const url = words % 2 ? nginx : haproxy;
    const { stdout } = await promisify(execFile)("curl", ["-sk", "-w", "%{http_code}", "-o", "/dev/null", "-H",
      `Authorization: Bearer ${s.token("bob")}`, `${url}/v1/setSelfStatus`, "-d", JSON.stringify({ customStatus: `word ${(words += 1)}` })]);
    assert.equal(stdout, "200", `word ${words} through ${url}`);
  };
  const { reason, afterMilliseconds } = await tablet.hears("onReconnectHint");
  assert.deepEqual([reason, Number.isSafeInteger(afterMilliseconds)], ["draining", true]);
  // The tablet opens another stream, resumes, and drops the first one.
  const first = tablet;
  tablet = await until("a stream at another node", async () => {
    const stream = await s.stream("ann", { url: haproxy, flags: ["-k", "--http2"], platform: "ipad", query: { deviceID: "tablet" },
      lastEventID: first.position });
    return stream.connected.node === drained.id ? stream.drop() : stream;
  });
  await first.drop();
  await until("phone and browser have left the node", async () => {
    await say();
    return phone.session.node !== drained.id && phone.state === "online" && (await page.evaluate("client.session.node")) !== drained.id;
  }, 30);
  const heard = (user, text) => page.shows(`client.statusOf(${JSON.stringify(user)})?.customStatus === ${JSON.stringify(text)}`);
  await until("the phone has the last word", () => phone.statusOf("bob").customStatus === `word ${words}`);
  await heard("bob", `word ${words}`);
  await tablet.sees("bob", { customStatus: `word ${words}` });
  assert.deepEqual([phone.heard.states.map(({ state }) => state).filter((state) => !["connecting", "online"].includes(state)),
    await page.evaluate("states.filter((state) => !['connecting', 'online'].includes(state))")], [[], []]);

  // The node ends. Ann locks her phone, takes it out again, and closes the browser.
  drained.process.kill("SIGTERM");
  await drained.ended;
  assert.equal(drained.process.exitCode, 0, drained.log);
  await phone.close();
  await bob.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ipad", "web"] });
  await say();
  await heard("bob", `word ${words}`);
  const again = await s.client("ann", { addresses: [nginx], platform: "ios", deviceID: "phone", keepRelationships: true });
  await bob.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ios", "ipad", "web"] });
  await tablet.drop();
  await page.evaluate("client.close()");
  await bob.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ios"] });
  await say();
  await until("the phone has the last word", () => again.statusOf("bob")?.customStatus === `word ${words}`);
  for (let index = 0; index < 10; index += 1) await say();
  await until("the phone has all words", () => again.statusOf("bob").customStatus === `word ${words}`);
  const seen = bob.statuses("ann");
  assert.deepEqual(seen.slice(seen.findIndex(({ statusType }) => statusType === "ONLINE")).filter(({ statusType }) => statusType !== "ONLINE"), [],
    "Bob never saw her leave");
  assert.equal(new Set(seen.filter(({ statusType }) => statusType === "ONLINE").map(
    ({ lastOnlineStatusUpdateTime }) => lastOnlineStatusUpdateTime)).size, 1);
  assert.equal(carl.statuses("ann").length, hidden, "Carl is told nothing");
  await until("the phone has its lists", () => again.relationships.isComplete);
  assert.deepEqual([again.relationships.blocked, again.relationships.friends.map(({ userID }) => userID), page.errors], [["carl"], ["bob"], []]);
}, { cluster: { environment: BEHIND_PROXIES }, seconds: 120 });
