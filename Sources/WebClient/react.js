/**
 * Hooks for React 18 or newer. In a package of npm this is `rollcall-client/react`.
 *
 * ```jsx
 * const client = new PresenceClient({ addresses: ["https://presence.example.com"], token });
 * function Contact({ userID }) {
 *   const status = useStatus(client, userID, { subscribe: true });
 *   return <li>{userID} is {status?.statusType ?? "unknown"}</li>;
 * }
 * ```
 */
import { useCallback, useEffect, useSyncExternalStore } from "react";

/** @typedef {import("./client.js").StatusClient} StatusClient */
/** @typedef {import("./client.js").UserStatus} UserStatus */
/** @typedef {import("./client.js").ConnectionState} ConnectionState */

/**
 * The newest status of a user that a client has received; undefined before the first. The component is rendered again with each newer one.
 * @param {StatusClient} client A `StatusClient` or `PresenceClient`.
 * @param {string} userID
 * @param {{ subscribe?: boolean }} [options] With `subscribe` the client subscribes to the user as well. All users that are shown at the
 * same time go into one call. The subscription stays when the component is gone: it belongs to the user of the app, and has an end.
 * @returns {UserStatus | undefined}
 */
export function useStatus(client, userID, options = {}) {
  const subscribe = options.subscribe ?? false;
  const listen = useCallback((/** @type {() => void} */ changed) => client.watch(userID, changed), [client, userID]);
  useEffect(() => (subscribe ? show(client, userID) : undefined), [client, userID, subscribe]);
  return useSyncExternalStore(listen, () => client.statusOf(userID), () => undefined);
}

/**
 * The state of a client's connection: `online` while it has a session.
 * @param {StatusClient} client A `StatusClient` or `PresenceClient`.
 * @returns {ConnectionState}
 */
export function useConnectionState(client) {
  const listen = useCallback((/** @type {() => void} */ changed) => client.on("stateChanged", changed), [client]);
  return useSyncExternalStore(listen, () => client.state, () => "idle");
}

/**
 * The users that components show, with the number of components, and those of them that were subscribed to in this login.
 * @type {WeakMap<StatusClient, { shown: Map<string, number>, asked: Set<string>, isDue: boolean }>}
 */
const followings = new WeakMap();

/**
 * Records that a component shows a user. Returns a function that ends this.
 * @param {StatusClient} client
 * @param {string} userID
 */
function show(client, userID) {
  const following = followings.get(client) ?? { shown: new Map(), asked: new Set(), isDue: false };
  if (!followings.has(client)) {
    followings.set(client, following);
    // The next login may be that of another user. A call that failed is made again with the next session.
    client.on("stateChanged", ({ state }) => {
      if (state === "online") follow(client, following);
      else if (state !== "connecting" && state !== "waiting") following.asked.clear();
    });
  }
  following.shown.set(userID, (following.shown.get(userID) ?? 0) + 1);
  follow(client, following);
  return () => {
    const count = (following.shown.get(userID) ?? 1) - 1;
    if (count > 0) following.shown.set(userID, count);
    else following.shown.delete(userID);
  };
}

/**
 * Subscribes to the users that are shown, once this turn is over.
 * @param {StatusClient} client
 * @param {{ shown: Map<string, number>, asked: Set<string>, isDue: boolean }} following
 */
function follow(client, following) {
  if (following.isDue) return;
  following.isDue = true;
  queueMicrotask(async () => {
    following.isDue = false;
    const users = [...following.shown.keys()].filter((userID) => !following.asked.has(userID));
    if (users.length === 0 || client.state !== "online") return;
    for (const userID of users) following.asked.add(userID);
    /** @type {string[]} */
    let failed = users;
    try {
      failed = (await client.subscribeUserStatus(users, { sync: true })).errorUserList.map(({ userID }) => userID);
    } catch (error) {
      // The next session asks again. The status of these users stays undefined until then.
    }
    for (const userID of failed) following.asked.delete(userID);
  });
}
