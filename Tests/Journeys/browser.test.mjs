// Stories of people with a browser.
import { Network } from "../WebClient/network.mjs";
import { browserOf } from "./page.mjs";
import { assert, story, until } from "./story.mjs";

story("I closed one of my three tabs, my boss saw me leave, and another tab still talked to the man whom I had blocked", async (s) => {
  await s.befriend("ann", "carl");
  const boss = await s.stream("boss", { node: 2 });
  await s.ok("boss", "subscribeUserStatus", { userIDs: ["ann"] });
  const browser = await browserOf(s);
  const urls = s.nodes.map(({ url }) => url);
  const tabs = [];
  for (const _ of [0, 1, 2]) tabs.push(await browser.open("ann", urls, { isPrivate: false, platform: "web", customStatus: "three tabs" }));
  const carl = await browser.open("carl", [urls[1]]);
  await boss.sees("ann", { statusType: "ONLINE", customStatus: "three tabs", onlinePlatforms: ["web"] });
  await carl.shows('client.statusOf("ann")?.customStatus === "three tabs"');
  const sessions = async () => (await s.admin("queryOnlineStatus", { userIDs: ["ann"], withSessions: true })).userStatusList[0].sessions;
  assert.equal((await sessions()).length, 1, "three tabs are one session");
  const leads = await Promise.all(tabs.map((tab) => tab.evaluate("client.isLeading")));
  assert.equal(leads.filter(Boolean).length, 1);
  for (const tab of tabs) await tab.shows('client.relationships.isComplete && client.relationships.friends[0]?.userID === "carl"');

  // A tab that does not lead blocks Carl. Every tab knows it, and Carl's page is told nothing but an OFFLINE.
  const leader = tabs[leads.indexOf(true)];
  const [second, third] = tabs.filter((tab) => tab !== leader);
  const { resultList } = await second.evaluate('client.addBlackList(["carl"])');
  assert.deepEqual(resultList, [{ userID: "carl", resultCode: 0, resultInfo: "" }]);
  for (const tab of tabs) await tab.shows('client.relationships.blocked[0] === "carl" && client.relationships.friends.length === 0');
  await carl.shows('client.statusOf("ann").statusType === "OFFLINE" && client.relationships.friends.length === 0');
  assert.deepEqual(await carl.evaluate("[client.relationships.blocked, changes.filter(({ type }) => type.startsWith('black'))]"), [[], []]);

  // The leading tab closes. Another one carries on, and the boss sees nothing.
  const seen = boss.statuses("ann").length;
  await leader.close();
  await until("another tab leads",
    async () => (await Promise.all([second, third].map((tab) => tab.evaluate("client.isLeading && client.state === 'online'"))))
      .filter(Boolean).length === 1);
  await third.evaluate('client.setSelfStatus("two tabs")');
  await boss.sees("ann", { statusType: "ONLINE", customStatus: "two tabs", onlinePlatforms: ["web"] });
  const told = boss.statuses("ann").slice(seen);
  assert.deepEqual(told.filter(({ statusType, onlinePlatforms }) => statusType !== "ONLINE" || onlinePlatforms[0] !== "web"), []);
  assert.equal(new Set(boss.statuses("ann").filter(({ statusType }) => statusType === "ONLINE").map(
    ({ lastOnlineStatusUpdateTime }) => lastOnlineStatusUpdateTime)).size, 1);
  for (const tab of [second, third]) await tab.shows('client.statusOf("ann").customStatus === "two tabs"');
  assert.equal((await carl.evaluate('statuses.filter(({ userID, customStatus }) => userID === "ann" && customStatus === "two tabs")')).length, 0);
  await until("one session is left", async () => (await sessions()).length === 1);

  // She logs out in one tab. The other one is logged out as well, and Carl's record stays what it was.
  const hidden = await s.status("carl", "ann");
  await second.evaluate("client.logout()");
  for (const tab of [second, third]) await tab.shows('client.state === "loggedOut"');
  await boss.sees("ann", { statusType: "UNLOGINED", onlinePlatforms: [] });
  assert.deepEqual(await sessions(), []);
  await s.settled(["boss", boss]);
  assert.deepEqual([await s.status("carl", "ann"), await carl.evaluate('client.statusOf("ann")')], [hidden, hidden]);
  assert.deepEqual([second, third, carl].flatMap(({ errors }) => errors), []);
});

story("My laptop slept on the train while Ann left me and Dora changed her picture, and it woke up in yesterday", async (s) => {
  await s.policy({ "profile.customFields": { Mood: "string" } });
  await s.befriend("bob", "ann", "dora");
  await s.ok("ann", "setVisibility", { visibility: "friends" });
  const ann = await s.stream("ann", { node: 1, query: { customStatus: "with Bob" } });
  const dora = await s.stream("dora", { node: 2 });
  const network = await Network.to(s.node(0).client);
  s.atEnd(() => network.close());
  const browser = await browserOf(s);
  const bob = await browser.open("bob", [network.url]);
  await bob.shows('client.statusOf("ann")?.customStatus === "with Bob" && client.statusOf("dora")?.statusType === "ONLINE" && client.relationships.isComplete');
  assert.deepEqual(await bob.evaluate('client.subscribeUserStatus(["ann"], { sync: true }).then(({ errorUserList }) => errorUserList)'), []);
  assert.deepEqual(await bob.evaluate(
    'client.getUsersProfile(["dora"]).then(({ profileList: [{ nick, faceURL, custom }] }) => [nick, faceURL, custom])'), ["", "", {}]);
  await dora.sees("bob", { statusType: "ONLINE" });

  // The laptop sleeps: its scripts stand still, and its connection ends.
  await bob.pause();
  network.cut();
  await dora.sees("bob", { statusType: "OFFLINE" }, 30);
  assert.equal((await s.ok("ann", "deleteFriends", { userIDs: ["bob"], delType: 2 })).resultList[0].resultCode, 0);
  await s.ok("ann", "setSelfStatus", { customStatus: "free" }, { node: 2 });
  await s.ok("ann", "publishEvent", { value: 10_001, ext: "party", sendToOnlineUsersOnly: false });
  await s.ok("dora", "modifySelfProfile", { values: { FaceUrl: "https://example.com/new.png", Nick: "Dora", Custom_Mood: "sunny" } }, { node: 1 });
  await s.ok("dora", "setSelfStatus", { customStatus: "look at me" });
  assert.equal((await s.ok("eve", "addFriend", { userID: "bob", addWording: "hi" }, { node: 2 })).resultCode, 0);

  // It wakes up. Everything is of today, and nothing of Ann's party is shown.
  await bob.resume();
  await bob.shows('client.state === "online" && client.statusOf("dora")?.customStatus === "look at me"', 30);
  await bob.shows('client.statusOf("ann").statusType === "OFFLINE" && client.statusOf("ann").customStatus === ""', 30);
  await bob.shows('client.relationships.friends.map(({ userID }) => userID).sort().join() === "dora,eve"');
  assert.deepEqual(await bob.evaluate(
    'client.getUsersProfile(["dora"]).then(({ profileList: [{ nick, faceURL, custom }] }) => [nick, faceURL, custom])'),
    ["Dora", "https://example.com/new.png", { Mood: "sunny" }]);
  await dora.sees("bob", { statusType: "ONLINE", onlinePlatforms: ["web"] });
  assert.deepEqual(await bob.evaluate(
    'statuses.filter(({ userID, customStatus, event }) => userID === "ann" && (customStatus === "free" || event))'), []);
  assert.deepEqual([bob.errors, ann.of("onFriendListDeleted").map(({ userIDs }) => userIDs), await s.friends("bob")],
    [[], [["bob"]], ["dora", "eve"]]);
  assert.equal((await s.status("bob", "ann")).statusType, "OFFLINE");
});
