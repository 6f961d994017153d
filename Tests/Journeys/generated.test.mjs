// A story whose back end is a Python program with the client that is generated from the OpenAPI document.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { assert, story, until } from "./story.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const run = promisify(execFile);

story("The night script moved me to another name, my friends lost me, and the man whom I had blocked came along", async (s) => {
  await run(`${ROOT}Tests/OpenAPI/python-client`, ["--install"]);
  await s.befriend("old-ann", "bob", "dora", "eve");
  assert.equal((await s.ok("bob", "modifyFriend", { userID: "old-ann", values: { Remark: "Annie" } })).resultCode, 0);
  assert.equal((await s.ok("eve", "deleteFriends", { userIDs: ["old-ann"], delType: 1 })).resultList[0].resultCode, 0);
  await s.ok("old-ann", "setVisibility", { visibility: "friends" });
  await s.ok("old-ann", "addBlackList", { userIDs: ["carl"] });
  await s.ok("old-ann", "modifySelfProfile", { values: { Nick: "Ann" } });
  const [{ addTime }] = (await s.ok("bob", "getFriendList")).friendList;
  const old = await s.stream("old-ann", { platform: "ios" });
  const bob = await s.stream("bob", { node: 1 });
  const carl = await s.stream("carl", { node: 2 });
  bob.importsMax = 1;
  await s.ok("carl", "subscribeUserStatus", { userIDs: ["old-ann", "new-ann"] });
  await bob.sees("old-ann", { statusType: "ONLINE" });
  const stolen = s.token("old-ann", { issuedAt: Math.floor(Date.now() / 1_000) - 60 });

  const script = fileURLToPath(new URL("move_account.py", import.meta.url));
  const { stdout } = await run(`${ROOT}.build-python-client/bin/python`, [script, s.node(1).url, `http://127.0.0.1:${s.node(2).ops}`,
    s.token("script", { isAdmin: true }), "old-ann", "new-ann"]);
  assert.deepEqual(JSON.parse(stdout), { imported: { bob: 0, dora: 0, eve: 0 }, backwards: { bob: 0, dora: 0 }, blocks: { carl: 0 },
    deleted: ["bob", "dora", "eve"] });

  // The old account ends: its device, its tokens, and its place in the lists.
  await old.ends();
  assert.deepEqual(old.of("onKickedOffline"), [{ reason: "moved" }]);
  assert.equal(await s.refused("old-ann", "getFriendList", {}, { node: 1, bearer: stolen }), 6014);
  await bob.hears("onFriendListDeleted", ({ userIDs }) => userIDs.includes("old-ann"));
  assert.deepEqual(bob.of("onFriendListAdded"), [], "an import tells no device");
  // The new one has its friends, with the remarks and times of both sides.
  assert.deepEqual([await s.friends("new-ann"), await s.friends("bob"), await s.friends("dora"), await s.friends("eve")],
    [["bob", "dora", "eve"], ["new-ann"], ["new-ann"], []]);
  const { friendList: [friend] } = await s.ok("bob", "getFriendList", { withProfile: true }, { node: 2 });
  assert.deepEqual([friend.userID, friend.remark, friend.addTime, friend.profile.nick], ["new-ann", "Annie", addTime, "Ann"]);
  await bob.drop();
  const phone = await s.client("new-ann", { node: 2, platform: "ios", keepRelationships: true, customStatus: "same me" });
  const again = await s.stream("bob");
  await again.sees("new-ann", { statusType: "ONLINE", customStatus: "same me", onlinePlatforms: ["ios"] });
  await until("she sees Bob", () => phone.statusOf("bob")?.statusType === "ONLINE");
  await until("her phone has her lists", () => phone.relationships.isComplete);
  assert.deepEqual([phone.relationships.friends.map(({ userID }) => userID).sort(), phone.relationships.blocked], [["bob", "dora", "eve"], ["carl"]]);
  // Carl finds neither of the two.
  assert.equal((await s.ok("carl", "addFriend", { userID: "new-ann" }, { node: 1 })).resultCode, 30525);
  await s.settled(["carl", carl]);
  for (const name of ["old-ann", "new-ann"]) {
    assert.deepEqual(carl.statuses(name).filter(({ statusType, customStatus }) => statusType === "ONLINE" || customStatus), [], name);
  }
  const view = await s.status("carl", "new-ann");
  assert.deepEqual([view.statusType, view.customStatus, view.onlinePlatforms], ["UNLOGINED", "", []], "she looks as she did when the block began");
});
