// The functions of the console that need no browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Metrics, claims, isRead } from "../../Sources/Console/api.js";
import { presetChanges, presetValues, write } from "../../Sources/Console/apps.js";
import { bytes, duration, visible } from "../../Sources/Console/dom.js";
import { rateOf } from "../../Sources/Console/live.js";

test("Invisible characters of a name appear as code points, so two names never look alike", () => {
  assert.equal(visible("alice"), "alice");
  assert.equal(visible("al\u200bice"), "al\\u{200b}ice");
  assert.equal(visible("\u202eecila"), "\\u{202e}ecila");
  assert.equal(visible("é<b>漢"), "é<b>漢");
});

test("A page of metrics gives sums by label, also where a label has quotes and braces", () => {
  const page = new Metrics(`# TYPE a counter\na{peer="x \\"}\\" y",code="0"} 2\na{peer="z",code="0"} 3\na{peer="z",code="1"} 4\nb 1.5\nnonsense\n`);
  assert.equal(page.sum("a"), 9);
  assert.equal(page.sum("a", { code: "0" }), 5);
  assert.equal(page.sum("a", { peer: 'x "}" y' }), 2);
  assert.equal(page.sum("b"), 1.5);
  assert.equal(page.sum("c"), undefined);
  assert.equal(page.max("a"), 4);
});

test("Rates and quantiles cover the time since the earlier page", () => {
  const text = (low, high) => `n ${low}\nh_bucket{le="0.001"} ${low}\nh_bucket{le="0.01"} ${high}\nh_bucket{le="+Inf"} ${high}\n`;
  const earlier = new Metrics(text(100, 100));
  const now = new Metrics(text(110, 130));
  earlier.time = 0;
  now.time = 5_000;
  assert.equal(now.rate("n", earlier), 2);
  assert.equal(now.rate("n", undefined), undefined);
  assert.equal(now.quantile("h", 0.99), 0.01);
  assert.equal(now.quantile("h", 0.3, earlier), 0.001);
  assert.equal(now.quantile("h", 0.5, earlier), 0.01);
  assert.equal(earlier.quantile("h", 0.5, earlier), undefined);
  const restarted = new Metrics(text(1, 1));
  restarted.time = 10_000;
  assert.equal(restarted.rate("n", now), 0);
});

test("A text that is not a JWT is refused before it is sent", () => {
  assert.throws(() => claims("no token"), /three parts/);
  assert.throws(() => claims("a.%%.c"), /not JSON/);
  assert.equal(claims(`x.${Buffer.from('{"sub":"zoë"}').toString("base64url")}.y`).sub, "zoë");
});

test("A lost answer leaves a doubt only about an operation that changes something", () => {
  for (const name of ["clusterStatus", "clusterLoad", "recentLoad", "onlineUsers", "queryOnlineStatus", "explain", "getAppPolicy", "getPendencyList"]) {
    assert.ok(isRead(name), name);
  }
  for (const name of ["drain", "forget", "kick", "reloadKeys", "replayWebhooks", "setAppPolicy", "addFriend"]) assert.ok(!isRead(name), name);
});

test("Presets with one value of a setting stand together", () => {
  assert.equal(presetValues("friends.max", { rollcall: 3000, tencent: 3000 }), "All presets: 3000.");
  assert.equal(presetValues("rate.chain", { rollcall: false, tencent: { calls: 5, seconds: 1 }, zim: false }), "Presets: rollcall, zim no limit; tencent 5 calls in 1 s.");
});

test("A new preset changes what differs from it, but no setting with a new override", () => {
  const presets = { one: { zim: 1 }, two: { zim: 2 }, three: { zim: 3 }, four: undefined };
  const found = presetChanges({ one: 1, two: 1, three: 1, four: 1 }, (name) => presets[name], "zim", new Set(["three"]));
  assert.deepEqual(found, { changes: [{ name: "two", before: 1, after: 2 }], unknown: ["four"] });
});

test("A rate of a node covers one process, and is unknown without an earlier reading of it", () => {
  const load = (startedAt, logins) => ({ node: "a", startedAt, logins });
  const readings = [{ time: 1_000, loads: [load(7, 10)] }, { time: 3_000, loads: [load(7, 14)] }];
  assert.equal(rateOf(load(7, 18), "logins", readings, 5_000), 2);
  assert.equal(rateOf(load(8, 3), "logins", readings, 5_000), undefined);
  assert.equal(rateOf(load(7, 18), "logins", [], 5_000), undefined);
});

test("Figures have units that people read", () => {
  assert.deepEqual([0, 0.00025, 0.0137, 1.5, 600, 90_000].map(duration), ["0 ms", "250 µs", "13.7 ms", "1.5 s", "10 min", "25 h"]);
  assert.deepEqual([0, 1023, 58_720_256].map(bytes), ["0 B", "1023 B", "56.0 MiB"]);
});

test("Equal values of settings have equal texts, whatever the order of their names", () => {
  assert.equal(write({ web: 60, ios: 120 }), write({ ios: 120, web: 60 }));
  assert.equal(write({ seconds: 5, calls: 20 }), "20 calls in 5 s");
  assert.equal(write({}), "none");
  assert.notEqual(write(true), write(false));
});
