// The event stream of a user, read by curl, with every rule that holds for each stream.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";

const STATUSES = ["ONLINE", "OFFLINE", "UNLOGINED", "UNKNOWN"];
const TIMES = ["lastUpdateTime", "lastOnlineStatusUpdateTime", "lastCustomStatusUpdateTime", "lastSeenTime"];
/** Multiplies every deadline. */
export const SLACK = Number(process.env.SLACK ?? 1);

/** Polls until `condition` returns a true value, and returns that. */
export async function until(what, condition, seconds = 20) {
  const deadline = Date.now() + seconds * 1_000 * SLACK;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not within ${seconds * SLACK} s: ${typeof what === "function" ? what() : what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Checks every field of a record, and that the fields fit each other. */
export function checkStatus(status) {
  const say = `record ${JSON.stringify(status)}`;
  assert.equal(typeof status.userID, "string", say);
  assert.ok(STATUSES.includes(status.statusType), say);
  assert.equal(typeof status.customStatus, "string", say);
  assert.match(status.version, /^[0-9a-f]{24}$/, say);
  for (const time of TIMES) assert.ok(Number.isSafeInteger(status[time]) && status[time] >= 0, `${time} of ${say}`);
  assert.deepEqual(status.onlinePlatforms, [...status.onlinePlatforms].sort(), say);
  if (status.statusType === "OFFLINE" || status.statusType === "UNLOGINED") assert.deepEqual(status.onlinePlatforms, [], say);
  for (const event of [status.event, status.loginEvent].filter(Boolean)) {
    assert.equal(typeof event.eventID, "string", say);
    assert.ok(event.value >= 10_000 && event.publishedAt < event.expiresAt, say);
    assert.deepEqual([typeof event.ext, typeof event.sendToOnlineUsersOnly, typeof event.syncEnabled], ["string", "boolean", "boolean"], say);
  }
}

export class Stream {
  /** Every event: `id`, `name` and `data`. */
  events = [];
  /** The events that broke a rule of every stream. A story fails if there are any. */
  faults = [];
  /** The status line and the text of a refusal. */
  head = "";
  isOpen = true;
  /** The changes that no device is told of, because an import made them. Each is a gap between two sequences. */
  importsMax = 0;
  #rest = "";
  #versions = new Map();
  #sequences = new Map();

  /** Opens `GET /v1/events` with curl. `flags` are further flags of curl. */
  constructor(url, bearer, { query = {}, lastEventID, flags = [] } = {}) {
    const headers = [...(bearer ? ["-H", `Authorization: Bearer ${bearer}`] : []), ...(lastEventID ? ["-H", `Last-Event-ID: ${lastEventID}`] : [])];
    this.process = spawn("curl", ["-sNi", ...flags, ...headers, `${url}/v1/events?${new URLSearchParams(query)}`],
      { stdio: ["ignore", "pipe", "inherit"] });
    this.process.stdout.setEncoding("utf8").on("data", (text) => this.#read(text));
    this.ended = new Promise((resolve) => this.process.stdout.once("close", resolve)).then(() => (this.isOpen = false));
  }

  #read(text) {
    const blocks = (this.#rest + text).replaceAll("\r", "").split("\n\n");
    this.#rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").filter((line) => /^(id|event|data): /.test(line)).map((line) => line.split(/: (.*)/s, 2)));
      if (fields.event) this.#take({ id: fields.id, name: fields.event, data: JSON.parse(fields.data) });
      else this.head = (this.head + block).slice(0, 4_000);
    }
  }

  /** Keeps an event, and checks the rules that every stream keeps. */
  #take(event) {
    const { name, data, id } = event;
    const fault = (text) => this.faults.push(`${text}: ${JSON.stringify(event)}`);
    if (this.events.length === 0 && name !== "onConnected") fault("the first event is not onConnected");
    if (!/^\d+$/.test(id ?? "")) fault("the id is not a number");
    this.events.push(event);
    if (name === "onUserStatusChanged") {
      if (data.userStatusList.length === 0) fault("the list is empty");
      for (const status of data.userStatusList) {
        try {
          checkStatus(status);
        } catch (error) {
          fault(error.message);
        }
        if (status.version < (this.#versions.get(status.userID) ?? "")) fault("the stream goes back to an older version");
        this.#versions.set(status.userID, status.version);
      }
    }
    // One sequence names one content, so each change begins where the one before it ended.
    const list = name.startsWith("onFriendApplicationList") ? "pendencySeq" : name.startsWith("onFriend") ? "friendSeq" : null;
    if (name === "onRelationshipState") for (const key of ["friendSeq", "pendencySeq"]) this.#sequences.set(key, data[key]);
    if (list && data.fromSeq !== undefined) {
      const before = this.#sequences.get(list);
      if (before !== undefined && before !== data.fromSeq && (this.importsMax -= 1) < 0) fault(`${list} was ${before} before`);
      if (data.seq === data.fromSeq) fault("a change without a new sequence");
      this.#sequences.set(list, data.seq);
    }
  }

  /** The `id` of the last event, for a stream that resumes. */
  get position() {
    return this.events.at(-1)?.id;
  }
  get connected() {
    return this.events[0]?.data;
  }
  /** The data of all events of a name. */
  of(name) {
    return this.events.filter((event) => event.name === name).map(({ data }) => data);
  }
  /** All records of a user, in the order of their arrival. */
  statuses(user) {
    return this.of("onUserStatusChanged").flatMap(({ userStatusList }) => userStatusList).filter(({ userID }) => userID === user);
  }
  last(user) {
    return this.statuses(user).at(-1);
  }

  /** Waits until the last record of a user has these fields, and returns the record. */
  sees(user, fields, seconds) {
    const fits = (status) => status && Object.entries(fields).every(([key, value]) => JSON.stringify(status[key]) === JSON.stringify(value));
    return until(() => `${user} is ${JSON.stringify(fields)}; the last record is ${JSON.stringify(this.last(user))}, open: ${this.isOpen} ${this.head}`,
      () => fits(this.last(user)) && this.last(user), seconds);
  }

  /** Waits for an event, from the position `from` in `events` on, and returns its data. */
  hears(name, fits = () => true, { from = 0, seconds } = {}) {
    return until(() => `${name}; the events are ${JSON.stringify(this.events.slice(from).map((event) => [event.name, event.data])).slice(0, 3_000)} ${this.head}`,
      () => this.events.slice(from).find((event) => event.name === name && fits(event.data))?.data, seconds);
  }

  /** Waits until the node has opened the session. */
  async opened() {
    await until(() => `a stream opens: ${this.head}`, () => this.connected || (!this.isOpen && this.head.length > 0));
    if (!this.connected) throw new Error(`the stream was refused: ${this.head}`);
    return this;
  }

  /** Waits until the node has ended the stream. */
  ends(seconds) {
    return until(() => `the stream ends; the last events are ${JSON.stringify(this.events.slice(-3).map(({ name, data }) => [name, data]))}`,
      () => !this.isOpen, seconds);
  }

  /** Ends the connection without a logout. */
  async drop() {
    this.process.kill("SIGKILL");
    await this.ended;
  }
}
