// nginx and HAProxy with the files of deploy/, in front of the nodes of a story.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "./stream.mjs";

const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));
/** The settings of every node that the files ask for. */
export const BEHIND_PROXIES = { ROLLCALL_CONNECTIONS_PER_ADDRESS: "0", ROLLCALL_LOGINS_PER_ADDRESS: "0" };

/** Replaces each of these texts. A text that the file does not have is an error. */
function replaced(path, replacements) {
  let text = readFileSync(path, "utf8");
  for (const [before, after] of replacements) {
    if (!text.includes(before)) throw new Error(`${path} has no '${before}'`);
    text = text.replaceAll(before, after);
  }
  return text;
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Starts `nginx` or `haproxy` with its shipped file, and returns the URL for clients. Addresses, ports and paths are those of the story. */
export const proxy = async (s, name) => (await startProxy(s, name)).url;

/** Does the same, and also returns the file of its certificate, and what an operator does with the proxy before a drain, and after it. */
export async function startProxy(s, name) {
  const folder = mkdtempSync(join(tmpdir(), `rollcall-${name}-`));
  const [key, certificate, both] = ["key.pem", "certificate.pem", "both.pem"].map((file) => join(folder, file));
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj",
    "/CN=presence.example.com",
    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate], { stdio: "ignore" });
  writeFileSync(both, readFileSync(certificate, "utf8") + readFileSync(key, "utf8"));
  const port = await freePort();
  const file = join(folder, "rollcall.conf");
  let command;
  if (name === "nginx") {
    writeFileSync(file, replaced(`${DEPLOY}nginx/rollcall.conf`, [
      ...s.nodes.map(({ client }, index) => [`10.0.0.${index + 1}:7600`, `127.0.0.1:${client}`]), ["listen 443 ", `listen 127.0.0.1:${port} `],
      ["/etc/nginx/certs/presence.example.com.pem", certificate], ["/etc/nginx/certs/presence.example.com.key", key]]));
    const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(" ");
    writeFileSync(join(folder, "nginx.conf"),
      `${process.getuid() === 0 ? "user root root; " : ""}daemon off; worker_processes 2; pid ${folder}/pid; ` +
      `error_log ${folder}/log; events { }\nhttp { access_log off; ${paths}\ninclude ${file}; }\n`);
    command = ["nginx", "-e", `${folder}/log`, "-c", `${folder}/nginx.conf`];
  } else {
    writeFileSync(file, replaced(`${DEPLOY}haproxy/haproxy.cfg`, [
      // All nodes have one address here, so each has the port of its health check in its own line.
      ...s.nodes.flatMap(({ id, client, ops }, index) => [
        [`server ${id} 10.0.0.${index + 1}:7600\n`, `server ${id} 127.0.0.1:${client} port ${ops}\n`],
          [`server ${id} 10.0.0.${index + 1}:7600`, `server ${id} 127.0.0.1:${client}`]]),
      ["bind :443 ", `bind 127.0.0.1:${port} `], ["/run/haproxy/rollcall.sock", `${folder}/control`],
        ["/etc/haproxy/certs/presence.example.com.pem", both]]));
    command = ["haproxy", "-db", "-f", file];
  }
  const child = spawn(command[0], command.slice(1), { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  for (const output of [child.stdout, child.stderr]) output.on("data", (chunk) => (log = (log + chunk).slice(-10_000)));
  s.atEnd(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    rmSync(folder, { recursive: true, force: true });
  });
  await until(() => `${name} listens: ${log}`, () => new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1").once("connect", () => (socket.destroy(), resolve(true))).once("error", () => resolve(false));
  }));
  /** nginx is told of a drain, as its file says. HAProxy sees it by itself. */
  const mark = (node, isDown) => {
    if (name !== "nginx") return;
    const line = `server 127.0.0.1:${node.client} `;
    writeFileSync(file, replaced(file, isDown ? [[line, `${line}down `]] : [[`${line}down `, line]]));
    execFileSync(command[0], [...command.slice(1), "-s", "reload"], { stdio: "ignore" });
  };
  return { url: `https://127.0.0.1:${port}`, certificate, takeOut: (node) => mark(node, true), putBack: (node) => mark(node, false) };
}
