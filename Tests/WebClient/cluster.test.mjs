// Clients on three real nodes that drain, die and come back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PresenceClient } from "../../Sources/WebClient/client.js";
import { Cluster, token, until } from "./cluster.mjs";
import { LossyProxy, Network } from "./network.mjs";

/** The time within which the statuses are right after the death of a node. A release build takes less than 1,000. */
const KILL_LIMIT = Number(process.env.KILL_LIMIT ?? 4_000);

let cluster;
const clients = [];
let usersCount = 0;
const newUser = (name) => `${name}-${++usersCount}`;

before(async () => {
  cluster = await Cluster.start(3);
});
after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await cluster?.stop();
});

/** A client whose first address is that of `node`. */
function client(user, node, options = {}) {
  const others = cluster.nodes.filter((other) => other !== node);
  const made = new PresenceClient({
    addresses: [node, ...others].map(({ url }) => url), token: () => token(user), backoff: { initial: 50, max: 500 }, ...options });
  clients.push(made);
  return made;
}

/** The client's first address. The client draws it once, so the draws are random afterwards. */
function firstAddress() {
  let isFirst = true;
  return () => {
    if (!isFirst) return Math.random();
    isFirst = false;
    return 0;
  };
}

/** Keeps all statuses that a client receives of a user. */
function record(client, userID) {
  const statuses = [];
  client.on("userStatusChanged", (list) => statuses.push(...list.filter((status) => status.userID === userID)));
  return statuses;
}

test("A stream that resumes after its connection was cut receives every change of the meantime", async () => {
  const [a, b] = cluster.nodes;
  const network = await Network.to(a.client);
  const writers = await Promise.all(Array.from({ length: 20 }, async () => {
    const userID = newUser("writer");
    const writer = client(userID, b);
    await writer.connect();
    return { userID, writer };
  }));
  const ann = client(newUser("ann"), a, { addresses: [network.url], backoff: { initial: 20, max: 100 } });
  await ann.connect();
  await ann.subscribeUserStatus(writers.map(({ userID }) => userID), { sync: true });
  for (let round = 0; round < 5; round += 1) {
    const resumed = new Promise((resolve) => {
      const stop = ann.on("connected", () => {
        stop();
        resolve();
      });
    });
    // Half of the changes race with the cut, the others come while there is no stream.
    const changes = writers.map(({ writer }, index) => {
      if (index === 10) network.cut();
      return writer.setSelfStatus(`round ${round}`);
    });
    await Promise.all([...changes, resumed]);
    await until("all changes have arrived", () => writers.every(({ userID }) => ann.statusOf(userID)?.customStatus === `round ${round}`));
  }
  await ann.close();
  await network.close();
});

test("A drained node's clients move without an OFFLINE and without a lost change", async () => {
  const [a, b] = cluster.nodes;
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const ann = client(annID, a, { random: firstAddress() });
  const bob = client(bobID, b, { random: firstAddress() });
  await Promise.all([ann.connect(), bob.connect()]);
  assert.equal(ann.session.node, "a");
  await bob.subscribeUserStatus([annID], { sync: true });
  await ann.subscribeUserStatus([bobID], { sync: true });
  const seen = record(bob, annID);
  const states = [];
  ann.on("stateChanged", ({ state }) => states.push(state));
  await cluster.admin("drain", {}, a);
  let count = 0;
  await until("ann is on another node", async () => {
    await bob.setSelfStatus(`during the drain ${++count}`);
    return ann.session.node !== "a";
  }, 20_000);
  await until("ann has the last change", () => ann.statusOf(bobID)?.customStatus === `during the drain ${count}`);
  await ann.setSelfStatus("moved");
  await until("bob sees ann's text", () => bob.statusOf(annID)?.customStatus === "moved");
  assert.deepEqual(states, []);
  assert.deepEqual(seen.filter(({ statusType }) => statusType !== "ONLINE"), []);
  await cluster.kill(a);
  await cluster.restart(a);
});

test("After the death of a node its clients are back and right in time, and nobody sees an OFFLINE", async () => {
  const [, b, c] = cluster.nodes;
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const ann = client(annID, c, { random: firstAddress() });
  const bob = client(bobID, b, { random: firstAddress() });
  await Promise.all([ann.connect(), bob.connect()]);
  assert.equal(ann.session.node, "c");
  await Promise.all([ann.subscribeUserStatus([bobID], { sync: true }), bob.subscribeUserStatus([annID], { sync: true })]);
  const seen = record(bob, annID);
  await cluster.kill(c);
  const start = performance.now();
  await Promise.all([bob.setSelfStatus("from bob"), ann.setSelfStatus("from ann")]);
  await until("both are right", () => ann.statusOf(bobID)?.customStatus === "from bob" && bob.statusOf(annID)?.customStatus === "from ann" &&
    ann.state === "online");
  const time = performance.now() - start;
  console.log(`# right again ${time.toFixed(0)} ms after the death of a node`);
  assert.ok(time < KILL_LIMIT, `${time} ms`);
  assert.deepEqual(seen.filter(({ statusType }) => statusType !== "ONLINE"), []);
  await cluster.restart(c);
});

test("The clients of a frozen node, busy or idle, are elsewhere within 12 s, and nobody sees an OFFLINE", async () => {
  const [a, , c] = cluster.nodes;
  const [annID, bobID, idleID, plainID] = ["ann", "bob", "idle", "plain"].map(newUser);
  const ann = client(annID, c, { random: firstAddress(), deviceID: "laptop" });
  const bob = client(bobID, a, { random: firstAddress() });
  const idle = client(idleID, c, { random: firstAddress(), deviceID: "laptop" });
  await Promise.all([ann.connect(), bob.connect(), idle.connect()]);
  assert.deepEqual([ann.session, idle.session].map(({ node, heartbeatInterval }) => [node, heartbeatInterval]), [["c", 4], ["c", 4]]);
  const plain = await fetch(`${c.url}/v1/events?platform=web`, { headers: { Authorization: `Bearer ${token(plainID)}` } });
  const reader = plain.body.getReader();
  await reader.read();
  await bob.subscribeUserStatus([annID, idleID, plainID], { sync: true });
  await until("bob sees all", () => [annID, idleID, plainID].every((userID) => bob.statusOf(userID)?.statusType === "ONLINE"));
  const seen = [annID, idleID].map((userID) => record(bob, userID));
  const states = [];
  for (const one of [ann, idle]) one.on("stateChanged", ({ state }) => states.push(state));
  c.process.kill("SIGSTOP");
  try {
    const start = performance.now();
    const call = ann.getVisibility();
    const elsewhere = async (one, name) => {
      await until(`${name} is elsewhere`, () => one.session.node !== "c", 12_000);
      console.log(`# ${name} is elsewhere ${(performance.now() - start).toFixed(0)} ms after the node froze`);
    };
    await Promise.all([elsewhere(ann, "ann, who makes a call,"), elsewhere(idle, "the idle user")]);
    assert.equal((await call).visibility, "everyone");
    assert.deepEqual(states, []);
    // A plain stream asks for no comments. Its user is missed when the grace of the frozen node's sessions is over.
    await until("bob sees the user of the plain stream OFFLINE", () => bob.statusOf(plainID)?.statusType === "OFFLINE", 30_000);
    for (const [one, userID] of [[ann, annID], [idle, idleID]]) {
      await one.setSelfStatus("still here");
      await until("bob sees the text", () => bob.statusOf(userID)?.customStatus === "still here");
    }
    assert.deepEqual(seen.flat().filter(({ statusType }) => statusType !== "ONLINE"), []);
  } finally {
    c.process.kill("SIGCONT");
  }
  await until("the node is a member again", async () =>
    (await cluster.admin("clusterStatus", {}, a)).members.filter(({ state }) => state === "alive").length === 3, 30_000);
  await until("each has one session", async () => {
    const { userStatusList } = await cluster.admin("queryOnlineStatus", { userIDs: [annID, idleID], withSessions: true }, a);
    return userStatusList.every(({ sessions }) => sessions.length === 1);
  }, 30_000);
  assert.deepEqual(seen.flat().filter(({ statusType }) => statusType !== "ONLINE"), []);
  await reader.cancel();
});

test("A page that was loaded again repeats an event with its key, and the event is published once", async () => {
  const [a, b] = cluster.nodes;
  const [annID, bobID] = ["ann", "bob"].map(newUser);
  const bob = client(bobID, a);
  await bob.connect();
  await bob.subscribeUserStatus([annID], { sync: true });
  const seen = record(bob, annID);
  const eventIDs = [];
  for (const node of [a, b]) {
    const page = client(annID, node);
    await page.connect();
    eventIDs.push((await page.publishEvent(10_001, { idempotencyKey: "page" })).eventID);
    await page.close();
  }
  assert.equal(eventIDs[1], eventIDs[0]);
  const last = client(annID, b);
  const { eventID } = await last.publishEvent(10_002, { idempotencyKey: "next" });
  await until("bob sees the next event", () => bob.statusOf(annID)?.event?.eventID === eventID);
  assert.deepEqual([...new Set(seen.map(({ event }) => event?.eventID).filter(Boolean))], [eventIDs[0], eventID]);
});

test("A call whose answer is lost is repeated, and has the answer of the first attempt from another node", async () => {
  const proxy = await LossyProxy.to(cluster.nodes);
  const [annID, bobID, carlID] = ["ann", "bob", "carl"].map(newUser);
  const ann = new PresenceClient({ addresses: [proxy.url], token: () => token(annID), backoff: { initial: 50, max: 500 } });
  clients.push(ann);
  const codes = async (call) => (await call).resultList.map(({ resultCode }) => resultCode);
  await client(annID, cluster.nodes[0]).modifySelfProfile({ AllowType: "CONFIRM" });
  await client(carlID, cluster.nodes[1]).addFriend(annID);
  assert.equal((await ann.addFriend(bobID)).resultCode, 0);
  assert.equal((await ann.doResponse(carlID, 1)).resultCode, 0);
  assert.deepEqual(await codes(ann.deleteFriends([bobID], 2)), [0]);
  assert.deepEqual(await codes(ann.addBlackList([bobID])), [0]);
  assert.deepEqual(await codes(ann.deleteBlackList([bobID])), [0]);
  assert.deepEqual([...proxy.attempts.values()], Array.from({ length: 5 }, () => [200, 200]));
  await proxy.close();
});
