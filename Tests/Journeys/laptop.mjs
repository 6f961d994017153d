// A JavaScript client in a process of its own, which a story can suspend.
//
// The story gives the options of the client and the user's text as JSON. Messages tell it each status, the friends and the session.
import { PresenceClient } from "../../Sources/WebClient/client.js";

const { text, ...options } = JSON.parse(process.argv[2]);
const client = new PresenceClient({ ...options, backoff: { initial: 50, max: 500 } });
const tell = (statuses) => process.send({
  statuses, relationships: { friends: client.relationships.friends }, session: client.session });
client.on("userStatusChanged", tell);
for (const name of ["relationshipChanged", "connected"]) client.on(name, () => tell([]));
process.once("disconnect", () => process.exit());
await client.connect();
await client.setSelfStatus(text, { expiry: 3_600 });
