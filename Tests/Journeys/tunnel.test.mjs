// Stories about networks that come and go while lists change.
import { Network } from "../WebClient/network.mjs";
import { assert, story, until } from "./story.mjs";

story("My phone went through a tunnel while I hid from Bob and unfriended Carl, and now both see me", async (s) => {
  // Dora stays a friend, Carl is one until the tunnel, and Bob only follows.
  await s.befriend("ann", "carl", "dora");
  const bob = await s.stream("bob", { node: 1 });
  const carl = await s.stream("carl", { node: 2 });
  const dora = await s.stream("dora", { node: 1, platform: "web" });
  let isInTunnel = false;
  const network = await Network.to(s.node(0).client, () => (isInTunnel ? { refuse: true } : {}));
  s.atEnd(() => network.close());
  const phone = await s.client("ann", { addresses: [network.url], platform: "ios", deviceID: "phone", keepRelationships: true,
    customStatus: "on the train" });
  assert.deepEqual((await s.ok("bob", "subscribeUserStatus", { userIDs: ["ann"] })).errorUserList, []);
  const seen = { statusType: "ONLINE", customStatus: "on the train", onlinePlatforms: ["ios"] };
  for (const stream of [bob, carl, dora]) await stream.sees("ann", seen);
  await until("the phone has its lists", () => phone.relationships.isComplete);
  assert.deepEqual(phone.relationships.friends.map(({ userID }) => userID).sort(), ["carl", "dora"]);

  // The tunnel begins. A browser without a session hides Ann from all but friends, and removes Carl.
  isInTunnel = true;
  network.cut();
  assert.deepEqual(await s.ok("ann", "setVisibility", { visibility: "friends" }, { node: 2 }),
    { visibility: "friends", userIDs: [], invisible: false });
  const hidden = (await bob.sees("ann", { statusType: "OFFLINE" }));
  assert.deepEqual([hidden.customStatus, hidden.onlinePlatforms], ["", []]);
  assert.deepEqual((await s.ok("ann", "deleteFriends", { userIDs: ["carl"], delType: 2 }, { node: 1 })).resultList,
    [{ userID: "carl", resultCode: 0, resultInfo: "" }]);
  await carl.hears("onFriendListDeleted", ({ userIDs }) => userIDs.includes("ann"));
  const gone = await carl.sees("ann", { statusType: "OFFLINE" });
  const counts = [bob.statuses("ann").length, carl.statuses("ann").length];

  // The tunnel ends. The phone resumes, learns of its lists, and says something that only Dora may read.
  isInTunnel = false;
  await until("the phone is back", () => phone.state === "online", 30);
  await phone.setSelfStatus("out of the tunnel");
  await dora.sees("ann", { statusType: "ONLINE", customStatus: "out of the tunnel", onlinePlatforms: ["ios"] });
  await until("the phone has lost Carl", () => phone.relationships.friends.every(({ userID }) => userID !== "carl"));
  assert.deepEqual(phone.relationships.friends.map(({ userID }) => userID), ["dora"]);
  await s.settled(["bob", bob], ["carl", carl], ["dora", dora]);
  assert.deepEqual([bob.statuses("ann").length, carl.statuses("ann").length], counts, "Bob and Carl are told nothing more");
  for (const [viewer, told] of [["bob", hidden], ["carl", gone]]) {
    const record = await s.status(viewer, "ann");
    assert.deepEqual(record, told, "an answer shows what the stream showed");
    const { stdout } = await s.command("status", "ann", "--target", s.node(2).url, "--app", s.app, "--token", s.token(viewer));
    assert.match(stdout, /ann\s+OFFLINE/);
  }
  assert.equal((await s.status("dora", "ann")).customStatus, "out of the tunnel");
  assert.deepEqual([await s.friends("ann"), await s.friends("carl"), await s.friends("dora")], [["dora"], [], ["ann"]]);
});
