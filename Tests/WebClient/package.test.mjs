// The package for npm: built twice, installed from its file into a project with TypeScript and React, and run in Node and in Chromium on
// real nodes.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { Chromium, serve } from "./chromium.mjs";
import { Cluster, token, until } from "./cluster.mjs";
import { PresenceClient } from "../../Sources/WebClient/client.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "rollcall-npm-"));
const project = join(folder, "project");
/** Where Debian has React. An app has it in its own node_modules. */
const REACT = "/usr/share/nodejs";
const run = (command, ...args) =>
  execFileSync(command, args, { cwd: project, encoding: "utf8", env: { ...process.env, NODE_PATH: REACT } });

let cluster;
let browser;
let tarball;

/** What an app does with the types. Each line below a `@ts-expect-error` must be refused. */
const APP = `
import { PresenceClient, PresenceCode, PresenceError } from "rollcall-client";
import type { Friend, PresenceOptions, UserStatus } from "rollcall-client";
import { StatusClient } from "rollcall-client/presence";

declare const process: { argv: string[] };
const [, , address = "", annToken = "", benToken = "", ben = ""] = process.argv;
const options: PresenceOptions = { addresses: [address], token: async () => annToken, platform: "node", keepRelationships: true };
const ann = new PresenceClient(options);
const other = new StatusClient({ addresses: [address], token: benToken, platform: "node" });
export const isOne: boolean = ann instanceof StatusClient;
const session = await other.connect();
const node: string = session.node;
await ann.connect();
const texts: string[] = [];
const stop: () => void = ann.watch(ben, (status: UserStatus) => texts.push(status.customStatus));
ann.on("stateChanged", ({ state, error }) => console.error(state, error?.code));
await ann.subscribeUserStatus([ben], { sync: true });
await other.setSelfStatus("typed", { expiry: 60 });
while (!texts.includes("typed")) await new Promise((resolve) => setTimeout(resolve, 10));
const friends: Friend[] = (await ann.getFriendList()).friendList;
let code = 0;
try {
  await ann.getUserStatus([]);
} catch (error) {
  if (error instanceof PresenceError) code = error.code;
}
const status: UserStatus | undefined = ann.statusOf(ben);
const isBad = code === PresenceCode.badParameter;
console.log(JSON.stringify({ isOne, hasNode: node !== "", status: status?.customStatus, friends: friends.length, isBad }));
stop();
await ann.close();
await other.close();

export function wrong() {
  // @ts-expect-error: a client needs a token.
  new PresenceClient({ addresses: [address] });
  // @ts-expect-error: a user is named by a text.
  ann.watch(1, () => {});
  // @ts-expect-error: there is no such event.
  ann.on("statusChanged", () => {});
  // @ts-expect-error: a status may be unknown.
  ann.statusOf(ben).customStatus;
  // @ts-expect-error: there is no such visibility.
  ann.setVisibility({ visibility: "some" });
  // @ts-expect-error: a client of statuses has no friends.
  other.getFriendList();
}
`;

const REACT_DOM = `
declare module "react" {
  export type Element = { readonly isElement: true };
  export function createElement<P>(type: string | ((props: P) => Element), props: P | null, ...children: unknown[]): Element;
}
declare module "react-dom/client" {
  export function createRoot(container: HTMLElement): { render(element: import("react").Element): void; unmount(): void };
}
`;

/** A page with React: two components show the same user, and one another. */
const PAGE = `
import { StatusClient } from "rollcall-client/presence";
import { useConnectionState, useStatus } from "rollcall-client/react";
import { createElement } from "react";
import type { Element } from "react";
import { createRoot } from "react-dom/client";

const settings = new URLSearchParams(location.search);
const get = (name: string): string => settings.get(name) ?? "";
const client = new StatusClient({ addresses: [get("address")], token: get("token") });

function Contact({ userID }: { userID: string }): Element {
  const status = useStatus(client, userID, { subscribe: true });
  return createElement("li", null, userID, ": ", status === undefined ? "unknown" : status.statusType + " " + status.customStatus);
}

function Page(): Element {
  const state = useConnectionState(client);
  const users = get("users").split(",");
  const contacts = users.map((userID, key) => createElement(Contact, { userID, key } as { userID: string }));
  return createElement("div", null, createElement("p", null, state), ...contacts);
}

Object.assign(globalThis, { client });
const container = document.body.appendChild(document.createElement("main"));
const root = createRoot(container);
root.render(createElement(Page, {}));
Object.assign(globalThis, { unmount: () => root.unmount() });
void client.connect();
`;

before(async () => {
  const [first, second] = ["first", "second"].map((name) => {
    const env = { ...process.env, OUT: join(folder, name) };
    execFileSync(join(root, "deploy/npm/build"), { env, stdio: ["ignore", "inherit", "inherit"] });
    return join(folder, name, readdirSync(join(folder, name))[0]);
  });
  assert.deepEqual(readFileSync(first), readFileSync(second));
  tarball = first;
  mkdirSync(join(project, "src"), { recursive: true });
  const write = (name, content) => writeFileSync(join(project, name), typeof content === "string" ? content : JSON.stringify(content));
  write("package.json", { name: "app", version: "1.0.0", private: true, type: "module" });
  // npm is no package that the tests need: it unpacks the file, and writes down where the package is from.
  if (spawnSync("npm", ["--version"]).status === 0) {
    run("npm", "install", "--offline", "--no-audit", "--no-fund", "--omit=peer", `--cache=${join(folder, "cache")}`, tarball);
  } else {
    mkdirSync(join(project, "node_modules/rollcall-client"), { recursive: true });
    run("tar", "--extract", "--file", tarball, "--strip-components=1", "--directory", "node_modules/rollcall-client");
  }
  // The options of a new project of Vite that tsc 4.8 has.
  write("tsconfig.json", {
    compilerOptions: {
      target: "es2022", module: "node16", moduleResolution: "node16", lib: ["es2022", "dom", "dom.iterable"], strict: true,
      noUnusedLocals: true, noUnusedParameters: true, noFallthroughCasesInSwitch: true, skipLibCheck: false, isolatedModules: true,
      outDir: "out", types: [],
    },
    include: ["src"],
  });
  write("src/app.ts", APP);
  write("src/page.ts", PAGE);
  write("src/react.d.ts", readFileSync(join(root, "deploy/npm/react.d.ts"), "utf8") + REACT_DOM);
  cluster = await Cluster.start(2);
});
after(async () => {
  await browser?.stop();
  await cluster?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("A strict project compiles with the declarations, by the rules of Node and by those of older bundlers", () => {
  run("tsc");
  run("tsc", "--noEmit", "--module", "es2022", "--moduleResolution", "node");
  const files = execFileSync("tar", ["--list", "--file", tarball], { encoding: "utf8" }).split("\n");
  const some = ["client.js", "client.d.ts", "client.d.ts.map", "client.min.js", "client.min.js.map", "presence.min.js", "react.d.ts"];
  for (const name of some) {
    assert.ok(files.includes(`package/dist/${name}`), name);
  }
  const expected = /^(package\/(|dist\/|dist\/[\w.]+|LICENSE|README.md|package.json))?$/;
  assert.deepEqual(files.filter((name) => !expected.test(name)), []);
});

test("The compiled app runs in Node on a real node", () => {
  const answer = run(process.execPath, "out/app.js", cluster.nodes[0].url, token("npm-ann"), token("npm-ben"), "npm-ben");
  assert.deepEqual(JSON.parse(answer), { isOne: true, hasNode: true, status: "typed", friends: 0, isBad: true });
});

test("A bundler leaves out of an app what it does not use", () => {
  const size = (source) => {
    writeFileSync(join(project, "entry.js"), source);
    run("esbuild", "entry.js", "--bundle", "--minify", "--format=esm", "--external:react", "--outfile=bundle.js", "--log-level=error");
    const text = readFileSync(join(project, "bundle.js"));
    return { bytes: gzipSync(text, { level: 9 }).length, text: text.toString() };
  };
  const [statuses, all, hooks] = [
    'export { StatusClient } from "rollcall-client";', 'export * from "rollcall-client";', 'export * from "rollcall-client/react";',
  ].map(size);
  console.log(`# after gzip: statuses ${statuses.bytes}, all ${all.bytes}, hooks ${hooks.bytes} bytes`);
  assert.ok(statuses.bytes <= 12_288 && all.bytes <= 32_768 && hooks.bytes <= 1_500);
  assert.ok(all.text.includes("addBlackList") && !statuses.text.includes("addBlackList"));
});

test("A page with React shows each change of a status, follows each user with one call, and ends without an error", async () => {
  const [a, b] = cluster.nodes;
  run("esbuild", "src/page.ts", "--bundle", "--minify", "--format=esm", "--sourcemap", '--define:process.env.NODE_ENV="production"',
    "--outfile=site/page.js", "--log-level=error");
  const html = '<!doctype html><meta charset="utf-8"><body><script type="module" src="/page.js"></script>';
  writeFileSync(join(project, "site/page.html"), html);
  const site = await serve(join(project, "site"));
  browser = await Chromium.start();
  const clients = ["npm-carl", "npm-dora"].map((user) => new PresenceClient({ addresses: [b.url], token: token(user), platform: "node" }));
  await Promise.all(clients.map((client) => client.connect()));
  await clients[0].setSelfStatus("<b>first</b>");
  const query = new URLSearchParams({ address: a.url, token: token("npm-eve"), users: "npm-carl,npm-dora,npm-carl" });
  const page = await browser.open(`${site.url}/page.html?${query}`);
  const text = () => page.evaluate("document.querySelector('main')?.innerText.split('\\n').filter(Boolean).join(' | ')");
  const shows = (expected) => until(`the page shows ${expected}`, async () => (await text()) === expected).catch(async (error) => {
    throw new Error(`${error.message}; it shows ${await text()}; ${page.errors}`);
  });
  await shows("online | npm-carl: ONLINE <b>first</b> | npm-dora: ONLINE | npm-carl: ONLINE <b>first</b>");
  await clients[0].setSelfStatus("second");
  await shows("online | npm-carl: ONLINE second | npm-dora: ONLINE | npm-carl: ONLINE second");
  await clients[1].logout();
  await shows("online | npm-carl: ONLINE second | npm-dora: UNLOGINED | npm-carl: ONLINE second");
  const entries = "performance.getEntriesByType('resource')";
  const calls = await page.evaluate(`${entries}.filter(({ name }) => name.endsWith("/subscribeUserStatus")).length`);
  assert.ok(calls <= 2, `${calls} requests, a preflight and the call`);
  await page.evaluate("unmount(), client.close()");
  assert.deepEqual(page.errors, []);
  await Promise.all(clients.map((client) => client.close()));
  await site.close();
});

test("The two single files work in a page without a bundler", async () => {
  const site = await serve(join(project, "node_modules/rollcall-client/dist"));
  for (const [file, name] of [["client.min.js", "PresenceClient"], ["presence.min.js", "StatusClient"]]) {
    const page = await browser.open(`${site.url}/blank.html`);
    const state = await page.evaluate(`import("/${file}").then(async ({ ${name}: Client }) => {
      const client = new Client({ addresses: [${JSON.stringify(cluster.nodes[0].url)}], token: ${JSON.stringify(token("npm-fred"))} });
      await client.connect();
      const { userStatusList } = await client.getUserStatus(["npm-fred"]);
      await client.logout();
      return userStatusList[0].statusType;
    })`);
    assert.equal(state, "ONLINE");
    assert.deepEqual(page.errors, []);
  }
  await site.close();
});

test("contacts.html makes no markup of what it receives", () => {
  const page = readFileSync(join(root, "Sources/WebClient/examples/contacts.html"), "utf8");
  assert.doesNotMatch(page, /innerHTML|outerHTML|insertAdjacentHTML|document\.write/);
});
