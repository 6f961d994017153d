// Made by make-types.mjs from client.js.

/** A numeric status that a user published. Times are milliseconds since 1970. */
export interface PublishedEvent {
  eventID: string;
  value: number;
  ext: string;
  publishedAt: number;
  expiresAt: number;
  sendToOnlineUsersOnly: boolean;
  syncEnabled: boolean;
  /** The session that published it. Present only in the own records. */
  sessionID?: string;
}

/** A user's status: one whole, versioned record. A larger version is newer. */
export interface UserStatus {
  userID: string;
  statusType: "ONLINE" | "OFFLINE" | "UNLOGINED" | "UNKNOWN";
  customStatus: string;
  onlinePlatforms: string[];
  event?: PublishedEvent;
  loginEvent?: PublishedEvent;
  lastUpdateTime: number;
  lastOnlineStatusUpdateTime: number;
  lastCustomStatusUpdateTime: number;
  lastSeenTime: number;
  version: string;
}

/** A session as `onConnected` describes it. */
export interface Session {
  sessionID: string;
  userID: string;
  node: string;
  /** Seconds between two signs of life. */
  heartbeatInterval: number;
  /** Seconds of silence after which the node ends the session. */
  heartbeatTimeout: number;
  /** The node's clock, in milliseconds since 1970. */
  serverTime: number;
}

/** A user for whom a call failed. */
export interface UserError {
  userID: string;
  code: number;
  reason: string;
}

/** Bytes that are not UTF-8. */
export interface Bytes {
  base64: string;
}

/** The value of a custom field. */
export type FieldValue = number | string | Bytes;

/** A friend on the own list. */
export interface Friend {
  userID: string;
  remark: string;
  groups: string[];
  addWording: string;
  addSource: string;
  addTime: number;
  custom: Record<string, FieldValue>;
  /** Present only with `withProfile`. */
  profile?: UserProfile;
}

/** A friend request. `type` is 1 for a received request and 2 for a sent one. */
export interface FriendRequest {
  userID: string;
  addTime: number;
  addSource: string;
  addWording: string;
  nickname: string;
  type: 1 | 2;
}

/** A group of friends. `userIDs` is absent in an event about many friends. */
export interface FriendGroup {
  name: string;
  userCnt: number;
  userIDs?: string[];
}

/** A user's profile. */
export interface UserProfile {
  userID: string;
  nick: string;
  allowType?: "ANY" | "CONFIRM" | "DENY";
  faceURL: string;
  selfSignature: FieldValue;
  gender: number;
  birthday: number;
  location: FieldValue;
  language: number;
  level: number;
  role: number;
  custom: Record<string, FieldValue>;
  version: string;
}

/** The own relationship chain, as the client knows it. `isComplete` tells whether all lists were fetched since the login. */
export interface Relationships {
  isComplete: boolean;
  friends: Friend[];
  requests: FriendRequest[];
  unreadCount: number;
  blocked: string[];
  groups: FriendGroup[];
}

/** The result of a decision about a user. `resultCode` is 0 for success. */
export interface FriendResult {
  userID: string;
  resultCode: number;
  resultInfo: string;
  /** Present in the results of `checkFriends` and `checkBlackList`. */
  resultType?: number;
}

/** The results of a decision about several users. */
export interface FriendResults {
  resultList: FriendResult[];
  errorUserList: UserError[];
}

/** The result of a call about groups. */
export interface GroupResults {
  resultCode: number;
  resultInfo: string;
  resultList?: FriendResult[];
  errorUserList?: UserError[];
}

/** A subscription of the own user. */
export interface Subscription {
  userID: string;
  subscribeType: 1 | 2 | 3 | 4;
  subscribedAt: number;
  expiresAt?: number;
  userStatus?: UserStatus;
  profileVersion?: string;
}

/** Who may see the own status. */
export interface Visibility {
  visibility: "everyone" | "friends" | "list" | "nobody";
  userIDs: string[];
  invisible: boolean;
  mayBeSeenUntil?: number | null;
}

/** The state of the connection: `idle` before `connect`, `connecting` while a stream is being opened, `online`, and `waiting` between two attempts. The other states end the session, and the client opens no other by itself. */
export type ConnectionState = "idle" | "connecting" | "online" | "waiting" | "replaced" | "kicked" | "loggedOut" | "refused" | "closed";

/** A change of the connection's state. */
export interface StateChange {
  state: ConnectionState;
  /** The cause, for people. */
  reason: string;
  /** The node's answer that ended the session, or with which a first login failed. */
  error?: PresenceError;
}

/** A change of the own relationship chain or of a profile. `type` names the event of the node without `on`, or is `synced` when the client has fetched what it had missed. `data` is the data of the event. */
export interface RelationshipChange {
  type: string;
  data: any;
}

/** A published event that the app receives as news, once. */
export interface RaisedEvent {
  userID: string;
  event: PublishedEvent;
  userStatus: UserStatus;
}

/** A change that another device of the same user made to the subscriptions. */
export interface SubscriptionChange {
  subscribed: string[];
  unsubscribed: string[];
  subscriptions: { userID: string, subscribeType: number, expiresAt?: number }[];
  unsubscriptions: { userID: string, subscribeType: number, expiresAt?: number }[];
}

/** An open session of the own user, on this device or on another one. `node` and `isCurrent` are in the answer of `getSessions` alone. */
export interface DeviceSession {
  sessionID: string;
  platform: string;
  deviceID: string;
  since: number;
  node?: string;
  isCurrent?: boolean;
}

/** The events of a client, and the detail of each. */
export interface PresenceEvents {
  stateChanged: StateChange;
  connected: Session;
  userStatusChanged: UserStatus[];
  subscriptionSyncCompleted: number;
  subscriptionChangedOnOtherDevices: SubscriptionChange;
  subscriptionExpired: string[];
  sessionsChanged: DeviceSession[];
  relationshipChanged: RelationshipChange;
  eventRaised: RaisedEvent;
  kickedOffline: string;
  loggedOut: null;
}

/** The settings of a client. Durations are milliseconds. */
export interface PresenceOptions {
  /** The base URLs of nodes of one cluster, or of a proxy in front of them. */
  addresses: string[];
  /** The app's token for the user, or a function that returns it. The client calls the function before the first request, before the token ends, and when a node rejects the token. It renews the open session by itself. A function that throws, or returns a token that a node rejects, is asked again after growing waits of at most 8 s. A function that returns nothing ends the session: the app has no user. */
  token: string | (() => string | null | undefined | Promise<string | null | undefined>);
  /** The platform that other users see. Default `web`. */
  platform?: string;
  /** The device's ID, at most 128 bytes. A login of the same user, platform and device replaces the session before it. */
  deviceID?: string;
  /** The custom status that the first login sets. */
  customStatus?: string;
  /** Whether vendor push reaches the device. */
  pushReachable?: boolean;
  /** The user for whom a back end acts. */
  asUser?: string;
  /** With `none` the client hears without being seen: it is no session of the user, and its connection changes no status. */
  presence?: "none";
  /** Whether the client keeps the own friends, requests, blocklist and groups. Default false. */
  keepRelationships?: boolean;
  /** Whether streams use EventSource and a stream ticket. Default: only where fetch cannot stream. */
  useEventSource?: boolean;
  /** Whether tabs of one origin share one session. Default true. */
  shareTabs?: boolean;
  /** The timeout of one attempt of a call. Default 10,000. */
  callTimeout?: number;
  /** The timeout of opening a stream, until its first event. Default 10,000. */
  connectTimeout?: number;
  /** The ceilings of the waits between attempts. Default 500, doubled up to 30,000. */
  backoff?: { initial: number, max: number };
  /** The attempts after which `connect` fails. Default 5. A lost session is reopened without this limit. */
  loginAttemptsMax?: number;
  /** The most users whose status and profile the client keeps. Default 10,000. */
  usersMax?: number;
  /** The time for which a fetched profile is used again. Default a day. */
  profileExpiry?: number;
  /** The most users of one call. */
  limits?: Partial<CallLimits>;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
  /** Replaces `Math.random`. */
  random?: () => number;
}

/** The most users of one call. The client cuts longer lists into several calls, and merges the answers. */
export interface CallLimits {
  queryUsersMax: number;
  subscribeUsersMax: number;
  unsubscribeUsersMax: number;
  pageRowsMax: number;
  chainUsersMax: number;
}

/** Options of every call. */
export interface CallOptions {
  /** The user for whom a back end acts. */
  asUser?: string;
  /** A name for a call that publishes an event or changes the relationship chain: 1 to 58 characters of visible ASCII. A page that was loaded again may repeat the call with it: a node answers it as it answered the first, for an hour. By default the client makes one for each call, and repeats the call with it. */
  idempotencyKey?: string;
}

/** The reason why a call or a login failed. A call that failed has changed nothing, unless `mayTakeEffect` is true. */
export class PresenceError extends Error {
  constructor(fields: { code: number, status?: number, title?: string, detail: string, retryAfter?: number, mayTakeEffect?: boolean, errorUserList?: UserError[] });
  /** The code of the node's answer; negative without an answer. */
  code: number;
  /** The HTTP status; 0 without an answer. */
  status: number;
  /** The code's name, for people. */
  title: string;
  /** The error, the place of it, and the rule. */
  detail: string;
  /** The seconds after which a retry makes sense. */
  retryAfter: number | undefined;
  /** Whether the node may have carried out the call, or may still do so. */
  mayTakeEffect: boolean;
  /** The users that failed, where the call failed as a whole because of them. */
  errorUserList: UserError[];
}

/** An event of a client. `detail` is its content: see `PresenceEvents`. */
export class PresenceEvent extends Event {
  constructor(type: string, detail: any);
  detail: any;
}

/** The presence of a user, and that of the users it follows. A client that is connected reopens its session after lost connections and node failures, until `logout` or `close`. Calls do not wait for the session. Each makes at most four attempts, at one address after the other. A list longer than `limits` becomes several calls; if a later one fails, `errorUserList` names its users and those after them. Calls that set the same fact reach the node in the order in which the app makes them, and only the newest is retried: an older one fails with `PresenceCode.superseded`. */
export class PresenceClient extends EventTarget {
  constructor(options: PresenceOptions);
  /** The state of the connection. Its changes are `stateChanged` events. */
  readonly state: ConnectionState;
  /** The open session; null without one. Between two streams it is the last one. */
  readonly session: Session | null;
  /** Whether this client has the stream. False in a tab that follows another tab. */
  readonly isLeading: boolean;
  /** The own lists. The client keeps them only with `keepRelationships`. */
  readonly relationships: Relationships;
  /** All known statuses, in no particular order. */
  readonly statuses: UserStatus[];
  /** The newest status of a user that this client has received. It never goes back. */
  statusOf(userID: string): UserStatus | undefined;
  /** Calls `listener` with the known status of a user, and with each newer one. Returns a function that ends this. */
  watch(userID: string, listener: (status: UserStatus) => void): () => void;
  /** Adds a listener, which receives the detail of each event of this name. Returns a function that removes it. */
  on<Name extends keyof PresenceEvents>(name: Name, listener: (detail: PresenceEvents[Name]) => void): () => void;
  /** Opens the session. The promise is fulfilled when a node has opened it. It fails after `loginAttemptsMax` attempts. If a token of the app's token function was rejected, the client then goes on, and opens the session when it has a good token. */
  connect(): Promise<Session>;
  /** Ends the session: the user goes UNLOGINED, unless it is logged in elsewhere. All tabs that share the session are logged out. The client has logged out even if the promise fails. Then the node may consider the session lost. */
  logout(options?: { everywhere?: boolean, sessionID?: string, asUser?: string }): Promise<{}>;
  /** Drops the session without a logout: the user goes OFFLINE. Another tab that shares the session carries on. The client cannot be used again. */
  close(): Promise<void>;
  /** Sets the own custom status, a text of at most 256 bytes; null or an empty text clears it. */
  setSelfStatus(customStatus: string | null, options?: { expiry?: number } & CallOptions): Promise<{ userStatus: UserStatus }>;
  /** Publishes a number of the app's own, at least 10,000. */
  publishEvent(value: number, options?: { ext?: string, expiry?: number, sendToOnlineUsersOnly?: boolean, syncEnabled?: boolean, sessionID?: string } & CallOptions): Promise<{ eventID: string, userStatus: UserStatus }>;
  /** Returns the status of users, which may include the own user. */
  getUserStatus(userIDs: string[], options?: CallOptions): Promise<{ userStatusList: UserStatus[], errorUserList: UserError[], asOf: number }>;
  /** Subscribes to users. Their changes arrive as `userStatusChanged`. With `sync` their statuses arrive at once, too. */
  subscribeUserStatus(userIDs: string[], options?: { expiry?: number, sync?: boolean, subscribeType?: 1 | 2 | 3 | 4, sessionID?: string } & CallOptions): Promise<{ errorUserList: UserError[], evicted: string[], userStatusList?: UserStatus[] }>;
  /** Unsubscribes from users, or with `{ all: true }` from everybody. */
  unsubscribeUserStatus(userIDs: string[], options?: { all?: true, subscribeType?: 1 | 2 | 3 | 4, sessionID?: string } & CallOptions): Promise<{ errorUserList: UserError[] }>;
  /** Lists the own subscriptions: one page with `offset` or `limit`, else all of them. */
  getSubscribedUserStatus(options?: { userIDs?: string[], offset?: number, limit?: number, subscribeType?: 1 | 2 | 3 | 4 } & CallOptions): Promise<{ subscriptions: Subscription[], total: number, errorUserList: UserError[] }>;
  /** Says who may see the own status. A field that is absent stays as it is. */
  setVisibility(change: { visibility?: "everyone" | "friends" | "list" | "nobody", userIDs?: string[], invisible?: boolean }, options?: CallOptions): Promise<Visibility>;
  /** Returns who may see the own status. */
  getVisibility(options?: CallOptions): Promise<Visibility>;
  /** Returns the own user's open sessions on all devices, in the order of their logins. `logout` ends one of them. */
  getSessions(options?: CallOptions): Promise<{ sessions: DeviceSession[] }>;
  /** Explains why others see the own user ONLINE, OFFLINE or UNLOGINED. `because` has the reasons in words. */
  explainSelf(options?: CallOptions): Promise<{ node: string, userID: string, userStatus: UserStatus, sessions: { sessionID: string, platform: string, deviceID: string, node: string, mayResumeForMilliseconds?: number }[], visibility: string, invisible: boolean, because: string[] }>;
  /** Returns a ticket that opens one event stream without a header, for EventSource. */
  streamTicket(options?: CallOptions): Promise<{ ticket: string, expiresInSeconds: number }>;
  /** Moves the end of a session to that of the app's newest token. The client does so by itself for its own session. */
  renew(sessionID: string, options?: CallOptions): Promise<{}>;
  /** Shows that the client of a session runs. The client does so by itself for its own session. */
  alive(sessionID: string, options?: CallOptions): Promise<{}>;
  /** Returns the own profile. */
  getSelfProfile(options?: CallOptions): Promise<{ profile: UserProfile }>;
  /** Returns the profiles of users. Profiles that were fetched before come from the cache, unless `forceUpdate` is true. */
  getUsersProfile(userIDs: string[], options?: { forceUpdate?: boolean } & CallOptions): Promise<{ profileList: UserProfile[], errorUserList: UserError[] }>;
  /** Sets fields of the own profile, by their keys: `Nick`, `FaceUrl`, `AllowType` or `Custom_Blood`, for example. */
  modifySelfProfile(values: Record<string, FieldValue>, options?: CallOptions): Promise<{ profile: UserProfile }>;
  /** Adds a friend, or sends a request if the user must approve it. */
  addFriend(userID: string, options?: { remark?: string, addWording?: string, addSource?: string, group?: string, addType?: "both" | "single", force?: boolean } & CallOptions): Promise<FriendResult>;
  /** Answers a friend request: 0 accepts it, 1 accepts it and adds the user, 2 rejects it. */
  doResponse(userID: string, responseType: 0 | 1 | 2, options?: { remark?: string } & CallOptions): Promise<FriendResult>;
  /** Deletes friends from the own list; with `delType` 2 also the own user from their lists. */
  deleteFriends(userIDs: string[], delType: 1 | 2, options?: CallOptions): Promise<FriendResults>;
  /** Tells which users are friends. `checkType` 1 reads the own list, 2 also the lists of the users. */
  checkFriends(userIDs: string[], checkType: 1 | 2, options?: CallOptions): Promise<FriendResults>;
  /** Tells who has blocked whom. For back ends. */
  checkBlackList(userIDs: string[], checkType: 1 | 2, options?: CallOptions): Promise<FriendResults>;
  /** Adds at most 100 friends without asking them. For back ends. */
  importFriends(friends: (Partial<Friend> & { userID: string })[], options?: CallOptions): Promise<FriendResults>;
  /** Deletes up to 1,000 friends. For back ends, which repeat it until `resultList` is empty. */
  deleteAllFriends(delType: 1 | 2, options?: CallOptions): Promise<FriendResults>;
  /** Returns all friends, or with `seq` those that have changed since; with `limit` or `cursor` one page. */
  getFriendList(options?: { seq?: string, cursor?: string, limit?: number, withProfile?: boolean } & CallOptions): Promise<{ friendList: Friend[], deleted: string[], isFull: boolean, seq: string, cursor?: string, total: number }>;
  /** Changes a friend by the keys `Remark`, `Group` (all groups of the friend) and `Custom_Blood`, for example. */
  modifyFriend(userID: string, values: Record<string, FieldValue | string[]>, options?: CallOptions): Promise<FriendResult & { friend?: Friend }>;
  /** Returns all friend requests, received and sent ones, or those of one `type`; with `numPerPage` or `timestamp` one page. */
  getPendencyList(options?: { type?: 1 | 2 | 3, seq?: string, timestamp?: number, numPerPage?: number } & CallOptions): Promise<{ seq: string, timestamp: number, unreadCnt: number, pendencyList: FriendRequest[] }>;
  /** Removes requests of these users from the own list alone: received ones with `type` 1, sent ones with 2. */
  deletePendency(userIDs: string[], type: 1 | 2, options?: CallOptions): Promise<{ errorUserList: UserError[] }>;
  /** Marks the received requests up to a time as read, in milliseconds since 1970. */
  pendencyReport(timestamp: number, options?: CallOptions): Promise<{ unreadCnt: number }>;
  /** Creates groups, and adds friends to each of them. */
  createFriendGroup(groupNames: string[], options?: { userIDs?: string[] } & CallOptions): Promise<GroupResults>;
  /** Deletes groups. Their friends stay in the list. */
  deleteFriendGroup(groupNames: string[], options?: CallOptions): Promise<{}>;
  /** Gives a group another name. */
  renameFriendGroup(oldName: string, newName: string, options?: CallOptions): Promise<GroupResults>;
  /** Returns groups with their friends, or all groups. */
  getFriendGroups(options?: { groupNames?: string[] } & CallOptions): Promise<{ groupList: FriendGroup[], seq: string }>;
  /** Adds friends to a group. */
  addFriendsToFriendGroup(groupName: string, userIDs: string[], options?: CallOptions): Promise<GroupResults>;
  /** Removes friends from a group. */
  delFriendsFromFriendGroup(groupName: string, userIDs: string[], options?: CallOptions): Promise<GroupResults>;
  /** Blocks users: friendships and requests with them end, and they see the own user OFFLINE. */
  addBlackList(userIDs: string[], options?: CallOptions): Promise<FriendResults>;
  /** Ends blocks. Friendships do not come back. */
  deleteBlackList(userIDs: string[], options?: CallOptions): Promise<FriendResults>;
  /** Returns the users on the own blocklist; with `limit` or `cursor` one page. */
  getBlackList(options?: { cursor?: string, limit?: number } & CallOptions): Promise<{ userIDs: string[], seq: string, cursor?: string }>;
}

/** The codes of this client and of the nodes. */
export const PresenceCode: {
  readonly notLoggedIn: 6014;
  readonly badParameter: 6017;
  readonly badUserID: 7003;
  readonly calledTooOften: 7008;
  readonly notInPlan: 7013;
  readonly notAFriend: 31704;
  readonly ownerUnreachable: 50001;
  readonly overloaded: 50002;
  readonly noSuchUser: 70107;
  readonly switchedOff: 72001;
  /** No node was reachable, or the connection broke before the answer. */
  readonly unreachable: -1;
  /** The answer was not understood. */
  readonly badAnswer: -3;
  /** The app's token function failed. */
  readonly tokenUnavailable: -4;
  /** The client is closed or logged out. */
  readonly closed: -5;
  /** A newer call sets the same fact, so the client did not retry this one. */
  readonly superseded: -6;
  /** Too many calls wait for an answer. */
  readonly tooManyCalls: -7;
};
