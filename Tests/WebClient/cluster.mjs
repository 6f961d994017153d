// Starts real nodes for the tests, and ends them.
import { fileURLToPath } from "node:url";
import { execFileSync, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The binary of the node. */
export const ROLLCALL = process.env.ROLLCALL ?? fileURLToPath(new URL("../../.build-release/release/rollcall", import.meta.url));

/** Multiplies every deadline, for slow machines. */
const SLACK = Number(process.env.SLACK ?? 1);

/** Polls until `condition` returns a true value, and returns that. */
export async function until(what, condition, limit = 10_000) {
  const end = Date.now() + limit * SLACK;
  while (true) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${limit * SLACK} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function freePorts(count) {
  const servers = [];
  for (let index = 0; index < count; index += 1) {
    const server = createServer();
    await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
    servers.push(server);
  }
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

const tokens = new Map();

/** A token of the development key. */
export function token(user, ...flags) {
  const key = [user, ...flags].join(" ");
  if (!tokens.has(key) || flags.includes("--expiry")) {
    tokens.set(key, execFileSync(ROLLCALL, ["token", "--user", user, ...flags], { encoding: "utf8" }).trim());
  }
  return tokens.get(key);
}

/** A token of the development key that ended some seconds ago. The command makes none. */
export function expiredToken(user, seconds = 100) {
  const part = (content) => Buffer.from(JSON.stringify(content)).toString("base64url");
  const end = Math.floor(Date.now() / 1_000) - seconds;
  const signed = `${part({ alg: "HS256", typ: "JWT" })}.${part({ sub: user, iat: end - 60, exp: end })}`;
  return `${signed}.${createHmac("sha256", "rollcall development key, never in earnest!").update(signed).digest("base64url")}`;
}

export class Cluster {
  nodes = [];
  #folder = mkdtempSync(join(tmpdir(), "rollcall-web-"));

  /** Starts `count` nodes that have joined each other. */
  static async start(count, { environment = {} } = {}) {
    const cluster = new Cluster();
    try {
      const ports = await freePorts(3 * count);
      for (let index = 0; index < count; index += 1) {
        const [client, link, ops] = ports.slice(3 * index, 3 * index + 3);
        const id = String.fromCharCode(97 + index);
        cluster.nodes.push({ id, client, link, ops, url: `http://127.0.0.1:${client}`, environment, process: null });
      }
      for (const node of cluster.nodes) cluster.#spawn(node);
      for (const node of cluster.nodes) await cluster.#ready(node);
      await until("all nodes are members", async () => {
        const members = (await cluster.admin("clusterStatus", {})).members ?? [];
        return members.filter((member) => member.state === "alive").length === count;
      });
    } catch (error) {
      error.message += cluster.nodes.map(({ id, log }) => `\n== the log of node ${id}\n${log}`).join("");
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  get urls() {
    return this.nodes.map((node) => node.url);
  }

  #spawn(node) {
    const others = this.nodes.filter((other) => other !== node).map((other) => `127.0.0.1:${other.link}`);
    node.log = "";
    node.process = spawn(ROLLCALL, [
      "serve", "--dev", "--node-id", node.id, "--data-dir", join(this.#folder, node.id), "--listen", `127.0.0.1:${node.client}`,
      "--cluster-listen", `127.0.0.1:${node.link}`, "--ops-listen", `127.0.0.1:${node.ops}`,
      ...(others.length > 0 ? ["--join", others.join(",")] : []),
    ], { env: { ...process.env, ...node.environment }, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [node.process.stdout, node.process.stderr]) {
      stream.on("data", (chunk) => (node.log = (node.log + chunk).slice(-20_000)));
    }
    node.ended = new Promise((resolve) => node.process.once("exit", resolve));
  }

  async #ready(node) {
    await until(`node ${node.id} is ready`, async () => {
      if (node.process.exitCode !== null) throw new Error(`node ${node.id} ended: ${node.log}`);
      try {
        return (await fetch(`http://127.0.0.1:${node.ops}/readyz`)).status === 200;
      } catch (error) {
        // The node does not listen yet.
        return false;
      }
    }, 30_000);
  }

  /** Calls an operation of the ops port. */
  async admin(operation, body, node = this.nodes.find(({ process }) => process.exitCode === null && process.signalCode === null)) {
    const response = await fetch(`http://127.0.0.1:${node.ops}/admin/v1/${operation}`, {
      method: "POST", headers: { Authorization: `Bearer ${token("root", "--admin")}` }, body: JSON.stringify(body) });
    const answer = await response.json();
    if (response.status !== 200) throw new Error(`${operation}: ${JSON.stringify(answer)}`);
    return answer;
  }

  async kill(node) {
    node.process.kill("SIGKILL");
    await node.ended;
  }

  async restart(node) {
    this.#spawn(node);
    await this.#ready(node);
  }

  async stop() {
    for (const node of this.nodes) if (node.process?.exitCode === null && node.process.signalCode === null) node.process.kill("SIGKILL");
    await Promise.all(this.nodes.map((node) => node.ended));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
