// The receiver of an app's webhooks. It checks each delivery, and keeps each event once.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const SECRET = "0123456789abcdef0123456789abcdef";

export class Receiver {
  /** Every event once, in the order of arrival. */
  events = [];
  /** The deliveries that broke a guarantee of Webhooks.md. */
  faults = [];
  #newest = new Map();
  #server;

  /** Starts a receiver, and tells the nodes its URL. */
  static async of(story, events = ["stateChange", "friends", "profile"]) {
    const receiver = new Receiver();
    receiver.#server = createServer((request, response) => receiver.#take(request, response, story.app));
    await new Promise((resolve) => receiver.#server.listen(0, "127.0.0.1", resolve));
    story.atEnd(async () => {
      receiver.#server.closeAllConnections();
      await new Promise((resolve) => receiver.#server.close(resolve));
      if (receiver.faults.length > 0) throw new Error(`the receiver: ${receiver.faults}`);
    });
    await story.policy({ "webhook.url": `http://127.0.0.1:${receiver.#server.address().port}/`, "webhook.secret": SECRET, "webhook.events": events });
    return receiver;
  }

  async #take(request, response, app) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const { t, v1 } = Object.fromEntries((request.headers["rollcall-signature"] ?? "").split(",").map((part) => part.split("=")));
    const expected = createHmac("sha256", SECRET).update(`${t}.${body}`).digest("hex");
    if (v1?.length !== expected.length || !timingSafeEqual(Buffer.from(v1), Buffer.from(expected))) this.faults.push(`a wrong signature: ${body}`);
    const delivery = JSON.parse(body);
    if (delivery.app !== app) this.faults.push(`a delivery of the app ${delivery.app}`);
    for (const event of delivery.events) {
      // An older version is a duplicate. Events of one user arrive in the order of their versions.
      if (event.version <= (this.#newest.get(event.userID) ?? "")) {
        if (!this.events.some(({ userID, version }) => userID === event.userID
          && version === event.version)) this.faults.push(`out of order: ${JSON.stringify(event)}`);
        continue;
      }
      this.#newest.set(event.userID, event.version);
      this.events.push(event);
    }
    response.writeHead(204).end();
  }

  /** The events of a user. */
  of(userID, type) {
    return this.events.filter((event) => event.userID === userID && (!type || event.type === type));
  }
  /** The actions of a user, in order. */
  actions(userID, type = "stateChange") {
    return this.of(userID, type).map(({ action }) => action);
  }
}
