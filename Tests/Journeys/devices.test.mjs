// Stories about several devices of one person: texts, events, logins that replace others, and logouts.
import { Network } from "../WebClient/network.mjs";
import { Receiver } from "./receiver.mjs";
import { assert, story, until } from "./story.mjs";

const raisedBy = (client) => client.heard.raised.map(({ userID, event }) => [userID, event.value, event.ext]);

story("My phone woke up and brought yesterday's text back, and a gift rang twice at Bob's and never at Carl's", async (s) => {
  await s.befriend("ann", "bob", "carl", "dan");
  const laptop = await s.client("ann", { platform: "web", customStatus: "at work" });
  let isAway = false;
  const network = await Network.to(s.node(1).client, () => (isAway ? { refuse: true } : {}));
  s.atEnd(() => network.close());
  const phone = await s.client("ann", { addresses: [network.url], platform: "ios" });
  const bobNetwork = await Network.to(s.node(2).client);
  s.atEnd(() => bobNetwork.close());
  const bob = await s.client("bob", { addresses: [bobNetwork.url] });
  const dan = await s.stream("dan", { node: 1 });
  await until("Bob sees both devices", () => bob.statusOf("ann")?.onlinePlatforms.length === 2);
  await dan.sees("ann", { statusType: "ONLINE", customStatus: "at work", onlinePlatforms: ["ios", "web"] });
  isAway = true;
  network.cut();

  // Ann goes on vacation, blocks Dan, and sends two events: one for later logins, too, and one for those who are there, but not for her phone.
  assert.equal((await laptop.addBlackList(["dan"])).resultList[0].resultCode, 0);
  await laptop.setSelfStatus("on vacation");
  const gift = await laptop.publishEvent(10_001, { ext: "gift", sendToOnlineUsersOnly: false });
  const wave = await laptop.publishEvent(10_002, { ext: "wave", syncEnabled: false });
  await until(() => `Bob hears both: ${JSON.stringify(raisedBy(bob))}`, () => bob.heard.raised.length >= 2);
  bobNetwork.cut();

  // Carl logs in after both. The phone returns.
  const carl = await s.client("carl", { node: 1 });
  await until("Carl has Ann's record", () => carl.statusOf("ann")?.event);
  isAway = false;
  await until("the phone is back with the text", () => phone.state === "online" && phone.statusOf("ann")?.customStatus === "on vacation", 30);
  await until("Bob sees the phone again", () => bob.state === "online" && bob.statusOf("ann")?.onlinePlatforms.length === 2, 30);
  await s.settled(["bob", bob], ["carl", carl], ["dan", dan]);
  assert.deepEqual([raisedBy(bob), raisedBy(carl)], [[["ann", 10_001, "gift"], ["ann", 10_002, "wave"]], [["ann", 10_001, "gift"]]]);
  assert.deepEqual(raisedBy(phone), [["ann", 10_001, "gift"]], "her phone hears the gift alone");
  assert.deepEqual(raisedBy(laptop), [["ann", 10_001, "gift"], ["ann", 10_002, "wave"]], "the publisher hears each once");
  const { event, loginEvent } = carl.statusOf("ann");
  assert.deepEqual([event.eventID, event.value, event.syncEnabled, loginEvent.eventID, loginEvent.sendToOnlineUsersOnly, event.sessionID],
    [wave.eventID, 10_002, false, gift.eventID, false, undefined]);
  assert.deepEqual([event, loginEvent], [bob.statusOf("ann").event, bob.statusOf("ann").loginEvent], "one event is the same for everybody");
  assert.equal(phone.statusOf("ann").event.sessionID, laptop.session.sessionID);
  assert.equal(loginEvent.expiresAt - loginEvent.publishedAt, 7 * 86_400_000);

  // A text that expires goes everywhere at once. Dan has seen nothing of all this.
  const { userStatus } = await phone.setSelfStatus("back in a second", { expiry: 1 });
  assert.equal(userStatus.customStatus, "back in a second");
  await until("the text has expired at Bob's, Carl's and Ann's", () => [bob, carl, laptop, phone].every((client) =>
    client.statusOf("ann").customStatus === "" && client.statusOf("ann").version > userStatus.version));
  const record = await s.status("bob", "ann");
  assert.deepEqual([record.customStatus, record.statusType, record.event.eventID], ["", "ONLINE", wave.eventID]);
  assert.ok(record.lastCustomStatusUpdateTime >= userStatus.lastCustomStatusUpdateTime + 1_000);
  assert.equal(record.lastOnlineStatusUpdateTime, userStatus.lastOnlineStatusUpdateTime);
  await s.settled(["dan", dan]);
  const view = dan.last("ann");
  assert.deepEqual([view.statusType, view.customStatus, view.onlinePlatforms, view.event, view.loginEvent],
    ["OFFLINE", "", [], undefined, undefined]);
  assert.deepEqual(dan.statuses("ann").filter((status) => status.event || status.customStatus === "on vacation"), []);
});

story("My brother logged in on the television, my phone was thrown out, and my boss saw me come and go", async (s) => {
  await s.policy({ "login.multiClient": "perPlatform" });
  const receiver = await Receiver.of(s, ["stateChange"]);
  const boss = await s.stream("boss", { node: 2 });
  await s.ok("boss", "subscribeUserStatus", { userIDs: ["ann"] });
  const phone = await s.client("ann", { platform: "ios" });
  const first = await s.client("ann", { node: 1, platform: "tv" });
  await boss.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ios", "tv"] });
  await phone.subscribeUserStatus(["boss"], { sync: true });
  const seen = boss.statuses("ann").length;

  // The television of the brother replaces the first one, at another node.
  const second = await s.client("ann", { node: 2, platform: "tv" });
  await until("the first television ends", () => first.state === "replaced");
  assert.deepEqual([phone.state, second.state], ["online", "online"]);
  await s.settled(["boss", boss]);
  assert.equal(boss.statuses("ann").length, seen, "a login that replaces another one is no news");
  const { userStatusList: [{ sessions }] } = await s.admin("queryOnlineStatus", { userIDs: ["ann"], withSessions: true });
  assert.deepEqual(sessions.map(({ sessionID, platform, node }) => [sessionID, platform, node]).sort(),
    [[phone.session.sessionID, "ios", phone.session.node], [second.session.sessionID, "tv", second.session.node]].sort());

  // From now on a user has one session. The next login ends all others.
  await s.policy({ "login.multiClient": "single" });
  const laptop = await s.stream("ann", { node: 1, platform: "web" });
  await until("phone and television end", () => [phone, second].every(({ state }) => state === "replaced" || state === "kicked"));
  const now = await boss.sees("ann", { onlinePlatforms: ["web"] });
  assert.ok(boss.statuses("ann").every(({ statusType }, index) =>
    index < boss.statuses("ann").findIndex(({ statusType: type }) => type === "ONLINE") || statusType === "ONLINE"));
  assert.equal(now.lastOnlineStatusUpdateTime, boss.statuses("ann").find(({ statusType }) => statusType === "ONLINE").lastOnlineStatusUpdateTime);
  const third = await s.stream("ann", { node: 2, platform: "web" });
  await laptop.ends();
  assert.deepEqual(laptop.of("onKickedOffline"), [{ reason: "replaced" }]);

  // Her contacts have stayed, and the policy's end brings many devices back.
  assert.deepEqual((await s.ok("ann", "getSubscribedUserStatus")).subscriptions.map(({ userID }) => userID), ["boss"]);
  await s.policy({ "login.multiClient": null });
  const tablet = await s.stream("ann", { platform: "ipad" });
  await boss.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ipad", "web"] });
  assert.equal(third.isOpen, true);
  await s.ok("ann", "logout", {});
  await Promise.all([third.ends(), tablet.ends()]);
  await boss.sees("ann", { statusType: "UNLOGINED", onlinePlatforms: [] });
  await until(() => `the back end has the end: ${receiver.actions("ann")}`, () => receiver.of("ann").at(-1)?.userStatus.statusType === "UNLOGINED");
  assert.equal(receiver.actions("ann").filter((action) => action === "Login").length, 6);
  assert.ok(!receiver.actions("ann").includes("Disconnect"), "a session that a login replaces ends as Replaced");
  // Each session that has begun has ended once, with its own ID.
  const told = receiver.of("ann").filter(({ sessionID }) => sessionID);
  const begun = told.filter(({ action }) => action === "Login").map(({ sessionID }) => sessionID);
  const ended = told.filter(({ action }) => action !== "Login").map(({ sessionID }) => sessionID);
  assert.deepEqual(ended.sort(), begun.sort());
  assert.equal(told.filter(({ action }) => action === "Replaced").length, 4);
}, { seconds: 90 });

story("I logged out on every device, and my girlfriend still sees the tablet that I gave away", async (s) => {
  const receiver = await Receiver.of(s, ["stateChange", "friends"]);
  await s.befriend("ann", "gina");
  await s.ok("ann", "setVisibility", { visibility: "friends" });
  const gina = await s.stream("gina", { node: 2, platform: "web" });
  const eve = await s.stream("eve", { node: 1 });
  await s.ok("eve", "subscribeUserStatus", { userIDs: ["ann"] });
  const phone = await s.client("ann", { platform: "ios", keepRelationships: true });
  const tablet = await s.client("ann", { node: 1, platform: "ipad", keepRelationships: true });
  const laptop = await s.stream("ann", { node: 2, platform: "web" });
  await gina.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ios", "ipad", "web"] });

  // A subscription on the phone is news on the other two devices, and not on the phone.
  const changes = { phone: [], tablet: [] };
  phone.on("subscriptionChangedOnOtherDevices", (change) => changes.phone.push(change));
  tablet.on("subscriptionChangedOnOtherDevices", (change) => changes.tablet.push(change));
  await phone.subscribeUserStatus(["eve"], { sync: true, expiry: 3_600 });
  const { subscribed, unsubscribed, subscriptions } = await laptop.hears("onSubscriptionChangedOnOtherDevices");
  assert.deepEqual([subscribed, unsubscribed, subscriptions.map(({ userID, subscribeType }) => [userID, subscribeType])],
    [["eve"], [], [["eve", 1]]]);
  assert.ok(Math.abs(subscriptions[0].expiresAt - Date.now() - 3_600_000) < 60_000);
  await until("the tablet hears it", () => changes.tablet.length === 1);
  await until("both see Eve", () => [phone, tablet].every((client) => client.statusOf("eve")?.statusType === "ONLINE"));

  // The phone logs the tablet out, and only the tablet.
  const given = tablet.session.sessionID;
  await phone.logout({ sessionID: given });
  await until("the tablet is logged out", () => tablet.state === "loggedOut");
  await gina.sees("ann", { statusType: "ONLINE", onlinePlatforms: ["ios", "web"] });
  assert.deepEqual([phone.state, laptop.isOpen, changes.phone], ["online", true, []]);

  // Then everywhere. A friend is told once, and a stranger nothing at all.
  const before = gina.statuses("ann").length;
  await phone.logout({ everywhere: true });
  await laptop.ends();
  assert.deepEqual([laptop.events.at(-1).name, laptop.events.at(-1).data], ["onLogout", {}]);
  assert.equal(phone.state, "loggedOut");
  const gone = await gina.sees("ann", { statusType: "UNLOGINED", onlinePlatforms: [] });
  await s.settled(["gina", gina], ["eve", eve]);
  const ends = gina.statuses("ann").slice(before);
  assert.ok(ends.slice(0, -1).every(({ statusType }) => statusType === "ONLINE") && ends.at(-1).version === gone.version, JSON.stringify(ends));
  assert.deepEqual([await s.status("gina", "ann"), eve.statuses("ann").filter(({ statusType }) => statusType === "ONLINE")], [gone, []]);
  const { userStatusList: [{ sessions, statusType }] } = await s.admin("queryOnlineStatus", { userIDs: ["ann"], withSessions: true }, { node: 1 });
  assert.deepEqual([sessions, statusType], [[], "UNLOGINED"]);
  await until(() => `three logouts: ${receiver.actions("ann")}`, () => receiver.actions("ann").filter((action) => action === "Logout").length === 3);
  assert.deepEqual(receiver.of("ann", "stateChange").map(({ action, platform }) => `${action} ${platform}`).sort(),
    ["Login ios", "Login ipad", "Login web", "Logout ios", "Logout ipad", "Logout web"]);
  assert.equal((await s.admin("onlineUsers", { limit: 1_000 })).users.some(({ userID }) => userID === "ann"), false);
});
