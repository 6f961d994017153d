// Stories about an app's back end: kicks, tokens, imports, operators, and two apps on the same nodes.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ROLLCALL } from "../WebClient/cluster.mjs";
import { Receiver } from "./receiver.mjs";
import { assert, story, until } from "./story.mjs";

/** Runs `rollcall watch` until the story ends, and keeps the lines that it prints. */
function watch(s, user, node, ...targets) {
  const child = spawn(ROLLCALL, ["watch", "--user", user, ...targets, "--target", s.node(node).url, "--app", s.app],
    { stdio: ["ignore", "pipe", "inherit"] });
  const lines = [];
  let rest = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    lines.push(...parts);
  });
  s.atEnd(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGINT");
    await once(child, "exit");
  });
  return { lines, shows: (line) => until(() => `${user}'s terminal shows ${line}: ${lines.join(" | ")}`, () => lines.includes(line)) };
}

story("The office threw out the thief while my phone changed its token, and it threw me out for good", async (s) => {
  const receiver = await Receiver.of(s, ["stateChange"]);
  await s.befriend("ann", "bob");
  const bob = await s.stream("bob", { node: 2 });
  await s.ok("bob", "subscribeUserStatus", { userIDs: ["ann", "carl"] });
  const carl = await s.stream("carl", { node: 1 });
  // The same name in another app is another person.
  const otherApp = `${s.app}-other`;
  const namesake = await s.stream("ann", { bearer: s.token("ann", { app: otherApp }) });
  // The tokens of the phone last for four seconds, so it renews its session all the time. The thief has a token of yesterday, and a ticket.
  const renewals = [];
  let [isHeld, isAsked, letGo] = [false, false, null];
  const held = new Promise((resolve) => (letGo = resolve));
  const now = () => Math.floor(Date.now() / 1_000);
  const options = {
    platform: "ios", random: () => 0,
    token: async () => {
      const token = s.token("ann", { seconds: 4 });
      isAsked = true;
      if (isHeld) await held;
      return token;
    },
    fetch: async (url, request) => {
      const response = await fetch(url, request);
      if (new URL(url).pathname === "/v1/renew") renewals.push(response.status);
      return response;
    } };
  const phone = await s.client("ann", { ...options, customStatus: "reading" });
  const opened = { ...phone.session, at: Date.now() };
  const stolen = s.token("ann", { issuedAt: now() - 100 });
  const thief = await s.stream("ann", { node: 1, bearer: stolen, platform: "unknown-phone" });
  const { ticket } = await s.ok("ann", "streamTicket", {}, { node: 2, bearer: stolen });
  await bob.sees("ann", { statusType: "ONLINE", customStatus: "reading", onlinePlatforms: ["ios", "unknown-phone"] });
  await phone.subscribeUserStatus(["carl"], { sync: true });
  const before = bob.statuses("ann").length;
  await until("the phone outlives its first token", () => renewals.length >= 2 && Date.now() > opened.at + 4_000);
  assert.deepEqual([new Set(renewals), phone.session.sessionID, phone.state], [new Set([200]), opened.sessionID, "online"]);
  assert.equal(bob.statuses("ann").length, before, "Bob is told nothing of renewals");

  // A node has told the phone that its token ends, and the phone waits for the next token, when the office kicks Ann.
  [isHeld, isAsked] = [true, false];
  await until("the phone asks for a token", () => isAsked);
  const renewed = renewals.length;
  const { stdout } = await promisify(execFile)("curl", ["-s", "-H", `Authorization: Bearer ${s.token("office", { isAdmin: true })}`,
    `http://127.0.0.1:${s.node(1).ops}/admin/v1/kick`, "-d", JSON.stringify({ userID: "ann", reason: "password changed" })]);
  const kicked = Date.now();
  assert.deepEqual(JSON.parse(stdout), {});
  await thief.ends();
  assert.deepEqual(thief.events.at(-1).name, "onKickedOffline");
  assert.deepEqual(thief.of("onKickedOffline"), [{ reason: "password changed" }]);
  await until("the phone knows", () => phone.state === "kicked");
  assert.match(phone.heard.states.at(-1).reason, /password changed/);
  assert.equal(renewals.length, renewed, "the kick came between the notice and the renewal");
  // The token that was made before the kick arrives.
  isHeld = false;
  letGo();
  await bob.sees("ann", { statusType: "OFFLINE", onlinePlatforms: [] });
  assert.ok(bob.statuses("ann").slice(before).every(({ statusType }, index, list) => (statusType === "OFFLINE") === (index === list.length - 1)),
    "one end, the last record");

  // No node takes the stolen token or its ticket any more.
  for (const node of [0, 1, 2]) {
    assert.equal(await s.refused("ann", "setSelfStatus", { customStatus: "mine" }, { node, bearer: stolen }), 6014);
    assert.equal(await s.refused("ann", "renew", { sessionID: thief.connected.sessionID }, { node, bearer: stolen }), 6014);
    // A good token renews no session that the kick has ended.
    const later = s.token("ann", { issuedAt: now() + 1 });
    for (const { sessionID } of [opened, thief.connected]) assert.equal(await s.refused("ann", "renew", { sessionID }, { node, bearer: later }), 6017);
    await assert.rejects(s.stream("ann", { node, bearer: stolen, lastEventID: thief.position }), /401/);
    await assert.rejects(s.stream("ann", { node, bearer: null, query: { ticket } }), /401/);
  }
  assert.equal((await s.status("bob", "ann")).statusType, "OFFLINE");
  // 401: a second has begun between the token and the kick, so the kick ended the token as well.
  await until(() => `the phone's late token was tried: ${renewals.slice(renewed)}`,
    () => renewals.slice(renewed).some((status) => status === 400 || status === 401));
  assert.deepEqual([phone.state, renewals.slice(renewed).includes(200)], ["kicked", false], "the late token renews nothing");

  // A token of a later second opens a session, with everything that was Ann's.
  await until("a second has passed", () => Date.now() >= kicked + 2_000);
  const again = await s.client("ann", { node: 1, ...options, keepRelationships: true });
  await bob.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ios"] });
  await until("her friend is there", () => again.relationships.isComplete);
  assert.deepEqual(again.relationships.friends.map(({ userID }) => userID), ["bob"]);
  assert.deepEqual((await again.getSubscribedUserStatus()).subscriptions.map(({ userID, subscribeType }) => [userID, subscribeType]), [["carl", 1]]);
  await until("she follows Carl as before", () => again.statusOf("carl")?.statusType === "ONLINE");
  assert.deepEqual([namesake.isOpen, carl.isOpen, namesake.of("onKickedOffline"), carl.of("onKickedOffline")], [true, true, [], []]);
  await until(() => `webhooks of Ann: ${JSON.stringify(receiver.of("ann").map(({ action, platform }) => [action, platform]))}`,
    () => receiver.actions("ann").at(-1) === "Login" && receiver.actions("ann").includes("Kick"));
  const told = receiver.of("ann").map(({ action, platform, userStatus }) => [action, platform, userStatus.statusType]);
  assert.deepEqual(told.filter(([action]) => action !== "CustomStatus").slice(0, 2).sort(),
    [["Login", "ios", "ONLINE"], ["Login", "unknown-phone", "ONLINE"]]);
  const kicks = told.filter(([action]) => action === "Kick");
  assert.deepEqual([kicks.map(([, platform]) => platform).sort(), kicks.at(-1)[2]], [["ios", "unknown-phone"], "OFFLINE"]);
  assert.deepEqual(told.at(-1), ["Login", "ios", "ONLINE"]);
});

story("I am invisible, the office may know it, and its screen told everybody that I am at my desk", async (s) => {
  const receiver = await Receiver.of(s, ["stateChange"]);
  await s.befriend("ann", "carl");
  const phone = await s.stream("ann", { platform: "ios", query: { deviceID: "p1" } });
  const laptop = await s.stream("ann", { node: 2, platform: "web", query: { deviceID: "l1" } });
  const carl = await s.stream("carl", { node: 1 });
  const terminal = watch(s, "bob", 1, "ann");
  await terminal.shows("ann\tONLINE\t[ios,web]");
  await carl.sees("ann", { statusType: "ONLINE" });
  assert.deepEqual(await s.ok("ann", "setVisibility", { invisible: true }), { visibility: "everyone", userIDs: [], invisible: true });
  await terminal.shows("ann\tOFFLINE");
  const hidden = await carl.sees("ann", { statusType: "OFFLINE", customStatus: "", onlinePlatforms: [] });
  const shown = [terminal.lines.length, carl.statuses("ann").length];

  // Ann works on: a text, an event, and the phone goes away.
  await s.ok("ann", "setSelfStatus", { customStatus: "salaries" });
  const { eventID } = await s.ok("ann", "publishEvent", { value: 10_042, ext: "secret", sendToOnlineUsersOnly: false }, { node: 1 });
  await phone.drop();
  const mine = await laptop.sees("ann", { onlinePlatforms: ["web"] }, 30);
  assert.deepEqual([mine.statusType, mine.customStatus, mine.event.eventID, mine.event.ext], ["ONLINE", "salaries", eventID, "secret"]);

  // Each operation of the back end shows the truth.
  for (const node of [0, 1, 2]) {
    const { userStatusList: [record], errorUserList } = await s.admin("queryOnlineStatus", { userIDs: ["ann"], withSessions: true }, { node });
    assert.deepEqual(errorUserList, []);
    assert.deepEqual([record.statusType, record.customStatus, record.onlinePlatforms], ["ONLINE", "salaries", ["web"]]);
    assert.deepEqual(record.sessions.map(({ sessionID, platform, deviceID, node: at }) => [sessionID, platform, deviceID, at]),
      [[laptop.connected.sessionID, "web", "l1", laptop.connected.node]]);
    const { users } = await s.admin("onlineUsers", { limit: 1_000 }, { node });
    assert.deepEqual(users.find(({ userID }) => userID === "ann"), { userID: "ann", platforms: ["web"] });
  }
  const exported = await fetch(`http://127.0.0.1:${s.node(0).ops}/admin/v1/export`,
    { headers: { Authorization: `Bearer ${s.token("office", { isAdmin: true })}` } });
  assert.ok((await exported.text()).trim().split("\n").map((line) => JSON.parse(line)).some(({ userID, platforms }) => userID === "ann"
    && platforms[0] === "web"));
  const { code, stdout } = await s.command("cluster", "explain", "--viewer", "bob", "--target", "ann", "--ops", `http://127.0.0.1:${s.node(2).ops}`,
    "--token", s.token("office", { isAdmin: true }));
  assert.equal(code, 0);
  assert.match(stdout, /ann is ONLINE at its owner[^]*hidden from the viewer, who sees OFFLINE/);
  assert.match(stdout, /streams of bob, shows OFFLINE/);
  await until("the webhook tells the text", () => receiver.of("ann").some(({ action, userStatus }) => action === "CustomStatus"
    && userStatus.customStatus === "salaries" && userStatus.statusType === "ONLINE"));
  await until("the webhook tells the end of the phone", () => receiver.of("ann").some(({ action, reason, platform }) => action === "Disconnect"
    && reason === "LinkClose" && platform === "ios"));

  // No user has learned anything from this.
  await s.settled(["carl", carl]);
  assert.deepEqual([terminal.lines.filter((line) => line.startsWith("ann")).length, carl.statuses("ann").length],
    [terminal.lines.slice(0, shown[0]).filter((line) => line.startsWith("ann")).length, shown[1]]);
  assert.deepEqual([await s.status("carl", "ann"), await s.status("bob", "ann")], [hidden, hidden]);
  for (const operation of ["queryOnlineStatus", "explain", "kick", "onlineUsers"]) {
    const answer = await fetch(`http://127.0.0.1:${s.node(0).ops}/admin/v1/${operation}`,
      { method: "POST", headers: { Authorization: `Bearer ${s.token("bob")}` },
      body: '{"userIDs":["ann"],"userID":"ann","viewer":"bob","target":"ann"}' });
    assert.deepEqual([answer.status, (await answer.json()).code], [403, 403], operation);
  }

  // She comes back, and everybody has the newest of everything.
  await s.ok("ann", "setVisibility", { invisible: false }, { node: 2 });
  const back = await carl.sees("ann", { statusType: "ONLINE", customStatus: "salaries", onlinePlatforms: ["web"] });
  assert.equal(back.event.eventID, eventID);
  await until(() => `the terminal shows her: ${terminal.lines}`, () => terminal.lines.at(-1).startsWith("ann\tONLINE\t[web]\t“salaries”"));
});

story("My list came from the old system, and people whom I never asked see that I am up at night", async (s) => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-import-"));
  s.atEnd(() => rm(folder, { recursive: true }));
  await s.policy({ "friends.max": 120, "friends.customFields": { Since: "integer" } });
  const uncles = Array.from({ length: 130 }, (_, index) => `uncle-${String(index).padStart(3, "0")}`);
  await s.ok("ann", "setVisibility", { visibility: "friends" });
  await s.ok("ann", "addBlackList", { userIDs: [uncles[1]] });
  const phone = await s.stream("ann", { query: { customStatus: "awake" } });
  const [first, blocked, second, last, stranger] = await Promise.all([uncles[0], uncles[1], uncles[2], uncles[129],
    "stranger"].map(async (user, index) => {
    const stream = await s.stream(user, { node: index });
    await s.ok(user, "subscribeUserStatus", { userIDs: ["ann"] }, { node: index + 1 });
    await until(`${user} has a record of Ann`, () => stream.last("ann"));
    return stream;
  }));
  const file = join(folder, "friends.csv");
  const rows = uncles.map((uncle, index) =>
    `ann,${uncle},${index === 0 ? '"Müller, ""Kai"""' : ""},${index % 2 ? "family" : "family;far"},${1_700_000_000_000 + index},${index}`);
  await writeFile(file, `userID,friendID,remark,groups,addTime,Custom_Since:integer\n${rows.join("\n")}\n`);
  const flags = ["--target", s.node(1).url, "--app", s.app, "--token", s.token("office", { isAdmin: true }), "--calls", "1"];
  const run = await s.command("import", file, ...flags);
  assert.deepEqual([run.code, run.stderr], [1, ""]);
  assert.match(run.stdout, /^130 rows: 120 imported, 0 present already, 10 refused /);
  const refused = (await readFile(`${file}.refused.csv`, "utf8")).trim().split("\n").slice(1).map((line) => [line.split(",")[1],
    line.match(/,(\d+),(?:"[^"]*"|[^,"]+)$/)[1]]);
  assert.deepEqual(refused.map(([user]) => user).sort(), [uncles[1], ...uncles.slice(121)].sort());
  const codes = new Set(refused.filter(([user]) => user !== uncles[1]).map(([, code]) => code));
  assert.deepEqual([refused.find(([user]) => user === uncles[1])[1], [...codes]], ["30515", ["30010"]]);

  // The list is as the file says, on Ann's side only, and no device was told.
  const { friendList, total } = await s.ok("ann", "getFriendList", { limit: 1 });
  assert.deepEqual([total, friendList], [120, [{ userID: uncles[0], remark: 'Müller, "Kai"', groups: ["family", "far"].sort(), addWording: "",
    addSource: "", addTime: 1_700_000_000_000, custom: { Since: 0 } }]]);
  const groups = await s.ok("ann", "getFriendGroups", {}, { node: 2 });
  assert.deepEqual(groups.groupList.map(({ name, userCnt }) => [name, userCnt]).sort(), [["family", 120], ["far", 61]]);
  assert.deepEqual(await s.friends(uncles[0]), []);
  await s.settledChain("ann", phone);
  assert.deepEqual(phone.of("onFriendListAdded"), []);

  // Those in her list see her now. The others do not.
  for (const stream of [first, second]) await stream.sees("ann", { statusType: "ONLINE", customStatus: "awake", onlinePlatforms: ["ios"] });
  await s.settled([uncles[1], blocked], [uncles[129], last], ["stranger", stranger]);
  for (const stream of [blocked, last, stranger]) {
    assert.deepEqual(stream.statuses("ann").filter(({ statusType, customStatus }) => statusType === "ONLINE" || customStatus), []);
  }
  // A second run changes nothing. A friend whom she deletes stays deleted, and sees her no more.
  const { seq } = await s.ok("ann", "getFriendList", { limit: 1 });
  const repeated = await s.command("import", file, ...flags, "--restart");
  assert.match(repeated.stdout, /^130 rows: 0 imported, 120 present already, 10 refused /);
  assert.equal((await s.ok("ann", "getFriendList", { limit: 1 })).seq, seq);
  // Her next device has the statuses of those who are ONLINE in her list, without a subscription.
  const tablet = await s.stream("ann", { node: 2, platform: "ipad" });
  for (const uncle of [uncles[0], uncles[2]]) await tablet.sees(uncle, { statusType: "ONLINE", onlinePlatforms: ["ios"] });
  await phone.drop();
  assert.equal((await s.ok("ann", "deleteFriends", { userIDs: [uncles[2]], delType: 1 }, { node: 1 })).resultList[0].resultCode, 0);
  await second.sees("ann", { statusType: "OFFLINE", customStatus: "", onlinePlatforms: [] });
  await first.sees("ann", { statusType: "ONLINE", customStatus: "awake", onlinePlatforms: ["ipad"] });
  await tablet.hears("onFriendListDeleted", ({ userIDs }) => userIDs[0] === uncles[2]);
  const count = tablet.statuses(uncles[2]).length;
  await s.ok(uncles[2], "setSelfStatus", { customStatus: "still there?" });
  await s.settled(["ann", tablet]);
  assert.deepEqual([tablet.statuses(uncles[1]), tablet.statuses(uncles[129]), tablet.statuses(uncles[2]).length], [[], [], count]);
});
