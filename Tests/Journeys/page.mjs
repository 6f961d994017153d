// Pages in headless Chromium with the JavaScript client.
import { fileURLToPath } from "node:url";
import { Chromium, serve } from "../WebClient/chromium.mjs";
import { until } from "./stream.mjs";

/** A browser and a site that end with the story. `open` opens a page of a user with a connected client, which is `client` in the page. */
export async function browserOf(s) {
  const site = await serve(fileURLToPath(new URL("../../Sources/WebClient", import.meta.url)));
  s.atEnd(() => site.close());
  const browser = await Chromium.start();
  s.atEnd(() => browser.stop());
  return {
    async open(user, addresses, { isPrivate = true, ...options } = {}) {
      const page = await browser.open(`${site.url}/blank.html`, { isPrivate });
      // The proxies have certificates of the story's own.
      await page.send("Security.setIgnoreCertificateErrors", { ignore: true });
      await page.evaluate(`(async () => {
        const { PresenceClient } = await import("/client.js");
        let draws = 0;
        globalThis.client = new PresenceClient({ addresses: ${JSON.stringify(addresses)}, token: async () => ${JSON.stringify(s.token(user))}, keepRelationships: true,
          random: () => (draws++ ? Math.random() : 0), backoff: { initial: 50, max: 500 }, ...${JSON.stringify(options)} });
        Object.assign(globalThis, { statuses: [], states: [], changes: [] });
        client.on("userStatusChanged", (list) => statuses.push(...list));
        client.on("stateChanged", ({ state }) => states.push(state));
        client.on("relationshipChanged", (change) => changes.push(change));
        await client.connect();
      })()`);
      /** Waits until an expression is true in the page. */
      page.shows = (expression, seconds) => until(`the page of ${user}: ${expression}`, () => page.evaluate(`Boolean(${expression})`), seconds);
      return page;
    },
  };
}
