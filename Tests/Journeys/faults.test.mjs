// Stories about nodes that die, freeze, restart and burn, each on nodes of its own.
import { Receiver } from "./receiver.mjs";
import { assert, insist, story, until } from "./story.mjs";

const isOnline = ({ statusType }) => statusType === "ONLINE";

story("The server died while I unfriended one and blocked another, and both were back the next morning", async (s) => {
  for (const [round, victim] of [0, 1, 2].entries()) {
    // The node that owns Ann dies during her calls. Her session is at the next node.
    const ann = await s.userOwnedBy(victim, `ann-${round}`);
    const [ben, carl, dora] = ["ben", "carl", "dora"].map((name) => `${name}-${round}`);
    await s.befriend(ann, ben, carl, dora);
    const clients = Object.fromEntries(await Promise.all([ann, ben, carl, dora].map(async (user, index) => [user, await s.client(user, {
      node: victim + 1 + (index % 2), keepRelationships: true, ...(user === ann ? { customStatus: "reading" } : {}) })])));
    await clients[carl].subscribeUserStatus([ann]);
    for (const user of [ben, carl, dora]) await until(`${user} sees Ann`, () => clients[user].statusOf(ann)?.customStatus === "reading");
    const calls = [
      insist("the block", () => clients[ann].addBlackList([ben])), insist("the end of the friendship", () => clients[ann].deleteFriends([carl], 2)),
      insist("visibility", () => clients[ann].setVisibility({ visibility: "friends" })),
        insist("a new friend", () => clients[ann].addFriend(`eve-${round}`, { remark: "Eve" })),
    ];
    await s.cluster.kill(s.nodes[victim]);
    const [blocked, deleted, visible, added] = await Promise.all(calls);
    // A repeated call finds what the first one has done.
    assert.ok([0, 31307].includes(blocked.resultList[0].resultCode), JSON.stringify(blocked));
    assert.ok([0, 31704].includes(deleted.resultList[0].resultCode), JSON.stringify(deleted));
    assert.ok([0, 30001].includes(added.resultCode), JSON.stringify(added));
    assert.equal(visible.visibility, "friends");
    for (const user of [ben, carl]) await until(`${user} sees her OFFLINE`, () => clients[user].statusOf(ann).statusType === "OFFLINE");
    const counts = [ben, carl].map((user) => clients[user].heard.statuses.filter(({ userID }) => userID === ann).length);
    await insist("a text", () => clients[ann].setSelfStatus(`after the death ${round}`));
    await until("Dora reads it", () => clients[dora].statusOf(ann).customStatus === `after the death ${round}`);
    await s.settled([ben, clients[ben]], [carl, clients[carl]]);
    assert.deepEqual([ben, carl].map((user) => clients[user].heard.statuses.filter(({ userID }) => userID === ann).length), counts,
      "Ben and Carl are told nothing more");

    await s.cluster.restart(s.nodes[victim]);
    await until("the node is a member with rows", async () => (await s.owner(ann)) === victim, 30);
    assert.deepEqual([await s.friends(ann), await s.friends(ben), await s.friends(carl), await s.friends(dora), await s.friends(`eve-${round}`)],
      [[dora, `eve-${round}`], [], [], [ann], [ann]]);
    for (const node of s.running) {
      assert.deepEqual((await s.ok(ann, "getBlackList", {}, { node })).userIDs, [ben]);
      assert.deepEqual(await s.ok(ann, "getVisibility", {}, { node }), { visibility: "friends", userIDs: [], invisible: false });
    }
    for (const user of [ben, carl]) assert.deepEqual([(await s.status(user, ann)).statusType, (await s.status(user, ann)).customStatus],
      ["OFFLINE", ""]);
    await until(() => `Ann's device has her friends: ${JSON.stringify(clients[ann].relationships)}`,
      () => clients[ann].relationships.friends.map(({ userID }) => userID).sort().join() === `${dora},eve-${round}`);
    const told = clients[dora].heard.statuses.filter(({ userID }) => userID === ann);
    assert.deepEqual(told.slice(told.findIndex(isOnline)).filter((status) => !isOnline(status)), [], "Dora saw no false OFFLINE");
  }
}, { cluster: {}, seconds: 120 });

story("You updated the servers at lunch, everybody saw me flicker, and a friend request from breakfast was gone", async (s) => {
  await s.policy({ "profile.defaultAllowType": "confirm" });
  await s.ok("bob", "modifySelfProfile", { values: { AllowType: "ANY" } });
  await s.befriend("ann", "bob");
  assert.equal((await s.ok("eve", "addFriend", { userID: "ann", addWording: "breakfast?" })).resultCode, 30539);
  const ann = await s.client("ann", { platform: "ios", customStatus: "lunch", keepRelationships: true });
  const bob = await s.client("bob", { node: 1, keepRelationships: true });
  const carl = await s.client("carl", { node: 2 });
  await carl.subscribeUserStatus(["ann", "dan"], { sync: true });
  await ann.addBlackList(["dan"]);
  await ann.createFriendGroup(["near"], { userIDs: ["bob"] });
  const { eventID } = await ann.publishEvent(10_007, { ext: "soup" });
  await until("Bob sees Ann", () => bob.statusOf("ann")?.event?.eventID === eventID);
  await until("Ann has her lists", () => ann.relationships.isComplete && ann.relationships.requests.length === 1);
  const wasAt = [ann, bob, carl].map(({ session }) => session.node);
  assert.deepEqual(wasAt, ["a", "b", "c"]);
  const starts = [bob, carl].map((client) => client.heard.statuses.length);

  let count = 0;
  for (const node of s.nodes) {
    node.process.kill("SIGTERM");
    // Ann writes on during the whole update.
    let isOver = false;
    node.ended.then(() => (isOver = true));
    while (!isOver) await insist("a text", () => ann.setSelfStatus(`bite ${(count += 1)}`));
    assert.equal(node.process.exitCode, 0, `node ${node.id} ends well: ${node.log}`);
    await s.cluster.restart(node);
    await until("both have the last bite", () => [bob, carl].every((client) => client.statusOf("ann")?.customStatus === `bite ${count}`), 30);
  }
  assert.ok(count >= 3);
  for (const [index, client] of [bob, carl].entries()) {
    const told = client.heard.statuses.slice(starts[index]).filter(({ userID }) => userID === "ann");
    assert.deepEqual(told.filter((status) => !isOnline(status)), [], "nobody saw her flicker");
    assert.equal(new Set(told.map(({ lastOnlineStatusUpdateTime }) => lastOnlineStatusUpdateTime)).size, 1);
    assert.ok(told.every(({ version }, at) => at === 0 || version >= told[at - 1].version));
    assert.ok(told.every(({ event }) => event?.eventID === eventID));
  }
  for (const client of [ann, bob, carl]) assert.deepEqual([client.state, client.heard.states.filter(({ state }) => ["kicked", "replaced", "refused",
    "loggedOut"].includes(state))], ["online", []]);
  // Every change from before lunch is there, at every node and in the open app.
  assert.deepEqual([await s.friends("ann"), await s.friends("bob")], [["bob"], ["ann"]]);
  for (const node of s.running) {
    assert.deepEqual(await s.requests("ann", node), ["1:eve"]);
    assert.deepEqual((await s.ok("ann", "getBlackList", {}, { node })).userIDs, ["dan"]);
    assert.deepEqual((await s.ok("ann", "getFriendGroups", {}, { node })).groupList, [{ name: "near", userCnt: 1, userIDs: ["bob"] }]);
    assert.deepEqual((await s.ok("carl", "getSubscribedUserStatus", {}, { node })).subscriptions.map(({ userID }) => userID).sort(), ["ann", "dan"]);
    assert.equal((await s.admin("getAppPolicy", {}, { node })).settings["profile.defaultAllowType"], "confirm");
  }
  assert.deepEqual((await ann.doResponse("eve", 1)).resultCode, 0);
  await until("Eve is her friend", () => ann.relationships.friends.length === 2 && ann.relationships.requests.length === 0);
}, { cluster: {}, seconds: 120 });

story("The server at Bob's end hung while I hid, and when it woke up it showed me to him", async (s) => {
  const ann = await s.userOwnedBy(0, "ann");
  await s.befriend(ann, "dora");
  const phone = await s.client(ann, { addresses: [s.node(0).url], customStatus: "before" });
  const bob = await s.stream("bob", { node: 2 });
  const carl = await s.client("carl", { node: 2 });
  const eve = await s.stream("eve", { node: 1 });
  const dora = await s.stream("dora", { node: 1 });
  for (const [user, node] of [["bob", 1], ["carl", 1], ["eve", 0]]) await s.ok(user, "subscribeUserStatus", { userIDs: [ann] }, { node });
  for (const stream of [bob, eve, dora]) await stream.sees(ann, { statusType: "ONLINE", customStatus: "before" });
  await until("Carl sees Ann", () => carl.statusOf(ann)?.customStatus === "before");

  // The process of node c stands still. Nobody is told, and its sockets stay open.
  s.nodes[2].process.kill("SIGSTOP");
  s.atEnd(() => s.nodes[2].process.kill("SIGCONT"));
  const asked = Date.now();
  const answer = await insist("Ann hides", () => phone.setVisibility({ visibility: "friends" }));
  assert.deepEqual([answer.visibility, answer.userIDs, answer.invisible], ["friends", [], false]);
  if (answer.mayBeSeenUntil !== undefined) assert.ok(answer.mayBeSeenUntil > asked && answer.mayBeSeenUntil <= Date.now() + 20_000,
    JSON.stringify(answer));
  // From the answer on, no node that runs shows her to those who may not see her.
  for (const node of [0, 1]) assert.equal((await s.ok("eve", "getUserStatus", { userIDs: [ann] }, { node })).userStatusList[0].statusType, "OFFLINE");
  await eve.sees(ann, { statusType: "OFFLINE", customStatus: "" });
  await insist("a secret", () => phone.setSelfStatus("secret"));
  await dora.sees(ann, { statusType: "ONLINE", customStatus: "secret" });

  s.nodes[2].process.kill("SIGCONT");
  await until("three nodes are members again", async () => (await s.admin("clusterStatus", {},
    { node: 2 })).members.filter(({ state }) => state === "alive").length === 3, 30);
  await until("Carl is back", () => carl.state === "online" && carl.statusOf(ann).statusType === "OFFLINE", 30);
  if (bob.isOpen) await until("Bob sees nothing of her, or his stream ends", () => !bob.isOpen || bob.last(ann).statusType === "OFFLINE", 30);
  const again = await s.stream("bob", { node: 2, lastEventID: bob.position });
  await until("node c owns users again", async () => (await s.admin("clusterStatus", {},
    { node: 2 })).members.every(({ slotsOwned }) => slotsOwned > 0), 30);
  await s.settled(["bob", again], ["carl", carl], ["eve", eve]);
  for (const records of [bob.statuses(ann), again.statuses(ann), eve.statuses(ann), carl.heard.statuses.filter(({ userID }) => userID === ann)]) {
    assert.deepEqual(records.filter(({ customStatus }) => customStatus === "secret"), []);
    const hidden = records.findIndex(({ statusType }) => statusType === "OFFLINE");
    assert.ok(hidden < 0 || records.slice(hidden).every(({ statusType }) => statusType === "OFFLINE"), JSON.stringify(records));
  }
  assert.equal((await s.status("bob", ann)).statusType, "OFFLINE");
  assert.equal(dora.isOpen && (await s.status("dora", ann)).customStatus, "secret");
}, { cluster: {}, seconds: 90 });

story("The power went out, and when the lights came back everybody saw me although I was hidden", async (s) => {
  await s.befriend("ann", "bob", "dora");
  const ann = await s.client("ann", { platform: "ios", customStatus: "candle" });
  const bob = await s.client("bob", { node: 1 });
  const dora = await s.client("dora", { node: 2, keepRelationships: true });
  const carl = await s.client("carl", { node: 1 });
  const eve = await s.stream("eve", { node: 2, query: { customStatus: "radio" } });
  await Promise.all([carl.subscribeUserStatus(["ann", "eve"], { sync: true }), dora.subscribeUserStatus(["eve"], { sync: true })]);
  await ann.setVisibility({ visibility: "list", userIDs: ["dora"] });
  assert.equal((await ann.addBlackList(["bob"])).resultList[0].resultCode, 0);
  await dora.createFriendGroup(["family"], { userIDs: ["ann"] });
  const [bobs, carls] = [bob.statusOf("ann"), carl.statusOf("ann")];
  await until("all is hidden", () => [bob, carl].every((client) => client.statusOf("ann").statusType === "OFFLINE")
    && dora.statusOf("ann").customStatus === "candle" && dora.statusOf("eve")?.customStatus === "radio");
  const hidden = [bob.statusOf("ann"), carl.statusOf("ann")];
  const seen = [bob, carl].map((client) => client.heard.statuses.filter(({ userID }) => userID === "ann").length);
  assert.ok(bobs && carls);

  await Promise.all(s.nodes.map((node) => s.cluster.kill(node)));
  await eve.ends();
  await Promise.all(s.nodes.map((node) => s.cluster.restart(node)));
  await until("all apps are back", () => [ann, bob, carl, dora].every(({ state }) => state === "online"), 30);
  await insist("a text", () => ann.setSelfStatus("light"));
  await until("Dora reads it", () => dora.statusOf("ann")?.customStatus === "light", 30);
  // Eve's app was closed. Once her time to return is over, her text is gone with her.
  await until("Eve is OFFLINE at Carl's and Dora's", () => [carl, dora].every((client) => client.statusOf("eve").statusType === "OFFLINE"), 30);
  assert.deepEqual([carl.statusOf("eve").customStatus, carl.statusOf("eve").onlinePlatforms], ["", []]);
  await s.settled(["bob", bob], ["carl", carl], ["dora", dora]);
  assert.deepEqual([bob.statusOf("ann"), carl.statusOf("ann")], hidden);
  for (const [index, client] of [bob, carl].entries()) {
    const told = client.heard.statuses.filter(({ userID }) => userID === "ann").slice(seen[index]);
    assert.deepEqual(told.filter((status) => isOnline(status) || status.customStatus), [], "hidden before and after");
  }
  assert.deepEqual(await s.ok("ann", "getVisibility", {}, { node: 2 }), { visibility: "list", userIDs: ["dora"], invisible: false });
  assert.deepEqual([await s.friends("ann"), await s.friends("bob"), await s.friends("dora")], [["dora"], [], ["ann"]]);
  assert.deepEqual((await s.ok("dora", "getFriendGroups", {}, { node: 1 })).groupList, [{ name: "family", userCnt: 1, userIDs: ["ann"] }]);
  assert.deepEqual((await carl.getSubscribedUserStatus({ userIDs: ["ann", "eve", "bob"] })).subscriptions.map(({ userID }) => userID).sort(),
    ["ann", "eve"]);
}, { cluster: { environment: { ROLLCALL_RECONNECT_GRACE: "3" } }, seconds: 120 });

story("The server burned down with me on it, the office thinks that I am still at my desk, and my list went with the ashes", async (s) => {
  const receiver = await Receiver.of(s);
  await s.befriend("ann", "bob");
  const ann = await s.stream("ann", { node: 2, query: { deviceID: "desk" } });
  const bob = await s.stream("bob");
  const carl = await s.client("carl", { node: 2 });
  await carl.subscribeUserStatus(["ann"], { sync: true });
  await s.ok("ann", "setSelfStatus", { customStatus: "at my desk" });
  await s.ok("ann", "addBlackList", { userIDs: ["dan"] }, { node: 1 });
  await bob.sees("ann", { statusType: "ONLINE", customStatus: "at my desk" });
  await until("the office knows it", () => receiver.of("ann").some(({ userStatus }) => userStatus?.customStatus === "at my desk"));

  await s.cluster.kill(s.nodes[2]);
  await ann.ends();
  const gone = await bob.sees("ann", { statusType: "OFFLINE", customStatus: "", onlinePlatforms: [] }, 30);
  await until("Carl has moved", () => carl.state === "online" && carl.session.node !== "c" && carl.statusOf("ann").statusType === "OFFLINE", 30);
  await until(() => `the office knows the end: ${receiver.actions("ann")}`, () => receiver.of("ann",
    "stateChange").at(-1).userStatus.statusType === "OFFLINE", 30);
  const { action, reason, platform } = receiver.of("ann", "stateChange").find((event) => event.action === "Disconnect");
  assert.deepEqual([action, reason, platform], ["Disconnect", "LinkClose", "ios"]);
  assert.deepEqual(receiver.actions("ann").filter((name) => ["Login", "Disconnect", "Logout", "Kick"].includes(name)), ["Login", "Disconnect"],
    "each login has one end");

  // The operator removes the node for good, with the command.
  const ops = `http://127.0.0.1:${s.nodes[0].ops}`;
  await until("the node is dead", async () => (await s.command("cluster", "members", "--ops", ops)).stdout.match(/^c +dead /m), 30);
  const forgotten = await s.command("cluster", "forget", "c", "--ops", ops);
  assert.equal(forgotten.code, 0, forgotten.stderr);
  await until("it has left", async () => (await s.command("cluster", "members", "--ops", ops)).stdout.match(/^c +left /m));
  const ring = (await s.command("cluster", "ring", "--ops", ops)).stdout.trim().split("\n").map((line) => line.split(/ {2,}/));
  assert.deepEqual(ring[0].map((title) => title.trim()), ["NODE", "WEIGHT", "SLOTS", "SHARE"]);
  assert.equal(ring.slice(1).reduce((sum, [, , slots]) => sum + parseInt(slots), 0), 65_536);

  // Her lists have survived. She comes back at another node, and every change is accepted.
  assert.deepEqual([await s.friends("ann"), (await s.ok("ann", "getBlackList")).userIDs], [["bob"], ["dan"]]);
  const back = await s.stream("ann", { node: 1, platform: "web" });
  const online = await bob.sees("ann", { statusType: "ONLINE", customStatus: "", onlinePlatforms: ["web"] });
  assert.ok(online.version > gone.version && online.lastOnlineStatusUpdateTime > gone.lastOnlineStatusUpdateTime);
  assert.equal((await s.ok("ann", "addFriend", { userID: "eve", remark: "new" }, { node: 1 })).resultCode, 0);
  await s.ok("ann", "setVisibility", { visibility: "friends" });
  await until("Carl sees her no more", () => carl.statusOf("ann").statusType === "OFFLINE");
  assert.equal(back.isOpen, true);
  await until("the office has the new login and the new friend", () => receiver.actions("ann").filter((name) => name === "Login").length === 2
    && receiver.of("ann", "friends").some(({ data }) => data.friendList?.[0].userID === "eve"), 30);
}, { cluster: { environment: { ROLLCALL_RECONNECT_GRACE: "3" } }, seconds: 120 });

story("Our server was slow for half a second, and a crawler passed our limit of calls as if there were none", async (s) => {
  const ann = await s.userOwnedBy(1, "ann");
  await s.stream(ann);
  const app = await s.client(ann, { node: 2 });
  s.nodes[1].process.kill("SIGSTOP");
  s.atEnd(() => s.nodes[1].process.kill("SIGCONT"));
  const start = Date.now();
  const calls = Promise.all(Array.from({ length: 60 }, (_, index) =>
    s.call(ann, "subscribeUserStatus", { userIDs: ["bob"] }, { node: index % 2 ? 0 : 2 })));
  await until("the owner has stood still", () => Date.now() > start + 500);
  s.nodes[1].process.kill("SIGCONT");
  const answers = await calls;
  // On a slow machine calls are repeated after 503, while new ones are allowed.
  const allowed = 24 + 4 * (Date.now() - start) / 1_000;
  const passed = answers.filter(({ status }) => status === 200).length;
  assert.ok(passed <= allowed, `${passed} of 60 calls passed, ${allowed} are allowed; the limit is 20 in 5 s`);
  for (const { status, answer } of answers.filter(({ status }) => status !== 200)) {
    assert.deepEqual([status, answer.code, answer.retryAfter > 0], [429, 7008, true], JSON.stringify(answer));
  }
  // The limit is that of one user. An app with the SDK waits as long as the node says, and then follows Bob and Dora.
  await s.ok("eve", "subscribeUserStatus", { userIDs: [ann] }, { node: 2 });
  await app.subscribeUserStatus(["dora"]);
  for (const user of ["bob", "dora"]) {
    await s.stream(user, { node: 1, query: { customStatus: "hello" } });
    await until(`the app sees ${user}`, () => app.statusOf(user)?.customStatus === "hello");
  }
  for (const node of s.running) {
    const { subscriptions } = await s.ok(ann, "getSubscribedUserStatus", {}, { node });
    assert.deepEqual(subscriptions.map(({ userID }) => userID).sort(), ["bob", "dora"]);
  }
}, { cluster: {} });

story("I blocked him when the server died, and my phone has shown an empty blocklist ever since", async (s) => {
  await s.policy({ "rate.chain": false });
  for (let round = 0; round < 6; round += 1) {
    const victim = round % 3;
    const ann = await s.userOwnedBy(victim, `ann-${round}`);
    const phone = await s.client(ann, { node: victim + 1, keepRelationships: true });
    await s.befriend(ann, "ben", "carl");
    await until("the phone has its lists", () => phone.relationships.friends.length === 2);
    const block = insist("the block", () => phone.addBlackList(["ben"]));
    const others = [phone.deleteFriends(["carl"], 2), phone.setVisibility({ visibility: "friends" }), phone.addFriend("eve")]
      .map((call) => call.catch(() => null));
    await s.cluster.kill(s.nodes[victim]);
    await Promise.all([block, ...others]);
    await s.cluster.restart(s.nodes[victim]);
    await until("the node owns her again", async () => (await s.owner(ann)) === victim, 30);
    assert.deepEqual((await s.ok(ann, "getBlackList", {}, { node: victim })).userIDs, ["ben"]);
    await until(() => `death ${round}: the phone shows the block: ${JSON.stringify([phone.state, phone.relationships])}`,
      () => phone.relationships.blocked[0] === "ben", 10);
    await phone.close();
  }
}, { cluster: {}, seconds: 120 });
