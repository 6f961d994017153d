// The console's frame: sign-in, pages by the fragment of the address, and the end of a token.

import { CallError, call, claims, forgetToken, keepToken, whenLoggedOut } from "./api.js";
import { createActionsPage } from "./actions.js";
import { createAppsPage } from "./apps.js";
import { createClusterPage } from "./cluster.js";
import { clock, fill, identifier, visible } from "./dom.js";
import { createLivePage } from "./live.js";
import { closeDialogs, describe } from "./ui.js";
import { createUsersPage } from "./users.js";
import { createWebhooksPage } from "./webhooks.js";

const factories = {
  cluster: { title: "Cluster", create: createClusterPage },
  live: { title: "Live", create: createLivePage },
  users: { title: "Users", create: createUsersPage },
  apps: { title: "Apps", create: createAppsPage },
  webhooks: { title: "Webhooks", create: createWebhooksPage },
  actions: { title: "Actions", create: createActionsPage },
};

const byID = (id) => document.getElementById(id);

/** The session of the console: null before the sign-in and after the end of the token. */
let session = null;
/** The pages that exist. They stay when the token expires, and go with "Sign out". */
let pages = new Map();
/** The user and the app of the last token: pages never pass from one to another. */
let holder = null;
let shown = null;

/** What the pages know about the session and may do to the frame. */
const context = {
  get app() { return session?.app; },
  get node() { return session?.node; },
  /** Shows when the node answered last. */
  fresh(error) {
    byID("freshness").textContent = error
      ? `No new figures since ${session?.freshAt ?? "the sign-in"}.`
      : `Node ${visible(session?.node ?? "?")} answered at ${clock()}.`;
    if (!error && session) session.freshAt = clock();
  },
};

function page(name) {
  if (!pages.has(name)) pages.set(name, factories[name].create(context));
  return pages.get(name);
}

function currentName() {
  const name = location.hash.slice(1);
  return Object.hasOwn(factories, name) ? name : "cluster";
}

/** Shows the page of the address, or the sign-in. `isMove` moves the focus to the heading. */
function show({ isMove = true } = {}) {
  shown?.stop();
  shown = null;
  const isSignedIn = session !== null;
  byID("login").hidden = isSignedIn;
  byID("page").hidden = !isSignedIn;
  byID("pages").hidden = !isSignedIn;
  byID("identity").hidden = !isSignedIn;
  if (!isSignedIn) {
    document.title = "Sign in – Rollcall console";
    byID("freshness").textContent = "";
    byID("token").focus();
    return;
  }
  const name = currentName();
  for (const link of byID("pages").children) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${factories[name].title} – Rollcall console`;
  shown = page(name);
  fill(byID("page"), shown.element);
  if (isMove) shown.element.querySelector("h1").focus();
  shown.start();
}

async function signIn() {
  const text = byID("token").value.trim();
  const found = claims(text);
  keepToken(text);
  let status;
  try {
    status = await call("clusterStatus");
  } catch (error) {
    forgetToken();
    throw error;
  }
  byID("token").value = "";
  const app = typeof found.app === "string" ? found.app : "default";
  const user = String(found.sub);
  if (holder !== null && (holder.app !== app || holder.user !== user)) pages = new Map();
  holder = { app, user };
  session = { app, node: status.node, freshAt: clock() };
  fill(byID("identityText"), "node ", identifier(status.node), ", app ", identifier(app), ", ", identifier(user));
  byID("loginReason").textContent = "";
  show();
}

function signOut(reason) {
  forgetToken();
  session = null;
  closeDialogs();
  byID("loginReason").textContent = reason;
  show();
}

whenLoggedOut(signOut);

byID("loginForm").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = byID("loginForm");
  if (form.getAttribute("aria-busy")) return;
  form.setAttribute("aria-busy", "true");
  try {
    await signIn();
  } catch (error) {
    byID("loginReason").textContent = error instanceof CallError ? describe(error) : error.message;
    byID("token").focus();
  } finally {
    form.removeAttribute("aria-busy");
  }
});

byID("signOut").addEventListener("click", () => {
  pages = new Map();
  holder = null;
  byID("page").replaceChildren();
  signOut("");
});

addEventListener("hashchange", () => {
  // The skip link changes the fragment too, but not the page.
  if (location.hash === "#main") {
    history.replaceState(null, "", `#${[...pages].find(([, made]) => made === shown)?.[0] ?? "cluster"}`);
    byID("main").focus();
    return;
  }
  show();
});

show({ isMove: false });
