// Three nodes in processes of their own, and users who are logged in to them.
import { fileURLToPath } from "node:url";
import { execFileSync, spawn } from "node:child_process";
import { openSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The binary of the node. */
export const rollcall = process.env.ROLLCALL ?? fileURLToPath(new URL("../../.build-release/release/rollcall", import.meta.url));
const sessionsMax = 200;
/** The time within which a node must answer, in milliseconds. */
const answerMilliseconds = 15_000;

/** Multiplies every deadline, for slow machines. */
const SLACK = Number(process.env.SLACK ?? 1);

/** Polls a condition until it is truthy, and returns its value. */
export async function until(condition, { seconds = 20, what = String(condition) } = {}) {
  const deadline = Date.now() + seconds * 1000 * SLACK;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`not within ${seconds * SLACK} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A token that the development key signs. */
export function token(user, { isAdmin = false, seconds = 3_600 } = {}) {
  return execFileSync(rollcall, ["token", "--user", user, "--expiry", String(seconds), ...(isAdmin ? ["--admin"] : [])], { encoding: "utf8" }).trim();
}

async function freePorts(number) {
  const servers = await Promise.all(Array.from({ length: number }, () => new Promise((resolve, reject) => {
    const server = createServer().on("error", reject).listen(0, "127.0.0.1", () => resolve(server));
  })));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

export class Cluster {
  #folder;
  #sessions = [];
  nodes = [];

  static async start(names = ["a", "b", "c"]) {
    const cluster = new Cluster();
    cluster.#folder = await mkdtemp(join(tmpdir(), "console-"));
    const ports = await freePorts(names.length * 3);
    for (const [index, name] of names.entries()) {
      const [clients, members, ops] = ports.slice(index * 3, index * 3 + 3).map((port) => `127.0.0.1:${port}`);
      await mkdir(join(cluster.#folder, name));
      const log = openSync(join(cluster.#folder, `${name}.log`), "w");
      const child = spawn("nice", [
        rollcall, "serve", "--dev", "--node-id", name, "--data-dir", join(cluster.#folder, name), "--loops", "1",
        "--listen", clients, "--cluster-listen", members, "--ops-listen", ops,
        ...(index === 0 ? [] : ["--join", cluster.nodes[0].members]),
      ], { stdio: ["ignore", log, log] });
      cluster.nodes.push({ name, clients, members, ops, child });
      await until(() => fetch(`http://${ops}/readyz`).then((answer) => answer.ok, () => false), { what: `${name} is ready` });
    }
    cluster.admin = token("operator", { isAdmin: true });
    for (const node of cluster.nodes) {
      await until(async () => (await cluster.call("clusterStatus", {}, node)).members
        .filter((member) => member.state === "alive" && member.slotsOwned > 0).length === names.length, { what: `${node.name} sees all nodes` });
    }
    return cluster;
  }

  /** Carries out an operation of the ops port. Throws the problem of another answer than 200. */
  async call(operation, body = {}, node = this.nodes[0]) { return this.#post(`http://${node.ops}/admin/v1/${operation}`, body, this.admin); }

  /** Carries out an operation of the clients' port for a user. */
  async act(user, operation, body = {}, node = this.nodes[0]) {
    return this.#post(`http://${node.clients}/v1/${operation}`, { ...body, asUser: user }, this.admin);
  }

  async #post(url, body, bearer) {
    const answer = await fetch(url, {
      method: "POST", body: JSON.stringify(body), headers: { authorization: `Bearer ${bearer}` }, signal: AbortSignal.timeout(answerMilliseconds),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  /**
   * The sum of a counter's series, for each node. `labels` is a regular expression for the labels of the series.
   * The value is 0 for a node that was killed.
   */
  async counters(name, labels = /^/) {
    return Promise.all(this.nodes.map(async ({ ops, child }) => {
      if (child.exitCode !== null || child.signalCode !== null) return 0;
      const metrics = await (await fetch(`http://${ops}/metrics`, { signal: AbortSignal.timeout(answerMilliseconds) })).text();
      const lines = metrics.split("\n").filter((line) => line.startsWith(`${name} `) || (line.startsWith(`${name}{`) && labels.test(line)));
      return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
    }));
  }

  /** Logs a user in at a node, and returns the session with the events that it received. */
  async logIn(user, { node = this.nodes[0], platform = "web", customStatus = "" } = {}) {
    if (this.#sessions.length === sessionsMax) throw new Error(`the test opens more than ${sessionsMax} sessions`);
    const end = new AbortController();
    const query = new URLSearchParams({ platform, customStatus, asUser: user, deviceID: `device of ${user}` });
    const answer = await fetch(`http://${node.clients}/v1/events?${query}`, { headers: { authorization: `Bearer ${this.admin}` }, signal: end.signal });
    if (!answer.ok) throw new Error(`login of ${user}: ${answer.status} ${await answer.text()}`);
    const session = { user, text: "", end: () => end.abort(), hasEnded: false };
    session.reading = (async () => {
      const decoder = new TextDecoder();
      try {
        for await (const part of answer.body) session.text = (session.text + decoder.decode(part, { stream: true })).slice(-65_536);
      } catch (error) {
        session.error = error; // The stream ends with an error when the session or its node is ended by the test.
      }
      session.hasEnded = true;
    })();
    this.#sessions.push(session);
    await until(() => session.text.includes("onConnected"), { what: `${user} is connected` });
    return session;
  }

  /** Kills a node with SIGKILL. */
  async kill(name) {
    const { child } = this.nodes.find((node) => node.name === name);
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }

  async stop() {
    for (const session of this.#sessions) session.end();
    await Promise.all(this.#sessions.map((session) => session.reading));
    await Promise.all(this.nodes.map(async ({ child }) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }));
    await rm(this.#folder, { recursive: true, force: true });
  }
}
