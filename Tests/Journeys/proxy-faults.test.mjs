// Stories of people behind nginx and HAProxy, with their shipped files, whose nodes are drained, die and freeze.
import { phone } from "./phone.mjs";
import { BEHIND_PROXIES, startProxy } from "./proxies.mjs";
import { assert, insist, story, until } from "./story.mjs";

// The certificates of the proxies are the story's own.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
process.removeAllListeners("warning");

for (const name of ["nginx", "haproxy"]) {
  story(`I only left the app or the page open behind ${name}, and Bob saw me leave when a server was updated, died or hung`, async (s) => {
    const { url, certificate, takeOut, putBack } = await startProxy(s, name);
    // HAProxy asks each node for its health before it sends anybody there.
    await until("the proxy has nodes", async () => (await fetch(`${url}/openapi.json`).catch(() => ({}))).status === 200);
    // A node that freezes loses many streams, and then a proxy that counts them prefers it. Every other person has the Swift SDK.
    const names = ["ann", "bob", ...Array.from({ length: 12 }, (_, index) => `guest-${index}`)];
    const options = { addresses: [url], platform: "web", deviceID: "laptop" };
    const people = await Promise.all(names.map((user, index) => (index % 2 ? s.client(user, options) : phone(s, user, { ...options, certificate }))));
    const [ann, bob] = people;
    await ann.subscribeUserStatus(["bob"], { sync: true });
    await bob.subscribeUserStatus([...names.filter((user) => user !== "bob"), "carl"], { sync: true });
    await until("they see each other", () => ann.statusOf("bob")?.statusType === "ONLINE"
      && names.every((user) => bob.statusOf(user)?.statusType === "ONLINE"));
    let words = 0;
    /** Ann and Bob change their texts, by calls through the proxy, and read the text of the other. */
    const talk = async () => {
      const text = `word ${(words += 1)}`;
      await Promise.all([ann, bob].map((person) => person.setSelfStatus(text)));
      await until(() => `both read "${text}": ${ann.statusOf("bob").customStatus}, ${bob.statusOf("ann").customStatus}`,
        () => ann.statusOf("bob").customStatus === text && bob.statusOf("ann").customStatus === text);
    };
    /** The node with the most sessions of apps and of pages: the smaller number counts. */
    const busiest = () => {
      const count = ({ id }) => Math.min(...[0, 1].map((kind) => people.filter(({ session }, index) => index % 2 === kind && session.node === id).length));
      const [node] = s.nodes.toSorted((one, other) => count(other) - count(one));
      assert.ok(count(node) > 0, "an app and a page are at one node");
      return node;
    };
    const late = ({ id }) => people.map(({ state, session }, index) => [names[index], state, session.node])
      .filter(([, state, node]) => state !== "online" || node === id);
    const allAreMembers = () => until("three nodes are members", async () => (await s.admin("clusterStatus", {}, { node: s.running[0] }))
      .members.filter(({ state, slotsOwned }) => state === "alive" && slotsOwned > 0).length === 3, 30);
    // The login elsewhere replaces the session. Its end may reach the client a moment before the next stream does. The JavaScript client calls
    // that `connecting`.
    const gaps = () => people.flatMap(({ heard }) => heard.states.filter(({ state }) => state !== "connecting" && state !== "online"));
    await talk();

    // An operator drains a node, and it ends.
    const drained = busiest();
    takeOut(drained);
    assert.equal((await s.command("cluster", "drain", "--ops", `http://127.0.0.1:${drained.ops}`)).code, 0);
    await until(() => `all have left the node that drains: ${late(drained)}`, async () => {
      await talk();
      return late(drained).length === 0;
    }, 40);
    assert.deepEqual(gaps(), [], "nobody waited for a session");
    drained.process.kill("SIGTERM");
    await drained.ended;
    await talk();
    await s.cluster.restart(drained);
    putBack(drained);
    await allAreMembers();

    // A node dies while they talk.
    const killed = busiest();
    await Promise.all([s.cluster.kill(killed), talk()]);
    await until(() => `all have left the node that died: ${late(killed)}`, () => late(killed).length === 0);
    await talk();
    await s.cluster.restart(killed);
    await allAreMembers();

    // A node freezes. Nobody calls anything. Carl's plain stream proves that the cluster has missed the node's sessions.
    const frozen = busiest();
    const carl = await s.stream("carl", { url: frozen.url });
    await until("Bob sees Carl", () => bob.statusOf("carl").statusType === "ONLINE");
    const before = gaps().length;
    frozen.process.kill("SIGSTOP");
    s.atEnd(async () => frozen.process.kill("SIGCONT"));
    const start = performance.now();
    await until(() => `all have left the frozen node: ${late(frozen)}`, () => late(frozen).length === 0, 12);
    console.log(`# ${name}: elsewhere ${(performance.now() - start).toFixed(0)} ms after the node froze`);
    assert.equal(gaps().length, before, "nobody waited for a session");
    await until("Bob sees Carl OFFLINE", () => bob.statusOf("carl").statusType === "OFFLINE", 30);
    await talk();
    await carl.drop();
    frozen.process.kill("SIGCONT");
    await allAreMembers();
    // A call that hung at the frozen node may have its effect now, after newer calls (BadNetworks.md). Somebody speaks who has made none.
    await insist("a guest's text", () => people[2].setSelfStatus("all is well"));
    await until("Bob reads a guest", () => bob.statusOf(names[2]).customStatus === "all is well");
    for (const [person, other] of [[ann, "bob"], ...names.map((user) => [bob, user])]) {
      const seen = person.heard.statuses.filter(({ userID }) => userID === other);
      const online = seen.slice(seen.findIndex(({ statusType }) => statusType === "ONLINE"));
      assert.deepEqual(online.filter(({ statusType }) => statusType !== "ONLINE"), [], `${other} never left`);
      assert.equal(new Set(online.map(({ lastOnlineStatusUpdateTime }) => lastOnlineStatusUpdateTime)).size, 1);
    }
  }, { cluster: { environment: { ...BEHIND_PROXIES, ROLLCALL_DRAIN_TIMEOUT: "6" } }, seconds: 150 });
}
