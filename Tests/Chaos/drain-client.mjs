// A client over Node's http2 for drain-clients: one session for its event stream and its calls, as an app would have it.
//
//     node drain-client.mjs follows|stays|calls TOKEN PORT PORT
import { connect } from "node:http2";

const [behavior, token, ...ports] = process.argv.slice(2);
const say = (what, details = {}) => console.log(JSON.stringify({ what, ...details }));
const failed = (where, error) => say("error", { text: `${where}: ${error.code ?? ""} ${error.message}` });
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const sessions = new Map();
let [port, calls, isOver] = [ports[0], 0, false];

// The session with a node; another one when the node has asked to go.
function session(port) {
  const known = sessions.get(port);
  if (known && !known.closed && !known.destroyed) return known;
  const made = connect(`http://127.0.0.1:${port}`);
  made.on("error", (error) => failed("session", error));
  sessions.set(port, made);
  return made;
}

const request = (port, headers) => session(port).request({ authorization: `Bearer ${token}`, ...headers });

// The milliseconds after which an overloaded node (50002) is to be asked again; undefined for another answer.
function busyFor(text) {
  return text.includes('"code":50002') ? 1_000 * JSON.parse(text).retryAfter : undefined;
}

function query(port) {
  return new Promise((resolve, reject) => {
    const call = request(port, { ":method": "POST", ":path": "/v1/getUserStatus" });
    let [status, text] = [0, ""];
    call.on("response", (headers) => (status = headers[":status"]));
    call.on("error", reject);
    call.setEncoding("utf8").on("data", (part) => (text += part));
    call.on("end", () => {
      if (status === 200) resolve();
      else reject(Object.assign(new Error(`status ${status} ${text}`), { busyFor: busyFor(text) }));
    });
    call.end('{"userIDs":["x"]}');
  });
}

async function call() {
  while (!isOver) {
    try {
      await query(port);
      calls += 1;
    } catch (error) {
      if (error.busyFor) say("busy");
      else failed("call", error);
      await wait(error.busyFor ?? 100);
    }
    await wait(20);
  }
}

function stream(at) {
  const events = request(at, { ":path": "/v1/events?platform=node" });
  let [text, isRetired, connected, status] = ["", false, () => {}, 0];
  events.on("response", (headers) => (status = headers[":status"]));
  const isConnected = new Promise((resolve) => (connected = resolve));
  const take = async (event) => {
    const name = /^event: (.*)$/m.exec(event)?.[1];
    if (name === "onConnected") {
      say("connected", { port: Number(at) });
      port = at;
      connected();
    }
    if (name !== "onReconnectHint") return;
    say("hint");
    if (behavior !== "follows") return;
    await wait(JSON.parse(/^data: (.*)$/m.exec(event)[1]).afterMilliseconds);
    await stream(ports[1]);
    await wait(100); // A call that is under way on the session.
    isRetired = true;
    events.close(8);
  };
  events.setEncoding("utf8");
  events.on("data", (part) => {
    text += part;
    const parts = text.split("\n\n");
    text = parts.pop();
    parts.forEach(take);
  });
  events.on("error", (error) => isOver || isRetired || failed("stream", error));
  events.on("end", async () => {
    if (isOver || isRetired) return;
    const busy = busyFor(text);
    if (busy) {
      say("busy");
      await wait(busy);
      return stream(at).then(connected);
    }
    if (status > 200) return failed("stream", new Error(`status ${status} ${text}`));
    say("end");
    if (at === ports[0]) stream(ports[1]);
  });
  return isConnected;
}

process.on("SIGTERM", () => {
  isOver = true;
  say("over", { calls });
  for (const session of sessions.values()) session.destroy();
  process.exit(0);
});
if (behavior !== "stays") call();
if (behavior !== "calls") stream(ports[0]);
