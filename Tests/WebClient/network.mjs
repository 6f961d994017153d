// Proxies with faults, between clients and nodes.
import { createServer as createHTTPServer } from "node:http";
import { connect, createServer } from "node:net";

/** A generator of numbers of [0, 1) from a seed (mulberry32). */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Draws the fate of a connection: `{ refuse }`, or `{ delay, stallAfter, stallFor, end, endAfter }`. `end` is `reset`, `fin`, `silent` (half-open)
 * or `truncate` (a reset in the middle of an answer).
 */
export function randomFate(random) {
  const draw = random();
  if (draw < 0.1) return { refuse: true };
  const fate = { delay: random() < 0.5 ? random() * 60 : 0 };
  if (random() < 0.3) Object.assign(fate, { stallAfter: random() * 2_000, stallFor: random() * 2_500 });
  if (draw < 0.6) Object.assign(fate, { end: ["reset", "fin", "silent", "truncate"][Math.floor(random() * 4)], endAfter: random() * 3_000 });
  return fate;
}

export class Network {
  /** The number of connections with each fault. */
  counts = {};
  connectionsCount = 0;
  port = 0;
  #server;
  #target;
  #fate;
  #pairs = new Set();
  #timers = new Set();

  /** `fate(number)` returns the fate of each connection. */
  static async to(target, fate = () => ({})) {
    const network = new Network();
    network.#target = target;
    network.#fate = fate;
    network.#server = createServer((socket) => network.#accept(socket));
    await new Promise((resolve, reject) => network.#server.once("error", reject).listen(0, "127.0.0.1", resolve));
    network.port = network.#server.address().port;
    return network;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Connections from now on are sound. Half-open ones stay. */
  heal() {
    this.#fate = () => ({});
  }

  /** New connections carry each chunk after a delay, in milliseconds. */
  slow(delay) {
    this.#fate = () => ({ delay });
  }

  /** Resets all connections. */
  cut() {
    for (const pair of this.#pairs) pair.reset();
  }

  /** Makes all connections, and new ones, half-open: nothing is carried any more, and nobody is told. */
  silence() {
    for (const pair of this.#pairs) pair.silence();
    this.#fate = () => ({ end: "silent", endAfter: 0 });
  }

  /**
   * Ends all connections for the node alone, as when the machine of the client sleeps and the node gives the client up.
   *
   * The client is not told. When it next sends something on such a connection, the connection is reset, as by a node that does not know it.
   */
  loseClients() {
    for (const pair of this.#pairs) pair.loseClient();
  }

  async close() {
    for (const timer of this.#timers) clearTimeout(timer);
    for (const pair of this.#pairs) pair.reset();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #count(fault) {
    this.counts[fault] = (this.counts[fault] ?? 0) + 1;
  }

  #after(delay, body) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      body();
    }, delay);
    this.#timers.add(timer);
  }

  #accept(client) {
    this.connectionsCount += 1;
    const fate = this.#fate(this.connectionsCount);
    client.on("error", () => client.destroy());
    if (fate.refuse) {
      this.#count("refuse");
      client.resetAndDestroy();
      return;
    }
    const node = connect(this.#target, "127.0.0.1");
    let isSilent = false;
    let isClientLost = false;
    let isTruncating = false;
    let stalledUntil = 0;
    const pair = {
      reset: () => {
        client.resetAndDestroy();
        node.resetAndDestroy();
      },
      silence: () => {
        isSilent = true;
      },
      loseClient: () => {
        isClientLost = true;
        node.resetAndDestroy();
      },
    };
    this.#pairs.add(pair);
    const carry = (from, to, isAnswer) => {
      let readyAt = 0;
      from.on("error", () => to.destroy());
      from.on("close", () => {
        // The socket of a client that was lost stays open, and `close` ends it.
        if (isClientLost && from === node) return;
        this.#pairs.delete(pair);
        if (!isSilent) to.destroy();
      });
      from.on("end", () => !isSilent && this.#after(Math.max(readyAt - Date.now(), 0), () => to.end()));
      from.on("data", (chunk) => {
        if (isClientLost && !isAnswer) client.resetAndDestroy();
        if (isSilent || isClientLost) return;
        if (isTruncating && isAnswer && chunk.length > 1) {
          this.#count("truncate");
          to.write(chunk.subarray(0, chunk.length >> 1), pair.reset);
          return;
        }
        // Chunks keep their order.
        readyAt = Math.max(readyAt, Date.now() + (fate.delay ?? 0), stalledUntil);
        const wait = readyAt - Date.now();
        if (wait <= 0) to.write(chunk);
        else this.#after(wait, () => !isSilent && !to.destroyed && to.write(chunk));
      });
    };
    carry(client, node, false);
    carry(node, client, true);
    if (fate.stallFor) {
      this.#after(fate.stallAfter, () => {
        this.#count("stall");
        stalledUntil = Date.now() + fate.stallFor;
      });
    }
    if (fate.end === undefined) return;
    // A timer of 0 ms would let through what the client sends before the timer fires.
    if (fate.end === "silent" && fate.endAfter === 0) {
      this.#count("silent");
      pair.silence();
      return;
    }
    this.#after(fate.endAfter, () => {
      if (!this.#pairs.has(pair)) return;
      if (fate.end === "truncate") isTruncating = true;
      else this.#count(fate.end);
      if (fate.end === "reset") pair.reset();
      else if (fate.end === "silent") pair.silence();
      else if (fate.end === "fin") client.end(() => node.end());
    });
  }
}

/** A proxy of HTTP that carries each attempt of a call to another node, and loses the answer to the first. */
export class LossyProxy {
  /** The status of the nodes' answer to each attempt, by the key of the call. */
  attempts = new Map();
  #server;

  static async to(nodes) {
    const proxy = new LossyProxy();
    proxy.#server = createHTTPServer((request, response) => proxy.#carry(request, response, nodes).catch(() => response.destroy()));
    await new Promise((resolve, reject) => proxy.#server.once("error", reject).listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url() {
    return `http://127.0.0.1:${this.#server.address().port}`;
  }

  async #carry(request, response, nodes) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const { authorization, "idempotency-key": key } = request.headers;
    const earlier = this.attempts.get(key) ?? [];
    const answer = await fetch(`${nodes[earlier.length % nodes.length].url}${request.url}`, {
      method: "POST", headers: { Authorization: authorization, "Idempotency-Key": key }, body: Buffer.concat(pieces) });
    const text = await answer.text();
    this.attempts.set(key, [...earlier, answer.status]);
    if (earlier.length === 0) return response.destroy();
    response.writeHead(answer.status, { "Content-Type": "application/json", Connection: "close" }).end(text);
  }

  async close() {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
