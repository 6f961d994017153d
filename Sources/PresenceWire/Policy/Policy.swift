/// The settings of an app: what its users may do and how their statuses behave (<doc:Configuration#Settings-of-a-policy>).
///
/// A ``Preset`` is a bundle of settings. The defaults here are those of ``Preset/rollcall``.
public struct Policy: Equatable, Sendable {
    /// The bundle of settings that matches one of the four documents, or ``rollcall``, the default.
    public enum Preset: String, CaseIterable, Sendable {
        case rollcall, tencent, rongcloud, commsease, zim
    }

    /// The plan that the app has bought (T36, Z1).
    public enum Plan: String, CaseIterable, Sendable {
        /// All operations.
        case premium
        /// No operation of ``Policy/planScope``; such a call is answered 7013.
        case basic
    }

    /// The part of the calls that only the plan ``Plan/premium`` covers.
    public enum PlanScope: String, CaseIterable, Sendable {
        /// Queries about other users, and their changes (T36).
        case others
        /// The whole feature: also custom statuses, at login too, and published events (R1, Z1).
        case all
    }

    /// How many sessions a user may have at a time (T34). A newer login ends the older session with `onKickedOffline`, reason `replaced`.
    public enum MultiClient: String, CaseIterable, Sendable {
        /// Any number of sessions.
        case all
        /// One session on each platform.
        case perPlatform
        /// One session.
        case single
    }

    /// The treatment of a subscription beyond the quota.
    public enum Overflow: String, CaseIterable, Sendable {
        /// The earliest subscription is evicted (T21, Z11).
        case evictOldest
        /// The new subscription is refused, user by user (R7).
        case reject
    }

    /// The cases in which a subscribe call, or the stream after it, sends the target's status.
    public enum Snapshot: String, CaseIterable, Sendable {
        case always
        /// Only with `sync` (N8).
        case onRequest
    }

    /// The users whose status a new session receives before `onSubscriptionSyncCompleted`.
    public enum Replay: String, CaseIterable, Sendable {
        case all
        /// Users who are ONLINE. Clients consider everybody offline first (N21).
        case online
    }

    /// The general status of the user that the user's own sessions receive.
    public enum SelfReport: String, CaseIterable, Sendable {
        case full
        /// `"statusType":"UNKNOWN","lastUpdateTime":0`. A receiver has a connection, and therefore knows its status (Z22).
        case unknown
    }

    /// The way in which a call with several users fails.
    public enum ErrorShape: String, CaseIterable, Sendable {
        case perUser
        /// One bad user fails the whole call (T37).
        case wholeCall
    }

    /// A limit of calls in a number of seconds, for each user and operation, over all nodes. A call beyond it is answered 7008.
    ///
    /// A node answers a query before the owner counts it. Over any number of nodes at most 1.2 × the limit passes.
    public struct Rate: Equatable, Sendable {
        /// The number of calls, 1–10,000.
        public var calls: Int64
        /// The number of seconds, 1–3,600.
        public var seconds: Int64

        public init(calls: Int64, seconds: Int64) {
            self.calls = calls
            self.seconds = seconds
        }
    }

    /// The time of silence after which a session on one platform is lost.
    public struct PlatformTimeout: Equatable, Sendable {
        /// The platform as sessions name it. A name without a session has no effect.
        public var platform: String
        /// The time, 15–3,600 s.
        public var timeout: Duration

        public init(platform: String, timeout: Duration) {
            self.platform = platform
            self.timeout = timeout
        }
    }

    /// The validity that a subscription may have (N6, Z10).
    public struct SubscriptionSeconds: Equatable, Sendable {
        /// Shortest validity in seconds. Setting `subscription.ttlMin`.
        public var min: Int64 = 60
        /// Longest validity in seconds, at most 30 days. Setting `subscription.ttlMax`.
        public var max: Int64 = 2_592_000
    }

    private struct Graces: Equatable {
        var offline = Duration.seconds(2)
        var token = Duration.seconds(25)
    }

    private struct StatusRates: Equatable {
        var calls: Rate?
        var queries: Rate? = Rate(calls: 20, seconds: 5)
        var pushes: Rate? = Rate(calls: 20, seconds: 5)
    }

    /// See ``Plan``. Setting `plan`.
    public var plan = Plan.premium
    /// See ``PlanScope``. Setting `plan.covers`.
    public var planScope = PlanScope.others
    /// Whether calls that name a user who was not imported and has never logged in answer 70107 for that user. Setting
    /// `users.mustBeRegistered`.
    public var mustBeRegistered = false
    /// The seconds after which the cluster removes a user who was not online, did not change and keeps nothing of value.
    ///
    /// 0 for never, otherwise in ``forgetSeconds``. Setting `users.forgetAfter`.
    public var forgetAfterSeconds: Int64 = 0
    /// The range of `users.forgetAfter`: one day to ten years. An absence of one night must not change what others see.
    public static let forgetSeconds: ClosedRange<Int64> = 86_400...315_360_000
    /// Whether users are removed. If users must be registered, none is removed, because a login counts as registration.
    public var removesUsers: Bool { forgetAfterSeconds > 0 && !mustBeRegistered }
    /// Whether queries about other users and their changes are allowed: the console switch of T16, T19, R1 and N25. Off answers 72001.
    /// Setting `userStatus.enabled`.
    public var statusEnabled = true
    /// Whether users receive the status of others: the switch is on, and the plan covers it (T16, T19, T36, Z1).
    public var publishesOthers: Bool { statusEnabled && plan != .basic }
    /// Whether the plan covers setting a custom status and publishing an event (R1, T36, Z1).
    public var coversOwnStatus: Bool { plan != .basic || planScope == .others }
    /// See ``MultiClient``. Setting `login.multiClient`.
    public var multiClient = MultiClient.all
    /// Most users that one user may follow, 1–3,000 (T21, R5, N18, Z11). Setting `subscription.maxPerSubscriber`.
    public var subscriptionsMax = Int64(Limits.subscriptionsMax)
    /// Most followers of one user, 1–1,000,000 (R6). One more is refused by name. Setting `subscription.maxPerTarget`.
    public var followersMax: Int64 = 5_000
    /// Setting `subscription.overflow`.
    public var overflow = Overflow.evictOldest
    /// Most users in one subscribe call, 1–200 (T23, R4, N5, Z9). Setting `subscription.batchMax`.
    public var subscribeUsersMax = Int64(Limits.subscribeUsersMax)
    /// Most users in one unsubscribe call, 1–200 (T24, Z16). Setting `subscription.unsubscribeMax`.
    public var unsubscribeUsersMax = Int64(Limits.subscribeUsersMax)
    /// The shortest and the longest validity of a subscription.
    public var subscriptionSeconds = SubscriptionSeconds()
    /// Whether a subscribe call must name its validity (N4, Z10). Setting `subscription.ttlRequired`.
    public var isSubscriptionTTLRequired = false
    /// The seconds without a session after which the user's subscriptions end (T35); 0 for never. Setting `subscription.dropAfterOffline`.
    public var dropAfterOfflineSeconds: Int64 = 0
    /// Whether the user's sessions receive a notice of expired subscriptions (against R12). Setting `subscription.notifyExpiry`.
    public var notifiesExpiry = false
    /// See ``Snapshot``. Setting `subscription.initialSnapshot`.
    public var snapshot = Snapshot.always
    /// See ``Replay``. Setting `subscription.replayOnLogin`.
    public var replay = Replay.all
    /// Whether a call may read the whole list, not only whether some users are in it (N17). Setting `subscription.list`.
    public var canListSubscriptions = true
    /// Most users in one query, 1–500 (T18, N16, Z17). Setting `query.batchMax`.
    public var queryUsersMax = Int64(Limits.queryUsersMax)
    /// Whether a user may query its own status (T15, Z17). Setting `query.selfAllowed`.
    public var canQuerySelf = true
    /// Longest custom status in UTF-8 bytes, 0–256 (T12, Z4). Setting `customStatus.maxBytes`.
    public var customStatusBytesMax = Int64(Limits.customStatusBytesMax)
    /// The validity in seconds of a custom status that names none (Z5); 0 until it is cleared. Setting `customStatus.ttl`.
    public var customStatusSeconds: Int64 = 0
    /// Longest validity of a custom status in seconds, at most 30 days (Z5). It bounds ``customStatusSeconds``, too. Setting
    /// `customStatus.ttlMax`.
    public var customStatusSecondsMax: Int64 = Limits.customStatusSeconds.upperBound
    /// Whether setting a custom status needs a session (else 6014) and a logout clears it (T11). Setting `customStatus.needsSession`.
    public var customStatusNeedsSession = false
    /// Whether OFFLINE clears a custom status without an end of its own (T11, Z5). Setting `customStatus.clearOnOffline`.
    public var offlineClearsCustomStatus = true
    /// The limits of changes and queries of a status.
    private var statusRates = StatusRates()
    /// The limit of subscribe and unsubscribe calls (T22, T24); nil for none. Setting `rate.subscribe`.
    public var subscribeRate: Rate? = Rate(calls: 20, seconds: 5)
    /// Whether others see the platforms of a user (T8, Z14). Setting `device.exposePlatforms`.
    public var exposesPlatforms = true
    /// Most users of the app whose kicks count at a time. A kick counts for 30 days. Setting `kicks.max`.
    public var kicksMax = Policy.kicksRange.upperBound
    /// The range of `kicks.max`. Every node keeps the kicks of all apps in memory, about 250 bytes each.
    public static let kicksRange: ClosedRange<Int64> = 1...100_000
    /// The times for which the end of a session waits.
    private var graces = Graces()
    /// See ``SelfReport``. Setting `self.reportStatus`.
    public var selfReport = SelfReport.full
    /// Whether a user with a device that vendor push reaches stays ONLINE after its session is lost (N19). Setting
    /// `state.pushReachableStaysOnline`.
    public var pushReachableStaysOnline = false
    /// The time of silence after which a session is lost, 15–3,600 s (T6). Setting `liveness.timeout`, in seconds.
    public var livenessTimeout = Duration.seconds(400)
    /// Platforms with their own time (X3), sorted by name, at most ``platformTimeoutsMax``. Setting `liveness.timeoutByPlatform`.
    public var platformTimeouts: [PlatformTimeout] = []
    /// The settings for profiles and the relationship chain.
    public var chain = ChainPolicy()
    /// See ``ErrorShape``. Setting `errors.shape`.
    public var errorShape = ErrorShape.perUser
    /// The storage of ``webhook``.
    var webhookBox = WebhookBox.standard

    /// Makes the preset `rollcall`.
    public init() {}

    /// Most platforms with their own time.
    public static let platformTimeoutsMax = 32

    /// The time of silence after which a session on a platform is lost.
    public func livenessTimeout(of platform: String) -> Duration {
        platformTimeouts.first { $0.platform == platform }?.timeout ?? livenessTimeout
    }

    /// Makes the settings of a preset.
    ///
    /// A preset whose document is silent is as `rollcall`, but without limits of calls: clients of the last three documents call in
    /// loops (R10, N5, Z9). No document limits how often changes are pushed.
    public init(_ preset: Preset) {
        if preset != .rollcall { changesRate = nil }
        switch preset {
        case .rollcall: break
        case .tencent: setTencent()
        case .rongcloud:
            planScope = .all
            subscriptionsMax = 1_000
            overflow = .reject
            (queryRate, subscribeRate) = (nil, nil)
            chain.autoNotifiesFriends = false
        case .commsease:
            (subscribeUsersMax, unsubscribeUsersMax, queryUsersMax) = (100, 100, 100)
            (queryRate, subscribeRate) = (nil, nil)
            isSubscriptionTTLRequired = true
            (snapshot, replay) = (.onRequest, .online)
            canListSubscriptions = false
            pushReachableStaysOnline = true
            chain.autoNotifiesFriends = false
        case .zim: setZIM()
        }
        if preset != .rollcall { chain.invisibleProfileNews = .atOnce }
    }

    private mutating func setTencent() {
        subscriptionsMax = 200
        (subscribeUsersMax, unsubscribeUsersMax) = (100, 100)
        dropAfterOfflineSeconds = 86_400
        customStatusBytesMax = 100
        customStatusNeedsSession = true
        exposesPlatforms = false
        offlineGrace = .zero
        platformTimeouts = [PlatformTimeout(platform: "web", timeout: .seconds(60))]  // X3
        errorShape = .wholeCall
    }

    private mutating func setZIM() {
        planScope = .all
        mustBeRegistered = true
        (subscribeUsersMax, unsubscribeUsersMax, queryUsersMax) = (100, 100, 200)
        isSubscriptionTTLRequired = true
        canQuerySelf = false
        selfReport = .unknown
        (customStatusBytesMax, customStatusSeconds, offlineClearsCustomStatus) = (64, 86_400, false)
        customStatusSecondsMax = 86_400
        (setStatusRate, queryRate, subscribeRate) = (Rate(calls: 1, seconds: 1), nil, nil)
    }
}

extension Policy {
    /// The limit of setSelfStatus (T13, Z6); nil for none. Setting `rate.setStatus`.
    public var setStatusRate: Rate? {
        get { statusRates.calls }
        set { statusRates.calls = newValue }
    }

    /// The limit of queries (T17); nil for none. Setting `rate.query`.
    public var queryRate: Rate? {
        get { statusRates.queries }
        set { statusRates.queries = newValue }
    }

    /// How often the changes of one user are pushed to a session; nil for no limit. Setting `rate.changes`.
    ///
    /// Changes beyond it are answered all the same. The newest of them is pushed when one more push is allowed.
    public var changesRate: Rate? {
        get { statusRates.pushes }
        set { statusRates.pushes = newValue }
    }

    /// The time after which a user whose session was lost goes OFFLINE (T5). Setting `offlineGrace`, in seconds.
    public var offlineGrace: Duration {
        get { graces.offline }
        set { graces.offline = newValue }
    }

    /// The time between the end of a token and the end of the sessions that it has opened. Setting `token.grace`, in seconds.
    public var tokenGrace: Duration {
        get { graces.token }
        set { graces.token = newValue }
    }

    /// Whether a user who is not ONLINE any more loses the custom status (T11, Z5).
    ///
    /// A text with an end of its own stays until then, unless no text is shown without a session.
    ///
    /// - Parameter hasOwnEnd: ``Record/customStatusHasOwnEnd``.
    public func clearsCustomStatus(of status: StatusType, hasOwnEnd: Bool) -> Bool {
        switch status {
        case .online: false
        case .offline: customStatusNeedsSession || (offlineClearsCustomStatus && !hasOwnEnd)
        case .unlogined: customStatusNeedsSession
        }
    }
}
