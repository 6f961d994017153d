// Stories about friend requests, blocks, groups and lists.
import { Receiver } from "./receiver.mjs";
import { assert, story, until } from "./story.mjs";
import { Network } from "../WebClient/network.mjs";

story("I blocked him in the middle of his friend request, and he became my friend", async (s) => {
  await s.policy({ "profile.defaultAllowType": "confirm" });
  const bens = ["ben-1", "ben-2", "ben-3", "ben-4", "ben-5", "ben-6"];
  const phone = await s.client("ann", { platform: "ios", customStatus: "at home", keepRelationships: true, deviceID: "phone" });
  const tablet = await s.client("ann", { node: 1, platform: "ipad", keepRelationships: true, deviceID: "tablet" });
  const clients = new Map();
  const asked = (device, ben) => device.heard.changes.filter(({ type }) => type === "friendApplicationListAdded")
    .flatMap(({ data }) => data.pendencyList).find(({ userID }) => userID === ben);
  for (const [index, ben] of bens.entries()) {
    const client = await s.client(ben, { node: index, platform: "android", keepRelationships: true });
    clients.set(ben, client);
    await client.subscribeUserStatus(["ann"], { sync: true });
    assert.deepEqual([client.statusOf("ann").statusType, client.statusOf("ann").customStatus], ["ONLINE", "at home"]);
    assert.equal((await client.addFriend("ann", { addWording: `I am ${ben}`, addSource: "AddSource_Type_school" })).resultCode, 30539);
    for (const device of [phone, tablet]) {
      const { addTime, ...item } = await until(`Ann hears of ${ben}`, () => asked(device, ben));
      assert.deepEqual(item, { userID: ben, addSource: "AddSource_Type_school", addWording: `I am ${ben}`, nickname: "", type: 1 });
      assert.ok(Math.abs(Date.now() - addTime) < 60_000);
    }
  }
  const receiver = await Receiver.of(s, ["friends"]);
  assert.deepEqual(await s.requests("ann", 2), bens.map((ben) => `1:${ben}`));

  // The phone accepts while the tablet blocks, and each Ben asks once more.
  await Promise.all(bens.map(async (ben, index) => {
    const [accepted, blocked, repeated] = await Promise.all([phone.doResponse(ben, 1), tablet.addBlackList([ben]),
      s.ok(ben, "addFriend", { userID: "ann" }, { node: index + 2 })]);
    // 30614: the request is gone. 30515, 30525: the block is there. 30001: the acceptance came before.
    assert.ok([0, 30614, 30515].includes(accepted.resultCode), JSON.stringify(accepted));
    assert.deepEqual(blocked.resultList, [{ userID: ben, resultCode: 0, resultInfo: "" }]);
    assert.ok([30539, 30525, 30001, 0].includes(repeated.resultCode), JSON.stringify(repeated));
  }));
  const hidden = new Map(await Promise.all(bens.map(async (ben) => [ben, await until("Ann is OFFLINE",
    () => clients.get(ben).statusOf("ann").statusType === "OFFLINE" && clients.get(ben).statusOf("ann"))])));
  await phone.setSelfStatus("not for the Bens");

  assert.deepEqual([await s.friends("ann"), await s.requests("ann")], [[], []]);
  assert.deepEqual((await s.ok("ann", "getBlackList", {}, { node: 1 })).userIDs, bens);
  for (const [index, ben] of bens.entries()) {
    const client = clients.get(ben);
    assert.deepEqual([await s.friends(ben), await s.requests(ben, index)], [[], []]);
    assert.equal((await client.addFriend("ann")).resultCode, 30525);
    assert.equal((await phone.addFriend(ben)).resultCode, 30515);
    await s.settled([ben, client]);
    assert.deepEqual([client.statusOf("ann"), await s.status(ben, "ann")], [hidden.get(ben), hidden.get(ben)]);
    assert.deepEqual(client.heard.statuses.filter(({ customStatus }) => customStatus === "not for the Bens"), []);
    assert.deepEqual(client.heard.changes.filter(({ type }) => type.startsWith("blackList")), [], "nobody is told of a block");
    assert.deepEqual((await client.checkFriends(["ann"], 2)).resultList, [{ userID: "ann", resultCode: 0, resultInfo: "", resultType: 0 }]);
    await until(`${ben} has empty lists`,
      () => client.relationships.friends.length + client.relationships.requests.length + client.relationships.blocked.length === 0);
  }
  for (const device of [phone, tablet]) {
    await until("Ann's device has six blocked and nobody else",
      () => device.relationships.friends.length + device.relationships.requests.length === 0 && device.relationships.blocked.length === 6);
    assert.deepEqual(device.relationships.blocked.toSorted(), bens);
  }
  // The back end hears of each block from Ann, and of none from the Bens.
  const blocks = (user) => receiver.of(user).filter(({ action }) => action === "onBlackListAdded").flatMap(({ data }) => data.userIDs).sort();
  await until(() => `webhooks of six blocks: ${blocks("ann")}`, () => blocks("ann").length === 6);
  assert.deepEqual([blocks("ann"), bens.flatMap(blocks)], [bens, []]);
  assert.deepEqual((await s.ok("ann", "checkBlackList", { userIDs: bens, checkType: 2, asUser: "ann" }, { isAdmin: true })).resultList,
    bens.map((userID) => ({ userID, resultCode: 0, resultInfo: "", resultType: 1 })));
});

story("The whole class joined at once, three of them are missing, and a stranger reads what I write", async (s) => {
  // The school limits a class to 60, and does not limit the calls.
  await s.policy({ "friends.max": 60, "rate.chain": false, "rate.subscribe": false });
  const phone = await s.client("teacher", { platform: "android", keepRelationships: true, deviceID: "phone" });
  const board = await s.client("teacher", { node: 2, platform: "board", keepRelationships: true, deviceID: "board" });
  await s.ok("teacher", "setVisibility", { visibility: "friends" });
  const { inside, stranger, names } = await s.joinClass();

  // Each joins the group by a call of its own, at all nodes at once.
  assert.deepEqual(await s.ok("teacher", "createFriendGroup", { groupNames: ["5b"] }),
    { resultCode: 0, resultInfo: "", resultList: [], errorUserList: [] });
  await Promise.all(inside.map(async ({ userID, node }) => {
    const { resultList } = await s.ok("teacher", "addFriendsToFriendGroup", { groupName: "5b", userIDs: [userID] }, { node });
    assert.deepEqual(resultList, [{ userID, resultCode: 0, resultInfo: "" }]);
  }));
  assert.deepEqual((await s.ok("teacher", "addFriendsToFriendGroup", { groupName: "5b", userIDs: [stranger.userID] }))
    .resultList.map(({ resultCode }) => resultCode), [32518]);
  for (const [node, device] of [[0, phone], [1, board]]) {
    const { groupList } = await s.ok("teacher", "getFriendGroups", { groupNames: ["5b"] }, { node });
    assert.deepEqual(groupList.map(({ name, userCnt, userIDs }) => [name, userCnt, userIDs.toSorted()]), [["5b", 60, names]]);
    await until("the device has the class in its group", () => device.relationships.groups.some(({ userCnt, userIDs }) => userCnt === 60
      && userIDs.length === 60));
    await until("the device has the class in its list", () => device.relationships.friends.length === 60
      && device.relationships.friends.every(({ groups }) => groups[0] === "5b"));
    assert.deepEqual(device.relationships.friends.map(({ userID }) => userID).sort(), names);
    for (const userID of names) {
      const { statusType, customStatus, onlinePlatforms } = await until(`${userID} is ONLINE`,
        () => device.statusOf(userID)?.statusType === "ONLINE" && device.statusOf(userID));
      assert.deepEqual([statusType, customStatus, onlinePlatforms], ["ONLINE", "here", ["web"]]);
    }
  }

  // Each of the class reads each text once, on the node that it is at.
  for (const text of ["the exam begins", "pens down"]) {
    await s.ok("teacher", "setSelfStatus", { customStatus: text }, { node: 1 });
    await until(`the class reads: ${text}`, () => inside.every(({ client }) => client.statusOf("teacher")?.customStatus === text));
  }
  for (const { userID, client } of inside) {
    for (const text of ["the exam begins", "pens down"]) {
      const versions = new Set(client.heard.statuses.filter((status) => status.userID === "teacher" && status.customStatus === text)
        .map(({ version }) => version));
      assert.equal(versions.size, 1, `${userID} reads ${text} in one version`);
    }
  }
  await stranger.client.subscribeUserStatus(["teacher"], { sync: true });
  await s.settled([stranger.userID, stranger.client]);
  assert.deepEqual(stranger.client.heard.statuses.filter(({ userID, customStatus }) => userID === "teacher" && customStatus !== ""), []);
  assert.deepEqual([stranger.client.statusOf("teacher").statusType, board.statusOf(stranger.userID)], ["OFFLINE", undefined]);
}, { seconds: 180 });

story("I was away for a week, and my phone, my watch and my laptop each have another list of friends", async (s) => {
  await s.policy({ "friends.customFields": { Since: "integer" }, "profile.defaultAllowType": "any" });
  await s.befriend("ann", "amy", "bob", "cat", "dan", "eve");
  await s.ok("fay", "modifySelfProfile", { values: { AllowType: "CONFIRM", Nick: "Fay" } });
  // The phone keeps a list and its sequence, the watch the position in its stream, and the tablet runs the JavaScript client.
  const phone = await s.stream("ann", { platform: "ios" });
  const before = await s.ok("ann", "getFriendList");
  const watch = await s.stream("ann", { node: 1, platform: "watch" });
  await watch.hears("onRelationshipState");
  await s.settledChain("ann", phone, watch);
  let isAway = false;
  const network = await Network.to(s.node(2).client, () => (isAway ? { refuse: true } : {}));
  s.atEnd(() => network.close());
  const tablet = await s.client("ann", { addresses: [network.url], platform: "ipad", keepRelationships: true });
  await until("the tablet has its lists", () => tablet.relationships.isComplete);
  const position = watch.position;
  await Promise.all([phone.drop(), watch.drop()]);
  isAway = true;
  network.cut();

  // A week on the laptop.
  const laptop = (operation, body, node) => s.ok("ann", operation, body, { node });
  await s.befriend("ann", "gus");
  assert.equal((await s.ok("hal", "addFriend", { userID: "ann", remark: "A." }, { node: 1 })).resultCode, 0);
  assert.equal((await laptop("deleteFriends", { userIDs: ["bob"], delType: 1 }, 1)).resultList[0].resultCode, 0);
  assert.equal((await laptop("modifyFriend", { userID: "cat", values: { Remark: "Cathy", Custom_Since: 1999 } }, 2)).resultCode, 0);
  assert.equal((await laptop("createFriendGroup", { groupNames: ["chess"], userIDs: ["dan"] }, 0)).resultCode, 0);
  assert.equal((await laptop("addBlackList", { userIDs: ["eve"] }, 1)).resultList[0].resultCode, 0);
  assert.equal((await laptop("addFriend", { userID: "fay", addWording: "hello" }, 2)).resultCode, 30539);

  const full = await laptop("getFriendList", { limit: 100 }, 2);
  assert.deepEqual(full.friendList.map(({ addTime, ...friend }) => friend), [
    ["amy", "", [], {}], ["cat", "Cathy", [], { Since: 1999 }], ["dan", "", ["chess"], {}], ["gus", "", [], {}], ["hal", "", [], {}],
  ].map(([userID, remark, groups, custom]) => ({ userID, remark, groups, addWording: "", addSource: "", custom })));
  assert.deepEqual([full.total, full.isFull, full.deleted], [5, true, []]);

  // The phone asks for what has changed since its sequence.
  const back = await s.stream("ann", { node: 1, platform: "ios" });
  const state = await back.hears("onRelationshipState");
  assert.deepEqual([state.friendSeq, state.unreadCnt], [full.seq, 0]);
  const changes = await laptop("getFriendList", { seq: before.seq }, 1);
  assert.deepEqual([changes.isFull, changes.deleted.toSorted(), changes.seq, changes.total], [false, ["bob", "eve"], full.seq, 5]);
  assert.deepEqual(changes.friendList.map(({ userID }) => userID).sort(), ["cat", "dan", "gus", "hal"]);
  const merged = [...before.friendList.filter(({ userID }) => userID === "amy"), ...changes.friendList]
    .sort((one, other) => (one.userID < other.userID ? -1 : 1));
  assert.deepEqual(merged, full.friendList);
  const nothing = await laptop("getFriendList", { seq: full.seq });
  assert.deepEqual([nothing.isFull, nothing.friendList, nothing.deleted], [false, [], []]);

  // The watch resumes at another node.
  const resumed = await s.stream("ann", { node: 2, platform: "watch", lastEventID: position });
  const told = await resumed.hears("onRelationshipState");
  assert.deepEqual([told.friendSeq, told.pendencySeq], [state.friendSeq, state.pendencySeq]);

  // The tablet finds out by itself.
  isAway = false;
  const byID = (one, other) => (one.userID < other.userID ? -1 : 1);
  const wanted = JSON.stringify([full.friendList, ["eve"], [{ name: "chess", userCnt: 1, userIDs: ["dan"] }], [[2, "fay", "hello"]]]);
  const kept = ({ friends, blocked, groups, requests }) => JSON.stringify([
    friends.toSorted(byID), blocked, groups, requests.map(({ type, userID, addWording }) => [type, userID, addWording])]);
  await until(() => `the tablet has the lists ${wanted}; it has ${kept(tablet.relationships)}`, () => kept(tablet.relationships) === wanted, 30);
  // Bob was removed on one side only, and Eve on both.
  assert.deepEqual([await s.friends("bob"), await s.friends("eve"), await s.friends("hal")], [["ann"], [], ["ann"]]);
});

// Ann hides from all but her friends.
for (const [name, isCut] of [["My phone was in a tunnel while Ann left me, and it shows her online for good", true], ["Ann left me while I looked, and my phone shows her online for good", false]]) {
  story(name, async (s) => {
    await s.befriend("bob", "ann");
    await s.ok("ann", "setVisibility", { visibility: "friends" });
    await s.stream("ann", { node: 1, query: { customStatus: "with Bob" } });
    let isAway = false;
    const network = await Network.to(s.node(0).client, () => (isAway ? { refuse: true } : {}));
    s.atEnd(() => network.close());
    const bob = await s.client("bob", { addresses: [network.url], keepRelationships: true });
    await until("Bob sees Ann", () => bob.statusOf("ann")?.customStatus === "with Bob");
    if (isCut) {
      isAway = true;
      network.cut();
    }
    assert.equal((await s.ok("ann", "deleteFriends", { userIDs: ["bob"], delType: 2 })).resultList[0].resultCode, 0);
    isAway = false;
    await until("Bob knows that she has left", () => bob.state === "online" && bob.relationships.friends.length === 0);
    await s.settled(["bob", bob]);
    assert.equal((await s.status("bob", "ann")).statusType, "OFFLINE");
    assert.deepEqual([bob.statusOf("ann").statusType, bob.statusOf("ann").customStatus], ["OFFLINE", ""]);
  });
}
