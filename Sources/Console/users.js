// The page Users: the users who are online, one user in detail, and the explanation of what a viewer sees.

import { UnknownOperation, call } from "./api.js";
import { clock, count, facts, field, fill, h, identifier, plural, stranger, table, time, visible } from "./dom.js";
import { pagedTable } from "./pager.js";
import { Poller, describe, problemPlace, submitting } from "./ui.js";

const onlineLimit = 50;
const listLimit = 50;
/** Members of a group that the page names. */
const membersMax = 20;
/** Changes of a followed user that the page keeps. */
const changesMax = 50;

const statusMarks = { ONLINE: "●", OFFLINE: "○", UNLOGINED: "–" };

function statusLabel(status) {
  return h("span", { class: `state ${status === "ONLINE" ? "alive" : "left"}` },
    h("span", { "aria-hidden": "true" }, `${statusMarks[status] ?? "?"} `), visible(status));
}

function platforms(list) { return (list ?? []).length === 0 ? "–" : visible(list.join(", ")); }

export function createUsersPage(context) {
  const problem = problemPlace();
  const input = h("input", { type: "text", id: "userID", autocomplete: "off", spellcheck: "false", autocapitalize: "none", required: true });
  const detail = h("div", { class: "detail" });
  let shown = null;
  let isRunning = false;

  const search = submitting(h("form", { class: "inline", role: "search", "aria-label": "User by ID" },
    field("User ID", input), h("button", { type: "submit", class: "primary" }, "Show user")), problem, () => open(input.value));

  const online = pagedTable({
    caption: "Users online in this app", columns: ["User", "Platforms"], empty: "Nobody is online.",
    async load(cursor) {
      const answer = await call("onlineUsers", { limit: onlineLimit, ...(cursor === undefined ? {} : { cursor }) });
      return {
        rows: answer.users.map((user) => [userButton(user.userID), platforms(user.platforms)]), next: answer.cursor, total: answer.total,
      };
    },
  });

  /** A button that opens a user. */
  function userButton(userID) {
    return h("button", { type: "button", class: "link", onclick: () => searchFor(userID) }, identifier(userID));
  }

  function searchFor(userID) {
    input.value = userID;
    search.requestSubmit();
  }

  async function open(userID) {
    const answer = await call("queryOnlineStatus", { userIDs: [userID], withSessions: true });
    const failed = answer.errorUserList?.[0];
    if (failed) {
      problem.show({ detail: `${visible(failed.userID)}: ${failed.reason}`, code: failed.code });
      return;
    }
    shown?.stop();
    shown = createDetail(userID, answer.userStatusList[0], userButton, context);
    fill(detail, shown.element);
    explain.set(userID);
    if (isRunning) shown.start();
    shown.element.querySelector("h2").focus();
  }

  const explain = createExplanation();
  const element = h("div", { class: "page" },
    h("h1", { tabindex: "-1" }, "Users"), search, problem.element, detail, explain.element,
    h("section", { "aria-labelledby": "onlineTitle" }, h("h2", { id: "onlineTitle" }, "Online"), online.element));

  return {
    element,
    start() {
      isRunning = true;
      shown?.start();
      online.first();
    },
    stop() {
      isRunning = false;
      shown?.stop();
    },
  };
}

/** One user: status, sessions and lists. */
function createDetail(userID, firstStatus, userButton, context) {
  const status = h("div");
  const sessions = table("Sessions", ["Platform", "Device", "Node", "Since", "Session"]);
  const relations = h("div");
  const profile = h("div");
  const problem = problemPlace();
  const changes = h("ol", { class: "changes", role: "log", "aria-label": "Changes" });
  const follow = h("input", { type: "checkbox", id: "follow" });
  let last = null;

  function show(record) {
    if (last !== null && record.version !== last.version) {
      changes.prepend(h("li", null, `${clock()} `, differences(last, record)));
      while (changes.children.length > changesMax) changes.lastChild.remove();
    }
    last = record;
    fill(status, facts([
      ["Status", [statusLabel(record.statusType), record.isUnsure && " (unsure: this node is cut off from others)"]],
      ["Custom status", record.customStatus ? stranger(record.customStatus) : "–"],
      ["Platforms", platforms(record.onlinePlatforms)],
      ["Event", record.event ? [count(record.event.value), record.event.ext && [" ", stranger(record.event.ext)]] : "–"],
      ["Status changed", time(record.lastOnlineStatusUpdateTime)],
      ["Custom status set", time(record.lastCustomStatusUpdateTime)],
      ["Last seen", time(record.lastSeenTime)],
      ["Version", h("code", null, record.version)],
    ]));
    if (record.sessions) {
      sessions.show(record.sessions.map((session) => [
        visible(session.platform), session.deviceID ? identifier(session.deviceID) : "–", identifier(session.node), time(session.since),
        h("code", null, session.sessionID),
      ]), "No session is open.");
    }
  }

  const poller = new Poller(async (isCurrent) => {
    const answer = await call("queryOnlineStatus", { userIDs: [userID], withSessions: true });
    if (isCurrent() && answer.userStatusList[0]) show(answer.userStatusList[0]);
  }, 1_000, (error) => {
    problem.show(error);
    context.fresh(error);
  });
  let isRunning = false;
  follow.addEventListener("change", () => {
    if (follow.checked && isRunning) poller.start(); else poller.stop();
  });

  /** Reads the counts that `explain` has, and the sessions where `queryOnlineStatus` has none. */
  async function showCounts() {
    const [explained, visibility] = await Promise.all([
      call("explain", { viewer: userID, target: userID }).catch(asText), call("getVisibility", { asUser: userID }).catch(asText),
    ]);
    const { ownerOfTarget: target, ownerOfViewer: viewer } = explained;
    if (target && !last.sessions) show({ ...last, sessions: target.sessions ?? [] });
    fill(relations, facts([
      ["Owner", target ? identifier(target.node) : explained.error ?? "the owner did not answer"],
      ["Follows", viewer ? `${count(viewer.subscriptions)} of ${count(viewer.subscriptionsMax)}` : "–"],
      ["Followers", followers(explained.nodes)],
      ["Nodes with a view", target?.watchedByNodes ? visible(target.watchedByNodes.join(", ")) || "none" : "–"],
      ["Visibility", visibility.error ?? [
        visible(visibility.visibility), visibility.userIDs?.length > 0 && ` (${plural(visibility.userIDs.length, "user")})`,
        visibility.invisible && ", invisible",
      ]],
    ]));
  }

  async function showProfile() {
    const answer = await call("getSelfProfile", { asUser: userID }).catch(asText);
    fill(profile, answer.error ? h("p", { class: "help" }, answer.error) : profileFacts(answer.profile));
  }

  const lists = [
    pagedTable({
      caption: "Follows", columns: ["User", "Status", "Custom status", "Since", "Until"], empty: "The user follows nobody.", isCaptionHidden: false,
      async load(offset = 0) {
        const answer = await call("getSubscribedUserStatus", { asUser: userID, offset, limit: listLimit });
        const end = offset + answer.subscriptions.length;
        return {
          rows: answer.subscriptions.map((entry) => [
            userButton(entry.userID), entry.userStatus ? statusLabel(entry.userStatus.statusType) : "–",
            entry.userStatus?.customStatus ? stranger(entry.userStatus.customStatus) : "–", time(entry.subscribedAt), time(entry.expiresAt),
          ]),
          next: answer.subscriptions.length > 0 && end < answer.total ? end : undefined, total: answer.total,
        };
      },
    }),
    pagedTable({
      caption: "Friends", columns: ["User", "Remark", "Groups", "Since"], empty: "The user has no friends.", isCaptionHidden: false,
      async load(cursor) {
        const answer = await call("getFriendList", { asUser: userID, limit: listLimit, ...(cursor === undefined ? {} : { cursor }) });
        return {
          rows: answer.friendList.map((friend) => [
            userButton(friend.userID), friend.remark ? stranger(friend.remark) : "–",
            friend.groups?.length ? friend.groups.map((group, index) => [index > 0 && ", ", stranger(group)]) : "–", time(friend.addTime),
          ]),
          next: answer.cursor, total: answer.total,
        };
      },
    }),
    pagedTable({
      caption: "Friend requests", columns: ["User", "Direction", "Nickname", "Wording", "Source", "Since"],
      empty: "No friend request waits.", isCaptionHidden: false,
      async load(timestamp) {
        const answer = await call("getPendencyList", {
          asUser: userID, type: 3, numPerPage: listLimit, ...(timestamp === undefined ? {} : { timestamp }),
        });
        return {
          rows: answer.pendencyList.map((request) => [
            userButton(request.userID), request.type === 1 ? "received" : "sent", request.nickname ? stranger(request.nickname) : "–",
            request.addWording ? stranger(request.addWording) : "–", visible(request.addSource) || "–", time(request.addTime),
          ]),
          next: answer.timestamp || undefined, note: answer.unreadCnt > 0 ? `${count(answer.unreadCnt)} unread` : "",
        };
      },
    }),
    pagedTable({
      caption: "Groups of friends", columns: ["Group", { text: "Friends", isNumber: true }, "Members"],
      empty: "The user has no groups.", isCaptionHidden: false,
      async load() {
        const { groupList } = await call("getFriendGroups", { asUser: userID });
        return {
          rows: groupList.map((group) => [
            stranger(group.name), count(group.userCnt),
            group.userIDs.length === 0 ? "–" : [
              group.userIDs.slice(0, membersMax).map((member, index) => [index > 0 && ", ", identifier(member)]),
              group.userIDs.length > membersMax && `, and ${count(group.userIDs.length - membersMax)} more`,
            ],
          ]),
          total: groupList.length,
        };
      },
    }),
    pagedTable({
      caption: "Blocked users", columns: ["User"], empty: "The user blocks nobody.", isCaptionHidden: false,
      async load(cursor) {
        const answer = await call("getBlackList", { asUser: userID, limit: listLimit, ...(cursor === undefined ? {} : { cursor }) });
        return { rows: answer.userIDs.map((blocked) => [userButton(blocked)]), next: answer.cursor };
      },
    }),
  ];

  show(firstStatus);
  if (!firstStatus.sessions) sessions.show([], "Not known.");
  const element = h("section", { class: "panel", "aria-labelledby": "detailTitle" },
    h("div", { class: "titleRow" }, h("h2", { id: "detailTitle", tabindex: "-1" }, "User ", identifier(userID)),
      h("p", { class: "check" }, follow, h("label", { for: "follow" }, "Follow live"))),
    problem.element, status, changes, sessions.element, relations,
    h("h3", { id: "profileTitle" }, "Profile"), h("div", { role: "group", "aria-labelledby": "profileTitle", id: "profile" }, profile),
    lists.map((list) => list.element));
  let isLoaded = false;
  return {
    element,
    start() {
      isRunning = true;
      if (follow.checked) poller.start();
      if (isLoaded) return;
      isLoaded = true;
      showCounts();
      showProfile();
      for (const list of lists) list.first();
    },
    stop() {
      isRunning = false;
      poller.stop();
    },
  };
}

/** The number of followers: each node counts those among the users that it owns. A node of an older version counts none. */
function followers(nodes) {
  const counts = (nodes ?? []).map((node) => node.followersOfTarget).filter((number) => number !== undefined);
  if (counts.length === 0) return "unknown";
  const total = count(counts.reduce((sum, number) => sum + number, 0));
  return counts.length === nodes.length ? total : `at least ${total}`;
}

/** A value of a profile or of a custom field as text. Bytes that are not UTF-8 stay in base64. */
function valueText(value) {
  if (value === undefined || value === null || value === "") return "–";
  if (typeof value === "object") return [h("code", null, value.base64 ?? JSON.stringify(value)), " (bytes in base64)"];
  return typeof value === "number" ? count(value) : stranger(String(value));
}

const genders = ["unknown", "male", "female"];

/** A day as in 20000101. */
function birthday(value) {
  const match = /^(\d{4})(\d\d)(\d\d)$/.exec(String(value));
  return match ? match.slice(1).join("-") : value ? String(value) : "–";
}

/** The profile of a user. Its texts come from the user: a URL is shown as text, and leads nowhere. */
function profileFacts(profile) {
  return facts([
    ["Nickname", valueText(profile.nick)], ["Picture", valueText(profile.faceURL)], ["Signature", valueText(profile.selfSignature)],
    ["Allow type", visible(profile.allowType)], ["Gender", genders[profile.gender] ?? count(profile.gender)],
    ["Birthday", birthday(profile.birthday)], ["Location", valueText(profile.location)], ["Language", count(profile.language)],
    ["Level", count(profile.level)], ["Role", count(profile.role)],
    ...Object.entries(profile.custom ?? {}).map(([name, value]) => [["Custom field ", identifier(name)], valueText(value)]),
    ["Version of the profile", h("code", null, profile.version ?? "–")],
  ]);
}

function asText(error) {
  return { error: error instanceof UnknownOperation ? error.detail : describe(error) };
}

/** The fields of a record that changed, as contents of a line. */
function differences(before, after) {
  const parts = [];
  if (before.statusType !== after.statusType) parts.push(`${before.statusType} → ${after.statusType}`);
  if (before.customStatus !== after.customStatus) {
    parts.push(after.customStatus ? ["custom status ", stranger(after.customStatus)] : "custom status cleared");
  }
  const [was, is] = [before, after].map((record) => (record.onlinePlatforms ?? []).join(", "));
  if (was !== is) parts.push(`platforms ${visible(is) || "none"}`);
  if (before.event?.eventID !== after.event?.eventID) parts.push(after.event ? `event ${count(after.event.value)}` : "event ended");
  return parts.length === 0 ? `version ${after.version}` : parts.map((part, index) => [index > 0 && ", ", part]);
}

/** The form "why does a viewer see a target like this", with its answer in sentences. */
function createExplanation() {
  const problem = problemPlace();
  const viewer = h("input", { type: "text", id: "viewer", autocomplete: "off", spellcheck: "false", autocapitalize: "none", required: true });
  const target = h("input", { type: "text", id: "target", autocomplete: "off", spellcheck: "false", autocapitalize: "none", required: true });
  const answer = h("div", { class: "explanation", role: "status" });
  const form = submitting(h("form", { class: "inline" },
    field("Viewer", viewer), field("Target", target), h("button", { type: "submit" }, "Explain")), problem, async () => {
    fill(answer);
    fill(answer, explanation(await call("explain", { viewer: viewer.value, target: target.value })));
  });
  return {
    element: h("section", { "aria-labelledby": "explainTitle" },
      h("h2", { id: "explainTitle" }, "Explain what a viewer sees"), form, problem.element, answer),
    set(userID) { target.value = userID; },
  };
}

function explanation(said) {
  const owner = said.ownerOfTarget;
  const [viewer, target] = [identifier(said.viewer), identifier(said.target)];
  const again = { viewer: () => viewer.cloneNode(true), target: () => target.cloneNode(true) };
  if (!owner) return h("p", null, "The owner of ", target, " did not answer.");
  const record = owner.userStatus;
  const versions = (said.nodes ?? []).filter((node) => node.viewerSessions > 0).map((node) => h("li", null,
    "Node ", identifier(node.node), ` has ${plural(node.viewerSessions, "stream")} of `, again.viewer(),
    ` and holds ${node.statusHeld}: `,
    node.versionHeld === record?.version ? "the owner's version." : `version ${node.versionHeld}, but the owner has ${record?.version}.`));
  return [
    h("p", null, target, " is ", h("strong", null, record?.statusType ?? "unknown"), " at its owner, node ", identifier(owner.node), ":"),
    h("ul", null, (owner.because ?? []).map((reason) => h("li", null, reasonText(reason)))),
    owner.shownToViewer && h("p", null, viewer, " is shown ", h("strong", null, owner.shownToViewer.statusType), "."),
    h("p", null, "For ", again.viewer(),
      said.ownerOfViewer ? [", at node ", identifier(said.ownerOfViewer.node), ":"] : ": the owner did not answer."),
    h("ul", null, (said.ownerOfViewer?.because ?? []).map((reason) => h("li", null, reasonText(reason))),
      versions.length > 0 ? versions : h("li", null, "no node has a stream of ", again.viewer())),
    h("p", { class: "help" }, `The app has the preset ${said.preset}.`),
  ];
}

/** A reason of the node. Its times in milliseconds become local times. */
function reasonText(reason) {
  const parts = String(reason).split(/\b(since|at|until) (\d{13})\b/);
  return h("bdi", null, parts.map((part, index) => index % 3 === 2 ? time(Number(part)) : index % 3 === 1 ? `${part} ` : visible(part)));
}
