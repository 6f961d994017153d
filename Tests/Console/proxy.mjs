// Serves the console from Sources/Console, and forwards everything else to a node's ops port. For work on the page: a reload of the browser
// shows a change without a build. `node Tests/Console/proxy.mjs 127.0.0.1:7602` prints the address.
import { readFile } from "node:fs/promises";
import { createServer, request as send } from "node:http";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

const folder = new URL("../../Sources/Console/", import.meta.url);
const types = { ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8" };

export const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
  + "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** Starts the proxy on a free port of loopback, for the first node of a cluster. */
export async function start({ nodes: [{ ops }] }) {
  const server = createServer(async (request, response) => {
    const found = /^\/console(?:\/([\w-]+\.(?:js|css)))?$/.exec(request.url);
    if (!found) {
      const [host, port] = ops.split(":");
      const forwarded = send({ host, port, path: request.url, method: request.method, headers: request.headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      forwarded.on("error", (error) => {
        response.writeHead(502, { "content-type": "text/plain" });
        response.end(error.message);
      });
      request.pipe(forwarded);
      return;
    }
    const name = found[1] ?? "index.html";
    try {
      const text = await readFile(new URL(name, folder));
      response.writeHead(200, {
        "content-type": types[extname(name)], "content-security-policy": contentSecurityPolicy, "cache-control": "no-store",
        "x-content-type-options": "nosniff",
      });
      response.end(text);
    } catch (error) {
      response.writeHead(error.code === "ENOENT" ? 404 : 500, { "content-type": "text/plain" });
      response.end(error.message);
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { origin } = await start({ nodes: [{ ops: process.argv[2] ?? "127.0.0.1:7602" }] });
  console.log(`${origin}/console`);
}
