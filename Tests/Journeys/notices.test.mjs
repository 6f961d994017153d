// Stories about people whose apps know nothing but the events of a stream.
import { Receiver } from "./receiver.mjs";
import { assert, story, until } from "./story.mjs";

/** The friends and requests that a list of events leaves, from an empty list or from `friends`. */
function folded(events, friends = []) {
  const lists = { friends: new Set(friends), requests: new Set() };
  for (const { name, data } of events) {
    if (name === "onFriendListAdded") for (const { userID } of data.friendList) lists.friends.add(userID);
    if (name === "onFriendListDeleted") for (const userID of data.userIDs) lists.friends.delete(userID);
    if (name === "onFriendApplicationListAdded") for (const { type, userID } of data.pendencyList) lists.requests.add(`${type}:${userID}`);
    if (name === "onFriendApplicationListDeleted") for (const userID of data.userIDs) lists.requests.delete(`${data.type}:${userID}`);
  }
  return { friends: [...lists.friends].sort(), requests: [...lists.requests].sort() };
}
const NOTHING = { friends: [], requests: [] };

story("I blocked six people who asked me at the same time, and my watch has missed two of them", async (s) => {
  await s.policy({ "profile.defaultAllowType": "confirm", "rate.chain": false });
  const receiver = await Receiver.of(s, ["friends"]);
  const bens = ["ben-1", "ben-2", "ben-3", "ben-4", "ben-5", "ben-6"];
  const phone = await s.stream("ann", { platform: "ios", query: { customStatus: "at home" } });
  const tablet = await s.stream("ann", { node: 1, platform: "ipad" });
  const streams = new Map();
  for (const [index, ben] of bens.entries()) {
    streams.set(ben, await s.stream(ben, { node: index, platform: "android" }));
    await s.ok(ben, "subscribeUserStatus", { userIDs: ["ann"] }, { node: index });
    assert.equal((await s.ok(ben, "addFriend", { userID: "ann", addWording: `I am ${ben}`, addSource: "AddSource_Type_school" })).resultCode, 30539);
    await streams.get(ben).sees("ann", { statusType: "ONLINE", customStatus: "at home" });
    for (const device of [phone, tablet]) {
      const { pendencyList } = await device.hears("onFriendApplicationListAdded", (data) => data.pendencyList.some(({ userID }) => userID === ben));
      const { addTime, ...item } = pendencyList.find(({ userID }) => userID === ben);
      assert.deepEqual(item, { userID: ben, addSource: "AddSource_Type_school", addWording: `I am ${ben}`, nickname: "", type: 1 });
      assert.ok(Math.abs(Date.now() - addTime) < 60_000);
    }
  }
  assert.deepEqual(await s.requests("ann", 2), bens.map((ben) => `1:${ben}`));

  // The phone accepts while the tablet blocks, and each Ben asks once more.
  await Promise.all(bens.map(async (ben, index) => {
    const [accepted, blocked, repeated] = await Promise.all([
      s.ok("ann", "doResponse", { userID: ben, responseType: 1 }, { node: index }),
      s.ok("ann", "addBlackList", { userIDs: [ben] }, { node: index + 1 }),
      s.ok(ben, "addFriend", { userID: "ann" }, { node: index + 2 }),
    ]);
    // 30614: the request is gone. 30515, 30525: the block is there. 30001: the acceptance came before.
    assert.ok([0, 30614, 30515].includes(accepted.resultCode), JSON.stringify(accepted));
    assert.deepEqual(blocked.resultList, [{ userID: ben, resultCode: 0, resultInfo: "" }]);
    assert.ok([30539, 30525, 30001, 0].includes(repeated.resultCode), JSON.stringify(repeated));
  }));
  await s.ok("ann", "setSelfStatus", { customStatus: "not for the Bens" });
  await s.settledChain("ann", phone, tablet);

  assert.deepEqual([await s.friends("ann"), await s.requests("ann")], [[], []]);
  assert.deepEqual((await s.ok("ann", "getBlackList", {}, { node: 1 })).userIDs, bens);
  for (const [index, ben] of bens.entries()) {
    const stream = streams.get(ben);
    const view = await stream.sees("ann", { statusType: "OFFLINE" });
    assert.deepEqual([await s.friends(ben), await s.requests(ben, index)], [[], []]);
    assert.equal((await s.ok(ben, "addFriend", { userID: "ann" }, { node: index })).resultCode, 30525);
    assert.equal((await s.ok("ann", "addFriend", { userID: ben }, { node: index })).resultCode, 30515);
    await s.settled([ben, stream]);
    await s.settledChain(ben, stream);
    assert.deepEqual([folded(stream.events), stream.last("ann"), await s.status(ben, "ann")], [NOTHING, view, view]);
    assert.deepEqual([stream.of("onBlackListAdded"), stream.statuses("ann").filter(({ customStatus }) => customStatus === "not for the Bens")], [[], []], "nobody learns of a block");
    const check = await s.ok(ben, "checkFriends", { userIDs: ["ann"], checkType: 2 });
    assert.deepEqual(check.resultList, [{ userID: "ann", resultCode: 0, resultInfo: "", resultType: 0 }]);
  }
  for (const device of [phone, tablet]) {
    assert.deepEqual(folded(device.events), NOTHING);
    assert.deepEqual(device.of("onBlackListAdded").flatMap(({ userIDs }) => userIDs).sort(), bens);
  }
  // The back end is told the same as the devices.
  await until(() => `the webhooks end with empty lists: ${JSON.stringify(receiver.events)}`, () => ["ann", ...bens].every((user) => {
    const events = receiver.of(user, "friends").map(({ action, data }) => ({ name: action, data }));
    return events.length > 0 && JSON.stringify(folded(events)) === JSON.stringify(NOTHING);
  }));
});

story("The board counts the class as it comes in, and it never counts to sixty", async (s) => {
  // The school limits a class to 60, and does not limit the calls.
  await s.policy({ "friends.max": 60, "rate.chain": false, "rate.subscribe": false });
  const phone = await s.stream("teacher", { platform: "android" });
  const board = await s.stream("teacher", { node: 2, platform: "board" });
  await s.ok("teacher", "setVisibility", { visibility: "friends" });
  const { inside, stranger, names } = await s.joinClass();

  // Each joins the group by a call of its own, at all nodes at once.
  assert.deepEqual(await s.ok("teacher", "createFriendGroup", { groupNames: ["5b"] }), { resultCode: 0, resultInfo: "", resultList: [], errorUserList: [] });
  await Promise.all(inside.map(async ({ userID, node }) => {
    const { resultList } = await s.ok("teacher", "addFriendsToFriendGroup", { groupName: "5b", userIDs: [userID] }, { node });
    assert.deepEqual(resultList, [{ userID, resultCode: 0, resultInfo: "" }]);
  }));
  assert.deepEqual((await s.ok("teacher", "addFriendsToFriendGroup", { groupName: "5b", userIDs: [stranger.userID] })).resultList.map(({ resultCode }) => resultCode), [32518]);
  for (const [node, stream] of [[0, phone], [1, board]]) {
    const { groupList } = await s.ok("teacher", "getFriendGroups", { groupNames: ["5b"] }, { node });
    assert.deepEqual(groupList.map(({ name, userCnt, userIDs }) => [name, userCnt, userIDs.toSorted()]), [["5b", 60, names]]);
    await stream.hears("onFriendGroupsChanged", ({ groupList: [group] }) => group.userCnt === 60 && group.userIDs.length === 60);
    assert.deepEqual(folded(stream.events), { friends: names, requests: [] });
    for (const userID of names) await stream.sees(userID, { statusType: "ONLINE", customStatus: "here", onlinePlatforms: ["web"] });
  }

  // Each of the class reads each text once, on the node that it is at.
  for (const text of ["the exam begins", "pens down"]) {
    await s.ok("teacher", "setSelfStatus", { customStatus: text }, { node: 1 });
    await until(`the class reads: ${text}`, () => inside.every(({ client }) => client.statusOf("teacher")?.customStatus === text));
  }
  for (const { userID, client } of inside) {
    for (const text of ["the exam begins", "pens down"]) {
      const versions = new Set(client.heard.statuses.filter((status) => status.userID === "teacher" && status.customStatus === text).map(({ version }) => version));
      assert.equal(versions.size, 1, `${userID} reads ${text} in one version`);
    }
  }
  await stranger.client.subscribeUserStatus(["teacher"], { sync: true });
  await s.settled([stranger.userID, stranger.client]);
  assert.deepEqual(stranger.client.heard.statuses.filter(({ userID, customStatus }) => userID === "teacher" && customStatus !== ""), []);
  assert.deepEqual([stranger.client.statusOf("teacher").statusType, board.statuses(stranger.userID)], ["OFFLINE", []]);
}, { seconds: 180 });
