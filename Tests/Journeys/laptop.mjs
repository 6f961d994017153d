// A JavaScript client in a process of its own, which a story can suspend.
//
// The story gives the options of the client and the user's text as JSON, and is told each status, the friends and the session by messages.
// It asks for them by a message of its own.
import { PresenceClient } from "../../Sources/WebClient/client.js";

const { text, ...options } = JSON.parse(process.argv[2]);
const client = new PresenceClient({ ...options, backoff: { initial: 50, max: 500 } });
const tell = (statuses) => process.send({
  statuses, friends: client.relationships.friends.map(({ userID }) => userID), sessionID: client.session?.sessionID });
client.on("userStatusChanged", tell);
client.on("relationshipChanged", () => tell([]));
process.on("message", () => tell([]));
process.once("disconnect", () => process.exit());
await client.connect();
await client.setSelfStatus(text, { expiry: 3_600 });
