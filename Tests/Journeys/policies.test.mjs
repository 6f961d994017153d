// Stories about the settings of an app: presets, plans, switches, quotas, limits of calls, and two apps on the same nodes.
import { Receiver } from "./receiver.mjs";
import { assert, story, until } from "./story.mjs";

/** Makes `count` calls from three devices, each at a node of its own, and returns how many passed. The refused ones say when to come again. */
async function burst(s, count, user, operation, body) {
  const answers = (await Promise.all([0, 1, 2].map(async (node) => {
    const own = [];
    for (let index = node; index < count; index += 3) own.push(await s.call(user, operation, body, { node }));
    return own;
  }))).flat();
  const refused = answers.filter(({ status }) => status !== 200);
  for (const { status, answer, headers } of refused) {
    assert.deepEqual([status, answer.code, headers.get("Retry-After")], [429, 7008, String(answer.retryAfter)]);
    assert.ok(answer.retryAfter >= 1 && answer.retryAfter <= 5, JSON.stringify(answer));
  }
  return { passed: count - refused.length, retryAfter: Math.max(0, ...refused.map(({ answer }) => answer.retryAfter)) };
}

story("I refreshed my contacts too often on three devices, and my colleague was locked out instead of me", async (s) => {
  await s.befriend("ann", "bob");
  const devices = [await s.stream("ann"), await s.stream("ann", { node: 1, platform: "web" }), await s.stream("ann", { node: 2, platform: "ipad" })];
  const bob = await s.stream("bob", { node: 2 });
  await s.ok("bob", "setVisibility", { visibility: "friends" });
  const { passed, retryAfter } = await burst(s, 90, "ann", "getUserStatus", { userIDs: ["bob"] });
  assert.ok(passed >= 20 && passed <= 24, `${passed} of 90 calls passed; the limit is 20 over all nodes`);
  // The limit holds for one user and one operation. Queries of the own status have no limit.
  const [own, others, follows] = await Promise.all([
    burst(s, 30, "ann", "getUserStatus", { userIDs: ["ann"] }), burst(s, 15, "bob", "getUserStatus", { userIDs: ["ann"] }),
      burst(s, 60, "ann", "subscribeUserStatus", { userIDs: ["bob", "carl"] })]);
  assert.deepEqual([own.passed, others.passed], [30, 15]);
  assert.ok(follows.passed >= 20 && follows.passed <= 24, `${follows.passed} of 60 calls passed`);
  // All of 40 texts of a friend are taken. Beyond 20 in 5 s each device gets the newest instead of older ones.
  for (let index = 1; index <= 40; index += 1) await s.ok("bob", "setSelfStatus", { customStatus: `text ${index}` }, { node: index });
  for (const device of devices) await device.sees("bob", { statusType: "ONLINE", customStatus: "text 40", onlinePlatforms: ["ios"] });
  // A block works while her calls are refused.
  assert.equal((await s.ok("bob", "addBlackList", { userIDs: ["ann"] }, { node: 1 })).resultList[0].resultCode, 0);
  for (const device of devices) await device.sees("bob", { statusType: "OFFLINE", customStatus: "" });
  const refusedAt = Date.now();
  await until("the limit ends", async () => (await s.call("ann", "getUserStatus", { userIDs: ["bob"] }, { node: 1 })).status === 200);
  assert.ok(Date.now() - refusedAt < (retryAfter + 2) * 1_000, "the node said the truth about the time");
  assert.deepEqual([await s.friends("ann"), await s.friends("bob")], [[], []]);
  assert.deepEqual((await s.ok("ann", "getSubscribedUserStatus")).subscriptions.map(({ userID }) => userID).sort(), ["bob", "carl"]);
});

story("They changed our plan at noon, and my phone stayed silent when they changed it back", async (s) => {
  await s.befriend("ann", "bob");
  await s.befriend("dan", "ann");
  const ann = await s.stream("ann");
  const bob = await s.stream("bob", { node: 1, query: { customStatus: "morning" } });
  const carl = await s.stream("carl", { node: 2 });
  const dan = await s.stream("dan", { node: 2 });
  await s.ok("ann", "subscribeUserStatus", { userIDs: ["carl"] });
  await ann.sees("bob", { customStatus: "morning" });
  await ann.sees("carl", { statusType: "ONLINE" });
  await ann.sees("dan", { statusType: "ONLINE" });
  const set = (settings) => s.policy(settings);

  // Changes of friends are not pushed any more. Subscriptions go on.
  await set({ "friends.autoNotify": false });
  const count = ann.statuses("bob").length;
  await s.ok("bob", "setSelfStatus", { customStatus: "noon" }, { node: 2 });
  await s.ok("carl", "setSelfStatus", { customStatus: "noon" }, { node: 1 });
  await ann.sees("carl", { customStatus: "noon" });
  await s.settled(["ann", ann]);
  assert.equal(ann.statuses("bob").length, count);
  // The plan without statuses of others: calls about others are refused at every node, own ones and friends are not.
  await set({ plan: "basic" });
  for (const node of [0, 1, 2]) {
    assert.equal(await s.refused("ann", "subscribeUserStatus", { userIDs: ["dan"] }, { node }), 7013);
    assert.equal(await s.refused("ann", "getUserStatus", { userIDs: ["bob"] }, { node }), 7013);
    assert.equal((await s.ok("ann", "getUserStatus", { userIDs: ["ann"] }, { node })).userStatusList[0].statusType, "ONLINE");
  }
  // The whole feature off: the calls say so, and no status is pushed.
  await set({ plan: "premium", "userStatus.enabled": false });
  assert.equal(await s.refused("ann", "subscribeUserStatus", { userIDs: ["dan"] }, { node: 1 }), 72001);
  const silent = ann.statuses("carl").length;
  await s.ok("carl", "setSelfStatus", { customStatus: "while off" }, { node: 2 });
  assert.equal((await s.ok("ann", "addFriend", { userID: "eve" })).resultCode, 0);
  await ann.hears("onFriendListAdded", ({ friendList }) => friendList[0].userID === "eve");
  await s.settledChain("ann", ann);
  assert.equal(ann.statuses("carl").length, silent);
  await set({ "chain.enabled": false });
  assert.equal(await s.refused("ann", "addFriend", { userID: "carl" }, { node: 2 }), 72001);
  assert.equal(await s.refused("ann", "getFriendList", {}, { node: 1 }), 72001);

  // Everything on again, by the preset alone. The open stream has the newest of everybody.
  const policy = await s.policy(null, "rollcall");
  assert.deepEqual([policy.preset, policy.settings["friends.autoNotify"], policy.settings["userStatus.enabled"], policy.settings.plan],
    ["rollcall", true, true, "premium"]);
  await ann.sees("carl", { customStatus: "while off" });
  await ann.sees("bob", { customStatus: "noon", statusType: "ONLINE" });
  await s.ok("bob", "setSelfStatus", { customStatus: "evening" });
  await ann.sees("bob", { customStatus: "evening" });
  // A block hides, unless the app shows blockers.
  await s.ok("carl", "addBlackList", { userIDs: ["ann"] }, { node: 1 });
  await ann.sees("carl", { statusType: "OFFLINE", customStatus: "" });
  await set({ "block.hidesStatus": false });
  await ann.sees("carl", { statusType: "ONLINE", customStatus: "while off" });
  await set({ "block.hidesStatus": true });
  await ann.sees("carl", { statusType: "OFFLINE", customStatus: "" });
  assert.deepEqual([[ann, bob, carl, dan].map(({ isOpen }) => isOpen), await s.friends("ann")], [[true, true, true, true], ["bob", "dan", "eve"]]);
});

story("I switched my phone off, and in our Tencent app my text stayed and everybody knew my phone", async (s) => {
  await s.policy(null, "tencent");
  await s.befriend("ann", "bob");
  const phone = await s.stream("ann", { platform: "ios" });
  const bob = await s.stream("bob", { node: 1 });
  const carl = await s.stream("carl", { node: 2 });
  // 200 places: the 201st and 202nd take those of the earliest, and a friend takes none.
  const many = Array.from({ length: 200 }, (_, index) => `many-${String(index).padStart(3, "0")}`);
  for (const part of [many.slice(0, 100), many.slice(100)]) {
    const { errorUserList, evicted } = await s.ok("carl", "subscribeUserStatus", { userIDs: part });
    assert.deepEqual([errorUserList, evicted], [[], []]);
  }
  assert.equal(await s.refused("carl", "subscribeUserStatus", { userIDs: [...many.slice(0, 100), "ann"] }), 6017);
  assert.deepEqual(await s.ok("carl", "subscribeUserStatus", { userIDs: ["ann", "bob"] }, { node: 1 }),
    { errorUserList: [], evicted: ["many-000", "many-001"] });
  const { total, subscriptions } = await s.ok("carl", "getSubscribedUserStatus", { userIDs: ["many-000", "many-001", "many-002", "ann"] });
  assert.deepEqual([total, subscriptions.map(({ userID }) => userID).sort()], [2, ["ann", "many-002"]]);
  const evicted = await s.stream("many-001");
  const kept = await s.stream("many-002", { node: 2 });
  await carl.sees("many-002", { statusType: "ONLINE", onlinePlatforms: [] });
  await evicted.sees("many-001", { statusType: "ONLINE" });

  // A second device is nobody's business, and no time moves.
  await carl.sees("ann", { statusType: "ONLINE", onlinePlatforms: [] });
  const before = [carl.last("ann"), carl.statuses("ann").length, bob.statuses("ann").length];
  const pad = await s.stream("ann", { node: 2, platform: "ipad" });
  await s.ok("ann", "setSelfStatus", { customStatus: "x".repeat(100) });
  assert.equal(await s.refused("ann", "setSelfStatus", { customStatus: "x".repeat(101) }), 6017);
  for (const stream of [carl, bob, phone, pad]) await stream.sees("ann", { statusType: "ONLINE", customStatus: "x".repeat(100) });
  assert.deepEqual([carl.statuses("ann").length, bob.statuses("ann").length], [before[1] + 1, before[2] + 1]);
  assert.equal(carl.last("ann").lastOnlineStatusUpdateTime, before[0].lastOnlineStatusUpdateTime);
  await pad.drop();
  // The phone goes off. Both are told at once, and the text is gone.
  const off = Date.now();
  await phone.drop();
  const ends = await Promise.all([carl, bob].map((stream) => stream.sees("ann", { statusType: "OFFLINE", customStatus: "" }, 5)));
  assert.ok(Date.now() - off < 2_000, `${Date.now() - off} ms after the end of the connection`);
  for (const { lastOnlineStatusUpdateTime, lastUpdateTime } of ends) assert.ok(lastOnlineStatusUpdateTime >= off - 1_000
    && lastUpdateTime >= lastOnlineStatusUpdateTime);
  assert.equal(carl.statuses("ann").length, before[1] + 2, "the end of the tablet was no news");
  assert.equal(await s.refused("ann", "setSelfStatus", { customStatus: "dead" }, { node: 1 }), 6014);
  assert.equal((await s.status("bob", "ann")).customStatus, "");
  assert.deepEqual(carl.statuses("many-001").filter(({ statusType }) => statusType === "ONLINE"), []);
  assert.equal(kept.isOpen, true);
  // She logs in and out: that is another status than a lost phone.
  const again = await s.stream("ann", { node: 1 });
  await carl.sees("ann", { statusType: "ONLINE" });
  await s.ok("ann", "logout", { sessionID: again.connected.sessionID }, { node: 2 });
  await again.ends();
  for (const stream of [carl, bob]) await stream.sees("ann", { statusType: "UNLOGINED", customStatus: "" });
});

story("Our app came from ZEGOCLOUD, somebody who does not exist follows me, and my own phone says that I am offline", async (s) => {
  await s.policy(null, "zim");
  assert.deepEqual(await s.admin("importUsers", { userIDs: ["ann", "bob"] }), { errorUserList: [] });
  const ann = await s.stream("ann", { platform: "ios" });
  const self = await ann.hears("onUserStatusChanged").then(() => ann.statuses("ann")[0]);
  assert.deepEqual([self.statusType, self.lastUpdateTime, self.onlinePlatforms], ["UNKNOWN", 0, ["ios"]]);
  // Bob exists, Carl has logged in, and nobody else is there.
  const bob = await s.stream("bob", { node: 1 });
  const carl = await s.stream("carl", { node: 2 });
  assert.equal(await s.refused("ann", "subscribeUserStatus", { userIDs: ["bob"] }), 6017, "a validity is a must");
  for (const node of [0, 1, 2]) {
    const { errorUserList } = await s.ok("ann", "subscribeUserStatus", { userIDs: ["bob", "carl", "ghost"], expiry: 60 }, { node });
    assert.deepEqual(errorUserList.map(({ userID, code }) => [userID, code]), [["ghost", 70107]]);
    const answer = await s.ok("ann", "getUserStatus", { userIDs: ["bob", "ghost"] }, { node });
    assert.deepEqual([answer.userStatusList.map(({ userID, statusType }) => [userID, statusType]),
      answer.errorUserList.map(({ userID, code }) => [userID, code])], [[["bob", "ONLINE"]], [["ghost", 70107]]]);
  }
  const { subscriptions, total } = await s.ok("ann", "getSubscribedUserStatus");
  assert.deepEqual([total, subscriptions.map(({ userID }) => userID).sort()], [2, ["bob", "carl"]]);
  for (const { expiresAt, subscribedAt } of subscriptions) assert.equal(expiresAt - subscribedAt, 60_000);

  // One text a second, of 64 bytes, counted over the cluster.
  const { passed } = await burst(s, 6, "bob", "setSelfStatus", { customStatus: "0".repeat(64) });
  assert.equal(passed, 1);
  assert.equal(await until("the next second", async () => (await s.call("bob", "setSelfStatus",
    { customStatus: "0".repeat(65) })).answer.code === 6017), true);
  await ann.sees("bob", { statusType: "ONLINE", customStatus: "0".repeat(64), onlinePlatforms: ["ios"] });
  // Bob's text outlives his session. Ann is away, and her next login has his last change.
  const left = ann.position;
  await ann.drop();
  await s.ok("bob", "logout");
  await bob.ends();
  const again = await s.stream("ann", { node: 1 });
  const record = await again.sees("bob", { statusType: "UNLOGINED", customStatus: "0".repeat(64), onlinePlatforms: [] });
  await again.sees("carl", { statusType: "ONLINE" });
  const resumed = await s.stream("ann", { node: 2, platform: "web", lastEventID: left });
  assert.deepEqual(await resumed.sees("bob", { statusType: "UNLOGINED" }), record);
  await again.sees("ann", { statusType: "UNKNOWN", lastUpdateTime: 0, onlinePlatforms: ["ios", "web"] });
  // A block hides Carl, and her friends' list knows existing people only.
  await s.ok("carl", "addBlackList", { userIDs: ["ann"] });
  for (const stream of [again, resumed]) await stream.sees("carl", { statusType: "OFFLINE", customStatus: "" });
  assert.equal(carl.isOpen, true);
});

story("A stranger in another game has my name, and his friends, his blocks and his office came to me", async (s) => {
  const apps = [s.app, `${s.app}-b`];
  const as = (user, index, options = {}) => ({ bearer: s.token(user, { app: apps[index], ...options }) });
  await s.policy({ "friends.autoNotify": true, "profile.defaultAllowType": "confirm" });
  const receiver = await Receiver.of(s);
  const annA = await s.stream("ann", as("ann", 0));
  const annB = await s.stream("ann", { node: 1, ...as("ann", 1) });
  const bobA = await s.stream("bob", { node: 2, ...as("bob", 0) });
  const bobB = await s.stream("bob", { node: 2, ...as("bob", 1) });
  // In the first app Bob must ask. In the second one he becomes a friend at once, and is blocked later.
  assert.equal((await s.ok("bob", "addFriend", { userID: "ann", addWording: "A" }, as("bob", 0))).resultCode, 30539);
  assert.equal((await s.ok("bob", "addFriend", { userID: "ann" }, as("bob", 1))).resultCode, 0);
  await annA.hears("onFriendApplicationListAdded", ({ pendencyList: [{ userID, addWording, type }] }) => userID === "bob" && addWording === "A"
    && type === 1);
  await annB.hears("onFriendListAdded", ({ friendList: [{ userID }] }) => userID === "bob");
  await bobB.sees("ann", { statusType: "ONLINE" });
  await s.ok("ann", "setSelfStatus", { customStatus: "in game B" }, { node: 2, ...as("ann", 1) });
  await bobB.sees("ann", { customStatus: "in game B" });
  assert.equal((await s.ok("ann", "doResponse", { userID: "bob", responseType: 1 }, as("ann", 0))).resultCode, 0);
  await bobA.sees("ann", { statusType: "ONLINE", customStatus: "" });
  assert.deepEqual((await s.ok("ann", "addBlackList", { userIDs: ["bob"] }, { node: 1,
    ...as("ann", 1) })).resultList.map(({ resultCode }) => resultCode), [0]);
  await bobB.sees("ann", { statusType: "OFFLINE", customStatus: "" });
  await s.ok("ann", "modifySelfProfile", { values: { Nick: "Ann of A" } }, as("ann", 0));
  await s.ok("ann", "setSelfStatus", { customStatus: "in game A" }, as("ann", 0));
  await bobA.sees("ann", { statusType: "ONLINE", customStatus: "in game A" });
  await bobA.hears("onUserProfileChanged", ({ userID }) => userID === "ann");

  // Each app has its own lists, profiles, policies and screens.
  for (const [index, friends, blocked, nick, allow] of [[0, ["bob"], [], "Ann of A", "confirm"], [1, [], ["bob"], "", "any"]]) {
    const list = await s.ok("ann", "getFriendList", {}, { node: index, ...as("ann", index) });
    assert.deepEqual(list.friendList.map(({ userID }) => userID), friends);
    assert.deepEqual((await s.ok("ann", "getBlackList", {}, { node: 2, ...as("ann", index) })).userIDs, blocked);
    assert.equal((await s.ok("bob", "getUsersProfile", { userIDs: ["ann"] }, { node: 1, ...as("bob", index) })).profileList[0].nick, nick);
    const office = async (operation, body) => (await fetch(`http://127.0.0.1:${s.node(index).ops}/admin/v1/${operation}`, {
      method: "POST", headers: { Authorization: `Bearer ${s.token("office", { app: apps[index], isAdmin: true })}` },
        body: JSON.stringify(body) })).json();
    assert.equal((await office("getAppPolicy", {})).settings["profile.defaultAllowType"], allow);
    const { users, total } = await office("onlineUsers", {});
    assert.deepEqual([users.map(({ userID }) => userID).sort(), total], [["ann", "bob"], 2]);
  }
  // The office of A empties Ann's list. Nobody of B is told anything.
  const told = [annB.events.length, bobB.events.length];
  const { resultList } = await s.ok("office", "deleteAllFriends", { delType: 2, asUser: "ann" }, { isAdmin: true });
  assert.deepEqual(resultList, [{ userID: "bob", resultCode: 0, resultInfo: "" }]);
  await bobA.hears("onFriendListDeleted", ({ userIDs }) => userIDs[0] === "ann");
  await s.settledChain("ann", annA);
  assert.deepEqual([annB.events.length, bobB.events.length], told);
  await until("the webhooks of A end with empty lists", () => ["ann", "bob"].every((user) => receiver.actions(user,
    "friends").includes("onFriendListDeleted")));
  assert.deepEqual(receiver.of("ann", "profile").map(({ action }) => action), ["ProfileChanged"]);
  assert.deepEqual(receiver.events.filter(({ action, userStatus }) => action === "onBlackListAdded" || userStatus?.customStatus === "in game B"), []);
});
