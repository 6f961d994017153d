/// The settings of an app: what its users may do and how their statuses behave (<doc:Configuration#Settings-of-a-policy>).
///
/// A ``Preset`` is a bundle of settings. The defaults here are those of ``Preset/rollcall``.
public struct Policy: Equatable, Sendable {
    /// The bundle of settings that matches one of the four documents, or ``rollcall``, the default.
    public enum Preset: String, CaseIterable, Sendable {
        case rollcall, tencent, rongcloud, commsease, zim
    }

    /// What the app has paid for (T36, Z1).
    public enum Plan: String, CaseIterable, Sendable {
        /// Everything.
        case premium
        /// Not what ``Policy/planScope`` names; that is answered 7013.
        case basic
    }

    /// The part of the calls that only the plan ``Plan/premium`` covers.
    public enum PlanScope: String, CaseIterable, Sendable {
        /// Asking about others and being told of them (T36).
        case others
        /// The whole feature: setting a custom status, at login too, and publishing an event as well (R1, Z1).
        case all
    }

    /// How many sessions a user may have at a time (T34). A newer login ends the older session with `onKickedOffline`, reason `replaced`.
    public enum MultiClient: String, CaseIterable, Sendable {
        /// Any number.
        case all
        /// One on each platform.
        case perPlatform
        /// One.
        case single
    }

    /// What happens to a subscription beyond the quota.
    public enum Overflow: String, CaseIterable, Sendable {
        /// The earliest makes room (T21, Z11).
        case evictOldest
        /// It is refused, user by user (R7).
        case reject
    }

    /// When the answer to a subscribe call, or the stream after it, tells what the target's status is now.
    public enum Snapshot: String, CaseIterable, Sendable {
        case always
        /// Only with `sync` (N8).
        case onRequest
    }

    /// Of whom a new session is told before `onSubscriptionSyncCompleted`.
    public enum Replay: String, CaseIterable, Sendable {
        case all
        /// Not of those who are not there: clients take everybody for offline first (N21).
        case online
    }

    /// What the user's own sessions are told of the user's general status.
    public enum SelfReport: String, CaseIterable, Sendable {
        case full
        /// `"statusType":"UNKNOWN","lastUpdateTime":0`: whoever is told has a connection, and so knows better (Z22).
        case unknown
    }

    /// How a call fails that names several users.
    public enum ErrorShape: String, CaseIterable, Sendable {
        case perUser
        /// One bad user fails the call (T37).
        case wholeCall
    }

    /// So many calls in so many seconds, for each user and operation, over all nodes; one more is answered 7008.
    ///
    /// A node answers a query before it is counted: over any number of nodes at most 1.2 × as many pass.
    public struct Rate: Equatable, Sendable {
        /// 1–10,000.
        public var calls: Int64
        /// 1–3,600.
        public var seconds: Int64

        public init(calls: Int64, seconds: Int64) {
            self.calls = calls
            self.seconds = seconds
        }
    }

    /// After how much silence a session on one platform is lost.
    public struct PlatformTimeout: Equatable, Sendable {
        /// As sessions name it; a name without a session is of no effect.
        public var platform: String
        /// 15–3,600 s.
        public var timeout: Duration

        public init(platform: String, timeout: Duration) {
            self.platform = platform
            self.timeout = timeout
        }
    }

    /// See ``Plan``. Setting `plan`.
    public var plan = Plan.premium
    /// See ``PlanScope``. Setting `plan.covers`.
    public var planScope = PlanScope.others
    /// Calls that name somebody who was not imported and has never logged in are answered 70107 for that user. Setting `users.mustBeRegistered`.
    public var mustBeRegistered = false
    /// How many seconds after a user was last online, and anything of the user last changed, the cluster removes the user if nothing of value is
    /// kept; 0 for never, else ``forgetSeconds``. Setting `users.forgetAfter`.
    public var forgetAfterSeconds: Int64 = 0
    /// One day to ten years: a night's absence must not change what others are shown.
    public static let forgetSeconds: ClosedRange<Int64> = 86_400...315_360_000
    /// Whether users are removed. Where they must be registered nobody is: who has logged in counts as registered.
    public var removesUsers: Bool { forgetAfterSeconds > 0 && !mustBeRegistered }
    /// The console switch of T16, T19, R1 and N25: asking about others and being told of them. Off answers 72001. Setting `userStatus.enabled`.
    public var statusEnabled = true
    /// Whether one may ask about others and is told of them: the switch is on, and the plan covers it (T16, T19, T36, Z1).
    public var tellsOfOthers: Bool { statusEnabled && plan != .basic }
    /// Whether the plan covers setting a custom status and publishing an event (R1, T36, Z1).
    public var coversOwnStatus: Bool { plan != .basic || planScope == .others }
    /// See ``MultiClient``. Setting `login.multiClient`.
    public var multiClient = MultiClient.all
    /// Users that one user may follow, 1–3,000 (T21, R5, N18, Z11). Setting `subscription.maxPerSubscriber`.
    public var subscriptionsMax = Int64(Limits.subscriptionsMax)
    /// Users that may follow one user, 1–1,000,000 (R6); one more is refused by name. Setting `subscription.maxPerTarget`.
    public var followersMax: Int64 = 5_000
    /// Setting `subscription.overflow`.
    public var overflow = Overflow.evictOldest
    /// Users in one subscribe call, 1–200 (T23, R4, N5, Z9). Setting `subscription.batchMax`.
    public var subscribeUsersMax = Int64(Limits.subscribeUsersMax)
    /// Users in one unsubscribe call, 1–200 (T24, Z16). Setting `subscription.unsubscribeMax`.
    public var unsubscribeUsersMax = Int64(Limits.subscribeUsersMax)
    /// Shortest validity of a subscription in seconds (N6, Z10). Setting `subscription.ttlMin`.
    public var subscriptionSecondsMin: Int64 = 60
    /// Longest validity of a subscription in seconds, at most 30 days (N6, Z10). Setting `subscription.ttlMax`.
    public var subscriptionSecondsMax: Int64 = 2_592_000
    /// A subscribe call must name its validity (N4, Z10). Setting `subscription.ttlRequired`.
    public var isSubscriptionTTLRequired = false
    /// After so many seconds without a session the user's subscriptions end (T35); 0 for never. Setting `subscription.dropAfterOffline`.
    public var dropAfterOfflineSeconds: Int64 = 0
    /// The user's sessions are told of subscriptions that run out (against R12). Setting `subscription.notifyExpiry`.
    public var notifiesExpiry = false
    /// See ``Snapshot``. Setting `subscription.initialSnapshot`.
    public var snapshot = Snapshot.always
    /// See ``Replay``. Setting `subscription.replayOnLogin`.
    public var replay = Replay.all
    /// The whole list may be asked for, not only whether some users are in it (N17). Setting `subscription.list`.
    public var canListSubscriptions = true
    /// Users in one query, 1–500 (T18, N16, Z17). Setting `query.batchMax`.
    public var queryUsersMax = Int64(Limits.queryUsersMax)
    /// One may ask for one's own status (T15, Z17). Setting `query.selfAllowed`.
    public var canQuerySelf = true
    /// Longest custom status in UTF-8 bytes, 0–256 (T12, Z4). Setting `customStatus.maxBytes`.
    public var customStatusBytesMax = Int64(Limits.customStatusBytesMax)
    /// How long a custom status holds that names no end, in seconds (Z5); 0 for until it is cleared. Setting `customStatus.ttl`.
    public var customStatusSeconds: Int64 = 0
    /// Longest validity of a custom status in seconds, at most 30 days (Z5). It bounds ``customStatusSeconds``, too. Setting
    /// `customStatus.ttlMax`.
    public var customStatusSecondsMax: Int64 = Limits.customStatusSeconds.upperBound
    /// Setting a custom status needs a session, else 6014, and a logout clears it (T11). Setting `customStatus.needsSession`.
    public var customStatusNeedsSession = false
    /// OFFLINE clears the custom status (T11, Z5). Setting `customStatus.clearOnOffline`.
    public var offlineClearsCustomStatus = true
    /// Setting `rate.setStatus` (T13, Z6); nil for none.
    public var setStatusRate: Rate?
    /// Setting `rate.query` (T17); nil for none.
    public var queryRate: Rate? = Rate(calls: 20, seconds: 5)
    /// Setting `rate.subscribe` (T22, T24); nil for none.
    public var subscribeRate: Rate? = Rate(calls: 20, seconds: 5)
    /// Others see on which platforms a user is (T8, Z14). Setting `device.exposePlatforms`.
    public var exposesPlatforms = true
    /// How long a lost session may be missed before its user is shown OFFLINE (T5). Setting `offlineGrace`, in seconds.
    public var offlineGrace = Duration.seconds(2)
    /// See ``SelfReport``. Setting `self.reportStatus`.
    public var selfReport = SelfReport.full
    /// Who has a device that vendor push reaches stays ONLINE when its session is lost (N19). Setting `state.pushReachableStaysOnline`.
    public var pushReachableStaysOnline = false
    /// After how much silence a session is lost, 15–3,600 s (T6). Setting `liveness.timeout`, in seconds.
    public var livenessTimeout = Duration.seconds(400)
    /// Platforms with a time of their own (X3), sorted by name, at most ``platformTimeoutsMax``. Setting `liveness.timeoutByPlatform`.
    public var platformTimeouts: [PlatformTimeout] = []
    /// Users are told of their friends' changes without having subscribed (T28, N23). Setting `friends.autoNotify`.
    public var autoNotifiesFriends = true
    /// See ``ErrorShape``. Setting `errors.shape`.
    public var errorShape = ErrorShape.perUser

    /// The preset `rollcall`.
    public init() {}

    /// Most platforms with a time of their own.
    public static let platformTimeoutsMax = 32

    /// After how much silence a session on a platform is lost.
    public func livenessTimeout(of platform: String) -> Duration {
        platformTimeouts.first { $0.platform == platform }?.timeout ?? livenessTimeout
    }

    /// The settings of a preset. Where its document is silent it is as `rollcall`, but without limits of calls: the documents of the
    /// last three call in loops (R10, N5, Z9).
    public init(_ preset: Preset) {
        switch preset {
        case .rollcall: break
        case .tencent: setTencent()
        case .rongcloud:
            planScope = .all
            subscriptionsMax = 1_000
            overflow = .reject
            (queryRate, subscribeRate) = (nil, nil)
            autoNotifiesFriends = false
        case .commsease:
            (subscribeUsersMax, unsubscribeUsersMax, queryUsersMax) = (100, 100, 100)
            (queryRate, subscribeRate) = (nil, nil)
            isSubscriptionTTLRequired = true
            (snapshot, replay) = (.onRequest, .online)
            canListSubscriptions = false
            pushReachableStaysOnline = true
            autoNotifiesFriends = false
        case .zim: setZIM()
        }
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
    /// Whether a user who is no longer ONLINE loses the custom status (T11, Z5).
    public func clearsCustomStatus(of status: StatusType) -> Bool {
        switch status {
        case .online: false
        case .offline: offlineClearsCustomStatus || customStatusNeedsSession
        case .unlogined: customStatusNeedsSession
        }
    }
}
