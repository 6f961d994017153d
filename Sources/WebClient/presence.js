/**
 * The statuses of users alone: a `StatusClient` without what `PresenceClient` adds. In a package of npm this is `rollcall-client/presence`.
 * A bundler leaves out the rest of `client.js`.
 */
export { PresenceCode, PresenceError, PresenceEvent, StatusClient } from "./client.js";
