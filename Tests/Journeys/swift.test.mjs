// Stories of people whose phones have the Swift SDK. Others are in suspended.test.mjs and proxy-faults.test.mjs.
import { LossyProxy } from "../WebClient/network.mjs";
import { Phone, phone } from "./phone.mjs";
import { Receiver } from "./receiver.mjs";
import { assert, insist, story, until } from "./story.mjs";

const isOnline = ({ statusType }) => statusType === "ONLINE";

story("My token ran out at noon, our office had the next one ready, and Bob saw me leave all the same", async (s) => {
  const receiver = await Receiver.of(s, ["stateChange"]);
  await s.policy({ "token.grace": 1 });
  await s.befriend("carl", "ann", "bob");
  await s.befriend("ann", "bob");
  const bob = await s.stream("bob", { node: 2 });
  // Nobody renews Carl's token, which is as old as Ann's first one.
  const token = (user) => s.token(user, { seconds: 8 });
  const carl = await s.stream("carl", { node: 1, bearer: token("carl") });
  const ann = await phone(s, "ann", { deviceID: "phone", customStatus: "reading", token: () => token("ann") });
  const session = ann.session.sessionID;
  await ann.subscribeUserStatus(["dora"]);
  await bob.sees("ann", { statusType: "ONLINE", customStatus: "reading", onlinePlatforms: ["ios"] });
  await bob.sees("carl", { statusType: "ONLINE" });
  const told = bob.statuses("ann").length;

  await carl.ends();
  assert.deepEqual([carl.events.at(-1).name, carl.events.at(-1).data], ["onKickedOffline", { reason: "tokenExpired" }]);
  await bob.sees("carl", { statusType: "OFFLINE" });
  await until(() => `Ann has asked for ${ann.tokensCount} tokens`, () => ann.tokensCount >= 3);
  // Her stream is the first one, and tells her of a friend and of one whom she follows.
  await until("Ann sees Carl leave", () => ann.statusOf("carl")?.statusType === "OFFLINE");
  await s.stream("dora", { node: 1, query: { customStatus: "at noon" } });
  await until("Ann sees Dora come", () => ann.statusOf("dora")?.customStatus === "at noon");
  await s.settled(["bob", bob]);
  assert.equal(bob.statuses("ann").length, told, "Bob is told nothing of renewals");
  assert.deepEqual([ann.heard.sessions.map(({ sessionID }) => sessionID), ann.heard.states.map(({ state }) => state)], [[session], ["connecting", "online"]]);
  const { userStatusList: [{ sessions }] } = await s.admin("queryOnlineStatus", { userIDs: ["ann"], withSessions: true }, { node: 1 });
  assert.deepEqual(sessions.map(({ sessionID, deviceID }) => [sessionID, deviceID]), [[session, "phone"]]);

  // The next calls have the newest token.
  await ann.setSelfStatus("after lunch");
  await bob.sees("ann", { statusType: "ONLINE", customStatus: "after lunch" });
  await ann.logout();
  await bob.sees("ann", { statusType: "UNLOGINED", onlinePlatforms: [] });
  const ends = (user) => receiver.of(user).filter(({ sessionID }) => sessionID).map(({ action }) => action);
  await until(() => `the office has each end: ${ends("ann")}, ${ends("carl")}`, () => ends("ann").length === 2 && ends("carl").length === 2);
  assert.deepEqual([ends("ann"), ends("carl")], [["Login", "Logout"], ["Login", "TokenExpired"]]);
});

story("I hid, threw Ben out and let Dora in while my server died, Ben read me all night, and my friends thought that I had left", async (s) => {
  // Ann's session is at the node that owns her. Bob, Ben and Carl are her friends. Carl, Eve and Dora follow her, and Dora is to be a friend.
  const ann = await s.userOwnedBy(0, "ann");
  await s.befriend(ann, "bob", "ben", "carl");
  const [bob, dora, ben] = await Promise.all(["bob", "dora", "ben"].map((user, index) => s.client(user, { node: 1 + (index % 2), keepRelationships: true })));
  const [carl, eve] = [await s.stream("carl", { node: 2 }), await s.stream("eve", { node: 1 })];
  for (const user of ["carl", "eve", "dora"]) await s.ok(user, "subscribeUserStatus", { userIDs: [ann] }, { node: 2 });
  const app = await phone(s, ann, { deviceID: "phone", customStatus: "reading" });
  assert.equal(app.session.node, "a");
  for (const client of [bob, dora, ben]) await until("they see Ann", () => client.statusOf(ann)?.customStatus === "reading");
  for (const stream of [carl, eve]) await stream.sees(ann, { statusType: "ONLINE", customStatus: "reading" });
  await until("her phone has its list", () => app.relationships.friends.length === 3);

  const calls = [insist("the block", () => app.addBlackList(["ben"])), insist("the end of the friendship", () => app.deleteFriends(["carl"])),
    insist("visibility", () => app.setVisibility({ visibility: "friends" })), insist("a new friend", () => app.addFriend("dora"))];
  await s.cluster.kill(s.nodes[0]);
  const [blocked, deleted, , added] = await Promise.all(calls);
  // A repeated call finds what the first one has done.
  assert.ok([0, 31307].includes(blocked.resultList[0].resultCode), JSON.stringify(blocked));
  assert.ok([0, 31704].includes(deleted.resultList[0].resultCode), JSON.stringify(deleted));
  assert.ok([0, 30001].includes(added.resultCode), JSON.stringify(added));
  await until("the phone has another node", () => app.state === "online" && app.session.node !== "a");
  await until("Ben sees her OFFLINE", () => ben.statusOf(ann).statusType === "OFFLINE");
  for (const stream of [carl, eve]) await stream.sees(ann, { statusType: "OFFLINE", customStatus: "", onlinePlatforms: [] });
  const told = () => [carl.statuses(ann), eve.statuses(ann), ben.heard.statuses.filter(({ userID }) => userID === ann)];
  const before = told();

  await insist("a text", () => app.setSelfStatus("only for friends"));
  for (const client of [bob, dora]) await until("they read it", () => client.statusOf(ann)?.customStatus === "only for friends");
  await bob.setSelfStatus("sleep well");
  await until("Ann reads Bob's words", () => app.statusOf("bob")?.customStatus === "sleep well");
  await s.cluster.restart(s.nodes[0]);
  await until("the node owns her again", async () => (await s.owner(ann)) === 0, 30);
  await s.settled(["ben", ben], ["carl", carl], ["eve", eve]);
  assert.deepEqual(told(), before, "Ben, Carl and Eve are told nothing more");
  for (const client of [bob, dora]) {
    const seen = client.heard.statuses.filter(({ userID }) => userID === ann);
    const online = seen.slice(seen.findIndex(isOnline));
    assert.deepEqual(online.filter((status) => !isOnline(status)), [], "a friend never saw her leave");
    assert.equal(new Set(online.map(({ lastOnlineStatusUpdateTime }) => lastOnlineStatusUpdateTime)).size, 1);
  }
  // The phone, the nodes and the others have the same lists.
  const lists = () => [app.relationships.friends.map(({ userID }) => userID), app.relationships.blocked];
  await until(() => `the phone has her lists: ${JSON.stringify(lists())}`, () => JSON.stringify(lists()) === '[["bob","dora"],["ben"]]');
  assert.deepEqual([await s.friends(ann), await s.friends("dora"), await s.friends("ben"), await s.friends("carl")], [["bob", "dora"], [ann], [], []]);
  for (const node of s.running) {
    assert.deepEqual((await s.ok(ann, "getBlackList", {}, { node })).userIDs, ["ben"]);
    assert.deepEqual(await s.ok(ann, "getVisibility", {}, { node }), { visibility: "friends", userIDs: [], invisible: false });
  }
  for (const user of ["ben", "carl", "eve"]) assert.deepEqual([(await s.status(user, ann)).statusType, (await s.status(user, ann)).customStatus], ["OFFLINE", ""]);
  assert.ok(!app.heard.states.some(({ state }) => state === "closed"));
}, { cluster: {}, seconds: 90 });

story("I threw Ben out once, and my phone said that he had never been my friend", async (s) => {
  const receiver = await Receiver.of(s, ["friends"]);
  const proxy = await LossyProxy.to(s.nodes);
  s.atEnd(() => proxy.close());
  const ben = await s.stream("ben", { node: 1 });
  const tablet = await s.client("ann", { node: 2, keepRelationships: true });
  // The phone has no session of its own: all its requests are calls.
  const app = new Phone({ addresses: [proxy.url], platform: "ios", deviceID: "phone", token: () => s.token("ann") });
  s.atEnd(() => app.close());
  const codes = async (call) => (await call).resultList.map(({ resultCode }) => resultCode);
  assert.equal((await app.addFriend("ben")).resultCode, 0);
  await until("the tablet has Ben", () => tablet.relationships.friends.map(({ userID }) => userID).join() === "ben");
  assert.deepEqual(await codes(app.deleteFriends(["ben"])), [0]);
  assert.deepEqual(await codes(app.addBlackList(["ben"])), [0]);
  assert.deepEqual([...proxy.attempts.values()], [[200, 200], [200, 200], [200, 200]], "each answer was lost once");

  // Everybody else is told each change once.
  await until("the tablet has no friend and one block", () => tablet.relationships.friends.length === 0 && tablet.relationships.blocked.join() === "ben");
  await s.settled(["ben", ben]);
  assert.deepEqual(ben.events.map(({ name }) => name).filter((name) => name.startsWith("onFriend")), ["onFriendListAdded", "onFriendListDeleted"]);
  const events = () => receiver.of("ann", "friends").map(({ action }) => action);
  await until(() => `the office has ${events()}`, () => events().length === 3);
  assert.deepEqual(events(), ["onFriendListAdded", "onFriendListDeleted", "onBlackListAdded"]);
  for (const node of s.running) assert.deepEqual((await s.ok("ann", "getBlackList", {}, { node })).userIDs, ["ben"]);
});
