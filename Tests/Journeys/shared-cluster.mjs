// Runs a command beside three nodes, whose ports are in the variable JOURNEYS_NODES. Ends with the status of the command.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Cluster } from "../WebClient/cluster.mjs";

const cluster = await Cluster.start(3);
const nodes = cluster.nodes.map(({ id, client, link, ops, url }) => ({ id, client, link, ops, url }));
const [program, ...flags] = process.argv.slice(2);
let status = 1;
try {
  const child = spawn(program, flags, { stdio: "inherit", env: { ...process.env, JOURNEYS_NODES: JSON.stringify(nodes) } });
  for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => child.kill(signal));
  [status] = await once(child, "exit");
  // A story of the shared cluster that harms a node would make the other stories prove less.
  if (cluster.nodes.some(({ process }) => process.exitCode !== null || process.signalCode !== null)) status = 1;
  if (status !== 0) for (const { id, process: node,
    log } of cluster.nodes) console.error(`== the log of node ${id} (exit ${node.exitCode})\n${log.slice(-3_000)}`);
} finally {
  await cluster.stop();
}
process.exit(status ?? 1);
