// The client against one real node.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { PresenceClient, PresenceCode, PresenceError } from "../../Sources/WebClient/client.js";
import { Cluster, expiredToken, token, until } from "./cluster.mjs";
import { Network } from "./network.mjs";

let cluster;
const clients = [];
/** Scripted nodes. One that a failed test leaves open keeps the process alive. */
const servers = [];
let usersCount = 0;

before(async () => {
  cluster = await Cluster.start(1, { environment: { ROLLCALL_HEARTBEAT_INTERVAL: "1" } });
});
after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await cluster?.stop();
});

/** A user that no other test has. */
const newUser = (name) => `${name}-${++usersCount}`;

function client(user, options = {}) {
  const made = new PresenceClient({ addresses: cluster.urls, token: () => token(user), ...options });
  clients.push(made);
  return made;
}

/** Answers like a script, to test what a real node does seldom. */
async function scripted(answer) {
  const requests = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      const entry = { operation: request.url.split(/[/?]/)[2], url: request.url, headers: request.headers, body: body ? JSON.parse(body) : null, at: Date.now() };
      requests.push(entry);
      answer(entry, response, requests);
    });
  });
  servers.push(server);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    requests, url: `http://127.0.0.1:${server.address().port}`,
    close: () => new Promise((resolve) => {
      server.closeAllConnections();
      server.close(resolve);
    }),
  };
}

const json = (response, status, content, headers = {}) => {
  response.writeHead(status, { "Content-Type": "application/json", ...headers });
  response.end(JSON.stringify(content));
};
const opened = (fields = {}) => ({ sessionID: "1a21aedf46000041a9bece5b", userID: "ann", node: "x", heartbeatInterval: 1, heartbeatTimeout: 400,
  serverTime: Date.now(), ...fields });
const send = (response, name, data, id) => response.write(`event: ${name}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`);
const stream = (response) => response.writeHead(200, { "Content-Type": "text/event-stream" });

test("A login makes the user ONLINE, and a logout makes it UNLOGINED", async () => {
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const [ann, bob] = [client(annID), client(bobID)];
  const states = [];
  ann.on("stateChanged", ({ state }) => states.push(state));
  assert.equal(ann.state, "idle");
  assert.equal((await ann.connect()).userID, annID);
  await bob.connect();
  const { userStatusList } = await bob.subscribeUserStatus([annID], { sync: true });
  assert.equal(userStatusList[0].statusType, "ONLINE");
  assert.deepEqual(userStatusList[0].onlinePlatforms, ["web"]);
  await ann.logout();
  await until("bob sees the logout", () => bob.statusOf(annID)?.statusType === "UNLOGINED");
  assert.deepEqual(states, ["connecting", "online", "loggedOut"]);
  // The same client logs in again.
  await ann.connect();
  await until("bob sees the login", () => bob.statusOf(annID)?.statusType === "ONLINE");
});

test("Another client sees a status change, and no view goes back", async () => {
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const [ann, bob] = [client(annID), client(bobID)];
  await Promise.all([ann.connect(), bob.connect()]);
  await bob.subscribeUserStatus([annID]);
  const versions = [];
  const texts = [];
  bob.on("userStatusChanged", (list) => versions.push(...list.filter(({ userID }) => userID === annID).map(({ version }) => version)));
  const stop = bob.watch(annID, ({ customStatus }) => texts.push(customStatus));
  const times = [];
  for (let index = 0; index < 20; index += 1) {
    const start = performance.now();
    await ann.setSelfStatus(`text ${index}`);
    await until("bob sees it", () => bob.statusOf(annID)?.customStatus === `text ${index}`);
    times.push(performance.now() - start);
  }
  stop();
  await ann.setSelfStatus(null);
  await until("bob sees the text cleared", () => bob.statusOf(annID)?.customStatus === "");
  assert.equal(texts.at(-1), "text 19");
  assert.deepEqual(versions, [...new Set(versions)].sort());
  assert.ok(versions.length >= 20);
  console.log(`# status change to another client: median ${times.sort((left, right) => left - right)[10].toFixed(1)} ms`);
});

test("connect with a custom status sets it at login", async () => {
  const annID = newUser("ann");
  const ann = client(annID, { customStatus: "here & now" });
  await ann.connect();
  await until("the own status arrives", () => ann.statusOf(annID)?.customStatus === "here & now");
});

test("A published event is raised once, and one that is older than the login is not raised", async () => {
  const [annID, bobID, carlID] = [newUser("ann"), newUser("bob"), newUser("carl")];
  const [ann, bob, carl] = [client(annID), client(bobID), client(carlID)];
  await Promise.all([ann.connect(), bob.connect()]);
  const raised = [];
  bob.on("eventRaised", ({ userID, event }) => raised.push([userID, event.value]));
  await bob.subscribeUserStatus([annID]);
  const { eventID } = await ann.publishEvent(10_001, { ext: "x" });
  await until("bob has the event", () => bob.statusOf(annID)?.event?.eventID === eventID);
  await ann.setSelfStatus("later");
  await until("bob has the text", () => bob.statusOf(annID)?.customStatus === "later");
  assert.deepEqual(raised, [[annID, 10_001]]);
  const late = [];
  carl.on("eventRaised", (event) => late.push(event));
  await carl.connect();
  await carl.subscribeUserStatus([annID], { sync: true });
  assert.equal(carl.statusOf(annID).event.eventID, eventID);
  assert.deepEqual(late, []);
});

test("A refused call fails with a PresenceError that has the node's code, status and detail", async () => {
  const ann = client(newUser("ann"));
  await assert.rejects(ann.setSelfStatus("x".repeat(257)), (error) => {
    assert.ok(error instanceof PresenceError && error instanceof Error);
    assert.equal(error.code, PresenceCode.badParameter);
    assert.equal(error.status, 400);
    assert.match(error.detail, /customStatus/);
    assert.equal(error.mayTakeEffect, false);
    return true;
  });
  await assert.rejects(ann.checkBlackList(["bob"], 1), { code: 403, status: 403 });
  await assert.rejects(ann.getUserStatus([]), { code: PresenceCode.badParameter });
  const bad = client("nobody", { token: "not a token" });
  await assert.rejects(bad.getVisibility(), { code: PresenceCode.notLoggedIn, status: 401 });
  await assert.rejects(bad.connect(), { code: PresenceCode.notLoggedIn });
  assert.equal(bad.state, "refused");
  const failing = client("nobody", { token: () => Promise.reject(new Error("signed out")) });
  await assert.rejects(failing.getVisibility(), { code: PresenceCode.tokenUnavailable });
});

test("A refused connection fails with unreachable, and connect gives up after its attempts", async () => {
  const network = await Network.to(cluster.nodes[0].client);
  await network.close();
  const ann = client(newUser("ann"), { addresses: [network.url], backoff: { initial: 5, max: 10 }, loginAttemptsMax: 3 });
  await assert.rejects(ann.getVisibility(), { code: PresenceCode.unreachable, status: 0, mayTakeEffect: false });
  await assert.rejects(ann.setVisibility({ invisible: true }), { code: PresenceCode.unreachable, status: 0, mayTakeEffect: true });
  await assert.rejects(ann.connect(), { code: PresenceCode.unreachable });
  assert.equal(ann.state, "idle");
});

test("A long list becomes several calls, and the answers are merged", async () => {
  const annID = newUser("ann");
  const ann = client(annID, { limits: { queryUsersMax: 2, subscribeUsersMax: 2, unsubscribeUsersMax: 2, pageRowsMax: 2 } });
  await ann.connect();
  const users = ["a", "b", "c", "d", "e"].map((name) => newUser(name));
  assert.equal((await ann.getUserStatus(users)).userStatusList.length, 5);
  await ann.subscribeUserStatus([...users, users[0]]);
  const { subscriptions, total } = await ann.getSubscribedUserStatus();
  assert.deepEqual([subscriptions.map(({ userID }) => userID).sort(), total], [users.toSorted?.() ?? [...users].sort(), 5]);
  await ann.unsubscribeUserStatus(users.slice(0, 3));
  assert.equal((await ann.getSubscribedUserStatus()).total, 2);
  await ann.unsubscribeUserStatus([], { all: true });
  assert.equal((await ann.getSubscribedUserStatus()).total, 0);
  const { errorUserList } = await ann.subscribeUserStatus([users[0], annID]);
  assert.deepEqual(errorUserList.map(({ userID }) => userID), [annID]);
});

test("A hidden user looks OFFLINE, and visibility is read back", async () => {
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  const [ann, bob] = [client(annID), client(bobID)];
  await Promise.all([ann.connect(), bob.connect()]);
  await ann.setVisibility({ visibility: "list", userIDs: ["carl"] });
  assert.deepEqual(await ann.getVisibility(), { visibility: "list", userIDs: ["carl"], invisible: false });
  assert.equal((await bob.getUserStatus([annID])).userStatusList[0].statusType, "OFFLINE");
});

test("Friends, requests, blocklist and groups of the client equal the node's after every change and after a reconnect", async () => {
  const [annID, bobID, carlID] = [newUser("ann"), newUser("bob"), newUser("carl")];
  const network = await Network.to(cluster.nodes[0].client);
  const ann = client(annID, { keepRelationships: true, addresses: [network.url], backoff: { initial: 10, max: 50 } });
  const [bob, carl] = [client(bobID), client(carlID)];
  await Promise.all([ann.connect(), bob.modifySelfProfile({ AllowType: "ANY" }), ann.modifySelfProfile({ AllowType: "CONFIRM", Nick: "Ann" })]);
  await until("the lists are fetched", () => ann.relationships.isComplete);
  assert.equal((await ann.addFriend(bobID, { remark: "b" })).resultCode, 0);
  await until("bob is a friend", () => ann.relationships.friends[0]?.remark === "b");
  await ann.createFriendGroup(["work"], { userIDs: [bobID] });
  await until("the group exists", () => ann.relationships.groups[0]?.userIDs?.[0] === bobID);
  await ann.renameFriendGroup("work", "office");
  await until("the friend is in the renamed group", () => ann.relationships.friends[0]?.groups[0] === "office");
  assert.equal((await carl.addFriend(annID, { addWording: "hi" })).resultCode, 30539);
  await until("the request arrives", () => ann.relationships.requests[0]?.addWording === "hi" && ann.relationships.unreadCount === 1);
  // Changes that the client misses while its connections are cut.
  const direct = client(annID);
  network.silence();
  await direct.modifyFriend(bobID, { Remark: "bobby" });
  await direct.addBlackList([newUser("eve")]);
  await direct.renameFriendGroup("office", "desk");
  await direct.doResponse(carlID, 1);
  network.heal();
  network.cut();
  await until("what was missed is known", () => {
    const { friends, requests, blocked, groups } = ann.relationships;
    const bobby = friends.find(({ userID }) => userID === bobID);
    return friends.length === 2 && bobby?.remark === "bobby" && bobby.groups[0] === "desk" && requests.length === 0 && blocked.length === 1
      && groups[0]?.name === "desk";
  });
  const { friendList } = await direct.getFriendList();
  const lists = ann.relationships;
  assert.deepEqual(lists.friends, friendList);
  assert.deepEqual(lists.blocked, (await direct.getBlackList()).userIDs);
  assert.deepEqual(lists.groups, (await direct.getFriendGroups()).groupList);
  assert.deepEqual(lists.requests, (await direct.getPendencyList()).pendencyList);
  await ann.close();
  await network.close();
});

test("A profile comes from the cache until an event says that it has changed", async () => {
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  let calls = 0;
  const counting = (url, ...rest) => {
    if (String(url).endsWith("/getUsersProfile")) calls += 1;
    return fetch(url, ...rest);
  };
  const [ann, bob] = [client(annID, { fetch: counting }), client(bobID)];
  await Promise.all([ann.connect(), bob.connect()]);
  await ann.addFriend(bobID);
  await ann.getUsersProfile([bobID]);
  await ann.getUsersProfile([bobID]);
  assert.equal(calls, 1);
  const changed = new Promise((resolve) => ann.on("relationshipChanged", ({ type }) => type === "userProfileChanged" && resolve()));
  await bob.modifySelfProfile({ Nick: "Bob" });
  await changed;
  assert.equal((await ann.getUsersProfile([bobID])).profileList[0].nick, "Bob");
  assert.equal(calls, 2);
});

test("A kick ends the session, and the client does not reconnect", async () => {
  const annID = newUser("ann");
  const ann = client(annID, { backoff: { initial: 1, max: 2 } });
  await ann.connect();
  const reasons = [];
  ann.on("kickedOffline", (reason) => reasons.push(reason));
  await cluster.admin("kick", { userID: annID, reason: "rude" });
  await until("the client is kicked", () => ann.state === "kicked");
  assert.deepEqual(reasons, ["rude"]);
  // A client that reconnected would have another session after 2 ms.
  await new PresenceClient({ addresses: cluster.urls, token: () => token(newUser("bob")) }).getVisibility();
  const { userStatusList } = await cluster.admin("queryOnlineStatus", { userIDs: [annID] });
  assert.notEqual(userStatusList[0].statusType, "ONLINE");
  assert.equal(ann.state, "kicked");
});

test("A client is told its user's sessions on all devices, lists them, and ends another one", async () => {
  const annID = newUser("ann");
  const phone = client(annID, { platform: "ios", deviceID: "phone" });
  const told = [];
  phone.on("sessionsChanged", (sessions) => told.push(sessions));
  const first = await phone.connect();
  const desk = client(annID, { platform: "web", shareTabs: false });
  const second = await desk.connect();
  const ids = [first.sessionID, second.sessionID];
  await until("the phone is told both", () => told.at(-1)?.length === 2);
  assert.deepEqual(told.at(-1).map(({ sessionID, platform, deviceID }) => [sessionID, platform, deviceID]),
    [[ids[0], "ios", "phone"], [ids[1], "web", ""]]);
  const { sessions } = await desk.getSessions();
  assert.deepEqual(sessions.map(({ sessionID, isCurrent }) => [sessionID, isCurrent]), [[ids[0], false], [ids[1], true]]);
  const { because } = await phone.explainSelf();
  assert.equal(because.filter((reason) => reason.startsWith("a session is open")).length, 2, because.join("; "));
  await phone.logout({ sessionID: ids[1] });
  await until("the desk is logged out", () => desk.state === "loggedOut");
  await until("the phone is told that it is alone", () => told.at(-1).length === 1);
});

test("A client with presence none hears without being seen", async () => {
  const annID = newUser("ann");
  const bobID = newUser("bob");
  const display = client(annID, { platform: "wall", presence: "none" });
  await display.connect();
  await display.subscribeUserStatus([bobID], { sync: true });
  const bob = client(bobID);
  await bob.connect();
  await until("the display hears bob", () => display.statusOf(bobID)?.statusType === "ONLINE");
  const { userStatusList: [seen] } = await bob.getUserStatus([annID]);
  assert.equal(seen.statusType, "UNLOGINED");
  assert.deepEqual((await display.getSessions()).sessions, []);
});

test("A logout on another device ends the session here", async () => {
  const annID = newUser("ann");
  const [phone, laptop] = [client(annID), client(annID)];
  await Promise.all([phone.connect(), laptop.connect()]);
  const out = new Promise((resolve) => laptop.on("loggedOut", resolve));
  await phone.logout({ everywhere: true });
  await out;
  assert.equal(laptop.state, "loggedOut");
  assert.equal(laptop.session, null);
});

test("A logout at any moment of the login leaves the user UNLOGINED", async () => {
  const bob = client(newUser("bob"));
  await bob.connect();
  // The moments are those of the client, from the call of connect to the first event of the stream.
  for (const moment of ["connect", "token", "request", "answer", "session"]) {
    const annID = newUser("ann");
    token(annID);
    await bob.subscribeUserStatus([annID], { sync: true });
    const seen = [];
    bob.on("userStatusChanged", (list) => seen.push(...list.filter(({ userID }) => userID === annID).map(({ statusType }) => statusType)));
    let logout;
    const reach = (name) => {
      if (name === moment) logout ??= ann.logout();
    };
    const ann = client(annID, {
      token: async () => {
        reach("token");
        return token(annID);
      },
      fetch: async (url, init) => {
        const isStream = url.includes("/v1/events");
        if (isStream) queueMicrotask(() => reach("request"));
        const response = await fetch(url, init);
        if (isStream) reach("answer");
        return response;
      },
    });
    ann.on("connected", () => reach("session"));
    const login = ann.connect().catch((error) => error);
    reach("connect");
    await login;
    assert.deepEqual(await logout, {}, moment);
    assert.equal(ann.state, "loggedOut");
    if (moment !== "session") assert.equal((await login).code, PresenceCode.closed, moment);
    const { userStatusList } = await bob.getUserStatus([annID]);
    assert.deepEqual([userStatusList[0].statusType, moment, seen.includes("OFFLINE")], ["UNLOGINED", moment, false]);
    // No session is left that would end by its grace.
    assert.equal((await bob.getUserStatus([annID])).userStatusList[0].version, userStatusList[0].version);
    assert.deepEqual((await cluster.admin("queryOnlineStatus", { userIDs: [annID], withSessions: true })).userStatusList[0].sessions, []);
  }
});

test("A logout ends the session that is being opened, and the sessions before it", async () => {
  const [firstID, secondID, thirdID] = ["1a", "2a", "3a"].map((start) => `${start}21aedf46000041a9bece5b`);
  const ended = [];
  const streams = [];
  const node = await scripted(({ operation, body }, response) => {
    if (operation === "logout") ended.push(body.sessionID);
    if (operation !== "events") return json(response, 200, {});
    streams.push(response);
    if (streams.length > 2) return;
    stream(response);
    send(response, "onConnected", opened({ sessionID: streams.length === 1 ? firstID : secondID, heartbeatInterval: 30 }), 0);
  });
  const ann = client("ann", { addresses: [node.url], backoff: { initial: 1, max: 1 } });
  const states = [];
  await ann.connect();
  // The node may take the first stream for open. The second one works while a third one is opened.
  streams[0].destroy();
  await until("another stream is open", () => ann.session.sessionID === secondID);
  send(streams[1], "onReconnectHint", { reason: "draining", afterMilliseconds: 0 }, 1);
  await until("a third stream is opened", () => streams.length === 3);
  ann.on("stateChanged", ({ state }) => states.push(state));
  const logout = ann.logout();
  await until("the sessions that are open have ended", () => ended.length === 2);
  assert.deepEqual([ended.toSorted(), streams[2].destroyed, ann.state], [[firstID, secondID], false, "online"]);
  stream(streams[2]);
  send(streams[2], "onConnected", opened({ sessionID: thirdID }), 0);
  assert.deepEqual(await logout, {});
  assert.deepEqual([ended.at(-1), ended.length, states, ann.session], [thirdID, 3, ["loggedOut"], null]);
  await until("the stream is dropped", () => streams[2].destroyed);
  await node.close();
});

test("A logout does not wait for a stream that was not asked for, or that breaks", async () => {
  let events = 0;
  const node = await scripted(({ operation }, response) => {
    if (operation !== "events") return json(response, 200, {});
    events += 1;
  });
  // The app has no token yet.
  let give;
  const waiting = client("ann", { addresses: [node.url], token: () => new Promise((resolve) => (give = resolve)) });
  const login = waiting.connect().catch((error) => error);
  await until("the app is asked for a token", () => give);
  assert.deepEqual(await waiting.logout(), {});
  assert.deepEqual([(await login).code, waiting.state], [PresenceCode.closed, "loggedOut"]);
  give("late");
  // The node ends the request without an answer.
  const ann = client("ann", { addresses: [node.url] });
  const second = ann.connect().catch((error) => error);
  await until("the stream is asked for", () => events === 1);
  const logout = ann.logout();
  await node.close();
  assert.deepEqual([await logout, (await second).code, ann.state, events], [{}, PresenceCode.closed, "loggedOut", 1]);
});

test("A newer login that replaces the session ends it without a reconnect", async () => {
  let streams = 0;
  const node = await scripted(({ operation }, response) => {
    if (operation !== "events") return json(response, 200, {});
    streams += 1;
    stream(response);
    send(response, "onConnected", opened(), 0);
    send(response, "onKickedOffline", { reason: "replaced" });
    response.end();
  });
  const ann = client("ann", { addresses: [node.url], backoff: { initial: 1, max: 1 } });
  await ann.connect();
  await until("the session is replaced", () => ann.state === "replaced");
  // The client would open another stream within a millisecond.
  await ann.getVisibility();
  assert.equal(streams, 1);
  await node.close();
});

test("The token is renewed before its end, and once more when a node rejects it", async () => {
  const annID = newUser("ann");
  const made = [];
  const network = await Network.to(cluster.nodes[0].client);
  const ann = client(annID, {
    addresses: [network.url], backoff: { initial: 1, max: 5 },
    // The first ends soon, the second is rejected at once.
    token: () => {
      made.push(made.length === 1 ? "rejected" : token(annID, "--expiry", made.length === 0 ? "3" : "3600"));
      return made.at(-1);
    },
  });
  await ann.connect();
  assert.equal(made.length, 1);
  await until("the first token is about to end", () => Date.now() / 1_000 > JSON.parse(atob(made[0].split(".")[1].replaceAll("-", "+").replaceAll("_", "/"))).exp - 0.2);
  assert.equal((await ann.getVisibility()).visibility, "everyone");
  assert.equal(made.length, 3);
  // A stream that was cut is opened again with the new token.
  const before = ann.session.sessionID;
  network.cut();
  await until("another session is open", () => ann.state === "online" && ann.session.sessionID !== before);
  assert.equal(made.length, 3);
  await ann.close();
  await network.close();
});

test("A session is renewed before its token ends, and keeps its stream", async () => {
  await cluster.admin("setAppPolicy", { settings: { "token.grace": 1 } });
  const [annID, bobID] = [newUser("ann"), newUser("bob")];
  let made = 0;
  const ann = client(annID, { random: () => 0, token: () => token(annID, "--expiry", ++made === 1 ? "3" : "3600") });
  const session = await ann.connect();
  // Bob's token ends later than Ann's first one, and cannot be renewed.
  const bob = client(bobID, { token: token(bobID, "--expiry", "5"), backoff: { initial: 1, max: 5 } });
  await bob.connect();
  await until("the session of a token that is not renewed has ended", () => bob.state === "refused");
  assert.equal(ann.state, "online");
  assert.equal(ann.session.sessionID, session.sessionID);
  assert.equal(made, 2);
  await cluster.admin("setAppPolicy", { settings: { "token.grace": null } });
});

test("A token function that hands out expired tokens for a while costs few attempts, and a good token brings the session back", async () => {
  await cluster.admin("setAppPolicy", { settings: { "token.grace": 0 } });
  const annID = newUser("ann");
  let isGood = true;
  let asked = 0;
  const changes = [];
  const ann = client(annID, {
    backoff: { initial: 50, max: 100 }, random: () => 0.999,
    token: () => ++asked && (isGood ? token(annID, "--expiry", asked === 1 ? "3" : "3600") : expiredToken(annID)),
  });
  ann.on("stateChanged", (change) => changes.push(change));
  await ann.connect();
  isGood = false;
  await until("the session has ended with its token", () => ann.state === "waiting");
  const [before, start] = [asked, Date.now()];
  await until("the app was asked for tokens", () => asked >= before + 25);
  // The waits are 50 ms once, and then 100 ms: at most one question each.
  assert.ok(Date.now() - start >= 2_000, `25 questions in ${Date.now() - start} ms`);
  assert.ok(changes.some(({ state, reason }) => state === "waiting" && reason.includes("the token has expired")), JSON.stringify(changes));
  isGood = true;
  await until("the session is back", () => ann.state === "online");
  await cluster.admin("setAppPolicy", { settings: { "token.grace": null } });
});

test("A first login whose tokens have expired fails with the node's reason after its attempts, and a good token opens the session later", async () => {
  const annID = newUser("ann");
  const asked = [];
  let goodFrom = 3;
  const changes = [];
  const ann = client(annID, {
    backoff: { initial: 40, max: 1_000 }, random: () => 0.999, loginAttemptsMax: 4,
    token: () => asked.push(Date.now()) && (asked.length >= goodFrom ? token(annID) : expiredToken(annID)),
  });
  ann.on("stateChanged", (change) => changes.push(change));
  await ann.connect();
  assert.deepEqual(changes.map(({ state }) => state), ["connecting", "waiting", "connecting", "waiting", "connecting", "online"]);
  assert.match(changes[1].reason, /the token has expired/);
  assert.equal(asked.length, 3);
  assert.ok(asked[1] - asked[0] >= 38 && asked[2] - asked[1] >= 78, JSON.stringify(asked));
  await ann.logout();
  [goodFrom, asked.length] = [Infinity, 0];
  await assert.rejects(ann.connect(), { code: PresenceCode.notLoggedIn, status: 401, detail: /the token has expired/ });
  assert.equal(asked.length, 4);
  assert.equal(changes.at(-1).error.status, 401);
  await until("the app is asked on", () => asked.length >= 6);
  goodFrom = 0;
  await until("the session is open", () => ann.state === "online");
});

test("A token function that throws is asked again, and one that returns nothing ends the session", async () => {
  let [accepted, held] = ["first", null];
  const node = await scripted(({ headers }, response) => {
    if (headers.authorization !== `Bearer ${accepted}`) return json(response, 401, { code: 6014, detail: "not this token" });
    held = response;
    stream(response);
    send(response, "onConnected", opened({ heartbeatInterval: 30 }), 0);
  });
  let asked = 0;
  let answer = () => "first";
  const changes = [];
  const ann = client("ann", { addresses: [node.url], backoff: { initial: 10, max: 50 }, token: () => ++asked && answer() });
  ann.on("stateChanged", (change) => changes.push(change));
  await ann.connect();
  const lose = (next, token) => {
    [accepted, answer, asked] = [next, token, 0];
    held.destroy();
  };
  lose("second", () => {
    throw new Error("the app's back end is away");
  });
  await until("the app was asked again", () => asked >= 4);
  assert.ok(changes.some(({ state, reason }) => state === "waiting" && reason.includes("the app's back end is away")), JSON.stringify(changes));
  answer = () => "second";
  await until("the session is back", () => ann.state === "online");
  lose("third", () => undefined);
  await until("the session has ended", () => ann.state === "refused");
  assert.equal(changes.at(-1).error.code, PresenceCode.tokenUnavailable);
  assert.equal(asked, 1);
  // The same client logs in again.
  answer = () => "third";
  await ann.connect();
  await ann.close();
  await node.close();
});

test("Retry-After is obeyed by calls and by streams, and a long one is the caller's", async () => {
  const node = await scripted(({ operation }, response, requests) => {
    const count = requests.filter((request) => request.operation === operation).length;
    if (operation === "getVisibility" && count === 1) {
      return json(response, 429, { code: 7008, detail: "too often", retryAfter: 1 }, { "Retry-After": "1" });
    }
    if (operation === "getSelfProfile") return json(response, 503, { code: 50002, detail: "overloaded", retryAfter: 60 });
    if (operation === "events" && count === 1) return json(response, 503, { code: 50002, detail: "overloaded" }, { "Retry-After": "1" });
    if (operation === "events") {
      stream(response);
      return send(response, "onConnected", opened(), 0);
    }
    return json(response, 200, { visibility: "everyone", userIDs: [], invisible: false });
  });
  const ann = client("ann", { addresses: [node.url], backoff: { initial: 1, max: 1 } });
  await Promise.all([ann.getVisibility(), ann.connect()]);
  for (const operation of ["getVisibility", "events"]) {
    const [first, second] = node.requests.filter((request) => request.operation === operation);
    assert.ok(second.at - first.at >= 990, `${operation} after ${second.at - first.at} ms`);
  }
  await assert.rejects(ann.getSelfProfile(), { code: PresenceCode.overloaded, retryAfter: 60 });
  await ann.close();
  await node.close();
});

test("An address that is not a URL with a scheme is refused by name when the client is made", () => {
  for (const address of ["localhost:7600", "127.0.0.1:7600", "presence.example.com", "/v1", "", "ftp://n0", "https://", undefined]) {
    const make = () => new PresenceClient({ addresses: [cluster.urls[0], address], token: "t" });
    assert.throws(make, (error) => error instanceof TypeError && error.message.startsWith(`addresses: "${address}" is not a URL`));
  }
});

test("An address with credentials, a query or a fragment is refused by name when the client is made; a path is not", () => {
  const make = (address) => new PresenceClient({ addresses: [cluster.urls[0], address], token: "t" });
  for (const rest of ["ann:secret@n0", "ann@n0:7600/", "@n0", "n0?a=1", "n0/?", "n0/path?a=1", "n0#top", "n0/#", "n0/path#top"]) {
    const address = `https://${rest}`;
    const message = `addresses: "${address}" is not a URL like http://HOST or https://HOST/PATH`;
    assert.throws(() => make(address), { name: "TypeError", message });
  }
  for (const rest of ["n0", "n0/", "n0:7600//", "[::1]:7600", "n0/presence/@a/"]) make(`HTTPS://${rest}`);
});

test("A call that got no answer is repeated at the next address, with the same key", async () => {
  const broken = await scripted((request, response) => response.destroy());
  const sound = await scripted((request, response) =>
    json(response, 200, { eventID: "e", userStatus: { userID: "ann", version: "1", customStatus: "x" } }));
  const ann = client("ann", { addresses: [broken.url, sound.url], random: () => 0 });
  assert.equal((await ann.setSelfStatus("x")).userStatus.customStatus, "x");
  assert.equal(broken.requests.length, 1);
  const other = client("ann", { addresses: [broken.url, sound.url], random: () => 0 });
  assert.equal((await other.publishEvent(10_000)).eventID, "e");
  assert.equal((await other.publishEvent(10_000, { idempotencyKey: "own" })).eventID, "e");
  const keys = (node) => node.requests.map((request) => request.headers["idempotency-key"]);
  assert.equal(keys(broken)[0], undefined);
  assert.match(keys(broken)[1], /^[0-9a-f]{24}$/);
  assert.deepEqual(keys(sound), [undefined, keys(broken)[1], "own"]);
  await Promise.all([broken.close(), sound.close()]);
});

test("An error has the ID of the request that was refused, and the node's log names it", async () => {
  const node = await scripted((request, response) =>
    json(response, 400, { code: 6017, status: 400, title: "t", detail: "d" }, { "Request-ID": "1-2-3" }));
  const ann = client("ann", { addresses: [node.url] });
  await assert.rejects(ann.getUserStatus(["bob"]), ({ code, requestID }) => code === 6017 && requestID === "1-2-3");
  await node.close();
  const nodes = await Cluster.start(3, { environment: { ROLLCALL_LOG_LEVEL: "debug" } });
  try {
    for (const [index, url] of nodes.urls.entries()) {
      let failure;
      await client("ann", { addresses: [url] }).publishEvent(1).catch((error) => (failure = error));
      assert.ok(failure?.code === 6017 && /^[0-9a-f]+-[0-9a-f]+-[0-9a-f]+$/.test(failure.requestID), `${failure}`);
      const named = () => nodes.nodes.map(({ log }) => log.includes(`requestID=${failure.requestID}`));
      await until("the log names the request", () => named()[index]);
      assert.deepEqual(named(), nodes.nodes.map((_, other) => other === index));
    }
    let refused;
    const stranger = client("ann", { addresses: [nodes.urls[1]], token: () => `${token("ann")}x` });
    await stranger.getUserStatus(["bob"]).catch((error) => (refused = error));
    assert.equal(refused?.code, 6014);
    await until("the log names the refused token", () => nodes.nodes[1].log.includes(`requestID=${refused.requestID}`));
  } finally {
    await nodes.stop();
  }
});

test("After 50001 that may take effect an event is repeated with its key, and is published once", async () => {
  const node = await scripted((request, response, requests) => {
    if (requests.length > 1) return json(response, 200, { eventID: "e", userStatus: { userID: "ann", version: "1" } });
    json(response, 503, { code: 50001, status: 503, title: "t", detail: "d", mayTakeEffect: true });
  });
  const ann = client("ann", { addresses: [node.url], random: () => 0 });
  assert.equal((await ann.publishEvent(10_000)).eventID, "e");
  const keys = node.requests.map((request) => request.headers["idempotency-key"]);
  assert.ok(keys.length === 2 && keys[0] && keys[0] === keys[1], `${keys}`);
  await node.close();
});

test("Calls of one fact are sent in order, and an older one is not retried after a newer one", async () => {
  const held = [];
  const node = await scripted((request, response, requests) => {
    if (requests.length === 1) return held.push(response);
    return json(response, 200, { userStatus: { userID: "ann", version: String(requests.length), customStatus: request.body.customStatus } });
  });
  const ann = client("ann", { addresses: [node.url] });
  const first = ann.setSelfStatus("first");
  await until("the first call is at the node", () => node.requests.length === 1);
  const second = ann.setSelfStatus("second");
  // Another fact passes, the second text waits.
  await ann.setVisibility({ invisible: true });
  assert.deepEqual(node.requests.map(({ operation }) => operation), ["setSelfStatus", "setVisibility"]);
  json(held[0], 503, { code: 50001, detail: "the owner moves" });
  await assert.rejects(first, { code: PresenceCode.superseded });
  assert.equal((await second).userStatus.customStatus, "second");
  assert.equal(node.requests.filter(({ operation }) => operation === "setSelfStatus").length, 2);
  await node.close();
});

test("A call that a proxy ends with 502 or 504 is repeated with its key, and may have taken effect", async () => {
  let isBroken = false;
  const proxy = await scripted(({ operation }, response, { length }) => {
    if (!isBroken && length > 2) return json(response, 200, { eventID: "e", userStatus: { userID: "ann", version: "1" } });
    response.writeHead(length % 2 ? 502 : 504, { "Content-Type": "text/html" });
    response.end(`<html>${operation}</html>`);
  });
  const ann = client("ann", { addresses: [proxy.url] });
  assert.equal((await ann.publishEvent(10_001)).eventID, "e");
  const keys = proxy.requests.map(({ headers }) => headers["idempotency-key"]);
  assert.deepEqual([keys.length, typeof keys[0], new Set(keys).size], [3, "string", 1]);
  isBroken = true;
  await assert.rejects(ann.setSelfStatus("busy"), { code: PresenceCode.unreachable, mayTakeEffect: true });
  await assert.rejects(ann.getVisibility(), { code: PresenceCode.unreachable, mayTakeEffect: false });
  await ann.close();
  await proxy.close();
});

test("A stream that is silent for two heartbeats makes the client open another one, and comments keep it", async () => {
  const responses = [];
  const node = await scripted((request, response) => {
    stream(response);
    send(response, "onConnected", opened({ sessionID: String(responses.length) }), 0);
    responses.push(response);
  });
  const ann = client("ann", { addresses: [node.url], backoff: { initial: 1, max: 1 } });
  const states = [];
  const start = Date.now();
  await ann.connect();
  assert.match(node.requests[0].url, /comments=true&alive=client&heartbeat=4/);
  ann.on("stateChanged", ({ state }) => states.push(state));
  const comments = setInterval(() => responses[0].write(":\n\n"), 500);
  await until("four heartbeats pass", () => Date.now() - start > 4_000);
  assert.equal(responses.length, 1);
  clearInterval(comments);
  const silentSince = Date.now();
  await until("another stream is open", () => responses.length === 2);
  assert.ok(Date.now() - silentSince < 3_500, `after ${Date.now() - silentSince} ms`);
  await until("the client has the other session", () => ann.session.sessionID === "1");
  assert.deepEqual([states, responses[0].destroyed], [[], false]);
  await ann.close();
  await node.close();
});

test("A call without an answer opens a stream elsewhere, and the silent stream is kept until that one works", async () => {
  const ends = [];
  const frozen = await scripted(({ operation }, response) => {
    if (operation !== "events") return;
    response.on("close", () => ends.push(Date.now()));
    stream(response);
    send(response, "onConnected", opened({ node: "frozen", heartbeatInterval: 30 }), 0);
  });
  let held;
  const sound = await scripted(({ operation }, response) => {
    if (operation !== "events") return json(response, 200, { visibility: "everyone", userIDs: [], invisible: false });
    held = response;
    stream(response);
    send(response, "onConnected", opened({ sessionID: "2a21aedf46000041a9bece5b", node: "sound", heartbeatInterval: 30 }), 0);
  });
  const ann = client("ann", { addresses: [frozen.url, sound.url], random: () => 0, callTimeout: 1_000 });
  const states = [];
  await ann.connect();
  ann.on("stateChanged", ({ state }) => states.push(state));
  const start = Date.now();
  const call = ann.getVisibility();
  await until("the session is elsewhere", () => ann.session.node === "sound");
  assert.ok(Date.now() - start < 990, `after ${Date.now() - start} ms`);
  assert.deepEqual([ends.length, states], [0, []]);
  send(held, "onSubscriptionSyncCompleted", { subscribeType: 1 }, 1);
  await until("the silent stream is dropped", () => ends.length === 1);
  assert.equal((await call).visibility, "everyone");
  assert.deepEqual([states, frozen.requests.length, ann.state], [[], 2, "online"]);
  await ann.close();
  await Promise.all([frozen.close(), sound.close()]);
});

test("A stream that carries something keeps its place, however slow a call is", async () => {
  const node = await scripted(({ operation }, response) => {
    if (operation !== "events") return setTimeout(() => json(response, 200, { visibility: "everyone", userIDs: [], invisible: false }), 700);
    stream(response);
    send(response, "onConnected", opened({ heartbeatInterval: 30 }), 0);
    const comments = setInterval(() => response.write(":\n\n"), 50);
    response.on("close", () => clearInterval(comments));
  });
  const ann = client("ann", { addresses: [node.url], callTimeout: 1_000 });
  await ann.connect();
  assert.equal((await ann.getVisibility()).visibility, "everyone");
  assert.deepEqual(node.requests.map(({ operation }) => operation), ["events", "getVisibility"]);
  await ann.close();
  await node.close();
});

test("A client shows that it runs when bytes arrive, although timers are late, unless another call has named its session", async () => {
  let held;
  const node = await scripted(({ operation }, response) => {
    if (operation !== "events") return json(response, 200, { eventID: "e", userStatus: { userID: "ann", version: "1" } });
    stream(response);
    send(response, "onConnected", opened({ heartbeatInterval: 400, heartbeatTimeout: 3 }), 0);
    held = response;
  });
  const ann = client("ann", { addresses: [node.url] });
  const signs = () => node.requests.filter(({ operation }) => operation === "alive");
  await ann.connect();
  assert.match(node.requests[0].url, /alive=client/);
  // The heartbeats are 400 s apart, so the client's own timer is five seconds away. The comments of the node stand for it.
  const comments = setInterval(() => held.write(":\n\n"), 50);
  await until("two signs are given", () => signs().length === 2);
  assert.deepEqual(signs().map(({ body }) => body), [{ sessionID: opened().sessionID }, { sessionID: opened().sessionID }]);
  const times = [node.requests[0], ...signs()].map(({ at }) => at);
  for (const [index, at] of times.slice(1).entries()) assert.ok(at - times[index] >= 990, `sign ${index} after ${at - times[index]} ms`);
  const published = Date.now();
  await ann.publishEvent(10_000);
  await until("the third sign is given", () => signs().length === 3);
  assert.ok(signs()[2].at - published >= 990, `after ${signs()[2].at - published} ms`);
  clearInterval(comments);
  await ann.close();
  await node.close();
});

test("A stream is resumed from the last event of the stream that broke, wherever its bytes were cut", async () => {
  const node = await scripted((request, response, requests) => {
    stream(response);
    const count = requests.length;
    send(response, "onConnected", opened({ sessionID: String(count) }), 7);
    if (count > 1) return;
    // One event in single bytes, with line ends of all kinds and a character of several bytes.
    const bytes = Buffer.from('event: onUserStatusChanged\r\nid: 42\rdata: {"userStatusList":\ndata: [{"userID":"bob","version":"1","customStatus":"köln 🙂"}]}\n\n');
    const write = (index) => (index < bytes.length ? response.write(bytes.subarray(index, index + 1), () => setImmediate(write, index + 1)) : response.destroy());
    write(0);
  });
  const ann = client("ann", { addresses: [node.url], backoff: { initial: 1, max: 1 } });
  await ann.connect();
  await until("another stream is open", () => node.requests.length === 2);
  assert.equal(ann.statusOf("bob").customStatus, "köln 🙂");
  assert.equal(node.requests[0].headers["last-event-id"], undefined);
  assert.equal(node.requests[1].headers["last-event-id"], "42");
  await ann.close();
  await node.close();
});

test("Listeners receive a version again that the stream shows in another way, and no other version twice", async () => {
  const node = await scripted((request, response) => {
    stream(response);
    send(response, "onConnected", opened(), 0);
    for (const onlinePlatforms of [["ios"], ["ios"], [], [], ["ios"]]) {
      send(response, "onUserStatusChanged", { userStatusList: [{ userID: "bob", version: "1", onlinePlatforms }] }, 1);
    }
    send(response, "onUserStatusChanged", { userStatusList: [{ userID: "carl", version: "1" }] }, 1);
  });
  const ann = client("ann", { addresses: [node.url] });
  const told = [];
  ann.on("userStatusChanged", (list) => told.push(...list.map((status) => `${status.userID} ${status.onlinePlatforms ?? ""}`)));
  await ann.connect();
  await until("carl is told", () => told.includes("carl "));
  assert.deepEqual(told, ["bob ios", "bob ", "bob ios", "carl "]);
  await ann.close();
  await node.close();
});

test("Content that breaks the protocol ends one stream or one event, not the client", async () => {
  const node = await scripted((request, response, requests) => {
    stream(response);
    if (requests.length === 2) return response.end(`data: ${"x".repeat(1 << 20)}x`);
    send(response, "onConnected", opened({ sessionID: String(requests.length) }), 0);
    response.write("event: onUserStatusChanged\ndata: {broken\n\nevent: onUserStatusChanged\ndata: {}\n\nevent: onNovelty\ndata: {}\n\n");
    send(response, "onUserStatusChanged", { userStatusList: [{ userID: "bob", version: String(requests.length) }] }, requests.length);
    if (requests.length === 1) response.end();
  });
  const ann = client("ann", { addresses: [node.url], backoff: { initial: 1, max: 1 } });
  await ann.connect();
  await until("the third stream works", () => ann.statusOf("bob")?.version === "3");
  await ann.close();
  await node.close();
});

test("A client without a node waits with growing, random pauses", async () => {
  const attempts = [];
  const ann = client("ann", {
    random: () => 1, backoff: { initial: 20, max: 80 }, loginAttemptsMax: 6,
    fetch: () => {
      attempts.push(performance.now());
      return Promise.reject(new TypeError("no network"));
    },
  });
  await assert.rejects(ann.connect(), { code: PresenceCode.unreachable });
  const pauses = attempts.slice(1).map((at, index) => at - attempts[index]);
  for (const [index, ceiling] of [20, 40, 80, 80, 80].entries()) {
    assert.ok(pauses[index] >= ceiling - 2 && pauses[index] < ceiling + 200, `pause ${index}: ${pauses[index]} ms`);
  }
});

test("The client keeps at most usersMax statuses, and drops the one without a change for longest", async () => {
  const node = await scripted((request, response) => {
    stream(response);
    send(response, "onConnected", opened(), 0);
    for (let index = 0; index < 30; index += 1) send(response, "onUserStatusChanged", { userStatusList: [{ userID: `u${index}`, version: "1" }] }, 1);
  });
  const ann = client("ann", { addresses: [node.url], usersMax: 10 });
  await ann.connect();
  await until("the last one arrives", () => ann.statusOf("u29"));
  assert.deepEqual(ann.statuses.map(({ userID }) => userID), Array.from({ length: 10 }, (_, index) => `u${20 + index}`));
  await ann.close();
  await node.close();
});

test("close ends the session at the node even after the garbage was collected", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const sessions = async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${cluster.nodes[0].ops}/metrics`)).text();
    return Number(/^rollcall_sessions (\d+)$/m.exec(metrics)[1]);
  };
  const made = Array.from({ length: 5 }, () => client(newUser("ann")));
  await Promise.all(made.map((each) => each.connect()));
  const before = await sessions();
  // Garbage is collected in several rounds, because callbacks run between them.
  for (let round = 0; round < 5; round += 1) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(made.map((each) => each.close()));
  await until("the node has ended the sessions", async () => (await sessions()) <= before - 5, 3_000);
});

test("Every operation of the node's OpenAPI document is a method", async () => {
  const document = await (await fetch(`${cluster.urls[0]}/openapi.json`)).json();
  const operations = Object.keys(document.paths).filter((path) => path.startsWith("/v1/") && path !== "/v1/events").map((path) => path.slice(4));
  assert.ok(operations.length >= 30, `${operations.length} operations`);
  const missing = operations.filter((name) => typeof PresenceClient.prototype[name] !== "function");
  assert.deepEqual(missing, []);
});
