// client.d.ts and the example against client.js. No node is needed.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import * as client from "../../Sources/WebClient/client.js";

const file = (name) => fileURLToPath(new URL(`../../Sources/WebClient/${name}`, import.meta.url));
const types = readFileSync(file("client.d.ts"), "utf8");

test("client.d.ts is what make-types.mjs makes of client.js", () => {
  execFileSync(process.execPath, [file("make-types.mjs"), "--check"], { stdio: "pipe" });
});

test("client.d.ts has every export and every public member", () => {
  const exported = [...types.matchAll(/^export (?:class|const) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(exported.sort(), Object.keys(client).sort());
  const body = /export class PresenceClient [\s\S]*?\n}\n/.exec(types)[0];
  const declared = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[<(:]/gm)].map(([, name]) => name);
  assert.deepEqual(declared.sort(), Object.getOwnPropertyNames(client.PresenceClient.prototype).sort());
  const codes = [...types.matchAll(/^ {2}readonly (\w+): (-?\d+);/gm)].map(([, name, code]) => [name, Number(code)]);
  assert.deepEqual(Object.fromEntries(codes), { ...client.PresenceCode });
});

test("Every type that client.d.ts names is declared in it or built in", () => {
  const declared = new Set([...types.matchAll(/^export (?:class|interface|type|const) (\w+)/gm)].map(([, name]) => name));
  const known = ["Record", "Promise", "Partial", "Error", "Event", "EventTarget", "Name"];
  const code = types.replace(/\/\*\*[\s\S]*?\*\/|\/\/.*|"[^"]*"/g, "").replace(/\b\w+\??:/g, "");
  const named = new Set([...code.matchAll(/\b[A-Z]\w+/g)].map(([name]) => name));
  assert.deepEqual([...named].filter((name) => !declared.has(name) && !known.includes(name)), []);
  assert.ok(declared.size > 20);
});

test("contacts.html makes no markup of what it receives", () => {
  const page = readFileSync(file("examples/contacts.html"), "utf8");
  assert.doesNotMatch(page, /innerHTML|outerHTML|insertAdjacentHTML|document\.write/);
});
