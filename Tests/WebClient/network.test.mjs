// Clients behind networks that delay, stall, cut, reset and swallow what they carry: the promises of BadNetworks.md.
//
// SECONDS is the length of the run (default 20), SEED the start of the random numbers.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { PresenceClient, PresenceCode, PresenceError } from "../../Sources/WebClient/client.js";
import { Cluster, token, until } from "./cluster.mjs";
import { Network, randomFate, seeded } from "./network.mjs";

const RUN = Number(process.env.NETWORK_SECONDS ?? 20) * 1_000;
const SEED = Number(process.env.SEED ?? 1);
const USERS = 8;

let cluster;
const networks = [];
const users = [];

before(async () => {
  cluster = await Cluster.start(3, { environment: { ROLLCALL_HEARTBEAT_INTERVAL: "1" } });
});
after(async () => {
  await Promise.all(users.flatMap(({ client, direct }) => [client.close(), direct.close()]));
  await Promise.all(networks.map((network) => network.close()));
  await cluster?.stop();
});

/** A user that acts at random, and keeps what it was promised. */
class User {
  texts = { acknowledged: null, possible: [] };
  follows = new Map();
  newest = new Map();
  failures = {};
  callsCount = 0;
  reconnectsCount = 0;
  wentBack = [];
  overwritten = 0;

  constructor(name, random) {
    this.name = name;
    this.random = random;
    this.client = new PresenceClient({
      addresses: networks.map(({ url }) => url), token: () => token(name), random, callTimeout: 1_000, connectTimeout: 1_500,
      backoff: { initial: 50, max: 1_000 }, loginAttemptsMax: Infinity });
    this.direct = new PresenceClient({ addresses: [cluster.urls[0]], token: () => token(name) });
    let lastOwn = "";
    this.client.on("userStatusChanged", (list) => {
      for (const { userID, version, customStatus } of list) {
        if (version <= (this.newest.get(userID) ?? "")) this.wentBack.push(`${name} received ${userID} at ${version}`);
        this.newest.set(userID, version);
        if (userID !== name) continue;
        // The own texts are in the order in which they were set.
        if (customStatus < lastOwn) this.overwritten += 1;
        lastOwn = customStatus;
      }
    });
    this.client.on("stateChanged", ({ state }) => {
      if (state === "waiting") this.reconnectsCount += 1;
    });
  }

  async attempt(call) {
    this.callsCount += 1;
    try {
      await call();
      return true;
    } catch (error) {
      assert.ok(error instanceof PresenceError, String(error));
      this.failures[error.code] = (this.failures[error.code] ?? 0) + 1;
      return false;
    }
  }

  async act(end) {
    while (Date.now() < end) {
      const draw = this.random();
      const other = `user${Math.floor(this.random() * USERS)}`;
      if (draw < 0.5) {
        const text = `s${1_000_000 + this.callsCount}`;
        if (await this.attempt(() => this.client.setSelfStatus(text))) this.texts = { acknowledged: text, possible: [] };
        else this.texts.possible.push(text);
      } else if (draw < 0.9 && other !== this.name) {
        const starts = draw < 0.75;
        const isDone = await this.attempt(() => this.client[starts ? "subscribeUserStatus" : "unsubscribeUserStatus"]([other]));
        this.follows.set(other, isDone ? starts : null);
      } else await this.attempt(() => this.client.getUserStatus([other]));
    }
  }

  /** What the user was promised and does not hold. */
  async broken(records, followed) {
    const broken = [];
    for (const userID of [this.name, ...followed]) {
      const record = records.get(userID);
      const known = this.client.statusOf(userID);
      if (known?.version !== record.version) broken.push(`${this.name} knows ${userID} at ${known?.version}, its owner at ${record.version}`);
      else if (known.customStatus !== record.customStatus || known.statusType !== record.statusType) broken.push(`${userID}: other content`);
      if (this.newest.get(userID) !== record.version) broken.push(`${this.name} was told ${userID} at ${this.newest.get(userID)}`);
    }
    const text = records.get(this.name).customStatus;
    const { acknowledged, possible } = this.texts;
    if (text !== (acknowledged ?? "") && !possible.includes(text)) broken.push(`${this.name} has ${text}, acknowledged was ${acknowledged}`);
    for (const [userID, isFollowed] of this.follows) {
      if (isFollowed !== null && followed.includes(userID) !== isFollowed) broken.push(`${this.name} follows ${userID}: not ${isFollowed}`);
    }
    if (this.client.state !== "online") broken.push(`${this.name} is ${this.client.state}`);
    return broken;
  }
}

test(`After ${RUN / 1_000} s of faults every view equals the owner's record, nothing went back, and no acknowledged change is lost`, async () => {
  const random = seeded(SEED);
  await cluster.admin("setAppPolicy", { settings: { "customStatus.clearOnOffline": false, "rate.query": false, "rate.subscribe": false } });
  for (const node of cluster.nodes) networks.push(await Network.to(node.client, () => randomFate(random)));
  for (let index = 0; index < USERS; index += 1) users.push(new User(`user${index}`, seeded(SEED * 1_000 + index)));
  const end = Date.now() + RUN;
  await Promise.all(users.map(async (user) => {
    await user.client.connect();
    await user.act(end);
  }));
  for (const network of networks) network.heal();
  const healedAt = Date.now();
  let broken;
  try {
    await until("all promises are kept", async () => {
      const names = users.map(({ name }) => name);
      const followed = await Promise.all(users.map(async ({ direct }) =>
        (await direct.getSubscribedUserStatus()).subscriptions.map(({ userID }) => userID)));
      const { userStatusList } = await cluster.admin("queryOnlineStatus", { userIDs: names });
      const records = new Map(userStatusList.map((record) => [record.userID, record]));
      broken = (await Promise.all(users.map((user, index) => user.broken(records, followed[index])))).flat();
      return broken.length === 0;
    }, 30_000);
  } catch (error) {
    assert.deepEqual(broken, []);
    throw error;
  }
  const sum = (objects) => objects.reduce((total, counts) => {
    for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count;
    return total;
  }, {});
  const faults = sum(networks.map(({ counts }) => counts));
  const calls = users.reduce((total, { callsCount }) => total + callsCount, 0);
  const reconnects = users.reduce((total, { reconnectsCount }) => total + reconnectsCount, 0);
  const overwritten = users.reduce((total, user) => total + user.overwritten, 0);
  console.log(`# seed ${SEED}: ${calls} calls, failed by code ${JSON.stringify(sum(users.map(({ failures }) => failures)))}; ${reconnects} reconnects; ` +
    `${overwritten} texts overwritten by older calls; faults ${JSON.stringify(faults)}; right ${Date.now() - healedAt} ms after the network healed`);
  assert.deepEqual(users.flatMap(({ wentBack }) => wentBack), []);
  // Otherwise nothing was proved.
  assert.ok(Object.keys(faults).length >= 4 && reconnects > 0 && calls > 8 * USERS, JSON.stringify({ faults, reconnects, calls }));
});

test("A client whose calls and stream are half-open is told so in time, and is back when the network is", async (t) => {
  const network = await Network.to(cluster.nodes[0].client);
  t.after(() => network.close());
  const ann = new PresenceClient({
    addresses: [network.url], token: () => token("ann"), callTimeout: 300, connectTimeout: 500, backoff: { initial: 20, max: 100 } });
  // A failed test leaves no timer behind that keeps the process alive.
  t.after(() => ann.close());
  await ann.connect();
  network.silence();
  const start = Date.now();
  await assert.rejects(ann.getVisibility(), { code: PresenceCode.unreachable, mayTakeEffect: false });
  // Four attempts of 300 ms, and the waits between them.
  assert.ok(Date.now() - start < 4 * 300 + 1_800, `${Date.now() - start} ms`);
  await until("the client has given the silent stream up", () => ann.state !== "online");
  network.heal();
  await until("the client is back", () => ann.state === "online");
});
