// An app with the Swift SDK in a process of its own, in the words of the JavaScript client.
//
// The app is Tests/SwiftClient/Consumer/Sources/phone, which Tests/SwiftClient/run builds. Its connections are those of URLSession.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { until } from "./stream.mjs";

const PHONE = fileURLToPath(new URL("../../.build-journeys/phone", import.meta.url));
/** The file from which Foundation on Linux reads the certificates to trust. No setting names another one. */
const TRUSTED = "/etc/ssl/certs/ca-certificates.crt";
/** Runs a command as if the system trusted the first argument alone. */
const TRUSTING = ["unshare", "--mount", ...(process.getuid() === 0 ? [] : ["--map-root-user"]), "sh", "-c",
  `mount --bind "$1" ${TRUSTED} && shift && exec "$@"`, "sh"];
/** The states of the Swift SDK that have another name in JavaScript. */
const STATES = { connected: "online", disconnected: "closed" };

export class Phone {
  heard = { statuses: [], states: [], sessions: [] };
  state = "idle";
  session = null;
  relationships = { friends: [], blocked: [] };
  /** The tokens that the SDK has asked for. */
  tokensCount = 0;
  #statuses = new Map();
  #waiting = new Map();
  #linesCount = 0;
  #errors = "";
  #token;

  /** Starts the app without a login. `certificate` is the file of the only certificate that it trusts. */
  constructor({ addresses, platform, deviceID, token, certificate }) {
    this.#token = token;
    const command = [...(certificate ? [...TRUSTING, certificate] : []), PHONE, addresses.join(), platform, deviceID];
    this.process = spawn(command[0], command.slice(1), { stdio: "pipe" });
    this.process.stderr.on("data", (chunk) => (this.#errors = (this.#errors + chunk).slice(-4_000)));
    this.process.stdin.on("error", () => {});
    createInterface(this.process.stdout).on("line", (line) => this.#take(JSON.parse(line)));
    this.ended = new Promise((resolve) => this.process.once("exit", resolve)).then(() => {
      for (const { fail } of this.#waiting.values()) fail(`the app has ended: ${this.#errors}`);
    });
  }

  #take({ answerTo, event, state, session, statuses, friends, blocked, detail, ...answer }) {
    if (answerTo !== undefined) {
      const { resolve, fail } = this.#waiting.get(answerTo);
      this.#waiting.delete(answerTo);
      return answer.code === undefined ? resolve({ statuses, ...answer }) : fail(detail, answer.code);
    }
    if (event === "tokenWanted") this.#hand();
    if (event === "state") this.heard.states.push({ state: (this.state = STATES[state] ?? state), reason: detail });
    if (event === "connected") this.heard.sessions.push((this.session = session));
    if (event === "lists") this.relationships = { friends: friends.map((userID) => ({ userID })), blocked };
    for (const status of statuses ?? []) {
      this.heard.statuses.push(status);
      this.#statuses.set(status.userID, status);
    }
  }

  async #hand() {
    this.tokensCount += 1;
    const token = await this.#token();
    this.#linesCount += 1;
    this.process.stdin.write(`token ${token}\n`);
  }

  #call(operation, argument = "") {
    // Made here, so that its stack names the caller.
    const error = new Error(`${operation} ${argument}`);
    const start = Date.now();
    return new Promise((resolve, reject) => {
      const fail = (detail, code) => {
        error.message += ` failed after ${Date.now() - start} ms: ${detail}`;
        reject(Object.assign(error, { code }));
      };
      this.#waiting.set((this.#linesCount += 1), { resolve, fail });
      this.process.stdin.write(`${operation} ${argument}\n`);
    });
  }

  statusOf(user) {
    return this.#statuses.get(user);
  }

  connect = (text) => this.#call("login", text);
  logout = () => this.#call("logout");
  /** Sets a text for an hour. */
  setSelfStatus = (text) => this.#call("setSelfStatus", text);
  getUserStatus = async (users) => ({ userStatusList: (await this.#call("getUserStatus", users.join())).statuses });
  subscribeUserStatus = (users) => this.#call("subscribeUserStatus", users.join());
  setVisibility = ({ visibility }) => this.#call("setVisibility", visibility);
  addFriend = async (user) => (await this.#call("addFriend", user)).results[0];
  deleteFriends = async (users) => ({ resultList: (await this.#call("deleteFriends", users.join())).results });
  addBlackList = async (users) => ({ resultList: (await this.#call("addBlackList", users.join())).results });

  suspend() {
    this.process.kill("SIGSTOP");
  }
  wake() {
    this.process.kill("SIGCONT");
  }

  /** Ends the process without a logout. A process that has ended by itself is a fault. */
  async close() {
    const { exitCode, signalCode } = this.process;
    if (exitCode !== null || signalCode !== null) throw new Error(`the app has ended by itself (${exitCode ?? signalCode}): ${this.#errors}`);
    this.process.kill("SIGKILL");
    await this.ended;
  }
}

/** An app of a user that is logged in. Its first address is that of `node`, and the others follow. It ends with the story. */
export async function phone(s, user, { node = 0, addresses = s.nodes.map((_, index) => s.node(node + index).url), platform = "ios", deviceID = "",
  customStatus, token = () => s.token(user), certificate } = {}) {
  const app = new Phone({ addresses, platform, deviceID, token, certificate });
  s.atEnd(() => app.close());
  await app.connect(customStatus);
  await until(`the app of ${user} knows its session`, () => app.session);
  return app;
}
