// The load simulator of the product, in a process of its own.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { rollcall } from "./cluster.mjs";

/** The load is modest, because the tests also run with a debug build on two cores. */
export const load = { users: 150, watch: 10, changesPerSecond: 10 };

/**
 * A load on a cluster, from `start` to `finish`.
 *
 * Its users are in the same app as the users of the tests. They log in to all nodes in turn. The simulator reconnects its users to
 * another node when their node dies or drains, so the same process keeps up the load until the end. It records each expected push (`--verify`).
 */
export class Load {
  #folder;
  #child;
  #output = "";
  #ended;
  /** Whether `finish` was called. */
  isFinished = false;

  static async start(nodes) {
    const started = new Load();
    started.#folder = await mkdtemp(join(tmpdir(), "load-"));
    const child = spawn("nice", [
      rollcall, "simulate", "--target", nodes.map(({ clients }) => `http://${clients}`).join(","), "--scenario", "steady",
      "--users", load.users, "--watch", load.watch, "--rate", load.changesPerSecond, "--duration", 600, "--login-rate", 100, "--seed", 7,
      "--verify", "--settle", 10, "--json", join(started.#folder, "report.json"),
    ].map(String), { stdio: ["ignore", "pipe", "pipe"] });
    started.#child = child;
    started.#ended = once(child, "exit");
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (bytes) => { started.#output = (started.#output + bytes).slice(-8_192); });
    }
    return started;
  }

  /** Whether the process of the simulator is alive. */
  get isAlive() { return this.#child.exitCode === null && this.#child.signalCode === null; }

  /** The end of what the simulator printed. */
  get output() { return this.#output; }

  /** Ends the load. Returns the exit code and the report of the simulator. */
  async finish() {
    this.isFinished = true;
    this.#child.kill("SIGTERM");
    const [code] = await this.#ended;
    return { code, report: JSON.parse(await readFile(join(this.#folder, "report.json"), "utf8")) };
  }

  /** Kills the simulator if it still runs, and deletes its folder. */
  async close() {
    if (this.isAlive) this.#child.kill("SIGKILL");
    await this.#ended;
    await rm(this.#folder, { recursive: true, force: true });
  }
}
