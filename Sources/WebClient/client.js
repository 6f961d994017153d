/**
 * The JavaScript client of Rollcall: one ES module for browsers, Node 18 or newer, Deno and Bun.
 *
 * ```js
 * const client = new PresenceClient({ addresses: ["https://presence.example.com"], token: () => app.token() });
 * client.on("userStatusChanged", (statuses) => show(statuses));
 * await client.connect();
 * await client.subscribeUserStatus(["bob", "carl"], { sync: true });
 * ```
 *
 * `StatusClient` is the part about statuses. `PresenceClient` adds visibility, published events, the list of subscriptions, profiles,
 * friends, requests, groups, the blocklist, and EventSource.
 *
 * The open event stream is the session: the user is ONLINE while the stream is open. Tabs of one origin share one session: a Web Lock elects
 * the leading tab, and a BroadcastChannel carries events and calls.
 *
 * Names, statuses and profiles come from other users. Show them as text (`textContent`), never as markup.
 */

// MARK: Types

/**
 * A numeric status that a user published. Times are milliseconds since 1970.
 * @typedef {Object} PublishedEvent
 * @property {string} eventID
 * @property {number} value
 * @property {string} ext
 * @property {number} publishedAt
 * @property {number} expiresAt
 * @property {boolean} sendToOnlineUsersOnly
 * @property {boolean} syncEnabled
 * @property {string} [sessionID] The session that published it. Present only in the own records.
 */

/**
 * A user's status: one whole, versioned record. A larger version is newer.
 * @typedef {Object} UserStatus
 * @property {string} userID
 * @property {"ONLINE" | "OFFLINE" | "UNLOGINED" | "UNKNOWN"} statusType
 * @property {string} customStatus
 * @property {string[]} onlinePlatforms
 * @property {PublishedEvent} [event]
 * @property {PublishedEvent} [loginEvent]
 * @property {number} lastUpdateTime
 * @property {number} lastOnlineStatusUpdateTime
 * @property {number} lastCustomStatusUpdateTime
 * @property {number} lastSeenTime
 * @property {string} version
 * @property {true} [isUnsure] The node may not know better, because it is cut off from others. The same version without it follows.
 */

/**
 * A session as `onConnected` describes it.
 * @typedef {Object} Session
 * @property {string} sessionID
 * @property {string} userID
 * @property {string} node
 * @property {number} heartbeatInterval Seconds between two signs of life.
 * @property {number} heartbeatTimeout Seconds of silence after which the node ends the session.
 * @property {number} serverTime The node's clock, in milliseconds since 1970.
 */

/**
 * A user for whom a call failed.
 * @typedef {Object} UserError
 * @property {string} userID
 * @property {number} code
 * @property {string} reason
 */

/**
 * Bytes that are not UTF-8.
 * @typedef {Object} Bytes
 * @property {string} base64
 */

/**
 * The value of a custom field.
 * @typedef {number | string | Bytes} FieldValue
 */

/**
 * A friend on the own list.
 * @typedef {Object} Friend
 * @property {string} userID
 * @property {string} remark
 * @property {string[]} groups
 * @property {string} addWording
 * @property {string} addSource
 * @property {number} addTime
 * @property {Record<string, FieldValue>} custom
 * @property {UserProfile} [profile] Present only with `withProfile`.
 */

/**
 * A friend request. `type` is 1 for a received request and 2 for a sent one.
 * @typedef {Object} FriendRequest
 * @property {string} userID
 * @property {number} addTime
 * @property {string} addSource
 * @property {string} addWording
 * @property {string} nickname
 * @property {1 | 2} type
 */

/**
 * A group of friends. `userIDs` is absent in an event about many friends.
 * @typedef {Object} FriendGroup
 * @property {string} name
 * @property {number} userCnt
 * @property {string[]} [userIDs]
 */

/**
 * A user's profile.
 * @typedef {Object} UserProfile
 * @property {string} userID
 * @property {string} nick
 * @property {"ANY" | "CONFIRM" | "DENY"} [allowType]
 * @property {string} faceURL
 * @property {FieldValue} selfSignature
 * @property {number} gender
 * @property {number} birthday
 * @property {FieldValue} location
 * @property {number} language
 * @property {number} level
 * @property {number} role
 * @property {Record<string, FieldValue>} custom
 * @property {string} version
 */

/**
 * The own relationship chain, as the client knows it. `isComplete` tells whether all lists were fetched since the login.
 * @typedef {Object} Relationships
 * @property {boolean} isComplete
 * @property {Friend[]} friends
 * @property {FriendRequest[]} requests
 * @property {number} unreadCount
 * @property {string[]} blocked
 * @property {FriendGroup[]} groups
 */

/**
 * The result of a decision about a user. `resultCode` is 0 for success.
 * @typedef {Object} FriendResult
 * @property {string} userID
 * @property {number} resultCode
 * @property {string} resultInfo
 * @property {number} [resultType] Present in the results of `checkFriends` and `checkBlackList`.
 */

/**
 * The results of a decision about several users.
 * @typedef {Object} FriendResults
 * @property {FriendResult[]} resultList
 * @property {UserError[]} errorUserList
 */

/**
 * The result of a call about groups.
 * @typedef {Object} GroupResults
 * @property {number} resultCode
 * @property {string} resultInfo
 * @property {FriendResult[]} [resultList]
 * @property {UserError[]} [errorUserList]
 */

/**
 * A subscription of the own user.
 * @typedef {Object} Subscription
 * @property {string} userID
 * @property {1 | 2 | 3 | 4} subscribeType
 * @property {number} subscribedAt
 * @property {number} [expiresAt]
 * @property {UserStatus} [userStatus]
 * @property {string} [profileVersion]
 */

/**
 * Who may see the own status.
 * @typedef {Object} Visibility
 * @property {"everyone" | "friends" | "list" | "nobody"} visibility
 * @property {string[]} userIDs
 * @property {boolean} invisible
 * @property {number | null} [mayBeSeenUntil]
 */

/**
 * The state of the connection: `idle` before `connect`, `connecting` while a stream is being opened, `online`, and `waiting` between two
 * attempts. The other states end the session, and the client opens no other by itself.
 * @typedef {"idle" | "connecting" | "online" | "waiting" | "replaced" | "kicked" | "loggedOut" | "refused" | "closed"} ConnectionState
 */

/**
 * A change of the connection's state.
 * @typedef {Object} StateChange
 * @property {ConnectionState} state
 * @property {string} reason The cause, for people.
 * @property {PresenceError} [error] The node's answer that ended the session, or with which a first login failed.
 */

/**
 * A change of the own relationship chain or of a profile. `type` names the event of the node without `on`, or is `synced` when the client
 * has fetched what it had missed. `data` is the data of the event.
 * @typedef {Object} RelationshipChange
 * @property {string} type
 * @property {any} data
 */

/**
 * A published event that the app receives as news, once.
 * @typedef {Object} RaisedEvent
 * @property {string} userID
 * @property {PublishedEvent} event
 * @property {UserStatus} userStatus
 */

/**
 * A change that another device of the same user made to the subscriptions.
 * @typedef {Object} SubscriptionChange
 * @property {string[]} subscribed
 * @property {string[]} unsubscribed
 * @property {{ userID: string, subscribeType: number, expiresAt?: number }[]} subscriptions
 * @property {{ userID: string, subscribeType: number, expiresAt?: number }[]} unsubscriptions
 */

/**
 * An open session of the own user, on this device or on another one. `node` and `isCurrent` are in the answer of `getSessions` alone.
 * @typedef {Object} DeviceSession
 * @property {string} sessionID
 * @property {string} platform
 * @property {string} deviceID
 * @property {number} since
 * @property {string} [node]
 * @property {boolean} [isCurrent]
 */

/**
 * The events of a client, and the detail of each. A `StatusClient` has neither `sessionsChanged` nor `relationshipChanged` nor `eventRaised`.
 * @typedef {Object} PresenceEvents
 * @property {StateChange} stateChanged
 * @property {Session} connected
 * @property {UserStatus[]} userStatusChanged
 * @property {number} subscriptionSyncCompleted
 * @property {SubscriptionChange} subscriptionChangedOnOtherDevices
 * @property {string[]} subscriptionExpired
 * @property {DeviceSession[]} sessionsChanged
 * @property {RelationshipChange} relationshipChanged
 * @property {RaisedEvent} eventRaised
 * @property {string} kickedOffline
 * @property {null} loggedOut
 */

/**
 * The settings of a `StatusClient`. Durations are milliseconds.
 * @typedef {Object} StatusOptions
 * @property {string[]} addresses The base URLs of nodes of one cluster, or of a proxy in front of them.
 * @property {string | (() => string | null | undefined | Promise<string | null | undefined>)} token The app's token for the user, or a function that returns it. The client calls the function before the first request, before the token ends, and when a node rejects the token. It renews the open session by itself. A function that throws, or returns a token that a node rejects, is asked again after growing waits of at most 8 s. A function that returns nothing ends the session: the app has no user.
 * @property {string} [platform] The platform that other users see. Default `web`.
 * @property {string} [deviceID] The device's ID, at most 128 bytes. A login of the same user, platform and device replaces the session before it.
 * @property {string} [customStatus] The custom status that the first login sets.
 * @property {boolean} [pushReachable] Whether vendor push reaches the device.
 * @property {string} [asUser] The user for whom a back end acts.
 * @property {"none"} [presence] With `none` the client hears without being seen: it is no session of the user, and its connection changes no status.
 * @property {boolean} [shareTabs] Whether tabs of one origin share one session. Default true.
 * @property {number} [callTimeout] The timeout of one attempt of a call. Default 10,000.
 * @property {number} [connectTimeout] The timeout of opening a stream, until its first event. Default 10,000.
 * @property {{ initial: number, max: number }} [backoff] The ceilings of the waits between attempts. Default 500, doubled up to 30,000.
 * @property {number} [loginAttemptsMax] The attempts after which `connect` fails. Default 5. A lost session is reopened without this limit.
 * @property {number} [usersMax] The most users whose status, and whose profile, the client keeps. Default 10,000.
 * @property {Partial<CallLimits>} [limits] The most users of one call.
 * @property {typeof fetch} [fetch] Replaces the global `fetch`.
 * @property {() => number} [random] Replaces `Math.random`.
 */

/**
 * The settings that a `PresenceClient` has besides those of a `StatusClient`.
 * @typedef {Object} FurtherOptions
 * @property {boolean} [useEventSource] Whether streams use EventSource and a stream ticket. Default: only where fetch cannot stream.
 * @property {boolean} [keepRelationships] Whether the client keeps the own friends, requests, blocklist and groups. Default false.
 * @property {number} [profileExpiry] The time for which a fetched profile is used again. Default a day.
 */

/**
 * The settings of a `PresenceClient`.
 * @typedef {StatusOptions & FurtherOptions} PresenceOptions
 */

/**
 * The most users of one call. The client cuts longer lists into several calls, and merges the answers.
 * @typedef {Object} CallLimits
 * @property {number} queryUsersMax
 * @property {number} subscribeUsersMax
 * @property {number} unsubscribeUsersMax
 * @property {number} pageRowsMax
 * @property {number} chainUsersMax
 */

/**
 * Options of every call.
 * @typedef {Object} CallOptions
 * @property {string} [asUser] The user for whom a back end acts.
 * @property {string} [idempotencyKey] A name for a call that publishes an event or changes the relationship chain: 1 to 58 characters of
 * visible ASCII. A page that was loaded again may repeat the call with it: a node answers it as it answered the first, for an hour. By
 * default the client makes one for each call, and repeats the call with it.
 */

// MARK: Errors

/**
 * The codes that this client adds to those of the nodes, and the most used codes of the nodes.
 */
export const PresenceCode = Object.freeze({
  notLoggedIn: 6014,
  badParameter: 6017,
  badUserID: 7003,
  calledTooOften: 7008,
  notInPlan: 7013,
  notAFriend: 31704,
  ownerUnreachable: 50001,
  overloaded: 50002,
  noSuchUser: 70107,
  switchedOff: 72001,
  /** No node was reachable, or the connection broke before the answer. */
  unreachable: -1,
  /** The answer was not understood. */
  badAnswer: -3,
  /** The app's token function failed. */
  tokenUnavailable: -4,
  /** The client is closed or logged out. */
  closed: -5,
  /** A newer call sets the same fact, so the client did not retry this one. */
  superseded: -6,
  /** Too many calls wait for an answer. */
  tooManyCalls: -7,
});

/**
 * The reason why a call or a login failed. A call that failed has changed nothing, unless `mayTakeEffect` is true.
 */
export class PresenceError extends Error {
  /**
   * @param {{ code: number, status?: number, title?: string, detail: string, retryAfter?: number, mayTakeEffect?: boolean, errorUserList?: UserError[], requestID?: string }} fields
   */
  constructor(fields) {
    super(`${fields.code} ${fields.title ?? ""}: ${fields.detail}`);
    this.name = "PresenceError";
    /**
     * The code of the node's answer; negative without an answer.
     * @type {number}
     */
    this.code = fields.code;
    /**
     * The HTTP status; 0 without an answer.
     * @type {number}
     */
    this.status = fields.status ?? 0;
    /**
     * The code's name, for people.
     * @type {string}
     */
    this.title = fields.title ?? "";
    /**
     * The error, the place of it, and the rule.
     * @type {string}
     */
    this.detail = fields.detail;
    /**
     * The seconds after which a retry makes sense.
     * @type {number | undefined}
     */
    this.retryAfter = fields.retryAfter;
    /**
     * Whether the node may have carried out the call, or may still do so.
     * @type {boolean}
     */
    this.mayTakeEffect = fields.mayTakeEffect ?? false;
    /**
     * The users that failed, where the call failed as a whole because of them.
     * @type {UserError[]}
     */
    this.errorUserList = fields.errorUserList ?? [];
    /**
     * The ID of the request at the node that has refused it, which the log of that node names; undefined without an answer of a node.
     * @type {string | undefined}
     */
    this.requestID = fields.requestID;
  }
}

const unreachable = (detail, mayTakeEffect = false) =>
  new PresenceError({ code: PresenceCode.unreachable, title: "unreachable", detail, mayTakeEffect });
const closedError = (detail) => new PresenceError({ code: PresenceCode.closed, title: "closed", detail });
const supersededError = () =>
  new PresenceError({ code: PresenceCode.superseded, title: "superseded", detail: "a newer call sets the same, so this one was not retried" });
const badAnswer = (detail, status = 200) =>
  new PresenceError({ code: PresenceCode.badAnswer, status, title: "the answer was not understood", detail });

/** Whether another node or a later attempt cannot help. */
function isFinal(error) {
  if (error.code === PresenceCode.closed) return true;
  return error.status >= 400 && error.status < 500 && error.status !== 429 && error.status !== 408;
}

/** The object in a text of JSON; null for another text. */
function objectIn(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" ? value : null;
  } catch (error) {
    return null;
  }
}

/**
 * The error in a node's answer. An answer that is no problem document comes from a proxy: 429 and 503 have the same meaning everywhere, and
 * after 502 and 504 nobody knows whether a node has carried out the call.
 */
function problem({ status, headers }, text, operation) {
  const requestID = headers.get("Request-ID") ?? undefined;
  const seconds = parseFloat(headers.get("Retry-After") ?? "");
  const asked = seconds >= 0 ? seconds : undefined;
  const fields = objectIn(text);
  if (typeof fields?.code !== "number") {
    const isLost = status === 502 || status === 504;
    const refusal = status === 429 ? PresenceCode.calledTooOften : status === 503 ? PresenceCode.overloaded : PresenceCode.badAnswer;
    return new PresenceError({
      code: isLost ? PresenceCode.unreachable : refusal, status, title: `HTTP ${status}`, detail: `${operation}: not a problem document`,
      retryAfter: asked, mayTakeEffect: isLost && operation !== "events" && !isRead(operation), requestID });
  }
  return new PresenceError({
    code: fields.code,
    status,
    title: fields.title ?? `HTTP ${status}`,
    detail: fields.detail ?? "",
    retryAfter: typeof fields.retryAfter === "number" ? fields.retryAfter : asked,
    mayTakeEffect: fields.mayTakeEffect === true,
    errorUserList: Array.isArray(fields.errorUserList) ? fields.errorUserList : [],
    requestID,
  });
}

/** A PresenceError as fields that a BroadcastChannel can carry. */
const flatten = (error) =>
  error instanceof PresenceError ? { ...error } : { code: PresenceCode.badAnswer, title: "failed", detail: String(error) };

// MARK: Waits

/**
 * The longest wait after the app's token was rejected or missing, in milliseconds. A token function that hands out expired tokens for a while
 * must not keep the session away for longer.
 */
const TOKEN_WAIT_MAX = 8_000;
/** The longest wait before a session is renewed, in milliseconds. Tokens that were made together end together. */
const RENEWAL_SPREAD = 4_000;
/** The reason in `onKickedOffline` of a session whose token has ended. */
const TOKEN_EXPIRED = "tokenExpired";

/** A uniformly random wait up to a ceiling that doubles with each attempt, so that clients of one node do not come back together. */
function jitter({ initial, max }, attempt, random) {
  return random() * Math.min(max, initial * 2 ** Math.min(attempt, 30));
}

const CALL_BACKOFF = { initial: 200, max: 5_000 };
const CALL_ATTEMPTS_MAX = 4;
/** The longest `retryAfter` that a call waits for, in seconds. */
const RETRY_AFTER_MAX = 10;

/** The wait before the next attempt of a call; null if there is none. */
function retryDelay(error, attempt, random) {
  if (attempt + 1 >= CALL_ATTEMPTS_MAX) return null;
  const wait = jitter(CALL_BACKOFF, attempt, random);
  switch (error.code) {
    case PresenceCode.ownerUnreachable:
    case PresenceCode.unreachable:
      return wait;
    case PresenceCode.overloaded:
    case PresenceCode.calledTooOften: {
      const asked = error.retryAfter ?? 1;
      return asked <= RETRY_AFTER_MAX ? asked * 1_000 + wait : null;
    }
    default:
      return null;
  }
}

// MARK: Calls

/** A random text of 24 characters. */
const randomText = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Whether a lost answer leaves no doubt, because the operation only reads. */
const isRead = (name) => /^(get|check|explain)/.test(name);

// MARK: Server-sent events

/** A line and an event have at most as many characters. A stream that exceeds it is given up. */
const EVENT_LENGTH_MAX = 1 << 20;

/** Parses server-sent events (HTML standard, "Interpreting an event stream"). Bytes may be cut anywhere. */
class EventStreamParser {
  #decoder = new TextDecoder();
  #rest = "";
  #name = "";
  /** @type {string[]} */
  #data = [];
  #dataLength = 0;
  /** @type {string | null} */
  #id = null;
  #endedWithCR = false;

  /** Calls `emit(name, data, id)` for each event that is now complete. */
  receive(bytes, emit) {
    let text = this.#decoder.decode(bytes, { stream: true });
    if (text === "") return;
    if (this.#endedWithCR && text[0] === "\n") text = text.slice(1);
    this.#endedWithCR = text.endsWith("\r");
    const lines = text.split(/\r\n|\n|\r/);
    lines[0] = this.#rest + lines[0];
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > EVENT_LENGTH_MAX) throw badAnswer(`a line of the stream is longer than ${EVENT_LENGTH_MAX} characters`);
    for (const line of lines) this.#take(line, emit);
  }

  #take(line, emit) {
    if (line === "") {
      if (this.#data.length > 0) emit(this.#name || "message", this.#data.join("\n"), this.#id);
      this.#name = "";
      this.#data = [];
      this.#dataLength = 0;
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value[0] === " ") value = value.slice(1);
    if (field === "event") this.#name = value;
    else if (field === "data") {
      this.#dataLength += value.length;
      if (this.#dataLength > EVENT_LENGTH_MAX) throw badAnswer(`an event is longer than ${EVENT_LENGTH_MAX} characters`);
      this.#data.push(value);
    } else if (field === "id" && !value.includes("\0")) this.#id = value;
  }
}

// MARK: The order of calls

/** Whether a call with this claim sets the fact of a user, so that an older call need not. */
function supersedes(claim, user, fact) {
  if (claim.user !== user) return false;
  if (fact === "followingAnybody") return claim.startsFollowing || claim.facts.has(fact);
  return claim.facts.has(fact) || (fact.startsWith("following:") && claim.facts.has("followingAnybody"));
}

/** Whether a call still has something to set, or sets no fact at all. */
const isLive = ({ isFree, claim }) => isFree || claim.facts.size > 0;

/**
 * Orders the calls that set the same fact. It does no I/O.
 *
 * - A call is sent when no older call that sets one of its facts is on the wire or waits to be sent.
 * - A call that waits to be retried gives up each fact that a newer call sets. A call without facts is not retried.
 *
 * A claim is `{ user, facts: Set, startsFollowing }`. A fact is a text, for example `customStatus` or `following:bob`.
 */
class CallOrder {
  /** @type {{ number: number, claim: any, isFree: boolean, isPaused: boolean }[]} */
  #entries = [];
  #count = 0;

  /** Adds the newest call. Returns its number, and the paused calls that have nothing left to do. */
  begin(claim) {
    const superseded = [];
    for (const entry of this.#entries) {
      if (!entry.isPaused || !isLive(entry)) continue;
      for (const fact of entry.claim.facts) if (supersedes(claim, entry.claim.user, fact)) entry.claim.facts.delete(fact);
      if (!isLive(entry)) superseded.push(entry.number);
    }
    const number = ++this.#count;
    this.#entries.push({ number, claim, isFree: claim.facts.size === 0, isPaused: false });
    return { number, superseded };
  }

  #entry(number) {
    return this.#entries.find((entry) => entry.number === number);
  }

  hasTurn(number) {
    const own = this.#entry(number);
    if (!own) return true;
    for (const older of this.#entries) {
      if (older.number >= number) break;
      if (older.isPaused) continue;
      for (const fact of older.claim.facts) if (supersedes(own.claim, older.claim.user, fact)) return false;
    }
    return true;
  }

  /** Records that the call waits for a retry. Returns whether a fact is left that no newer call sets. */
  pause(number) {
    const entry = this.#entry(number);
    if (!entry) return false;
    entry.isPaused = true;
    for (const newer of this.#entries) {
      if (newer.number <= number) continue;
      for (const fact of entry.claim.facts) if (supersedes(newer.claim, entry.claim.user, fact)) entry.claim.facts.delete(fact);
    }
    return isLive(entry);
  }

  resume(number) {
    const entry = this.#entry(number);
    if (entry) entry.isPaused = false;
  }

  isLive(number) {
    const entry = this.#entry(number);
    return entry !== undefined && isLive(entry);
  }

  holds(fact, number) {
    return this.#entry(number)?.claim.facts.has(fact) ?? false;
  }

  /** Records that the call has set these facts and does not set them again. */
  release(facts, number) {
    const entry = this.#entry(number);
    if (entry) for (const fact of facts) entry.claim.facts.delete(fact);
  }

  end(number) {
    this.#entries = this.#entries.filter((entry) => entry.number !== number);
  }
}

// MARK: What the client knows

/**
 * The newest status of each user. It never goes back.
 *
 * For each user the view also keeps the version that listeners have received, so that they miss nothing that an answer brought first.
 */
class StatusView {
  #usersMax;
  /**
   * The users, the one without a change for longest first.
   * @type {Map<string, { status: UserStatus, delivered: string | null }>}
   */
  #entries = new Map();

  constructor(usersMax) {
    this.#usersMax = usersMax;
  }

  get(userID) {
    return this.#entries.get(userID)?.status;
  }

  get statuses() {
    return [...this.#entries.values()].map((entry) => entry.status);
  }

  clear() {
    this.#entries.clear();
  }

  /** Stores the statuses of an answer. Returns those that are newer than the known ones. */
  store(statuses) {
    return statuses.filter((status) => this.#keep(status));
  }

  /** Stores statuses of the stream. Returns those that listeners have not received, the newest of each user. */
  deliver(statuses) {
    const undelivered = new Map();
    for (const status of statuses) {
      const delivered = this.#entries.get(status.userID)?.delivered ?? null;
      if (delivered !== null && status.version <= delivered) {
        if (this.#replace(status)) undelivered.set(status.userID, status);
        continue;
      }
      this.#keep(status);
      const entry = this.#entries.get(status.userID);
      if (!entry) continue;
      entry.delivered = entry.status.version;
      undelivered.set(status.userID, entry.status);
    }
    return [...undelivered.values()];
  }

  /** Replaces a delivered status by the same version of it, because the app's policy shows it in another way now, or it is unsure or sure again. Returns whether they differ. */
  #replace(status) {
    const entry = this.#entries.get(status.userID);
    if (!entry || entry.delivered !== status.version || entry.status.version !== status.version) return false;
    if (JSON.stringify(entry.status) === JSON.stringify(status)) return false;
    entry.status = status;
    return true;
  }

  #keep(status) {
    const known = this.#entries.get(status.userID);
    if (known && known.status.version >= status.version) return false;
    this.#entries.delete(status.userID);
    this.#entries.set(status.userID, { status, delivered: known?.delivered ?? null });
    if (this.#entries.size > this.#usersMax) this.#entries.delete(this.#entries.keys().next().value ?? "");
    return true;
  }
}

// MARK: The session

/** The effects that cancel streams. Null is no stream. */
const cancelling = (/** @type {(number | null)[]} */ ...streams) =>
  streams.filter((stream) => stream !== null).map((stream) => ["cancel", stream]);

/**
 * Decides when and where to open a stream, and when to give up. It does no I/O: inputs come in, effects go out, in order.
 *
 * At most three streams are open: that of the session, its successor, and, until the session's stream has sent everything, its predecessor.
 *
 * Effects: `["open", stream, address]`, `["cancel", stream]`, `["wake", delay]`, `["fail", error]` for a first login that goes on, and
 * `["end", state, reason, error]`.
 */
class SessionMachine {
  #options;
  #address;
  #phase = "idle";
  #streamsCount = 0;
  #isWaiting = false;
  /** Whether a stream was not opened while there was a session. Its login may have replaced the session all the same. */
  #mayReplaceItself = false;
  #attempt = 0;
  #hops = 0;
  /** @type {string | null} */
  #node = null;
  /**
   * The stream of the session.
   * @type {number | null}
   */
  current = null;
  /**
   * The stream that is being opened.
   * @type {number | null}
   */
  pending = null;
  /**
   * The predecessor. Only when the session's stream has sent everything does the user's owner certainly know the new session.
   * @type {number | null}
   */
  retiring = null;
  isLeaving = false;

  constructor(options, address) {
    this.#options = options;
    this.#address = address;
  }

  get isIdle() {
    return this.#phase === "idle";
  }

  /** @returns {ConnectionState} */
  get state() {
    if (this.#phase === "idle") return "idle";
    if (this.current !== null) return "online";
    return this.pending !== null ? "connecting" : "waiting";
  }

  /** Starts a session, unless there is one. A session that continues another tab's is retried without a limit of attempts. */
  begin(continues) {
    if (this.#phase !== "idle") return [];
    this.#phase = continues ? "reconnecting" : "connecting";
    this.#attempt = 0;
    this.#hops = 0;
    return [this.#open()];
  }

  /** Records that a node has opened the session of a stream. */
  connected(stream, node) {
    if (stream !== this.pending) return [];
    const effects = cancelling(this.retiring);
    this.retiring = this.current;
    if (node !== this.#node) this.#hops = 0;
    this.#node = node;
    this.current = stream;
    this.pending = null;
    this.#isWaiting = false;
    this.#mayReplaceItself = false;
    this.#phase = "connected";
    return effects;
  }

  /** Records that all statuses of one type have arrived, so that the session works. */
  synced(stream) {
    if (stream !== this.current) return [];
    this.#attempt = 0;
    const effects = cancelling(this.retiring);
    this.retiring = null;
    return effects;
  }

  /** Records that the node of a stream is leaving. Another stream opens after a delay, and then this one is dropped. */
  hinted(stream, after) {
    if (stream !== this.current || this.pending !== null || this.#isWaiting || this.isLeaving) return [];
    const delay = this.#hops === 0 ? after : Math.max(after, jitter(this.#options.backoff, this.#hops, this.#options.random));
    this.#hops += 1;
    this.#rotate();
    return [this.#wait(delay)];
  }

  /**
   * Records that a stream has ended, or was not opened. `error` is null for a broken connection.
   *
   * If the app can hand out another token than the rejected one, that is waited for without end. A first login then fails after its attempts,
   * and a good token opens the session later. An app that has no token ends the session.
   */
  lost(stream, error, detail, isTokenRenewable = false) {
    if (stream === this.retiring) this.retiring = null;
    if (stream !== this.current && stream !== this.pending) return [];
    if (stream === this.current) {
      this.current = this.retiring;
      this.retiring = null;
    } else {
      this.pending = null;
      this.#mayReplaceItself = this.current !== null;
    }
    if (this.isLeaving) return [];
    const awaitsToken = error?.status === 401 && isTokenRenewable;
    const hasNoToken = error?.code === PresenceCode.tokenUnavailable && !isTokenRenewable;
    if (error && !awaitsToken && (isFinal(error) || hasNoToken)) return this.end("refused", error.detail, error);
    this.#attempt += 1;
    const effects = [];
    if (this.#phase === "connecting" && this.#attempt >= this.#options.loginAttemptsMax) {
      if (!awaitsToken) return this.end("idle", detail, error ?? unreachable(detail));
      this.#phase = "reconnecting";
      effects.push(["fail", error]);
    }
    if (this.current === null && this.#phase === "connected") this.#phase = "reconnecting";
    // Another stream is already being opened.
    if (this.pending !== null) return effects;
    // A waiting hint has already chosen another address.
    if (!this.#isWaiting) this.#rotate();
    const { initial, max } = this.#options.backoff;
    const isOfToken = awaitsToken || error?.code === PresenceCode.tokenUnavailable;
    const backoff = { initial, max: isOfToken ? Math.min(max, TOKEN_WAIT_MAX) : max };
    return [...effects, this.#wait(jitter(backoff, this.#attempt - 1, this.#options.random) + (error?.retryAfter ?? 0) * 1_000)];
  }

  /** Records that a newer login has ended the session of a stream. The newer login may be this client's own. */
  replaced(stream) {
    if (stream !== this.current || this.pending !== null || this.#mayReplaceItself) return [];
    return this.end("replaced", "a newer login took the place of this session", null);
  }

  /** Records that the wait is over. */
  woke() {
    if (!this.#isWaiting || this.#phase === "idle" || this.pending !== null) return [];
    this.#isWaiting = false;
    return [this.#open()];
  }

  /** Records that the node of the session's stream may be frozen. A stream opens elsewhere. The session's stream is kept until then. */
  doubted() {
    if (this.current === null || this.pending !== null || this.#isWaiting || this.isLeaving) return [];
    this.#rotate();
    return [this.#open()];
  }

  /** Records that the network may have changed. A stream opens at once. The session's stream is kept until then. */
  nudged() {
    if (this.#phase === "idle" || this.isLeaving) return [];
    const effects = cancelling(this.pending);
    this.#isWaiting = false;
    this.#attempt = 0;
    return [...effects, this.#open()];
  }

  /**
   * Opens nothing more, because the client asks the nodes to end the session. A stream whose request was sent is kept until its node has
   * named the session, which then ends as well.
   */
  leave(wasSent) {
    this.isLeaving = this.#phase !== "idle";
    this.#isWaiting = false;
    if (wasSent) return [];
    const effects = cancelling(this.pending);
    this.pending = null;
    return effects;
  }

  /** Ends the session for good. */
  end(state, reason, error) {
    if (this.#phase === "idle") return [];
    const effects = cancelling(this.retiring, this.current, this.pending);
    this.#phase = "idle";
    this.current = null;
    this.pending = null;
    this.retiring = null;
    this.#isWaiting = false;
    this.#mayReplaceItself = false;
    this.isLeaving = false;
    this.#node = null;
    return [...effects, ["end", state, reason, error]];
  }

  #open() {
    this.#streamsCount += 1;
    this.pending = this.#streamsCount;
    return ["open", this.#streamsCount, this.#address];
  }

  #wait(delay) {
    this.#isWaiting = true;
    return ["wake", delay];
  }

  #rotate() {
    this.#address = (this.#address + 1) % this.#options.addresses.length;
  }
}

// MARK: Tokens

/** The claims of a JWT; an empty object for another text. */
function claims(token) {
  try {
    const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(part), (character) => character.charCodeAt(0));
    return objectIn(new TextDecoder().decode(bytes)) ?? {};
  } catch (error) {
    return {};
  }
}

/** The app's token. All calls that wait share one request for a new one. */
class TokenSource {
  #provider;
  /** @type {string | null} */
  #token = null;
  #renewAt = Infinity;
  /** @type {Promise<string> | null} */
  #renewal = null;
  /** The node's clock minus the own one, in milliseconds. */
  clockOffset = 0;
  /** How often the app was asked for a token. */
  askedCount = 0;
  /** Whether the app has answered with nothing: it has no user. */
  #isAtEnd = false;

  constructor(provider) {
    this.#provider = provider;
  }

  /** The token; a new one if nodes reject `rejected`, or if the known one ends soon. */
  async current(rejected = /** @type {string | null} */ (null)) {
    if (this.#token !== null && this.#token !== rejected && Date.now() < this.#renewAt) return this.#token;
    const known = this.#token;
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = null;
    });
    try {
      return await this.#renewal;
    } catch (error) {
      // The known token is valid until its end. The next attempt to renew it is due in a while.
      const isValid = known !== null && known !== rejected && Date.now() + this.clockOffset < (claims(known).exp ?? Infinity) * 1_000;
      if (!isValid) throw error;
      this.#renewAt = Date.now() + 5_000;
      return /** @type {string} */ (known);
    }
  }

  /** Whether the app can hand out another token. */
  get isRenewable() {
    return typeof this.#provider === "function" && !this.#isAtEnd;
  }

  clear() {
    this.#token = null;
    this.#isAtEnd = false;
    this.#renewAt = Infinity;
  }

  async #renew() {
    this.askedCount += 1;
    let token;
    try {
      token = typeof this.#provider === "function" ? await this.#provider() : this.#provider;
    } catch (error) {
      throw new PresenceError({ code: PresenceCode.tokenUnavailable, title: "no token", detail: String(error) });
    }
    this.#isAtEnd = token === undefined || token === null || token === "";
    if (typeof token !== "string" || token === "") {
      throw new PresenceError({ code: PresenceCode.tokenUnavailable, title: "no token", detail: "the token function returned no text" });
    }
    const isNew = token !== this.#token;
    this.#token = token;
    const { exp, iat } = claims(token);
    if (typeof this.#provider !== "function" || typeof exp !== "number") this.#renewAt = Infinity;
    else {
      const end = exp * 1_000 - this.clockOffset;
      const lifetime = typeof iat === "number" ? (exp - iat) * 1_000 : 600_000;
      // A function that keeps returning the same token is asked once in a while, not before each call.
      this.#renewAt = Math.max(end - Math.min(60_000, lifetime / 10), Date.now() + (isNew ? 1_000 : 5_000));
    }
    return token;
  }
}

// MARK: The engine

/** The longest answer of a call, in bytes. */
const ANSWER_BYTES_MAX = 16 << 20;
/** The most calls that wait for an answer. Further calls fail at once. */
const CALLS_MAX = 1_000;
/** The time for which a logout waits for a session that is being opened before it ends the others, in milliseconds. */
const PENDING_SESSION_WAIT = 500;
/** A timer that is as late means that the machine slept, in milliseconds. Browsers delay the timers of hidden pages by up to a minute. */
const SLEEP_MIN = 5_000;
const SLEEP_MIN_HIDDEN = 90_000;
/** The attempts that follow a possible change of the network without a wait, and the timeout of each in milliseconds. */
const CHECKS_MAX = 3;
const CHECK_TIMEOUT = 2_000;
/**
 * The interval of comments that the client asks for, in seconds. The session's node may have a shorter one.
 *
 * The cluster shows the users of a frozen node OFFLINE after 12.4 s at the earliest. Two silent intervals leave the time to open another
 * stream before that.
 */
const HEARTBEAT_SECONDS = 4;

/** The elements in order, each once, in runs of at most `countMax`. An empty list is one empty run, so that the node can reject it. */
function batches(userIDs, countMax) {
  if (!Array.isArray(userIDs)) return [userIDs];
  const unique = [...new Set(userIDs)];
  const runs = [];
  for (let start = 0; start < unique.length || start === 0; start += countMax) runs.push(unique.slice(start, start + countMax));
  return runs;
}

/** Removes the fields that are undefined or null. */
const compact = (body) => Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined && value !== null));

/**
 * The session and the calls of the leading tab, or of a client that shares nothing.
 *
 * The engine tells its host each fact, in order: `host.tell(fact)`. The host keeps what the facts say, and returns the lists to fetch.
 * `extension` is null or a `PresenceExtension`, which adds operations, and fetches the lists.
 */
class Engine {
  #options;
  #host;
  #extension;
  #token;
  #machine;
  #order = new CallOrder();
  /** @type {Map<number, any>} */
  #streams = new Map();
  #wakeTimer;
  #ticker;
  #lastTick = 0;
  #lastNudge = 0;
  /** The attempts to open a stream at once that are left, after the network may have changed. */
  #checksLeft = 0;
  #state = "idle";
  #callAddress;
  #callsCount = 0;
  /**
   * The custom status that the login sets, with its number in the order of calls.
   * @type {{ text: string, call: number } | null}
   */
  #loginStatus = null;
  /** The number of logins that have ended. A request from before the last end belongs to an earlier login, perhaps of another user. */
  endedLogins = 0;
  #isClosed = false;
  /** @type {Map<number, () => void>} */
  #turnWaits = new Map();
  /** @type {Map<number, () => void>} */
  #retryWaits = new Map();
  /** @type {Set<AbortController>} */
  #requests = new Set();

  constructor(options, host, extension) {
    this.#options = options;
    this.#host = host;
    this.#extension = extension;
    this.#token = new TokenSource(options.token);
    this.#callAddress = Math.floor(options.random() * options.addresses.length);
    this.#machine = new SessionMachine(options, this.#callAddress);
  }

  get session() {
    return this.#currentStream?.session ?? null;
  }

  /** The stream of the session; undefined without one. */
  get #currentStream() {
    return this.#streams.get(this.#machine.current ?? 0);
  }

  // MARK: The session

  /** Opens the session. `continues` means that another tab had it. */
  start(continues) {
    if (!continues && this.#options.customStatus) {
      const { number } = this.#order.begin({ user: this.#options.asUser, facts: new Set(["customStatus"]), startsFollowing: false });
      this.#order.pause(number);
      this.#loginStatus = { text: this.#options.customStatus, call: number };
    }
    this.#lastTick = Date.now();
    this.#obey(this.#machine.begin(continues), continues ? "the tab that held the session is gone" : "connect was called");
    this.#tickEvery(5_000);
  }

  /** Checks the session now, because the network may have changed or the machine slept. */
  nudge(reason) {
    if (this.#machine.isIdle || Date.now() - this.#lastNudge < 1_000) return;
    this.#lastNudge = Date.now();
    this.#checksLeft = CHECKS_MAX;
    this.#obey(this.#machine.nudged(), reason);
  }

  /**
   * Asks the nodes to end all sessions that this client, and the tabs that led before it, may have open. One that was left out would end as
   * lost, and leave the user OFFLINE.
   *
   * A node that has the request for a stream opens a session, even if the request is aborted. So the session that is being opened is awaited.
   * If that takes long, the others end first.
   */
  async logout(/** @type {any} */ { everywhere, sessionID, asUser } = {}) {
    const { opened } = this.#host;
    if ((sessionID && sessionID !== opened.at(-1)) || (asUser && asUser !== this.#options.asUser)) {
      return this.call("logout", { sessionID, asUser });
    }
    const stream = this.#streams.get(this.#machine.pending ?? 0);
    const answer = stream?.answer;
    this.#obey(this.#machine.leave(answer));
    try {
      if (answer) await within(PENDING_SESSION_WAIT, (done) => answer.then(done));
      const end = (sessionID) => this.call("logout", { sessionID });
      await Promise.all([
        ...(everywhere ? [undefined] : opened).map(end), answer?.then(() => stream.session && end(stream.session.sessionID))]);
      return {};
    } finally {
      this.#obey(this.#machine.end("loggedOut", "logout was called", null));
    }
  }

  /** Drops the session without a logout, and tells nobody. The engine cannot be used again. */
  abandon() {
    this.#isClosed = true;
    this.#obey(this.#machine.end("closed", "the client is closed", null), "", false);
    for (const request of this.#requests) request.abort();
    for (const wake of [...this.#retryWaits.values(), ...this.#turnWaits.values()]) wake();
  }

  #obey(effects, reason = "", tells = true) {
    for (const [kind, ...rest] of effects) {
      if (kind === "open") this.#open(rest[0], rest[1]);
      else if (kind === "cancel") this.#drop(rest[0]);
      else if (kind === "wake") {
        clearTimeout(this.#wakeTimer);
        this.#wakeTimer = setTimeout(() => this.#obey(this.#machine.woke(), reason), rest[0]);
      } else if (kind === "fail") {
        this.#state = this.#machine.state;
        this.#host.tell({ kind: "state", state: this.#state, reason, error: flatten(rest[0]) });
      } else if (kind === "end") this.#end(rest, tells);
    }
    if (tells && !this.#machine.isLeaving && this.#machine.state !== this.#state) {
      this.#state = this.#machine.state;
      this.#host.tell({ kind: "state", state: this.#state, reason });
    }
  }

  #end([state, reason, error], tells) {
    this.#dropLoginStatus();
    this.endedLogins += 1;
    clearTimeout(this.#wakeTimer);
    clearInterval(this.#ticker);
    this.#extension?.stopFetching();
    this.#token.clear();
    this.#state = "idle";
    if (tells) this.#host.tell({ kind: "state", state, reason, error: error ? flatten(error) : undefined });
  }

  #dropLoginStatus() {
    if (this.#loginStatus) this.#endCall(this.#loginStatus.call);
    this.#loginStatus = null;
  }

  // MARK: Streams

  #open(stream, address) {
    /** @type {any} */
    const state = {
      address, control: new AbortController(), session: null, heardAt: Date.now(), lifeDueAt: Infinity, isDoubted: false,
      isEventSource: false, token: null, noticesCount: 0 };
    const limit = this.#checksLeft > 0 ? Math.min(CHECK_TIMEOUT, this.#options.connectTimeout) : this.#options.connectTimeout;
    state.deadline = setTimeout(() => this.#lost(stream, null, `no event within ${limit} ms`), limit);
    this.#streams.set(stream, state);
    void this.#read(stream, state);
  }

  #drop(stream) {
    const state = this.#streams.get(stream);
    if (!state) return;
    this.#streams.delete(stream);
    clearTimeout(state.deadline);
    state.isAnswered?.();
    state.control.abort();
    // In Node a signal does not reach a request whose objects were collected as garbage. Cancelling the body closes the connection.
    state.reader?.cancel().catch(() => undefined);
  }

  async #read(stream, state) {
    try {
      if (this.#options.useEventSource) await this.#extension.readEventSource(this, stream, state);
      else await this.#readFetch(stream, state);
      this.#lost(stream, null, "the node ended the stream");
    } catch (error) {
      if (error instanceof PresenceError && (error.status !== 0 || error.code !== PresenceCode.unreachable)) {
        this.#lost(stream, error, error.detail);
      } else this.#lost(stream, null, error instanceof PresenceError ? error.detail : String(error));
    }
  }

  /** The query of a new stream. */
  query() {
    const { platform, deviceID, pushReachable, asUser, presence } = this.#options;
    // JavaScript does not see the PINGs of HTTP/2: comments show that the stream is alive.
    const query = new URLSearchParams({ platform, comments: "true" });
    if (deviceID) query.set("deviceID", deviceID);
    if (pushReachable) query.set("pushReachable", "true");
    if (asUser) query.set("asUser", asUser);
    if (presence) query.set("presence", presence);
    if (this.#loginStatus && this.#order.holds("customStatus", this.#loginStatus.call)) query.set("customStatus", this.#loginStatus.text);
    return query;
  }

  async #readFetch(stream, state) {
    const base = this.#options.addresses[state.address];
    const query = this.query();
    // A proxy may translate the version of HTTP, so the promise does not depend on it.
    query.set("alive", "client");
    query.set("heartbeat", String(HEARTBEAT_SECONDS));
    const send = async (token) => {
      /** @type {Record<string, string>} */
      const headers = { Authorization: `Bearer ${token}`, Accept: "text/event-stream" };
      const lastEventID = this.#host.lastEventID;
      if (lastEventID !== null) headers["Last-Event-ID"] = lastEventID;
      // From now on the node may open a session.
      state.answer ??= new Promise((resolve) => (state.isAnswered = resolve));
      return this.#options.fetch(`${base}/v1/events?${query}`, {
        headers, signal: state.control.signal, cache: "no-store", redirect: "error", credentials: "omit" });
    };
    const { askedCount } = this.#token;
    let token = await this.#token.current();
    if (!this.#streams.has(stream)) return;
    let response = await send(token);
    // The app was not asked for this token just now, so it may have a newer one.
    if (response.status === 401 && this.#token.askedCount === askedCount) {
      await response.body?.cancel();
      token = await this.#token.current(token);
      response = await send(token);
    }
    if (response.status !== 200) {
      throw problem(response, await readText(response, 64 << 10), "events");
    }
    if (!(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream") || !response.body) {
      throw badAnswer("events: not an event stream", 502);
    }
    state.token = token;
    const parser = new EventStreamParser();
    const reader = response.body.getReader();
    state.reader = reader;
    if (!this.#streams.has(stream)) return void (await reader.cancel());
    while (true) {
      const { done, value } = await reader.read();
      if (done || !this.#streams.has(stream)) return;
      this.heard(state);
      parser.receive(value, (name, data, id) => this.take(stream, name, data, id));
      this.#showLife();
    }
  }

  #lost(stream, error, detail) {
    if (!this.#streams.has(stream)) return;
    const isCheck = this.#checksLeft > 0 && stream === this.#machine.pending && error === null;
    this.#drop(stream);
    if (!isCheck) return this.#obey(this.#machine.lost(stream, error, detail, this.#token.isRenewable), detail);
    // The session's stream is lost as well, unless it has carried something since the check began.
    const current = this.#machine.current;
    if (current !== null && (this.#streams.get(current)?.heardAt ?? 0) < this.#lastNudge) {
      this.#drop(current);
      this.#obey(this.#machine.lost(current, null, detail), detail);
    }
    this.#checksLeft -= 1;
    // The browser may have used an old connection, which is dead, too. The next attempt uses another one.
    const effects = this.#machine.lost(stream, error, detail, this.#token.isRenewable);
    this.#obey(this.#checksLeft > 0 && !this.#machine.isIdle ? this.#machine.nudged() : effects, detail);
  }

  /** Takes an event of a stream. */
  take(stream, name, text, id) {
    // An earlier event of the same chunk may have ended the stream.
    if (!this.#streams.has(stream)) return;
    const data = objectIn(text);
    // An event that does not match its name is skipped.
    if (data === null) return;
    const machine = this.#machine;
    if (name === "onConnected") this.#connected(stream, data);
    const isCurrent = stream === machine.current;
    if (name === "onUserStatusChanged" && (isCurrent || stream === machine.retiring)) {
      if (Array.isArray(data.userStatusList)) this.tell({ kind: "event", name, data, id: isCurrent ? id : null });
      return;
    }
    if (!isCurrent || name === "onConnected") return;
    switch (name) {
      case "onSubscriptionSyncCompleted":
        // The position is kept before the predecessor is dropped.
        this.tell({ kind: "event", name, data, id });
        this.#obey(machine.synced(stream));
        break;
      case "onReconnectHint":
        this.#obey(machine.hinted(stream, Math.max(Number(data.afterMilliseconds) || 0, 0)), "the node is leaving");
        break;
      case "onKickedOffline": {
        if (machine.isLeaving) break;
        const reason = String(data.reason ?? "");
        if (reason === "replaced") this.#obey(machine.replaced(stream));
        else if (reason === TOKEN_EXPIRED) {
          this.#token.clear();
          this.#lost(stream, null, "the token has expired");
        } else this.#obey(machine.end("kicked", reason, null));
        break;
      }
      case "onTokenExpiring":
        this.#streams.get(stream).noticesCount += 1;
        void this.#renew(stream);
        break;
      case "onLogout":
        if (!machine.isLeaving) this.#obey(machine.end("loggedOut", "the user logged this session out", null));
        break;
      default:
        this.tell({ kind: "event", name, data, id });
    }
  }

  #connected(stream, session) {
    const state = this.#streams.get(stream);
    if (stream !== this.#machine.pending || !state) return;
    this.#dropLoginStatus();
    clearTimeout(state.deadline);
    clearTimeout(this.#wakeTimer);
    state.session = session;
    state.isAnswered();
    // The logout that has waited for this session ends it.
    if (this.#machine.isLeaving) return;
    state.lifeDueAt = Date.now() + this.#lifeSpan(state);
    this.#checksLeft = 0;
    this.#callAddress = state.address;
    if (typeof session.serverTime === "number") this.#token.clockOffset = session.serverTime - Date.now();
    const effects = this.#machine.connected(stream, session.node);
    this.#tickEvery(Math.min(Math.max(session.heartbeatInterval * 250, 250), 5_000));
    this.tell({ kind: "opened", session });
    this.#obey(effects, "a node opened the session");
  }

  /** Tells the host a fact, and fetches the lists that the host then lacks. */
  tell(fact) {
    this.fetchLists(this.#host.tell(fact));
  }

  // MARK: Tokens

  /** Renews the session of a stream whose token ends soon. Repeats that until a node has accepted a newer token, or the stream has ended. */
  async #renew(stream) {
    const state = this.#streams.get(stream);
    if (!state?.session || state.isRenewing || !this.#token.isRenewable) return;
    state.isRenewing = true;
    for (let attempt = 0; state.noticesCount > 0; attempt += 1) {
      const wait = 500 + jitter({ initial: RENEWAL_SPREAD, max: TOKEN_WAIT_MAX }, attempt, this.#options.random);
      await within(wait, (done) => state.control.signal.addEventListener("abort", done, { once: true }));
      if (this.#streams.get(stream) !== state || this.#isClosed) return;
      const { noticesCount } = state;
      try {
        const token = await this.#token.current(state.token);
        // The function may return the same token for a while.
        if (token === state.token) continue;
        await this.call("renew", { sessionID: state.session.sessionID });
        state.token = token;
        state.noticesCount -= noticesCount;
        attempt = 0;
      } catch (error) {
        // The session is unknown to the node, so its stream is ending.
        if (isFinal(error) && error.status !== 401) break;
      }
    }
    state.isRenewing = false;
  }

  // MARK: Silence

  #tickEvery(interval) {
    clearInterval(this.#ticker);
    if (this.#machine.isIdle) return;
    this.#lastTick = Date.now();
    this.#ticker = setInterval(() => this.#tick(interval), interval);
  }

  /** Finds a machine that slept by a late timer, and a dead stream by its silence. */
  #tick(interval) {
    const late = Date.now() - this.#lastTick - interval;
    this.#lastTick = Date.now();
    const isHidden = globalThis.document?.visibilityState === "hidden";
    if (late > (isHidden ? SLEEP_MIN_HIDDEN : SLEEP_MIN)) this.nudge(`the machine slept for ${Math.round(late / 1_000)} s`);
    else this.checkSilence();
    this.#showLife();
  }

  // MARK: Signs of life

  /** The longest time between two signs of life of this client, in milliseconds. The node may then miss two of them. */
  #lifeSpan({ isEventSource, session }) {
    return isEventSource ? Infinity : (Math.max(Number(session.heartbeatTimeout) || 0, 3) * 1_000) / 3;
  }

  /**
   * Shows the node that this client runs, when that is due. A kernel, a browser or a proxy also answers for a client that is suspended.
   *
   * Browsers delay the timers of hidden pages by up to a minute, but not the arrival of bytes. So each event and comment of the node is an
   * occasion as well. EventSource hides comments, so a stream of EventSource does not promise signs.
   */
  #showLife() {
    const state = this.#currentStream;
    if (!state?.session || Date.now() < state.lifeDueAt || this.#machine.isLeaving) return;
    const span = this.#lifeSpan(state);
    state.lifeDueAt = Date.now() + span;
    this.call("alive", { sessionID: state.session.sessionID }).catch(() => {
      state.lifeDueAt = Math.min(state.lifeDueAt, Date.now() + span / 4);
    });
  }

  /** Records that a call has named a session, which is a sign of life, too. */
  #noteLife(sessionID, sentAt) {
    for (const state of this.#streams.values()) {
      if (state.session?.sessionID === sessionID) state.lifeDueAt = sentAt + this.#lifeSpan(state);
    }
  }

  heard(state) {
    state.heardAt = Date.now();
    state.isDoubted = false;
  }

  /**
   * Opens another stream if the session's stream was silent for two heartbeats, and keeps it until then. Gives it up after four.
   *
   * A node sends comments, over HTTP/2 as well, because the client asks for them. EventSource hides comments, so there four heartbeats pass
   * before another stream is opened.
   */
  checkSilence() {
    const state = this.#currentStream;
    if (!state?.session || this.#machine.isLeaving) return;
    const silence = Date.now() - state.heardAt;
    const heartbeat = 1_000 * Math.max(state.session.heartbeatInterval, 1);
    if (silence < 2 * heartbeat) return;
    if (silence < 4 * heartbeat) {
      if (!state.isEventSource) this.#doubt(state, `silent for ${silence} ms`);
      return;
    }
    if (state.isEventSource) return this.nudge("the stream is silent");
    // The next address may be that of the same proxy, which may ask the same frozen node.
    this.#checksLeft = CHECKS_MAX;
    this.#lost(this.#machine.current, null, `silent for ${silence} ms`);
  }

  /** Opens another stream, because the node of the session's stream does not answer a call, and its stream is silent since then. */
  #doubtAfter(operation, address, sentAt) {
    const state = this.#currentStream;
    if (!state?.session || state.address !== address || state.heardAt > sentAt) return;
    this.#doubt(state, `${operation}: no answer within ${Date.now() - sentAt} ms, and the stream is silent`);
  }

  /**
   * Opens another stream, because the node of the session's stream may be frozen.
   *
   * The kernel of a frozen node accepts all that is sent. The other nodes miss it after seconds, and then its users go OFFLINE, unless they
   * have a session elsewhere.
   */
  #doubt(state, reason) {
    if (state.isDoubted) return;
    state.isDoubted = true;
    const effects = this.#machine.doubted();
    if (effects.length > 0) this.#checksLeft = CHECKS_MAX;
    this.#obey(effects, reason);
  }

  // MARK: The order of calls

  async #inTurn(claim, body) {
    const { number, superseded } = this.#order.begin(claim);
    for (const call of superseded) this.#retryWaits.get(call)?.();
    try {
      while (!this.#order.hasTurn(number)) {
        await new Promise((resolve) => this.#turnWaits.set(number, () => resolve(undefined)));
        this.#turnWaits.delete(number);
        if (this.#isClosed) throw closedError("the client is closed");
      }
      return await body(number);
    } finally {
      this.#endCall(number);
    }
  }

  #endCall(number) {
    this.#order.end(number);
    this.#checkTurns();
  }

  #checkTurns() {
    for (const [number, wake] of [...this.#turnWaits].sort(([left], [right]) => left - right)) if (this.#order.hasTurn(number)) wake();
  }

  /** Waits before a call is retried. Throws at once if newer calls leave it no work. */
  async #waitToRetry(delay, number) {
    if (number !== undefined) {
      const isLive = this.#order.pause(number);
      this.#checkTurns();
      if (!isLive) throw supersededError();
    }
    const key = number ?? -(++this.#callsCount);
    await within(delay, (done) => this.#retryWaits.set(key, done));
    this.#retryWaits.delete(key);
    if (number === undefined) return;
    this.#order.resume(number);
    if (!this.#order.isLive(number)) throw supersededError();
  }

  /** Subscribes or unsubscribes in runs of `countMax` users. Returns the users that failed. */
  async #changeFollowing(userIDs, asUser, countMax, starts, body) {
    const fact = (userID) => `following:${userID}`;
    const facts = new Set(Array.isArray(userIDs) ? userIDs.map(fact) : []);
    const total = facts.size;
    return this.#inTurn({ user: asUser, facts, startsFollowing: starts }, async (number) => {
      /** @type {string[]} */
      const superseded = [];
      const failed = await this.inBatches(userIDs, countMax, async (batch) => {
        try {
          await body(number, () => {
            if (!Array.isArray(batch)) return batch;
            const held = batch.filter((userID) => this.#order.holds(fact(userID), number));
            if (held.length === 0 && batch.length > 0) throw supersededError();
            return held;
          });
        } catch (error) {
          if (error.code !== PresenceCode.superseded || !this.#order.isLive(number)) throw error;
        }
        if (!Array.isArray(batch)) return;
        superseded.push(...batch.filter((userID) => !this.#order.holds(fact(userID), number)));
        this.#order.release(batch.map(fact), number);
        this.#checkTurns();
      });
      if (total > 0 && superseded.length === total) throw supersededError();
      const error = supersededError();
      return [...superseded.map((userID) => ({ userID, code: error.code, reason: error.detail })), ...failed];
    });
  }

  /** Makes a call for each run of users. If a later run fails, its users and those after them are returned as failed. */
  async inBatches(userIDs, countMax, body) {
    const runs = batches(userIDs, countMax);
    for (const [index, run] of runs.entries()) {
      try {
        await body(run);
      } catch (error) {
        if (index === 0 || !(error instanceof PresenceError)) throw error;
        return runs.slice(index).flat().map((userID) => ({ userID, code: error.code, reason: error.detail }));
      }
    }
    return [];
  }

  // MARK: One call

  /**
   * Makes a call, first at the session's address, and retries it. A rejected token is renewed once.
   *
   * `body` is an object, or a function that makes the object of each attempt, so that a retry leaves out what newer calls have set. Its member
   * `idempotencyKey` becomes a header.
   */
  async call(operation, body, /** @type {any} */ { number, address, attemptsMax = CALL_ATTEMPTS_MAX } = {}) {
    if (this.#requests.size >= CALLS_MAX) {
      throw new PresenceError({
        code: PresenceCode.tooManyCalls, title: "too many calls", detail: `${operation}: ${CALLS_MAX} calls wait for an answer` });
    }
    const logins = this.endedLogins;
    let rejected = null;
    let attempt = 0;
    let mayTakeEffect = false;
    while (true) {
      if (this.#isClosed) throw closedError("the client is closed");
      const { idempotencyKey, ...content } = compact(typeof body === "function" ? body() : body);
      if (content.asUser === undefined && this.#options.asUser) content.asUser = this.#options.asUser;
      // A text that is cleared is not a field that is absent.
      const text = JSON.stringify(content);
      const token = await this.#token.current(rejected);
      const at = address ?? this.#callAddress;
      const sentAt = Date.now();
      try {
        const answer = await this.#sendOnce(operation, text, at, token, this.#extension?.keyed.has(operation) ? idempotencyKey : undefined);
        if (content.sessionID) this.#noteLife(content.sessionID, sentAt);
        return answer;
      } catch (error) {
        if (!(error instanceof PresenceError)) throw error;
        if (error.status === 401 && rejected === null) {
          rejected = token;
          continue;
        }
        mayTakeEffect ||= error.mayTakeEffect;
        error.mayTakeEffect = mayTakeEffect;
        const delay = attempt + 1 < attemptsMax ? retryDelay(error, attempt, this.#options.random) : null;
        if (delay === null || this.#isClosed) throw error;
        attempt += 1;
        if (address === undefined && error.code !== PresenceCode.calledTooOften && this.#callAddress === at) {
          this.#callAddress = (at + 1) % this.#options.addresses.length;
        }
        await this.#waitToRetry(delay, number);
        // The next token may name another user.
        if (logins !== this.endedLogins) throw error;
      }
    }
  }

  async #sendOnce(operation, text, address, token, key) {
    const control = new AbortController();
    this.#requests.add(control);
    let isSilent = false;
    const timer = setTimeout(() => {
      isSilent = true;
      control.abort();
    }, this.#options.callTimeout);
    const sentAt = Date.now();
    const doubt = setTimeout(() => this.#doubtAfter(operation, address, sentAt), this.#options.callTimeout / 2);
    /** @type {any} */
    let response;
    let answer;
    const exchange = async () => {
      response = await this.#options.fetch(`${this.#options.addresses[address]}/v1/${operation}`, {
        method: "POST",
        headers: {
          Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...(key === undefined ? {} : { "Idempotency-Key": key }),
        },
        body: text, signal: control.signal, cache: "no-store", redirect: "error", credentials: "omit",
      });
      return readText(response, ANSWER_BYTES_MAX);
    };
    try {
      // The end of the wait does not depend on fetch: in Node a signal does not reach a request that was collected as garbage.
      answer = await new Promise((resolve, reject) => {
        control.signal.addEventListener("abort", () => reject(control.signal.reason));
        exchange().then(resolve, reject);
      });
    } catch (error) {
      if (this.#isClosed) throw closedError("the client is closed");
      if (error instanceof PresenceError) throw error;
      const reason = isSilent ? `no answer within ${this.#options.callTimeout} ms` : String(error.cause ?? error);
      throw unreachable(`${operation}: ${reason}`, !isRead(operation));
    } finally {
      clearTimeout(timer);
      clearTimeout(doubt);
      this.#requests.delete(control);
    }
    if (response.status !== 200) throw problem(response, answer, operation);
    try {
      return JSON.parse(answer);
    } catch (error) {
      throw badAnswer(`${operation}: ${error}`);
    }
  }

  // MARK: Operations

  /** Runs an operation by its name. Only names in the tables of operations run, because the name may come from another tab. */
  run(name, args) {
    for (const operations of [OPERATIONS, this.#extension?.operations ?? {}]) {
      if (Object.hasOwn(operations, name)) return operations[name](this, ...args);
    }
    return Promise.reject(badAnswer(`${name}: no such operation`));
  }

  get options() {
    return this.#options;
  }

  /** Whether a stream is open, or being opened. */
  isOpen(stream) {
    return this.#streams.has(stream);
  }

  get token() {
    return this.#token;
  }

  get lastEventID() {
    return this.#host.lastEventID;
  }

  user(options) {
    return options.asUser ?? this.#options.asUser;
  }

  /** Sets facts with one call. */
  set(operation, facts, options, body) {
    return this.#inTurn({ user: this.user(options), facts: new Set(facts), startsFollowing: false }, (number) =>
      this.call(operation, body, { number }));
  }

  async getUserStatus(userIDs, options) {
    /** @type {{ userStatusList: UserStatus[], errorUserList: UserError[], asOf: number }} */
    const answer = { userStatusList: [], errorUserList: [], asOf: 0 };
    const failed = await this.inBatches(userIDs, this.#options.limits.queryUsersMax, async (batch) => {
      const part = await this.call("getUserStatus", { ...options, userIDs: batch });
      answer.userStatusList.push(...part.userStatusList);
      answer.errorUserList.push(...(part.errorUserList ?? []));
      if (part.asOf) answer.asOf = answer.asOf === 0 ? part.asOf : Math.min(answer.asOf, part.asOf);
    });
    answer.errorUserList.push(...failed);
    return answer;
  }

  async subscribe(userIDs, options) {
    /** @type {{ errorUserList: UserError[], evicted: string[], userStatusList?: UserStatus[] }} */
    const answer = { errorUserList: [], evicted: [], ...(options.sync ? { userStatusList: [] } : {}) };
    const sessionID = this.session?.sessionID;
    const failed = await this.#changeFollowing(userIDs, this.user(options), this.#options.limits.subscribeUsersMax, true,
      async (number, held) => {
        const part = await this.call("subscribeUserStatus", () => ({ sessionID, ...options, userIDs: held() }), { number });
        answer.errorUserList.push(...(part.errorUserList ?? []));
        answer.evicted.push(...(part.evicted ?? []));
        answer.userStatusList?.push(...(part.userStatusList ?? []));
      });
    answer.errorUserList.push(...failed);
    // The stream leaves out the content of this answer. Listeners receive it all the same, from whichever arrives first.
    if (answer.userStatusList && this.user(options) === this.#options.asUser) {
      this.tell({ kind: "event", name: "onUserStatusChanged", data: { userStatusList: answer.userStatusList }, id: null });
    }
    return answer;
  }

  async unsubscribe(userIDs, options) {
    const sessionID = this.session?.sessionID;
    if (options.all) {
      const body = { sessionID, ...options };
      return this.set("unsubscribeUserStatus", ["followingAnybody"], options, body);
    }
    /** @type {UserError[]} */
    const errorUserList = [];
    const failed = await this.#changeFollowing(userIDs, this.user(options), this.#options.limits.unsubscribeUsersMax, false,
      async (number, held) => {
        const part = await this.call("unsubscribeUserStatus", () => ({ sessionID, ...options, userIDs: held() }), { number });
        errorUserList.push(...(part.errorUserList ?? []));
      });
    return { errorUserList: [...errorUserList, ...failed] };
  }

  // MARK: Lists

  /** Fetches lists for the extension. */
  fetchLists(lists = /** @type {string[]} */ ([])) {
    for (const list of lists) void this.#extension.fetchList(this, list);
  }
}

/** Waits until `start` calls back, for at most `limit` milliseconds. */
function within(limit, start) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), limit);
    start(() => {
      clearTimeout(timer);
      resolve(undefined);
    });
  });
}

/** The text of an answer. Throws if it is longer than `bytesMax`. */
async function readText(response, bytesMax) {
  if (!response.body?.getReader) return response.text();
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let length = 0;
  while (true) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    length += value.byteLength;
    if (length > bytesMax) {
      await reader.cancel();
      throw badAnswer(`longer than ${bytesMax} bytes`, response.status);
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The operations that tabs may ask the leading tab for. */
const OPERATIONS = {
  logout: (engine, options) => engine.logout(options),
  setSelfStatus: (engine, customStatus, options) =>
    engine.set("setSelfStatus", ["customStatus"], options, { ...options, customStatus: customStatus ?? "" }),
  getUserStatus: (engine, userIDs, options) => engine.getUserStatus(userIDs, options),
  subscribeUserStatus: (engine, userIDs, options) => engine.subscribe(userIDs, options),
  unsubscribeUserStatus: (engine, userIDs, options) => engine.unsubscribe(userIDs, options),
};

// MARK: Tabs

/** The time within which a leading tab answers. Then another tab takes the lock, in milliseconds. */
const LEADER_TIMEOUT = 5_000;
const LEADER_PING = 10_000;
/** The time for which a tab that is closed keeps its stream for its successor, in milliseconds. */
const YIELD_MAX = 3_000;
const FOLLOWERS_MAX = 1_000;

/** Whether tabs can share a session here. */
const canShareTabs = () => globalThis.document && globalThis.navigator?.locks && globalThis.BroadcastChannel;

/**
 * The tabs of one origin that share a session. The tab that holds the Web Lock leads: it has the stream and makes all calls.
 *
 * A tab that leads and does not answer for `LEADER_TIMEOUT` loses the lock to another one. That happens when the browser froze it.
 */
class TabGroup {
  #name;
  #member;
  #id = randomText();
  #channel;
  #queue = new AbortController();
  #release = () => {};
  /** @type {string | null} */
  #leader = null;
  #isLeft = false;
  /** @type {Map<number, any>} */
  #calls = new Map();
  #callsCount = 0;
  #followers = new Set();
  #pinger;
  #alarm;
  /** Called when another tab has opened a session, or when every follower has left. */
  #onSuccessor = () => {};
  #onEmpty = () => {};
  isLeading = false;

  /** `member` has `lead`, `depose`, `take(fact)`, `welcome(snapshot)`, `snapshot()`, `run(name, args)`. */
  constructor(name, member) {
    this.#name = name;
    this.#member = member;
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => this.#receive(data);
    this.#elect();
    this.#pinger = setInterval(() => {
      if (!this.isLeading && (document.visibilityState === "visible" || this.#calls.size > 0)) this.ping();
    }, LEADER_PING);
  }

  /** Asks the leading tab for a sign of life. */
  ping() {
    if (this.isLeading || this.#isLeft) return;
    this.#post({ kind: "ping" });
    this.#expectLeader();
  }

  /** Sends a fact to the other tabs. */
  tell(fact) {
    if (this.isLeading) this.#post({ kind: "fact", fact });
  }

  /** Asks the leading tab to make a call. */
  call(name, args) {
    if (this.#calls.size >= CALLS_MAX) {
      return Promise.reject(new PresenceError({
        code: PresenceCode.tooManyCalls, title: "too many calls", detail: `${name}: ${CALLS_MAX} calls wait for an answer` }));
    }
    return new Promise((resolve, reject) => {
      const id = ++this.#callsCount;
      const call = { id, name, args, wasSent: false, resolve, reject };
      this.#calls.set(id, call);
      if (this.#leader !== null) this.#sendCall(call);
    });
  }

  get hasFollowers() {
    return this.#followers.size > 0;
  }

  /**
   * Leaves the group. Calls that wait fail with `error`, or succeed for a logout that another tab has carried out.
   *
   * @param {"now" | "ended" | "yield"} how `ended` keeps the lock until the followers know the end of the session. `yield` gives the lock to
   * a follower and returns once its session is open.
   */
  async leave(how, error, isLogout = false) {
    if (this.#isLeft) return;
    this.#isLeft = true;
    clearInterval(this.#pinger);
    clearTimeout(this.#alarm);
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) {
      if (call.name === "logout" && isLogout) call.resolve({});
      else call.reject(new PresenceError({ ...flatten(error), mayTakeEffect: error.mayTakeEffect && !isRead(call.name) }));
    }
    const waits = this.isLeading && this.hasFollowers;
    this.isLeading = false;
    this.#post({ kind: "bye" });
    this.#queue.abort();
    if (waits && how === "ended") await within(300, (done) => (this.#onEmpty = done));
    this.#release();
    if (waits && how === "yield") await within(YIELD_MAX, (done) => (this.#onSuccessor = done));
    this.#channel.close();
  }

  #post(message) {
    try {
      this.#channel.postMessage({ ...message, from: this.#id });
    } catch (error) {
      // The channel is closed: this tab has left the group. Other errors concern the content.
      if (!this.#isLeft) throw error;
    }
  }

  #sendCall(call) {
    try {
      this.#post({ kind: "call", to: this.#leader, id: call.id, name: call.name, args: call.args });
      call.wasSent = true;
      this.#expectLeader();
    } catch (error) {
      this.#calls.delete(call.id);
      call.reject(badAnswer(`${call.name}: ${error}`, 0));
    }
  }

  // MARK: The lock

  /** Queues for the lock, and looks for a tab that leads. */
  #elect() {
    this.#hold({ signal: this.#queue.signal });
    this.#post({ kind: "hello" });
    this.#expectLeader();
  }

  /** Takes the lock from a tab that does not answer. */
  #steal() {
    this.#queue.abort();
    this.#queue = new AbortController();
    this.#hold({ steal: true });
  }

  #hold(options) {
    let wasGranted = false;
    navigator.locks
      .request(this.#name, options, () => {
        wasGranted = true;
        return new Promise((resolve) => {
          this.#release = () => resolve(undefined);
          // What the predecessor has sent arrives first.
          setTimeout(() => this.#lead(), 20);
        });
      })
      .catch(() => {
        // The request was aborted because this tab leaves or steals the lock, or another tab has stolen it.
        if (wasGranted && !this.#isLeft) this.#deposed();
      });
  }

  #lead() {
    if (this.#isLeft) return this.#release();
    clearTimeout(this.#alarm);
    this.isLeading = true;
    this.#leader = this.#id;
    this.#post({ kind: "lead" });
    this.#member.lead();
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) {
      if (this.#fails(call)) continue;
      this.#member.run(call.name, call.args).then(call.resolve, call.reject);
    }
  }

  #deposed() {
    this.isLeading = false;
    this.#leader = null;
    this.#followers.clear();
    this.#member.depose();
    this.#queue = new AbortController();
    this.#elect();
  }

  /** Ends a call that must not be repeated: it names the session that publishes. The tab that was asked is gone, with its session. */
  #fails(call) {
    if (!call.wasSent || call.name !== "publishEvent") return false;
    this.#calls.delete(call.id);
    call.reject(unreachable(`${call.name}: the leading tab is gone`, true));
    return true;
  }

  /** Takes the lock unless the leading tab gives a sign of life in time. */
  #expectLeader() {
    if (this.isLeading || this.#alarm !== undefined) return;
    const dueAt = Date.now() + LEADER_TIMEOUT;
    this.#alarm = setTimeout(() => {
      this.#alarm = undefined;
      if (this.#isLeft || this.isLeading) return;
      // This tab itself was paused. The answers may wait in its queue.
      if (Date.now() > dueAt + 1_000) this.ping();
      else this.#steal();
    }, LEADER_TIMEOUT);
  }

  #heard() {
    clearTimeout(this.#alarm);
    this.#alarm = undefined;
  }

  // MARK: Messages

  #receive(message) {
    if (typeof message !== "object" || message === null || (message.to !== undefined && message.to !== this.#id)) return;
    const { kind, from } = message;
    if (this.#isLeft) {
      if (kind === "bye") this.#followers.delete(from);
      if (kind === "bye" && this.#followers.size === 0) this.#onEmpty();
      if (kind === "fact" && message.fact.kind === "opened") this.#onSuccessor();
      return;
    }
    if (this.isLeading) return this.#serve(message);
    if (kind === "lead" || kind === "welcome") {
      const isNew = this.#leader !== from;
      this.#leader = from;
      this.#heard();
      if (kind === "lead") this.#post({ kind: "present", to: from });
      else this.#member.welcome(message.snapshot);
      if (isNew) for (const call of [...this.#calls.values()]) if (!this.#fails(call)) this.#sendCall(call);
      return;
    }
    if (from !== this.#leader) return;
    this.#heard();
    if (kind === "fact") this.#member.take(message.fact);
    else if (kind === "bye") {
      this.#leader = null;
      this.#expectLeader();
    } else if (kind === "answer") {
      const call = this.#calls.get(message.id);
      this.#calls.delete(message.id);
      if (message.error) call?.reject(new PresenceError(message.error));
      else call?.resolve(message.value);
    }
  }

  #serve({ kind, from, id, name, args }) {
    if (kind === "bye") {
      this.#followers.delete(from);
      return;
    }
    if (kind !== "lead" && kind !== "fact" && this.#followers.size < FOLLOWERS_MAX) this.#followers.add(from);
    if (kind === "hello") this.#post({ kind: "welcome", to: from, snapshot: this.#member.snapshot() });
    else if (kind === "ping") this.#post({ kind: "pong", to: from });
    else if (kind === "call") {
      this.#post({ kind: "pong", to: from });
      this.#member.run(name, args).then(
        (value) => this.#post({ kind: "answer", to: from, id, value }),
        (error) => this.#post({ kind: "answer", to: from, id, error: flatten(error) }));
    }
  }
}

// MARK: The client

/** An event of a client. `detail` is its content: see `PresenceEvents`. */
export class PresenceEvent extends Event {
  /**
   * @param {string} type
   * @param {any} detail
   */
  constructor(type, detail) {
    super(type);
    /** @type {any} */
    this.detail = detail;
  }
}

const LIMITS = { queryUsersMax: 500, subscribeUsersMax: 200, unsubscribeUsersMax: 200 };
const ENDED = new Set(["idle", "replaced", "kicked", "loggedOut", "refused", "closed"]);

/**
 * What a `StatusClient` shares with a class that extends it. Private members are out of its reach.
 * @type {WeakMap<StatusClient, any>}
 */
const shared = new WeakMap();

/**
 * The presence of a user, and that of the users it follows. `PresenceClient` adds the rest.
 *
 * A client that is connected reopens its session after lost connections and node failures, until `logout` or `close`.
 *
 * Calls do not wait for the session. Each makes at most four attempts, at one address after the other. A list longer than `limits` becomes
 * several calls; if a later one fails, `errorUserList` names its users and those after them. Calls that set the same fact reach the node in
 * the order in which the app makes them, and only the newest is retried: an older one fails with `PresenceCode.superseded`.
 */
export class StatusClient extends EventTarget {
  #options;
  #view;
  /** @type {PresenceExtension | null} */
  #extension = null;
  /** @type {ConnectionState} */
  #state = "idle";
  /** @type {Session | null} */
  #session = null;
  /** @type {string | null} */
  #lastEventID = null;
  /** @type {Set<number>} */
  #synced = new Set();
  /** @type {Engine | null} */
  #engine = null;
  /** @type {TabGroup | null} */
  #group = null;
  /** Whether the engine of the group was online, so that a tab that takes over continues. */
  #hasOpened = false;
  /** @type {{ resolve: (session: Session) => void, reject: (error: PresenceError) => void }[]} */
  #logins = [];
  /** @type {Promise<void> | null} */
  #leaving = null;
  /** @type {Promise<void> | null} */
  #joining = null;
  /**
   * The IDs of the last three sessions, also of tabs that led before. Nodes may have them all open, because they notice some ends late.
   * @type {string[]}
   */
  #opened = [];
  /** Whether the client is to join again when the page is resumed. */
  #isSuspended = false;
  /** @type {(() => void)[]} */
  #listeners = [];
  /** @type {Map<string, Set<(status: UserStatus) => void>>} */
  #watchers = new Map();
  #listenersMax = 10_000;

  /**
   * @param {StatusOptions} options
   */
  constructor(options) {
    super();
    if (!Array.isArray(options?.addresses) || options.addresses.length === 0) throw new TypeError("addresses: a client needs an address");
    for (const address of options.addresses) {
      if (!/^https?:\/\/[^/?#@]+(\/[^?#]*)?$/i.test(address)) {
        throw new TypeError(`addresses: "${address}" is not a URL like http://HOST or https://HOST/PATH`);
      }
    }
    if (typeof options.token !== "string" && typeof options.token !== "function") {
      throw new TypeError("token: a client needs a token, or a function that returns it");
    }
    this.#options = {
      platform: "web", deviceID: "", customStatus: "", pushReachable: false, asUser: undefined, presence: undefined, shareTabs: true,
      callTimeout: 10_000, connectTimeout: 10_000, backoff: { initial: 500, max: 30_000 }, loginAttemptsMax: 5, usersMax: 10_000,
      fetch: (url, init) => globalThis.fetch(url, init), random: Math.random,
      ...compact(options),
      token: options.token,
      addresses: options.addresses.map((address) => String(address).replace(/\/+$/, "")),
      limits: { ...LIMITS, ...options.limits },
    };
    this.#view = new StatusView(this.#options.usersMax);
    shared.set(this, {
      options: this.#options,
      extend: (extension) => (this.#extension = extension),
      emit: (name, detail) => this.#emit(name, detail),
      run: (name, ...args) => this.#run(name, ...args),
      store: (statuses, asUser) => this.#store(statuses, asUser),
    });
  }

  // MARK: State

  /**
   * The state of the connection. Its changes are `stateChanged` events.
   * @type {ConnectionState}
   */
  get state() {
    return this.#state;
  }

  /**
   * The open session; null without one. Between two streams it is the last one.
   * @type {Session | null}
   */
  get session() {
    return this.#session;
  }

  /**
   * Whether this client has the stream. False in a tab that follows another tab.
   * @type {boolean}
   */
  get isLeading() {
    return this.#group ? this.#group.isLeading : this.#engine !== null;
  }

  /**
   * All known statuses, in no particular order.
   * @type {UserStatus[]}
   */
  get statuses() {
    return this.#view.statuses;
  }

  /**
   * The newest status of a user that this client has received. It never goes back.
   * @param {string} userID
   * @returns {UserStatus | undefined}
   */
  statusOf(userID) {
    return this.#view.get(userID);
  }

  /**
   * Calls `listener` with the known status of a user, and with each newer one. Returns a function that ends this.
   * @param {string} userID
   * @param {(status: UserStatus) => void} listener
   * @returns {() => void}
   */
  watch(userID, listener) {
    if (this.#watchers.size >= this.#listenersMax) throw new RangeError(`watch: at most ${this.#listenersMax} users`);
    const listeners = this.#watchers.get(userID) ?? new Set();
    this.#watchers.set(userID, listeners);
    listeners.add(listener);
    const status = this.#view.get(userID);
    if (status) listener(status);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#watchers.get(userID) === listeners) this.#watchers.delete(userID);
    };
  }

  /**
   * Adds a listener, which receives the detail of each event of this name. Returns a function that removes it.
   * @template {keyof PresenceEvents} Name
   * @param {Name} name
   * @param {(detail: PresenceEvents[Name]) => void} listener
   * @returns {() => void}
   */
  on(name, listener) {
    const receive = (event) => listener(event.detail);
    this.addEventListener(name, receive);
    return () => this.removeEventListener(name, receive);
  }

  // MARK: The session

  /**
   * Opens the session. The promise is fulfilled when a node has opened it. It fails after `loginAttemptsMax` attempts.
   *
   * If a token of the app's token function was rejected, the client then goes on, and opens the session when it has a good token.
   * @returns {Promise<Session>}
   */
  async connect() {
    if (this.#state === "closed") throw closedError("the client is closed");
    if (this.#state === "online" && this.#session) return this.#session;
    const opened = new Promise((resolve, reject) => this.#logins.push({ resolve, reject }));
    if (!this.#group && !this.#joining && !this.#isSuspended && ENDED.has(this.#state)) {
      this.#joining = this.#join();
    }
    return opened;
  }

  /**
   * Ends the session: the user goes UNLOGINED, unless it is logged in elsewhere. All tabs that share the session are logged out.
   *
   * The client has logged out even if the promise fails. Then the node may consider the session lost.
   * @param {{ everywhere?: boolean, sessionID?: string, asUser?: string }} [options] `everywhere` ends the sessions on all devices. `sessionID` ends only another session of the user.
   * @returns {Promise<{}>}
   */
  async logout(options = {}) {
    // Until then this tab does not know with which tabs it shares a session.
    await this.#joining;
    return this.#run("logout", options);
  }

  /**
   * Drops the session without a logout: the user goes OFFLINE. Another tab that shares the session carries on. The client cannot be used
   * again.
   * @returns {Promise<void>}
   */
  async close() {
    if (this.#state === "closed") return;
    for (const remove of this.#listeners) remove();
    this.#listeners = [];
    const engine = this.#engine;
    const group = this.#group;
    this.#engine = null;
    this.#group = null;
    this.#setState({ state: "closed", reason: "close was called" });
    this.#failLogins(closedError("the client is closed"));
    await group?.leave("yield", closedError("the client is closed"));
    engine?.abandon();
    await this.#leaving;
  }

  async #join() {
    try {
      await this.#leaving;
      this.#reset();
      this.#extension?.forget();
      let name = null;
      if (this.#options.shareTabs && canShareTabs()) name = await this.#groupName();
      if (/** @type {string} */ (this.#state) === "closed") return;
      this.#listenToPage();
      if (name === null) {
        this.#engine ??= this.#makeEngine();
        this.#engine.start(false);
      } else {
        this.#engine?.abandon();
        this.#engine = null;
        this.#setState({ state: "connecting", reason: "connect was called" });
        this.#enter(name);
      }
    } catch (error) {
      const failure = error instanceof PresenceError ? error : badAnswer(String(error), 0);
      this.#setState({ state: "idle", reason: failure.detail, error: failure });
      this.#failLogins(failure);
    } finally {
      this.#joining = null;
    }
  }

  /** The name of the group: tabs share a session only if they have the same nodes, user and device. Null if the token does not tell. */
  async #groupName() {
    const { token, addresses, platform, deviceID, asUser, presence } = this.#options;
    const { sub, app } = claims(await new TokenSource(token).current());
    if (typeof sub !== "string") return null;
    const kind = this.#extension?.kind ?? "statuses";
    return JSON.stringify(["rollcall", addresses, app ?? "default", sub, asUser ?? null, platform, deviceID, kind, presence ?? null]);
  }

  #groupNameKept = "";

  #enter(name) {
    this.#groupNameKept = name;
    const group = new TabGroup(name, {
      lead: () => {
        this.#engine = this.#makeEngine();
        this.#engine.start(this.#hasOpened);
        if (this.#extension && this.#hasOpened) this.#engine.fetchLists(this.#extension.takeOver());
      },
      depose: () => {
        this.#engine?.abandon();
        this.#engine = null;
      },
      take: (fact) => void this.#take(fact),
      welcome: (snapshot) => this.#welcome(snapshot),
      snapshot: () => ({
        state: this.#state, session: this.#session, lastEventID: this.#lastEventID, statuses: this.#view.statuses,
        opened: this.#opened, synced: [...this.#synced], mirror: this.#extension?.snapshot(),
      }),
      run: (operation, args) => this.#engine?.run(operation, args) ?? Promise.reject(closedError("the leading tab has ended the session")),
    });
    this.#group = group;
  }

  #makeEngine() {
    const client = this;
    return new Engine(this.#options, {
      tell(fact) {
        client.#group?.tell(fact);
        return client.#take(fact);
      },
      get lastEventID() {
        return client.#lastEventID;
      },
      get opened() {
        return client.#opened;
      },
    }, this.#extension);
  }

  /** Forgets the last login, whose user may have been another one. */
  #reset() {
    this.#view.clear();
    this.#extension?.clear();
    this.#session = null;
    this.#lastEventID = null;
    this.#synced.clear();
    this.#hasOpened = false;
  }

  // MARK: Facts

  /** Takes what the leading tab knows. */
  #welcome(snapshot) {
    this.#lastEventID = snapshot.lastEventID;
    this.#extension?.welcome(snapshot.mirror);
    if (snapshot.session) {
      // Events that were published before this tab joined are no news here.
      const isFirst = !this.#hasOpened;
      this.#opened = snapshot.opened ?? [];
      this.#session = snapshot.session;
      this.#hasOpened = true;
      this.#extension?.connected(snapshot.session, Date.now());
      if (isFirst) this.#emit("connected", snapshot.session);
    }
    this.#deliver(snapshot.statuses);
    for (const type of snapshot.synced) {
      if (!this.#synced.has(type)) this.#emit("subscriptionSyncCompleted", type);
      this.#synced.add(type);
    }
    if (!ENDED.has(snapshot.state)) this.#setState({ state: snapshot.state, reason: "another tab has the session" });
    if (snapshot.state === "online") this.#answerLogins();
  }

  /** Takes a fact of the engine. Returns the lists to fetch, if there are any. */
  #take(fact) {
    if (this.#state === "closed") return;
    switch (fact.kind) {
      case "state":
        this.#takeState(fact);
        return;
      case "opened":
        this.#opened = [...this.#opened.slice(-2), fact.session.sessionID];
        this.#session = fact.session;
        this.#hasOpened = true;
        this.#extension?.connected(fact.session);
        this.#emit("connected", fact.session);
        return;
      case "event":
        return this.#takeEvent(fact);
      default:
        return this.#extension?.take(fact);
    }
  }

  #takeState({ state, reason, error }) {
    const failure = error ? new PresenceError(error) : undefined;
    this.#setState({ state, reason, error: failure });
    if (state === "online") this.#answerLogins();
    if (!ENDED.has(state)) {
      if (failure) this.#failLogins(failure);
      return;
    }
    if (state === "kicked" || state === "replaced") this.#emit("kickedOffline", state === "replaced" ? "replaced" : reason);
    if (state === "loggedOut") this.#emit("loggedOut", null);
    const ended = failure ?? closedError(reason);
    this.#failLogins(ended);
    this.#session = null;
    this.#opened = [];
    this.#lastEventID = null;
    this.#hasOpened = false;
    this.#extension?.clear();
    const group = this.#group;
    if (!group) return;
    // A call of the engine, for example the logout itself, may still be on its way.
    this.#group = null;
    this.#leaving = group.leave("ended", ended, state === "loggedOut").finally(() => {
      this.#leaving = null;
    });
  }

  #takeEvent({ name, data, id }) {
    if (id !== null) this.#lastEventID = id;
    switch (name) {
      case "onUserStatusChanged":
        this.#deliver(data.userStatusList);
        return;
      case "onSubscriptionSyncCompleted":
        this.#synced.add(data.subscribeType);
        this.#emit("subscriptionSyncCompleted", data.subscribeType);
        return;
      case "onSubscriptionChangedOnOtherDevices":
        this.#emit("subscriptionChangedOnOtherDevices", {
          subscribed: data.subscribed ?? [], unsubscribed: data.unsubscribed ?? [], subscriptions: data.subscriptions ?? [],
          unsubscriptions: data.unsubscriptions ?? [] });
        return;
      case "onSubscriptionExpired":
        this.#emit("subscriptionExpired", data.userIDs);
        return;
      default:
        return this.#extension?.receive(name, data);
    }
  }

  #deliver(statuses) {
    const undelivered = this.#view.deliver(statuses);
    if (undelivered.length === 0) return;
    this.#emit("userStatusChanged", undelivered);
    this.#tellWatchers(undelivered);
    this.#extension?.delivered(undelivered);
  }

  /** Stores the statuses of an answer, which only its caller and the watchers receive. */
  #store(statuses, asUser) {
    if (asUser === undefined || asUser === this.#options.asUser) this.#tellWatchers(this.#view.store(statuses));
  }

  #tellWatchers(statuses) {
    for (const status of statuses) {
      for (const listener of this.#watchers.get(status.userID) ?? []) {
        try {
          listener(status);
        } catch (error) {
          // One listener's error must not stop the others. It is reported like that of an event listener.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    }
  }

  #setState(change) {
    if (change.state === this.#state) return;
    this.#state = change.state;
    this.#emit("stateChanged", change);
  }

  #emit(name, detail) {
    this.dispatchEvent(new PresenceEvent(name, detail));
  }

  #answerLogins() {
    const logins = this.#logins;
    this.#logins = [];
    for (const { resolve } of logins) resolve(/** @type {Session} */ (this.#session));
  }

  #failLogins(error) {
    const logins = this.#logins;
    this.#logins = [];
    for (const { reject } of logins) reject(error);
  }

  // MARK: The page

  /** Follows the life of the page and the network. */
  #listenToPage() {
    const { document, addEventListener } = globalThis;
    if (this.#listeners.length > 0 || document === undefined || addEventListener === undefined) return;
    const listen = (target, name, listener) => {
      target.addEventListener(name, listener);
      this.#listeners.push(() => target.removeEventListener(name, listener));
    };
    listen(globalThis, "online", () => this.#engine?.nudge("the browser is online again"));
    // A page in the back/forward cache may hold neither a lock nor a connection.
    listen(globalThis, "pagehide", () => this.#suspend());
    listen(globalThis, "pageshow", (event) => event.persisted && this.#resume());
    listen(document, "freeze", () => {
      if (this.#group && (!this.#group.isLeading || this.#group.hasFollowers)) this.#suspend();
    });
    listen(document, "resume", () => this.#resume());
    listen(document, "visibilitychange", () => {
      if (document.visibilityState !== "visible") return;
      this.#engine?.checkSilence();
      this.#group?.ping();
    });
  }

  /** Gives the session up to another tab, or drops it. */
  #suspend() {
    if (ENDED.has(this.#state) || this.#isSuspended) return;
    this.#isSuspended = true;
    const group = this.#group;
    this.#group = null;
    this.#engine?.abandon();
    this.#engine = null;
    if (group) this.#leaving = group.leave("now", unreachable("the page was hidden", true)).finally(() => (this.#leaving = null));
    this.#setState({ state: "waiting", reason: "the page is not active" });
  }

  #resume() {
    if (!this.#isSuspended) {
      this.#engine?.nudge("the page was resumed");
      this.#group?.ping();
      return;
    }
    this.#isSuspended = false;
    if (this.#groupNameKept !== "") this.#enter(this.#groupNameKept);
    else {
      this.#engine = this.#makeEngine();
      this.#engine.start(this.#hasOpened);
    }
  }

  // MARK: Calls

  #run(name, ...args) {
    if (this.#state === "closed") return Promise.reject(closedError("the client is closed"));
    if (this.#isSuspended) return Promise.reject(unreachable(`${name}: the page is not active`));
    // A tab that takes the lead later repeats the call with the same key.
    if (this.#extension?.keyed.has(name)) {
      const options = args.pop();
      args.push({ ...options, idempotencyKey: options.idempotencyKey ?? randomText() });
    }
    if (this.#group && !this.#group.isLeading) return this.#group.call(name, args);
    this.#engine ??= this.#makeEngine();
    return this.#engine.run(name, args);
  }

  /**
   * Sets the own custom status, a text of at most 256 bytes; null or an empty text clears it.
   * @param {string | null} customStatus
   * @param {{ expiry?: number } & CallOptions} [options] `expiry` is the validity in seconds.
   * @returns {Promise<{ userStatus: UserStatus }>}
   */
  async setSelfStatus(customStatus, options = {}) {
    const answer = await this.#run("setSelfStatus", customStatus, options);
    this.#store([answer.userStatus], options.asUser);
    return answer;
  }

  /**
   * Returns the status of users, which may include the own user.
   * @param {string[]} userIDs
   * @param {CallOptions} [options]
   * @returns {Promise<{ userStatusList: UserStatus[], errorUserList: UserError[], asOf: number }>}
   */
  async getUserStatus(userIDs, options = {}) {
    const answer = await this.#run("getUserStatus", userIDs, options);
    this.#store(answer.userStatusList, options.asUser);
    return answer;
  }

  /**
   * Subscribes to users. Their changes arrive as `userStatusChanged`. With `sync` their statuses arrive at once, too.
   * @param {string[]} userIDs
   * @param {{ expiry?: number, sync?: boolean, subscribeType?: 1 | 2 | 3 | 4, sessionID?: string } & CallOptions} [options]
   * @returns {Promise<{ errorUserList: UserError[], evicted: string[], userStatusList?: UserStatus[] }>}
   */
  subscribeUserStatus(userIDs, options = {}) {
    return this.#run("subscribeUserStatus", userIDs, options);
  }

  /**
   * Unsubscribes from users, or with `{ all: true }` from everybody.
   * @param {string[]} userIDs Empty with `all`.
   * @param {{ all?: true, subscribeType?: 1 | 2 | 3 | 4, sessionID?: string } & CallOptions} [options]
   * @returns {Promise<{ errorUserList: UserError[] }>}
   */
  unsubscribeUserStatus(userIDs, options = {}) {
    return this.#run("unsubscribeUserStatus", userIDs, options);
  }

}

// MARK: What only a PresenceClient has

/**
 * The operations whose repetition could be told apart. Each call has a random key, and is repeated with the same one: the node answers a
 * repetition as it answered the call. All other operations have the same effect if they are carried out twice.
 */
const KEYED = [
  "publishEvent", "addFriend", "doResponse", "deleteFriends", "deletePendency", "pendencyReport", "modifyFriend", "createFriendGroup",
  "deleteFriendGroup", "renameFriendGroup", "addFriendsToFriendGroup", "delFriendsFromFriendGroup", "addBlackList", "deleteBlackList",
  "importFriends", "deleteAllFriends",
];

/** The names of the other events of a node, for EventSource, which reports only names that it was asked for. */
const EVENT_NAMES = [
  "onConnected", "onUserStatusChanged", "onSubscriptionSyncCompleted", "onSubscriptionChangedOnOtherDevices", "onSubscriptionExpired",
  "onKickedOffline", "onLogout", "onReconnectHint", "onTokenExpiring", "onSessionsChanged",
];

/** The names of the events of a node about friends, requests, groups, blocks and profiles. */
const RELATIONSHIP_EVENTS = [
  "onRelationshipState", "onFriendListAdded", "onFriendInfoChanged", "onFriendListDeleted", "onFriendApplicationListAdded",
  "onFriendApplicationListDeleted", "onFriendApplicationListRead", "onBlackListAdded", "onBlackListDeleted", "onFriendGroupsChanged",
  "onUserProfileChanged",
];

/**
 * Decides which published events an app receives as news. An event is raised if all of this holds:
 * - It was not raised before in this login.
 * - It was not published by another session of the same user, or its `syncEnabled` is true.
 * - Its `sendToOnlineUsersOnly` is false, or it was not published before the first session of this login was opened.
 */
class RaisedEvents {
  #eventsMax = 10_000;
  #ownID = "";
  #sessionIDs = [];
  #beganAt = Infinity;
  #hasBegun = false;
  #raised = new Set();

  connected(session, beganAt = session.serverTime) {
    this.#ownID = session.userID;
    if (!this.#hasBegun) this.#beganAt = beganAt;
    this.#hasBegun = true;
    this.#sessionIDs = [...this.#sessionIDs.slice(-15), session.sessionID];
  }

  clear() {
    this.#ownID = "";
    this.#sessionIDs = [];
    this.#beganAt = Infinity;
    this.#hasBegun = false;
    this.#raised.clear();
  }

  /** The events that a status raises, `loginEvent` before `event`. */
  events(status) {
    const events = [];
    const { event, loginEvent } = status;
    if (loginEvent && this.#isDue(loginEvent, status) && this.#remember(loginEvent, status)) events.push(loginEvent);
    if (event && this.#isDue(event, status)) {
      const isOfThisLogin = !event.publishedAt || event.publishedAt >= this.#beganAt;
      if ((isOfThisLogin || event.sendToOnlineUsersOnly === false) && this.#remember(event, status)) events.push(event);
    }
    return events;
  }

  #isDue(event, status) {
    if (event.syncEnabled !== false || status.userID !== this.#ownID) return true;
    return event.sessionID !== undefined && this.#sessionIDs.includes(event.sessionID);
  }

  #remember(event, status) {
    const key = JSON.stringify([status.userID, event.eventID || `${event.value} ${event.expiresAt}`]);
    if (this.#raised.has(key)) return false;
    this.#raised.add(key);
    if (this.#raised.size > this.#eventsMax) this.#raised.delete(this.#raised.keys().next().value);
    return true;
  }
}

/** The profiles that the client has fetched. Beyond `usersMax` those fetched earliest are dropped. */
class ProfileCache {
  #usersMax;
  #expiry;
  #entries = new Map();

  constructor(usersMax, expiry) {
    this.#usersMax = usersMax;
    this.#expiry = expiry;
  }

  get(userID) {
    const entry = this.#entries.get(userID);
    return entry && Date.now() - entry.fetchedAt < this.#expiry ? entry.profile : undefined;
  }

  store(profiles) {
    for (const profile of profiles) {
      this.#entries.delete(profile.userID);
      this.#entries.set(profile.userID, { profile, fetchedAt: Date.now() });
      if (this.#entries.size > this.#usersMax) this.#entries.delete(this.#entries.keys().next().value);
    }
  }

  remove(userID) {
    this.#entries.delete(userID);
  }

  clear() {
    this.#entries.clear();
  }
}

const byText = (left, right) => (left < right ? -1 : left > right ? 1 : 0);
const LISTS = ["friends", "requests", "blocked", "groups"];
/** The time after which a list that could not be fetched is asked for again, in milliseconds. */
const FETCH_AGAIN = 30_000;

/**
 * Keeps the own relationship chain equal to the lists of the node: it applies each event that follows the state that it holds, and names the
 * lists to fetch. It does no I/O.
 *
 * At most one query of each list is under way. Events that arrive meanwhile, and do not follow what the query brings, cause another one.
 */
class RelationshipMirror {
  constructor(content = /** @type {any} */ (null)) {
    /** @type {Relationships} */
    this.state = content?.state ?? { isComplete: false, friends: [], requests: [], unreadCount: 0, blocked: [], groups: [] };
    this.syncs = content?.syncs ?? {};
  }

  #sync(list) {
    this.syncs[list] ??= { held: null, newest: null, isFetching: false, isStale: false, isKnown: false };
    return this.syncs[list];
  }

  /** The sequence from which the changes of a list are to be fetched; null for the whole list. */
  held(list) {
    return this.syncs[list]?.held ?? null;
  }

  /** Records that another tab carries on. Its predecessor's queries bring nothing. Returns the lists to fetch. */
  takeOver() {
    for (const list of LISTS) {
      const sync = this.#sync(list);
      if (sync.isFetching || !sync.isKnown) this.failed(list);
    }
    return this.due();
  }

  /** Takes an event of the node. Returns the lists to fetch. */
  receive(name, data) {
    const state = this.state;
    switch (name) {
      case "onRelationshipState":
        state.unreadCount = data.unreadCnt;
        this.#note(data.friendSeq, "friends");
        this.#note(data.pendencySeq, "requests");
        this.#note(data.groupsVersion, "groups");
        this.#note(data.blockVersion, "blocked");
        break;
      case "onFriendListAdded":
      case "onFriendInfoChanged":
        this.#step(data, "friends", () => this.#storeFriends(data.friendList));
        break;
      case "onFriendListDeleted":
        this.#step(data, "friends", () => this.#removeFriends(data.userIDs));
        break;
      case "onFriendApplicationListAdded":
        state.unreadCount = data.unreadCnt;
        this.#step(data, "requests", () => {
          for (const request of data.pendencyList) this.#removeRequests([request.userID], request.type);
          state.requests = [...state.requests, ...data.pendencyList];
        });
        break;
      case "onFriendApplicationListDeleted":
        state.unreadCount = data.unreadCnt;
        this.#step(data, "requests", () => this.#removeRequests(data.userIDs, data.type));
        break;
      case "onFriendApplicationListRead":
        state.unreadCount = data.unreadCnt;
        break;
      case "onBlackListAdded":
      case "onBlackListDeleted":
        this.#step(data, "blocked", () => {
          const others = state.blocked.filter((userID) => !data.userIDs.includes(userID));
          state.blocked = name === "onBlackListAdded" ? [...others, ...data.userIDs].sort(byText) : others;
        });
        break;
      case "onFriendGroupsChanged":
        this.#takeGroups(data);
        break;
    }
    return this.due();
  }

  /** Takes all groups of an event. An event about many friends names no users, and the groups are fetched. */
  #takeGroups(data) {
    const sync = this.#sync("groups");
    sync.newest = data.seq;
    if (!sync.isFetching && data.groupList.every((group) => group.userIDs)) sync.held = data.seq;
    // The query under way may be older than this change.
    else if (sync.held !== data.seq) sync.isStale = true;
    this.state.groups = data.groupList;
  }

  #note(newest, list) {
    const sync = this.#sync(list);
    sync.newest = newest;
    if (sync.held !== newest) sync.isStale = true;
  }

  #step(data, list, apply) {
    const sync = this.#sync(list);
    sync.newest = data.seq;
    if (sync.held === data.fromSeq && !sync.isFetching) {
      sync.held = data.seq;
      apply();
    } else if (sync.held !== data.seq) sync.isStale = true;
  }

  /** The lists whose query is to begin now. */
  due() {
    const due = LISTS.filter((list) => this.syncs[list]?.isStale && !this.syncs[list].isFetching);
    for (const list of due) Object.assign(this.#sync(list), { isFetching: true, isStale: false });
    return due;
  }

  /** Takes the answer of a query. Returns the lists to fetch next. */
  fetched(list, answer) {
    const state = this.state;
    switch (list) {
      case "friends":
        if (answer.isFull) state.friends = [];
        this.#removeFriends(answer.deleted);
        this.#storeFriends(answer.friendList);
        break;
      case "requests":
        if (answer.requests) state.requests = answer.requests;
        state.unreadCount = answer.unreadCount;
        break;
      case "blocked":
        state.blocked = answer.userIDs;
        break;
      case "groups":
        state.groups = answer.groupList;
        break;
    }
    const sync = this.#sync(list);
    Object.assign(sync, { held: answer.seq, isFetching: false, isKnown: true });
    // The answer has all that the events up to its sequence have told.
    if (answer.seq === sync.newest) sync.isStale = false;
    state.isComplete = LISTS.every((name) => this.syncs[name]?.isKnown ?? false);
    return this.due();
  }

  failed(list) {
    Object.assign(this.#sync(list), { isFetching: false, isStale: true });
  }

  #storeFriends(changed) {
    const users = new Set(changed.map((friend) => friend.userID));
    this.state.friends = [...this.state.friends.filter((friend) => !users.has(friend.userID)), ...changed].sort((left, right) =>
      byText(left.userID, right.userID));
  }

  #removeFriends(userIDs) {
    const users = new Set(userIDs);
    if (users.size > 0) this.state.friends = this.state.friends.filter((friend) => !users.has(friend.userID));
  }

  #removeRequests(userIDs, type) {
    const users = new Set(userIDs);
    this.state.requests = this.state.requests.filter((request) => request.type !== type || !users.has(request.userID));
  }
}

/** Lists subscriptions: one page with `offset` or `limit`, else all of them, page by page. */
async function fetchSubscriptions(engine, options) {
  if (options.offset !== undefined || options.limit !== undefined) return engine.call("getSubscribedUserStatus", options);
  /** @type {{ subscriptions: Subscription[], total: number, errorUserList: UserError[] }} */
  const all = { subscriptions: [], total: 0, errorUserList: [] };
  const add = (page) => {
    all.subscriptions.push(...page.subscriptions);
    all.errorUserList.push(...(page.errorUserList ?? []));
    return page;
  };
  if (options.userIDs?.length) {
    for (const userIDs of batches(options.userIDs, engine.options.limits.queryUsersMax)) {
      all.total += add(await engine.call("getSubscribedUserStatus", { ...options, userIDs })).total;
    }
    return all;
  }
  let offset = 0;
  do {
    const page = add(await engine.call("getSubscribedUserStatus", { ...options, offset, limit: engine.options.limits.pageRowsMax }));
    all.total = page.total;
    if (page.subscriptions.length === 0) break;
    offset += page.subscriptions.length;
  } while (offset < all.total);
  const seen = new Set();
  all.subscriptions = all.subscriptions.filter((row) => {
    const key = JSON.stringify([row.userID, row.subscribeType]);
    return !seen.has(key) && seen.add(key);
  });
  return all;
}

/** Makes a call about users in runs, and merges the lists of the answers. */
async function decide(engine, operation, userIDs, body, listName) {
  /** @type {Record<string, any[]>} */
  const answer = { [listName]: [], errorUserList: [] };
  let count = 0;
  const failed = await engine.inBatches(userIDs, engine.options.limits.chainUsersMax, async (batch) => {
    // Each run is a call of its own.
    const idempotencyKey = body.idempotencyKey && `${body.idempotencyKey}${count++ === 0 ? "" : `-${count}`}`;
    const part = await engine.call(operation, { ...body, userIDs: batch, idempotencyKey });
    answer[listName].push(...(part[listName] ?? []));
    answer.errorUserList.push(...(part.errorUserList ?? []));
  });
  answer.errorUserList.push(...failed);
  return answer;
}

/** The changes since a sequence, or all friends, page by page. */
async function fetchFriends(engine, options) {
  const answer = await engine.call("getFriendList", { limit: 100, ...options });
  if (options.limit !== undefined || options.cursor !== undefined) return answer;
  while (answer.isFull && answer.cursor) {
    const page = await engine.call("getFriendList", { limit: 100, ...options, seq: undefined, cursor: answer.cursor });
    answer.friendList.push(...page.friendList);
    answer.cursor = page.cursor;
  }
  delete answer.cursor;
  return answer;
}

/** All requests, page by page; none where `seq` is the newest. */
async function fetchRequests(engine, options) {
  if (options.numPerPage !== undefined || options.timestamp !== undefined) return engine.call("getPendencyList", { type: 3, ...options });
  const answer = await engine.call("getPendencyList", { type: 3, timestamp: 0, numPerPage: 100, ...options });
  let { timestamp } = answer;
  while (timestamp !== 0 && answer.seq !== options.seq) {
    const page = await engine.call("getPendencyList", { type: 3, numPerPage: 100, ...options, timestamp });
    answer.pendencyList.push(...page.pendencyList);
    timestamp = page.timestamp;
  }
  return { ...answer, timestamp: 0 };
}

async function fetchBlocklist(engine, options) {
  if (options.limit !== undefined || options.cursor !== undefined) return engine.call("getBlackList", options);
  let page = await engine.call("getBlackList", options);
  // Later changes are told by events that begin at the sequence of the first page.
  const answer = { userIDs: [...page.userIDs], seq: page.seq };
  while (page.cursor) {
    page = await engine.call("getBlackList", { ...options, cursor: page.cursor });
    answer.userIDs.push(...page.userIDs);
  }
  return answer;
}

/** The operations that only a `PresenceClient` has, as in `OPERATIONS`. */
const PRESENCE_OPERATIONS = {
  publishEvent: (engine, value, options) =>
    engine.set("publishEvent", ["event"], options, { sessionID: engine.session?.sessionID, ...options, value }),
  setVisibility: (engine, change, options) => engine.set("setVisibility", Object.keys(change).map((field) => `visible:${field}`), options,
    { ...options, ...change }),
  getVisibility: (engine, options) => engine.call("getVisibility", options),
  // A back end that names another user has no session of that user.
  getSessions: (engine, options = {}) => engine.call("getSessions", {
    sessionID: options.asUser && options.asUser !== engine.options.asUser ? undefined : engine.session?.sessionID, ...options }),
  explainSelf: (engine, options) => engine.call("explainSelf", options),
  getSubscribedUserStatus: (engine, options) => fetchSubscriptions(engine, options),
  streamTicket: (engine, options) => engine.call("streamTicket", options),
  renew: (engine, sessionID, options) => engine.call("renew", { ...options, sessionID }),
  alive: (engine, sessionID, options) => engine.call("alive", { ...options, sessionID }),
  getSelfProfile: (engine, options) => engine.call("getSelfProfile", options),
  getUsersProfile: (engine, userIDs, options) => decide(engine, "getUsersProfile", userIDs, options, "profileList"),
  modifySelfProfile: (engine, values, options) => engine.call("modifySelfProfile", { ...options, values }),
  addFriend: (engine, userID, options) => engine.call("addFriend", { ...options, userID }),
  doResponse: (engine, userID, responseType, options) => engine.call("doResponse", { ...options, userID, responseType }),
  deleteFriends: (engine, userIDs, delType, options) => decide(engine, "deleteFriends", userIDs, { ...options, delType }, "resultList"),
  checkFriends: (engine, userIDs, checkType, options) => decide(engine, "checkFriends", userIDs, { ...options, checkType }, "resultList"),
  checkBlackList: (engine, userIDs, checkType, options) => decide(engine, "checkBlackList", userIDs, { ...options, checkType }, "resultList"),
  importFriends: (engine, friends, options) => engine.call("importFriends", { ...options, friends }),
  deleteAllFriends: (engine, delType, options) => engine.call("deleteAllFriends", { ...options, delType }),
  getFriendList: (engine, options) => fetchFriends(engine, options),
  modifyFriend: (engine, userID, values, options) => engine.call("modifyFriend", { ...options, userID, values }),
  getPendencyList: (engine, options) => fetchRequests(engine, options),
  deletePendency: (engine, userIDs, type, options) => decide(engine, "deletePendency", userIDs, { ...options, type }, "resultList"),
  pendencyReport: (engine, timestamp, options) => engine.call("pendencyReport", { ...options, timestamp }),
  createFriendGroup: (engine, groupNames, options) => engine.call("createFriendGroup", { ...options, groupNames }),
  deleteFriendGroup: (engine, groupNames, options) => engine.call("deleteFriendGroup", { ...options, groupNames }),
  renameFriendGroup: (engine, oldName, newName, options) => engine.call("renameFriendGroup", { ...options, oldName, newName }),
  getFriendGroups: (engine, options) => engine.call("getFriendGroups", options),
  addFriendsToFriendGroup: (engine, groupName, userIDs, options) =>
    engine.call("addFriendsToFriendGroup", { ...options, groupName, userIDs }),
  delFriendsFromFriendGroup: (engine, groupName, userIDs, options) =>
    engine.call("delFriendsFromFriendGroup", { ...options, groupName, userIDs }),
  addBlackList: (engine, userIDs, options) => decide(engine, "addBlackList", userIDs, options, "resultList"),
  deleteBlackList: (engine, userIDs, options) => decide(engine, "deleteBlackList", userIDs, options, "resultList"),
  getBlackList: (engine, options) => fetchBlocklist(engine, options),
};

/** The state and the rules that a `PresenceClient` adds to a `StatusClient`, which calls them. */
class PresenceExtension {
  operations = PRESENCE_OPERATIONS;
  keyed = new Set(KEYED);
  mirror = new RelationshipMirror();
  profiles;
  store;
  #keepsLists;
  #emit;
  #raised = new RaisedEvents();
  /** @type {Map<string, any>} */
  #fetchTimers = new Map();

  constructor({ options, emit, store }) {
    const canStream = typeof Response === "function" && "body" in Response.prototype;
    options.useEventSource ??= !canStream;
    options.limits = { pageRowsMax: 200, chainUsersMax: 100, ...options.limits };
    this.store = store;
    this.profiles = new ProfileCache(options.usersMax, options.profileExpiry ?? 86_400_000);
    this.#keepsLists = options.keepRelationships ?? false;
    this.#emit = emit;
  }

  /** Clients of two kinds do not share a session. */
  get kind() {
    return this.#keepsLists;
  }

  /** Forgets the last login. A session that ended may still raise events. */
  forget() {
    this.#raised.clear();
  }

  /** Forgets what the client keeps while it is logged in. */
  clear() {
    this.profiles.clear();
    this.mirror = new RelationshipMirror();
  }

  /** Records that the client has a session. Events that were published before `beganAt` are no news. */
  connected(session, beganAt = session.serverTime) {
    this.#raised.connected(session, beganAt);
  }

  /** Raises the events of statuses that listeners have received. */
  delivered(statuses) {
    for (const status of statuses) {
      for (const event of this.#raised.events(status)) this.#emit("eventRaised", { userID: status.userID, event, userStatus: status });
    }
  }

  /** Reads a stream with EventSource. It cannot send a token, so it needs a ticket. */
  async readEventSource(engine, stream, state) {
    const address = state.address;
    const { ticket } = await engine.call("streamTicket", {}, { address, attemptsMax: 1 });
    if (!engine.isOpen(stream)) return;
    state.token = await engine.token.current();
    if (!engine.isOpen(stream)) return;
    const query = engine.query();
    query.set("ticket", ticket);
    if (engine.lastEventID !== null) query.set("lastEventID", engine.lastEventID);
    state.isEventSource = true;
    state.answer = new Promise((resolve) => (state.isAnswered = resolve));
    const source = new EventSource(`${engine.options.addresses[address]}/v1/events?${query}`);
    await new Promise((resolve) => {
      // The ticket opens one stream, so the reconnect of EventSource cannot work.
      source.onerror = resolve;
      state.control.signal.addEventListener("abort", resolve);
      for (const name of [...EVENT_NAMES, ...RELATIONSHIP_EVENTS]) {
        source.addEventListener(name, (event) => {
          engine.heard(state);
          engine.take(stream, name, event.data, event.lastEventId || null);
        });
      }
    });
    source.close();
  }

  /** The lists of the leading tab, for a tab that joins. */
  snapshot() {
    return { state: this.mirror.state, syncs: this.mirror.syncs };
  }

  welcome(snapshot) {
    if (!this.#keepsLists) return;
    this.mirror = new RelationshipMirror(snapshot);
    this.#tell("synced", null);
  }

  /** Records that this tab leads now. Returns the lists to fetch. */
  takeOver() {
    return this.#keepsLists ? this.mirror.takeOver() : [];
  }

  /** Takes a fact of the engine. Returns the lists to fetch. */
  take(fact) {
    switch (fact.kind) {
      case "fetched": {
        const lists = this.mirror.fetched(fact.list, fact.answer);
        this.#tell("synced", null);
        return lists;
      }
      case "fetchFailed":
        this.mirror.failed(fact.list);
        return [];
      case "fetchDue":
        return this.mirror.due();
      default:
        return [];
    }
  }

  /** Takes an event of the node. Returns the lists to fetch. */
  receive(name, data) {
    if (name === "onSessionsChanged") this.#emit("sessionsChanged", data.sessions);
    if (!RELATIONSHIP_EVENTS.includes(name)) return [];
    if (name === "onUserProfileChanged") this.profiles.remove(data.userID);
    const lists = this.#keepsLists ? this.mirror.receive(name, data) : [];
    if (name !== "onRelationshipState") this.#tell(name[2].toLowerCase() + name.slice(3), data);
    return lists;
  }

  /** Fetches a list for an engine, and tells the engine the answer. */
  async fetchList(engine, list) {
    const logins = engine.endedLogins;
    try {
      const answer = await this.#fetch(engine, list);
      if (logins === engine.endedLogins) engine.tell({ kind: "fetched", list, answer });
    } catch (error) {
      if (logins !== engine.endedLogins) return;
      engine.tell({ kind: "fetchFailed", list, error: flatten(error) });
      clearTimeout(this.#fetchTimers.get(list));
      this.#fetchTimers.set(list, setTimeout(() => engine.tell({ kind: "fetchDue" }), FETCH_AGAIN));
    }
  }

  /** Records that the session has ended. No list is asked for again. */
  stopFetching() {
    for (const timer of this.#fetchTimers.values()) clearTimeout(timer);
    this.#fetchTimers.clear();
  }

  /** The list of the node, or the changes of it since the one that is held. */
  async #fetch(engine, list) {
    const held = this.mirror.held(list);
    const since = held === null ? {} : { seq: held };
    if (list === "friends") return fetchFriends(engine, since);
    if (list === "blocked") return fetchBlocklist(engine, {});
    if (list === "groups") return engine.call("getFriendGroups", {});
    const { seq, unreadCnt, pendencyList } = await fetchRequests(engine, since);
    return { seq, unreadCount: unreadCnt, requests: seq === held ? null : pendencyList };
  }

  #tell(type, data) {
    this.#emit("relationshipChanged", { type, data });
  }
}

/**
 * A `StatusClient` with visibility, published events, the list of subscriptions, profiles, friends, requests, groups and the blocklist.
 */
export class PresenceClient extends StatusClient {
  #extension;
  #run;

  /**
   * @param {PresenceOptions} options
   */
  constructor(options) {
    super(options);
    const parts = shared.get(this);
    this.#run = parts.run;
    this.#extension = parts.extend(new PresenceExtension(parts));
  }

  /**
   * The own lists. The client keeps them only with `keepRelationships`.
   * @type {Relationships}
   */
  get relationships() {
    return structuredClone(this.#extension.mirror.state);
  }

  /**
   * Publishes a number of the app's own, at least 10,000.
   * @param {number} value
   * @param {{ ext?: string, expiry?: number, sendToOnlineUsersOnly?: boolean, syncEnabled?: boolean, sessionID?: string } & CallOptions} [options]
   * @returns {Promise<{ eventID: string, userStatus: UserStatus }>}
   */
  async publishEvent(value, options = {}) {
    const answer = await this.#run("publishEvent", value, options);
    this.#extension.store([answer.userStatus], options.asUser);
    return answer;
  }

  /**
   * Lists the own subscriptions: one page with `offset` or `limit`, else all of them.
   * @param {{ userIDs?: string[], offset?: number, limit?: number, subscribeType?: 1 | 2 | 3 | 4 } & CallOptions} [options]
   * @returns {Promise<{ subscriptions: Subscription[], total: number, errorUserList: UserError[] }>}
   */
  async getSubscribedUserStatus(options = {}) {
    const answer = await this.#run("getSubscribedUserStatus", options);
    this.#extension.store(answer.subscriptions.flatMap((row) => row.userStatus ?? []), options.asUser);
    return answer;
  }

  /**
   * Says who may see the own status. A field that is absent stays as it is.
   * @param {{ visibility?: "everyone" | "friends" | "list" | "nobody", userIDs?: string[], invisible?: boolean }} change
   * @param {CallOptions} [options]
   * @returns {Promise<Visibility>}
   */
  setVisibility(change, options = {}) {
    return this.#run("setVisibility", change, options);
  }

  /**
   * Returns who may see the own status.
   * @param {CallOptions} [options]
   * @returns {Promise<Visibility>}
   */
  getVisibility(options = {}) {
    return this.#run("getVisibility", options);
  }

  /**
   * Returns the own user's open sessions on all devices, in the order of their logins. `logout` ends one of them.
   * @param {CallOptions} [options]
   * @returns {Promise<{ sessions: DeviceSession[] }>}
   */
  getSessions(options = {}) {
    return this.#run("getSessions", options);
  }

  /**
   * Explains why others see the own user ONLINE, OFFLINE or UNLOGINED. `because` has the reasons in words.
   * @param {CallOptions} [options]
   * @returns {Promise<{ node: string, userID: string, userStatus: UserStatus, sessions: { sessionID: string, platform: string, deviceID: string, node: string, mayResumeForMilliseconds?: number }[], visibility: string, invisible: boolean, because: string[] }>}
   */
  explainSelf(options = {}) {
    return this.#run("explainSelf", options);
  }

  /**
   * Returns a ticket that opens one event stream without a header, for EventSource.
   * @param {CallOptions} [options]
   * @returns {Promise<{ ticket: string, expiresInSeconds: number }>}
   */
  streamTicket(options = {}) {
    return this.#run("streamTicket", options);
  }

  /**
   * Moves the end of a session to that of the app's newest token. The client does so by itself for its own session.
   * @param {string} sessionID
   * @param {CallOptions} [options]
   * @returns {Promise<{}>}
   */
  renew(sessionID, options = {}) {
    return this.#run("renew", sessionID, options);
  }

  /**
   * Shows that the client of a session runs. The client does so by itself for its own session.
   * @param {string} sessionID
   * @param {CallOptions} [options]
   * @returns {Promise<{}>}
   */
  alive(sessionID, options = {}) {
    return this.#run("alive", sessionID, options);
  }

  /**
   * Returns the own profile.
   * @param {CallOptions} [options]
   * @returns {Promise<{ profile: UserProfile }>}
   */
  async getSelfProfile(options = {}) {
    const answer = await this.#run("getSelfProfile", options);
    this.#keepProfiles([answer.profile], options);
    return answer;
  }

  /**
   * Returns the profiles of users. Profiles that were fetched before come from the cache, unless `forceUpdate` is true.
   * @param {string[]} userIDs
   * @param {{ forceUpdate?: boolean } & CallOptions} [options]
   * @returns {Promise<{ profileList: UserProfile[], errorUserList: UserError[] }>}
   */
  async getUsersProfile(userIDs, options = {}) {
    return this.#usersProfile(userIDs, options);
  }

  async #usersProfile(userIDs, { forceUpdate = false, ...options }) {
    const isCached = !forceUpdate && options.asUser === undefined && userIDs.length > 0;
    const known = isCached ? [...new Set(userIDs)].flatMap((userID) => this.#extension.profiles.get(userID) ?? []) : [];
    const users = new Set(known.map((profile) => profile.userID));
    const missing = userIDs.filter((userID) => !users.has(userID));
    if (missing.length === 0 && isCached) return { profileList: known, errorUserList: [] };
    const answer = await this.#run("getUsersProfile", missing, options);
    this.#keepProfiles(answer.profileList, options);
    return { ...answer, profileList: [...known, ...answer.profileList] };
  }

  /**
   * Sets fields of the own profile, by their keys: `Nick`, `FaceUrl`, `AllowType` or `Custom_Blood`, for example.
   * @param {Record<string, FieldValue>} values
   * @param {CallOptions} [options]
   * @returns {Promise<{ profile: UserProfile }>}
   */
  async modifySelfProfile(values, options = {}) {
    const answer = await this.#run("modifySelfProfile", values, options);
    this.#keepProfiles([answer.profile], options);
    return answer;
  }

  #keepProfiles(profiles, options) {
    if (options.asUser === undefined) this.#extension.profiles.store(profiles);
  }

  /**
   * Adds a friend, or sends a request if the user must approve it.
   * @param {string} userID
   * @param {{ remark?: string, addWording?: string, addSource?: string, group?: string, addType?: "both" | "single", force?: boolean } & CallOptions} [options]
   * @returns {Promise<FriendResult>}
   */
  addFriend(userID, options = {}) {
    return this.#run("addFriend", userID, options);
  }

  /**
   * Answers a friend request: 0 accepts it, 1 accepts it and adds the user, 2 rejects it.
   * @param {string} userID
   * @param {0 | 1 | 2} responseType
   * @param {{ remark?: string } & CallOptions} [options]
   * @returns {Promise<FriendResult>}
   */
  doResponse(userID, responseType, options = {}) {
    return this.#run("doResponse", userID, responseType, options);
  }

  /**
   * Deletes friends from the own list; with `delType` 2 also the own user from their lists.
   * @param {string[]} userIDs
   * @param {1 | 2} delType
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResults>}
   */
  deleteFriends(userIDs, delType, options = {}) {
    return this.#run("deleteFriends", userIDs, delType, options);
  }

  /**
   * Tells which users are friends. `checkType` 1 reads the own list, 2 also the lists of the users.
   * @param {string[]} userIDs
   * @param {1 | 2} checkType
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResults>}
   */
  checkFriends(userIDs, checkType, options = {}) {
    return this.#run("checkFriends", userIDs, checkType, options);
  }

  /**
   * Tells who has blocked whom. For back ends.
   * @param {string[]} userIDs
   * @param {1 | 2} checkType
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResults>}
   */
  checkBlackList(userIDs, checkType, options = {}) {
    return this.#run("checkBlackList", userIDs, checkType, options);
  }

  /**
   * Adds at most 100 friends without asking them. For back ends.
   * @param {(Partial<Friend> & { userID: string })[]} friends
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResults>}
   */
  importFriends(friends, options = {}) {
    return this.#run("importFriends", friends, options);
  }

  /**
   * Deletes up to 1,000 friends. For back ends, which repeat it until `resultList` is empty.
   * @param {1 | 2} delType
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResults>}
   */
  deleteAllFriends(delType, options = {}) {
    return this.#run("deleteAllFriends", delType, options);
  }

  /**
   * Returns all friends, or with `seq` those that have changed since; with `limit` or `cursor` one page.
   * @param {{ seq?: string, cursor?: string, limit?: number, withProfile?: boolean } & CallOptions} [options]
   * @returns {Promise<{ friendList: Friend[], deleted: string[], isFull: boolean, seq: string, cursor?: string, total: number }>}
   */
  getFriendList(options = {}) {
    return this.#run("getFriendList", options);
  }

  /**
   * Changes a friend by the keys `Remark`, `Group` (all groups of the friend) and `Custom_Blood`, for example.
   * @param {string} userID
   * @param {Record<string, FieldValue | string[]>} values
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResult & { friend?: Friend }>}
   */
  modifyFriend(userID, values, options = {}) {
    return this.#run("modifyFriend", userID, values, options);
  }

  /**
   * Returns all friend requests, received and sent ones, or those of one `type`; with `numPerPage` or `timestamp` one page.
   * @param {{ type?: 1 | 2 | 3, seq?: string, timestamp?: number, numPerPage?: number } & CallOptions} [options]
   * @returns {Promise<{ seq: string, timestamp: number, unreadCnt: number, pendencyList: FriendRequest[] }>}
   */
  getPendencyList(options = {}) {
    return this.#run("getPendencyList", options);
  }

  /**
   * Removes requests of these users from the own list alone: received ones with `type` 1, sent ones with 2.
   * @param {string[]} userIDs
   * @param {1 | 2} type
   * @param {CallOptions} [options]
   * @returns {Promise<{ errorUserList: UserError[] }>}
   */
  async deletePendency(userIDs, type, options = {}) {
    const { errorUserList } = await this.#run("deletePendency", userIDs, type, options);
    return { errorUserList };
  }

  /**
   * Marks the received requests up to a time as read, in milliseconds since 1970.
   * @param {number} timestamp
   * @param {CallOptions} [options]
   * @returns {Promise<{ unreadCnt: number }>}
   */
  pendencyReport(timestamp, options = {}) {
    return this.#run("pendencyReport", timestamp, options);
  }

  /**
   * Creates groups, and adds friends to each of them.
   * @param {string[]} groupNames
   * @param {{ userIDs?: string[] } & CallOptions} [options]
   * @returns {Promise<GroupResults>}
   */
  createFriendGroup(groupNames, options = {}) {
    return this.#run("createFriendGroup", groupNames, options);
  }

  /**
   * Deletes groups. Their friends stay in the list.
   * @param {string[]} groupNames
   * @param {CallOptions} [options]
   * @returns {Promise<{}>}
   */
  deleteFriendGroup(groupNames, options = {}) {
    return this.#run("deleteFriendGroup", groupNames, options);
  }

  /**
   * Gives a group another name.
   * @param {string} oldName
   * @param {string} newName
   * @param {CallOptions} [options]
   * @returns {Promise<GroupResults>}
   */
  renameFriendGroup(oldName, newName, options = {}) {
    return this.#run("renameFriendGroup", oldName, newName, options);
  }

  /**
   * Returns groups with their friends, or all groups.
   * @param {{ groupNames?: string[] } & CallOptions} [options]
   * @returns {Promise<{ groupList: FriendGroup[], seq: string }>}
   */
  getFriendGroups(options = {}) {
    return this.#run("getFriendGroups", options);
  }

  /**
   * Adds friends to a group.
   * @param {string} groupName
   * @param {string[]} userIDs
   * @param {CallOptions} [options]
   * @returns {Promise<GroupResults>}
   */
  addFriendsToFriendGroup(groupName, userIDs, options = {}) {
    return this.#run("addFriendsToFriendGroup", groupName, userIDs, options);
  }

  /**
   * Removes friends from a group.
   * @param {string} groupName
   * @param {string[]} userIDs
   * @param {CallOptions} [options]
   * @returns {Promise<GroupResults>}
   */
  delFriendsFromFriendGroup(groupName, userIDs, options = {}) {
    return this.#run("delFriendsFromFriendGroup", groupName, userIDs, options);
  }

  /**
   * Blocks users: friendships and requests with them end, and they see the own user OFFLINE.
   * @param {string[]} userIDs
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResults>}
   */
  addBlackList(userIDs, options = {}) {
    return this.#run("addBlackList", userIDs, options);
  }

  /**
   * Ends blocks. Friendships do not come back.
   * @param {string[]} userIDs
   * @param {CallOptions} [options]
   * @returns {Promise<FriendResults>}
   */
  deleteBlackList(userIDs, options = {}) {
    return this.#run("deleteBlackList", userIDs, options);
  }

  /**
   * Returns the users on the own blocklist; with `limit` or `cursor` one page.
   * @param {{ cursor?: string, limit?: number } & CallOptions} [options]
   * @returns {Promise<{ userIDs: string[], seq: string, cursor?: string }>}
   */
  getBlackList(options = {}) {
    return this.#run("getBlackList", options);
  }
}
