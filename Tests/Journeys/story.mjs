// A story: people of one app on three nodes, and what they do with the parts that a user has.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { PresenceClient } from "../../Sources/WebClient/client.js";
import { Cluster, ROLLCALL } from "../WebClient/cluster.mjs";
import { checkStatus, SLACK, Stream, until } from "./stream.mjs";

const KEY = "rollcall development key, never in earnest!";
const encode = (part) => Buffer.from(JSON.stringify(part)).toString("base64url");

/**
 * A token that the development key signs. `rollcall token` prints the same, and takes a process for each.
 *
 * Two tokens of one second differ (RFC 7519 §4.1.7): a client does not renew its session with the token that it has.
 */
export function signedToken(user, { app, isAdmin = false, seconds = 3_600, issuedAt = Math.floor(Date.now() / 1_000) } = {}) {
  const claims = { sub: user, app, iat: issuedAt, exp: issuedAt + seconds, jti: randomUUID(), ...(isAdmin ? { role: "admin" } : {}) };
  const text = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${text}.${createHmac("sha256", KEY).update(text).digest("base64url")}`;
}

/** The nodes that all stories share, or a cluster of its own where a file runs alone. */
const shared = { nodes: process.env.JOURNEYS_NODES && JSON.parse(process.env.JOURNEYS_NODES), cluster: null };
after(() => shared.cluster?.stop());

/** Fails if a promise takes longer. */
async function within(seconds, what, promise) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${seconds * SLACK} s: ${what}`)), seconds * 1_000 * SLACK);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

/** Sends a request until the answer has another status than 503, for at most 30 s. The pauses spare a node that cannot answer. */
async function repeated(url, request) {
  const end = Date.now() + 30_000 * SLACK;
  for (;;) {
    const response = await fetch(url, request);
    const answer = await response.json();
    if (response.status !== 503 || Date.now() > end) return { status: response.status, answer, headers: response.headers };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Repeats a call as a user presses a button again, until it is acknowledged for everybody whom it names. */
export const insist = (what, action) => until(what, async () => {
  try {
    const answer = await action();
    return answer?.resultList?.some(({ resultCode }) => resultCode === 50001) ? null : answer;
  } catch (error) {
    if (![50001, 50002, -1, 30008].includes(error.code)) throw error;
    return null;
  }
}, 30);

export class Story {
  cluster = null;
  #ends = [];
  #streams = [];
  #witnesses = null;
  #marks = 0;

  constructor(nodes) {
    this.nodes = nodes;
    this.app = `story-${randomUUID().slice(0, 8)}`;
  }

  /** The node of this number; the nodes repeat. */
  node(index) {
    return this.nodes[index % this.nodes.length];
  }

  /** The numbers of the nodes that run. */
  get running() {
    return [...this.nodes.keys()].filter((index) => !this.nodes[index].process || (this.nodes[index].process.exitCode === null
      && this.nodes[index].process.signalCode === null));
  }

  /** The number of the node that owns a user, as a node that runs says. */
  async owner(user) {
    const { ownerOfTarget } = await this.admin("explain", { viewer: user, target: user }, { node: this.running[0] });
    return this.nodes.findIndex(({ id }) => id === ownerOfTarget.node);
  }

  /** A user with this owner. */
  async userOwnedBy(node, name) {
    for (let index = 0; index < 200; index += 1) if ((await this.owner(`${name}-${index}`)) === node) return `${name}-${index}`;
    throw new Error(`node ${node} owns nobody`);
  }

  token(user, options) {
    return signedToken(user, { app: this.app, ...options });
  }

  /** Something to end with the story, in reverse order. */
  atEnd(action) {
    this.#ends.push(action);
  }

  /**
   * A call over HTTP: the status, the answer, and the headers.
   *
   * While an owner or its replicas cannot be reached in time, the call is repeated, as the SDKs do.
   */
  async call(user, operation, body = {}, { node = 0, isAdmin = false, bearer, headers = {} } = {}) {
    return repeated(`${this.node(node).url}/v1/${operation}`, {
      method: "POST", headers: { Authorization: `Bearer ${bearer ?? this.token(user, { isAdmin })}`, ...headers }, body: JSON.stringify(body) });
  }

  /** The answer of a call that must succeed. */
  async ok(user, operation, body, options) {
    const { status, answer } = await this.call(user, operation, body, options);
    assert.equal(status, 200, `${operation} of ${user}: ${JSON.stringify(answer)}`);
    return answer;
  }

  /** The answer of a call of the app's back end on the ops port, which must succeed. */
  async admin(operation, body = {}, { node = 0 } = {}) {
    const { status, answer } = await repeated(`http://127.0.0.1:${this.node(node).ops}/admin/v1/${operation}`, {
      method: "POST", headers: { Authorization: `Bearer ${this.token("back-end", { isAdmin: true })}` }, body: JSON.stringify(body) });
    assert.equal(status, 200, `${operation}: ${JSON.stringify(answer)}`);
    return answer;
  }

  /** The code of a call that must be refused. The text of the refusal must say something. */
  async refused(user, operation, body, options) {
    const { status, answer } = await this.call(user, operation, body, options);
    assert.notEqual(status, 200, `${operation} of ${user}: ${JSON.stringify(answer)}`);
    assert.deepEqual([answer.status, typeof answer.title, typeof answer.type], [status, "string", "string"]);
    assert.ok(answer.detail.length > 0);
    return answer.code;
  }

  async policy(settings, preset) {
    return this.admin("setAppPolicy", { ...(preset ? { preset } : {}), ...(settings ? { settings } : {}) });
  }

  /** Opens a stream with curl, and waits for its first event. */
  async stream(user, { node = 0, url = this.node(node).url, bearer = this.token(user), platform = "ios", query = {}, ...how } = {}) {
    const stream = new Stream(url, bearer, { query: { platform, ...query }, ...how });
    this.#streams.push([user, stream]);
    this.atEnd(() => stream.drop());
    return stream.opened();
  }

  /** A client of a JavaScript app that is connected. Its first address is that of `node`, and the others follow. */
  async client(user, { node = 0, ...options } = {}) {
    let draws = 0;
    const addresses = this.nodes.map((_, index) => this.node(node + index).url);
    const client = new PresenceClient({ addresses, token: () => this.token(user), backoff: { initial: 50, max: 500 },
      random: () => (draws++ ? Math.random() : 0), ...options });
    client.heard = { statuses: [], states: [], changes: [], raised: [] };
    client.on("userStatusChanged", (list) => client.heard.statuses.push(...list));
    client.on("stateChanged", (change) => client.heard.states.push(change));
    client.on("relationshipChanged", (change) => client.heard.changes.push(change));
    client.on("eventRaised", (raised) => client.heard.raised.push(raised));
    this.atEnd(() => client.close());
    await client.connect();
    return client;
  }

  /** The record of `target` as `viewer` reads it, the same at every node that runs. */
  async status(viewer, target) {
    const records = [];
    for (const index of this.running) {
      const { userStatusList, errorUserList } = await this.ok(viewer, "getUserStatus", { userIDs: [target] }, { node: index });
      assert.deepEqual(errorUserList, []);
      checkStatus(userStatusList[0]);
      records.push(userStatusList[0]);
    }
    for (const record of records) assert.deepEqual(record, records[0], "one version has one content on every node");
    return records[0];
  }

  /** Has 61 students at all nodes add the teacher at once, where 60 friends are allowed. Returns those inside, and the one who is not. */
  async joinClass() {
    const students = await Promise.all(Array.from({ length: 61 }, async (_, index) => {
      const userID = `student-${String(index).padStart(2, "0")}`;
      return { userID, node: index, client: await this.client(userID, { node: index, customStatus: "here" }) };
    }));
    const results = await Promise.all(students.map(({ client }) => client.addFriend("teacher", { addWording: "5b", remark: "Miss Ada" })));
    const inside = students.filter((_, index) => results[index].resultCode === 0);
    const outside = students.filter((_, index) => results[index].resultCode !== 0);
    assert.deepEqual([inside.length, outside.length], [60, 1]);
    const [stranger] = outside;
    assert.equal(results[students.indexOf(stranger)].resultCode, 30014);
    const names = inside.map(({ userID }) => userID);
    assert.deepEqual([await this.friends("teacher"), await this.friends(stranger.userID)], [names, []]);
    return { inside, stranger, names };
  }

  /** The IDs in a user's friend list, the same at every node that runs. */
  async friends(user) {
    const lists = await Promise.all(this.running.map(async (node) => (await this.ok(user, "getFriendList", { limit: 100 },
      { node })).friendList.map(({ userID }) => userID)));
    for (const list of lists) assert.deepEqual(list, lists[0]);
    return lists[0];
  }

  /** The requests of a user as `type:userID`. */
  async requests(user, node = 0) {
    const { pendencyList } = await this.ok(user, "getPendencyList", { type: 3 }, { node });
    return pendencyList.map(({ type, userID }) => `${type}:${userID}`).sort();
  }

  /** Makes friends on both sides, by a call of the first. */
  async befriend(user, ...others) {
    for (const other of others) assert.deepEqual(await this.ok(user, "addFriend", { userID: other }),
      { userID: other, resultCode: 0, resultInfo: "" });
  }

  /** A user of each owner. */
  async #witnessUsers() {
    const running = this.running.join();
    if (this.#witnesses?.running === running) return this.#witnesses.users;
    const users = [];
    for (const node of this.running) users.push(await this.userOwnedBy(node, "witness"));
    this.#witnesses = { running, users };
    return users;
  }

  /**
   * Proves that nothing more comes to these streams of what the nodes have acknowledged until now.
   *
   * A user of each owner changes a text. A stream that follows these users has everything that an owner sent before.
   */
  async settled(...viewers) {
    const witnesses = await this.#witnessUsers();
    for (const [user] of viewers) {
      const { subscriptions } = await this.ok(user, "getSubscribedUserStatus", { userIDs: witnesses }, { node: this.running[0] });
      if (subscriptions.length < witnesses.length) assert.deepEqual((await this.ok(user, "subscribeUserStatus", { userIDs: witnesses },
        { node: this.running[0] })).errorUserList, []);
    }
    const text = `mark ${(this.#marks += 1)}`;
    for (const witness of witnesses) await this.ok(witness, "setSelfStatus", { customStatus: text }, { node: this.running[0] });
    for (const [user, stream] of viewers) {
      await until(`the marks at ${user}`, () => witnesses.every((witness) => {
        return (stream instanceof Stream ? stream.last(witness) : stream.statusOf(witness))?.customStatus === text;
      }));
    }
  }

  /** Proves the same for what the user's own owner sends about friends and requests. */
  async settledChain(user, ...streams) {
    const name = `mark ${(this.#marks += 1)}`;
    const before = streams.map((stream) => stream.events.length);
    await this.ok(user, "createFriendGroup", { groupNames: [name] });
    await Promise.all(streams.map((stream, index) => stream.hears("onFriendGroupsChanged",
      ({ groupList }) => groupList.some((group) => group.name === name), { from: before[index] })));
    await this.ok(user, "deleteFriendGroup", { groupNames: [name] });
  }

  /** Runs a command of `rollcall`, and returns its exit code and what it printed. */
  async command(...words) {
    try {
      const { stdout, stderr } = await promisify(execFile)(ROLLCALL, words, { encoding: "utf8", timeout: 60_000 });
      return { code: 0, stdout, stderr };
    } catch (error) {
      if (typeof error.code !== "number") throw error;
      return { code: error.code, stdout: error.stdout, stderr: error.stderr };
    }
  }

  async end() {
    const failures = [];
    for (const action of [...this.#ends.reverse(), () => this.cluster?.stop()]) {
      await within(15, `the end of the story: ${action}`, action()).catch((error) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
    for (const [user, stream] of this.#streams) assert.deepEqual(stream.faults, [], `the stream of ${user} keeps the rules`);
  }
}

/** A story whose name is the sentence that a user says when it breaks. With `cluster` it has nodes of its own, else those that all share. */
export function story(name, body, { cluster: own = null, seconds = 120 } = {}) {
  test(name, async () => {
    const cluster = own ? await Cluster.start(own.nodes ?? 3, own) : null;
    if (!cluster && !shared.nodes) {
      shared.cluster = await Cluster.start(3);
      shared.nodes = shared.cluster.nodes;
    }
    const told = new Story(cluster?.nodes ?? shared.nodes);
    told.cluster = cluster;
    let failure;
    try {
      await within(seconds, "the story", body(told));
    } catch (error) {
      failure = error;
    }
    try {
      await told.end();
    } catch (error) {
      failure ??= error;
    }
    if (failure) throw failure;
  });
}

export { assert, until };
