/// A setting of a policy that cannot be used. The policy did not change.
public struct PolicyError: Error, Equatable, Sendable {
    /// The name of the setting.
    public let setting: String
    /// The error in the setting, and the correct form.
    public let problem: String

    public init(setting: String, problem: String) {
        self.setting = setting
        self.problem = problem
    }

    static func noSetting(_ name: String) -> PolicyError {
        PolicyError(setting: name, problem: "no such setting; the settings are \(Policy.settingNames.joined(separator: ", "))")
    }
}

extension Policy {
    /// The names, values and ranges of the settings: their form in documents and on disk.
    struct Setting: Sendable {
        enum Kind: Sendable {
            case bool(any WritableKeyPath<Policy, Bool> & Sendable)
            case integer(any WritableKeyPath<Policy, Int64> & Sendable, ClosedRange<Int64>)
            /// 0 for never, or a value of the range.
            case integerOrZero(any WritableKeyPath<Policy, Int64> & Sendable, ClosedRange<Int64>)
            /// A duration of whole seconds.
            case seconds(any WritableKeyPath<Policy, Duration> & Sendable, ClosedRange<Int64>)
            case rate(any WritableKeyPath<Policy, Rate?> & Sendable)
            case platforms(any WritableKeyPath<Policy, [PlatformTimeout]> & Sendable)
            case customFields(any WritableKeyPath<Policy, [CustomFieldDeclaration]> & Sendable)
            case word([String], @Sendable (Policy) -> String, @Sendable (inout Policy, String) -> Void)
            /// Some words of a list, each once.
            case words(any WritableKeyPath<Policy, [WebhookPolicy.EventType]> & Sendable)
            /// The URL of a receiver; empty for none.
            case url(any WritableKeyPath<Policy, String> & Sendable)
            /// A text of so many bytes that answers do not show.
            case secret(any WritableKeyPath<Policy, String> & Sendable)
        }

        let name: String
        let kind: Kind
        /// The effect of the setting in full sentences, for documents.
        let effect: String

        private init(_ name: String, _ kind: Kind, _ effect: String) { (self.name, self.kind, self.effect) = (name, kind, effect) }

        init(_ name: String, _ path: any WritableKeyPath<Policy, Bool> & Sendable, _ effect: String) {
            self.init(name, .bool(path), effect)
        }

        init(_ name: String, _ path: any WritableKeyPath<Policy, Int64> & Sendable, _ range: ClosedRange<Int64>, _ effect: String) {
            self.init(name, .integer(path, range), effect)
        }

        init(
            _ name: String, _ path: any WritableKeyPath<Policy, Int64> & Sendable, orZero range: ClosedRange<Int64>, _ effect: String
        ) {
            self.init(name, .integerOrZero(path, range), effect)
        }

        init(_ name: String, _ path: any WritableKeyPath<Policy, Duration> & Sendable, _ range: ClosedRange<Int64>, _ effect: String) {
            self.init(name, .seconds(path, range), effect)
        }

        init(_ name: String, _ path: any WritableKeyPath<Policy, Rate?> & Sendable, _ effect: String) {
            self.init(name, .rate(path), effect)
        }

        init(_ name: String, _ path: any WritableKeyPath<Policy, [PlatformTimeout]> & Sendable, _ effect: String) {
            self.init(name, .platforms(path), effect)
        }

        init(_ name: String, _ path: any WritableKeyPath<Policy, [CustomFieldDeclaration]> & Sendable, _ effect: String) {
            self.init(name, .customFields(path), effect)
        }

        init(words name: String, _ path: any WritableKeyPath<Policy, [WebhookPolicy.EventType]> & Sendable, _ effect: String) {
            self.init(name, .words(path), effect)
        }

        init(url name: String, _ path: any WritableKeyPath<Policy, String> & Sendable, _ effect: String) {
            self.init(name, .url(path), effect)
        }

        init(secret name: String, _ path: any WritableKeyPath<Policy, String> & Sendable, _ effect: String) {
            self.init(name, .secret(path), effect)
        }

        init<Word: RawRepresentable<String> & CaseIterable & SendableMetatype>(
            _ name: String, _ path: any WritableKeyPath<Policy, Word> & Sendable, _ effect: String
        ) {
            self.init(
                name,
                .word(
                    Word.allCases.map(\.rawValue), { $0[keyPath: path].rawValue },
                    { policy, word in if let word = Word(rawValue: word) { policy[keyPath: path] = word } }),
                effect)
        }
    }

    /// All settings, in the order of answers and documents.
    static let settings: [Setting] = [
        Setting(
            "plan", \.plan,
            "The app's plan. `premium` covers every call. With `basic`, calls that `plan.covers` names are refused with 7013."),
        Setting(
            "plan.covers", \.planScope,
            """
            The calls that need the plan `premium`. `others` means subscribing to other users and querying them. `all` adds the user's \
            own custom status and events.
            """),
        Setting(
            "userStatus.enabled", \.statusEnabled,
            "Whether users may query and follow others and publish events. `false` refuses these calls with 72001 and stops the pushes."),
        Setting(
            "users.mustBeRegistered", \.mustBeRegistered,
            "Whether a user must have logged in once or be imported. A call that names another user reports 70107 for that user."),
        Setting(
            "users.forgetAfter", \.forgetAfterSeconds, orZero: Policy.forgetSeconds,
            """
            Seconds without a session and without a change after which the cluster removes a user of whom nothing of value is kept. 0 \
            removes nobody.
            """),
        Setting(
            "login.multiClient", \.multiClient,
            """
            The sessions that a user may have at a time: `all` allows many, `perPlatform` one per platform, `single` one. A newer \
            login ends the older session.
            """),
        Setting("subscription.maxPerSubscriber", \.subscriptionsMax, 1...Int64(Limits.subscriptionsMax), "Users that one user may follow."),
        Setting(
            "subscription.maxPerTarget", \.followersMax, 1...1_000_000,
            "Users that may follow one user. A further subscription is refused for that user."),
        Setting(
            "subscription.overflow", \.overflow,
            """
            The behavior at `subscription.maxPerSubscriber`: `evictOldest` removes the earliest subscription, `reject` refuses the new one.
            """),
        Setting(
            "subscription.batchMax", \.subscribeUsersMax, 1...Int64(Limits.subscribeUsersMax),
            "Users in one `subscribeUserStatus` call."),
        Setting(
            "subscription.unsubscribeMax", \.unsubscribeUsersMax, 1...Int64(Limits.subscribeUsersMax),
            "Users in one `unsubscribeUserStatus` call."),
        Setting(
            "subscription.ttlMin", \.subscriptionSeconds.min, 1...Limits.subscriptionSeconds.upperBound,
            "The shortest validity of a subscription, in seconds."),
        Setting(
            "subscription.ttlMax", \.subscriptionSeconds.max, 1...Limits.subscriptionSeconds.upperBound,
            "The longest validity of a subscription, in seconds."),
        Setting("subscription.ttlRequired", \.isSubscriptionTTLRequired, "Whether `subscribeUserStatus` must give `expiry`."),
        Setting(
            "subscription.dropAfterOffline", \.dropAfterOfflineSeconds, 0...31_536_000,
            "Seconds without a session after which all subscriptions of the user end. 0 keeps them."),
        Setting(
            "subscription.notifyExpiry", \.notifiesExpiry,
            "Whether open sessions receive `onSubscriptionExpired` when a subscription expires."),
        Setting(
            "subscription.initialSnapshot", \.snapshot,
            "The time at which a subscription delivers the target's status: `always` at once, or `onRequest` (only with `sync`)."),
        Setting(
            "subscription.replayOnLogin", \.replay,
            "The users whose status a new session receives: `all` that the user follows, or only those that are `online`."),
        Setting("subscription.list", \.canListSubscriptions, "Whether `getSubscribedUserStatus` may be called without `userIDs`."),
        Setting("query.batchMax", \.queryUsersMax, 1...Int64(Limits.queryUsersMax), "Users in one `getUserStatus` call."),
        Setting("query.selfAllowed", \.canQuerySelf, "Whether a user may query its own status."),
        Setting(
            "customStatus.maxBytes", \.customStatusBytesMax, 0...Int64(Limits.customStatusBytesMax),
            "The longest custom status, in bytes of UTF-8."),
        Setting(
            "customStatus.ttl", \.customStatusSeconds, 0...Limits.customStatusSeconds.upperBound,

            """
            The validity of a custom status whose call gives no `expiry`, in seconds. 0 keeps it until it is cleared, or for \
            `customStatus.ttlMax` if that is less than 30 days.
            """),
        Setting(
            "customStatus.ttlMax", \.customStatusSecondsMax, Limits.customStatusSeconds,
            "The longest validity of a custom status, in seconds. It also limits `customStatus.ttl`."),
        Setting(
            "customStatus.needsSession", \.customStatusNeedsSession,
            "Whether setting a custom status needs an open session (otherwise 6014). If so, logout clears it."),
        Setting(
            "customStatus.clearOnOffline", \.offlineClearsCustomStatus,
            """
            Whether the custom status is cleared when the user goes OFFLINE. A text that was set with an `expiry` stays until then, unless \
            `customStatus.needsSession` is on.
            """),
        Setting(
            "rate.setStatus", \.setStatusRate,
            "The limit of `setSelfStatus`, `publishEvent` and `setVisibility`, for each user and operation."),
        Setting(
            "rate.changes", \.changesRate,
            """
            How often the changes of one user are pushed to a session. Changes beyond it are answered as well; the newest one is pushed after \
            at most `seconds` / `calls`. OFFLINE, UNLOGINED and a visibility that hides the user are pushed at once.
            """),
        Setting(
            "rate.query", \.queryRate,
            "The limit of `getUserStatus` for other users and of `getSubscribedUserStatus`, for each user and operation."),
        Setting(
            "rate.subscribe", \.subscribeRate,
            "The limit of `subscribeUserStatus` and `unsubscribeUserStatus`, for each user and operation."),
        Setting(
            "rate.chain", \.chain.rate,
            "The limit of the calls that change the relationship chain or check it, for each user, all of them together. Reads of one's own lists are not counted."
        ),
        Setting("device.exposePlatforms", \.exposesPlatforms, "Whether viewers see on which platforms a user is online."),
        Setting(
            "self.reportStatus", \.selfReport,
            "The `statusType` of the user itself that its own sessions receive: `full`, or `unknown` (UNKNOWN with time 0)."),
        Setting(
            "offlineGrace", \.offlineGrace, 0...3_600,
            "Seconds that a user has to return after its last session is lost, before viewers see OFFLINE."),
        Setting(
            "state.pushReachableStaysOnline", \.pushReachableStaysOnline,
            "Whether a user stays ONLINE without a session while vendor push reaches one of its devices."),
        Setting("liveness.timeout", \.livenessTimeout, PlatformTimeout.secondsRange, "Seconds of silence after which a session is lost."),
        Setting("liveness.timeoutByPlatform", \.platformTimeouts, "The same for single platforms, for example `{\"web\": 60}`."),
        Setting(
            "token.grace", \.tokenGrace, 0...3_600,
            "Seconds between the end of a token (`exp`) and the end of the sessions that it has opened, unless `renew` brings a newer token."
        ),
        Setting(
            "kicks.max", \.kicksMax, Policy.kicksRange,
            "Users of the app whose kicks count at a time. A kick counts for 30 days. `kick` refuses a further user with 7008."),
        Setting(
            "friends.autoNotify", \.chain.autoNotifiesFriends, "Whether users receive changes of their friends without a subscription."),
        Setting("friends.max", \.chain.friendsMax, 1...Int64(10_000), "Friends of one user."),
        Setting("friends.groupsMax", \.chain.friendGroupsMax, 1...Int64(Limits.friendGroupsMax), "Groups of friends of one user."),
        Setting(
            "friends.groupNameBytes", \.chain.friendGroupNameBytesMax, 1...Int64(Limits.friendGroupNameBytesMax),
            "The longest name of a group of friends, in bytes of UTF-8."),
        Setting(
            "friends.remarkBytes", \.chain.remarkBytesMax, 0...Int64(Limits.remarkBytesMax),
            "The longest remark of a friend, in bytes of UTF-8."),
        Setting(
            "friends.wordingBytes", \.chain.wordingBytesMax, 0...Int64(Limits.wordingBytesMax),
            "The longest wording of a friend request, in bytes of UTF-8."),
        Setting(
            "friends.customFields", \.chain.friendFields,
            """
            The custom fields of friends: each name with `integer`, `string` or `bytes`, for example `{"Blood": "integer"}`. \
            `modifyFriend` sets such a field as `Custom_Blood`.
            """),
        Setting(
            "friends.mutualRequestAccepts", \.chain.mutualRequestsAccept,
            "Whether a friend request to a user who has sent one makes both users friends at once."),
        Setting(
            "pendency.max", \.chain.pendencyMax, 1...10_000,
            "Received, and as many sent, friend requests of one user. A further request is refused with 30012."),
        Setting(
            "profile.defaultAllowType", \.chain.defaultAllowType,
            """
            The users who may add a user as a friend, unless the user's profile says it: `any`, `confirm` (the user approves each request) \
            or `deny`.
            """),
        Setting(
            "profile.valueBytes", \.chain.profileValueBytesMax, 1...Int64(Limits.fieldBytesMax),
            "The longest value of a field of a profile, in bytes."),
        Setting(
            "profile.customFields", \.chain.profileFields,
            """
            The custom fields of profiles: each name with `integer`, `string` or `bytes`, for example `{"Blood": "integer"}`. \
            `modifySelfProfile` sets such a field as `Custom_Blood`.
            """),
        Setting(
            "profile.newsWaitWhileInvisible", \.chain.profileNewsWaitWhileInvisible,
            "Whether other users are told of an invisible user's changed profile only once the user is visible again."),
        Setting("blockList.max", \.chain.blockListMax, 1...Int64(1_000), "Users on one blocklist. A further one is refused with 30013."),
        Setting("block.hidesStatus", \.chain.blockHidesStatus, "Whether users on a blocklist see their blocker OFFLINE."),
        Setting("chain.batchMax", \.chain.batchMax, 1...Int64(Limits.chainBatchMax), "Users in one call of the relationship chain."),
        Setting("chain.enabled", \.chain.isEnabled, "Whether the relationship chain can be used. `false` refuses its calls with 72001."),
        Setting(
            "errors.shape", \.errorShape,
            """
            The failure of a call that names several users: `perUser` lists the bad users beside the result, `wholeCall` fails the call \
            for one bad user.
            """),
        Setting(
            url: "webhook.url", \.webhook.url,
            "The HTTPS URL of the app's back end that receives the events of its users; empty for none. It needs `webhook.secret`."),
        Setting(
            secret: "webhook.secret", \.webhook.secret,
            "The secret with which the nodes sign deliveries. Answers show `(set)` in its place."),
        Setting(
            words: "webhook.events", \.webhook.events,
            "The events that are delivered: `stateChange`, `friends` and `profile`, in any combination."),
    ]

    /// The names of all settings.
    public static let settingNames: [String] = settings.map(\.name)

    /// Changes one setting. Throws for an unknown name or a wrong value.
    public mutating func set(_ name: String, to value: JSONValue) throws(PolicyError) {
        guard let setting = Self.settings.first(where: { $0.name == name }) else { throw .noSetting(name) }
        switch (setting.kind, value.withWholeNumber) {
        case (.bool(let path), .bool(let value)): self[keyPath: path] = value
        case (.bool, _): throw PolicyError(setting: name, problem: "must be true or false")
        case (.integer(let path, let range), .integer(let value)) where range.contains(value): self[keyPath: path] = value
        case (.integerOrZero(let path, let range), .integer(let value)) where value == 0 || range.contains(value):
            self[keyPath: path] = value
        case (.integerOrZero(_, let range), _):
            throw PolicyError(
                setting: name, problem: "must be 0 for never, or an integer in \(range.lowerBound)...\(range.upperBound)")
        case (.seconds(let path, let range), .integer(let value)) where range.contains(value): self[keyPath: path] = .seconds(value)
        case (.integer(_, let range), _), (.seconds(_, let range), _):
            throw PolicyError(setting: name, problem: "must be an integer in \(range.lowerBound)...\(range.upperBound)")
        case (.word(let words, _, let write), .string(let word)) where words.contains(word): write(&self, word)
        case (.word(let words, _, _), _): throw PolicyError(setting: name, problem: "must be one of \(words.joined(separator: ", "))")
        case (.platforms(let path), _): self[keyPath: path] = try PlatformTimeout.read(value, of: name)
        case (.customFields(let path), _): self[keyPath: path] = try CustomFieldDeclaration.read(value, of: name)
        case (.rate(let path), _): self[keyPath: path] = try Rate(value, of: name)
        case (.url(let path), .string(let url)) where url.isEmpty || WebhookPolicy.isValid(url: url): self[keyPath: path] = url
        case (.url, _):
            throw PolicyError(
                setting: name,
                problem:
                    "must be empty or a URL of at most \(WebhookPolicy.urlBytesMax) bytes, as https://app.example.com/rollcall, without user, password and fragment"
            )
        case (.secret(let path), .string(let secret)) where WebhookPolicy.isValid(secret: secret): self[keyPath: path] = secret
        case (.secret, _): throw PolicyError(setting: name, problem: "must be \(WebhookPolicy.secretRule)")
        case (.words(let path), _): self[keyPath: path] = try WebhookPolicy.EventType.read(value, of: name)
        }
    }

    /// Throws if settings contradict each other.
    public func validate() throws(PolicyError) {
        guard subscriptionSeconds.min <= subscriptionSeconds.max else {
            throw PolicyError(
                setting: "subscription.ttlMin",
                problem: "\(subscriptionSeconds.min) is more than subscription.ttlMax, \(subscriptionSeconds.max)")
        }
        guard webhook.url.isEmpty || !webhook.secret.isEmpty else {
            throw PolicyError(setting: "webhook.url", problem: "needs webhook.secret, \(WebhookPolicy.secretRule)")
        }
    }

    /// Bounds the validity of a custom status that names none by the longest one (Z5).
    ///
    /// 30 days, the largest value of `customStatus.ttlMax`, bound only calls that name a validity: without one a text may stay for good.
    fileprivate mutating func boundCustomStatus() {
        let isBound = customStatusSecondsMax < Limits.customStatusSeconds.upperBound
        customStatusSeconds =
            customStatusSeconds == 0 && isBound ? customStatusSecondsMax : min(customStatusSeconds, customStatusSecondsMax)
    }

    /// The value of a setting as JSON.
    ///
    /// - Parameter showsSecrets: whether secrets are written. Only nodes of the cluster may read them.
    fileprivate func write(_ setting: Setting, showsSecrets: Bool, into json: inout JSONWriter) {
        json.key(text: setting.name)
        switch setting.kind {
        case .bool(let path): json.bool(self[keyPath: path])
        case .integer(let path, _), .integerOrZero(let path, _): json.integer(self[keyPath: path])
        case .seconds(let path, _): json.integer(self[keyPath: path].components.seconds)
        case .word(_, let read, _): json.string(read(self))
        case .words(let path):
            json.array { json in for word in self[keyPath: path] { json.string(word.rawValue) } }
        case .url(let path): json.string(self[keyPath: path])
        case .secret(let path):
            let secret = self[keyPath: path]
            json.string(showsSecrets || secret.isEmpty ? secret : WebhookPolicy.shownSecret)
        case .platforms(let path):
            json.object { json in
                for exception in self[keyPath: path] {
                    json.key(text: exception.platform)
                    json.integer(exception.timeout.components.seconds)
                }
            }
        case .customFields(let path):
            json.object { json in
                for field in self[keyPath: path] {
                    json.key(text: field.name)
                    json.string(field.type.rawValue)
                }
            }
        case .rate(let path):
            guard let rate = self[keyPath: path] else { return json.bool(false) }
            json.object { json in
                json.member("calls", rate.calls)
                json.member("seconds", rate.seconds)
            }
        }
    }
}

extension Policy.Rate {
    /// Reads `{"calls":20,"seconds":5}`; `false` for no limit.
    fileprivate init?(_ value: JSONValue, of name: String) throws(PolicyError) {
        if value == .bool(false) { return nil }
        guard case .integer(let calls) = value["calls"]?.withWholeNumber,
            case .integer(let seconds) = value["seconds"]?.withWholeNumber,
            Self.callsRange.contains(calls), Self.secondsRange.contains(seconds)
        else {
            throw PolicyError(
                setting: name, problem: "must be {\"calls\": 1...10000, \"seconds\": 1...3600}, or false for no limit")
        }
        self.init(calls: calls, seconds: seconds)
    }
}

extension WebhookPolicy.EventType {
    /// Reads `["stateChange","friends"]`.
    fileprivate static func read(_ value: JSONValue, of name: String) throws(PolicyError) -> [WebhookPolicy.EventType] {
        let names = allCases.map(\.rawValue)
        let problem = "must be a list of at least one of \(names.joined(separator: ", ")), each once"
        guard case .array(let elements) = value, !elements.isEmpty else { throw PolicyError(setting: name, problem: problem) }
        var types: [WebhookPolicy.EventType] = []
        for element in elements {
            guard case .string(let word) = element, let type = Self(rawValue: word), !types.contains(type) else {
                throw PolicyError(setting: name, problem: problem)
            }
            types.append(type)
        }
        return types.sorted { $0.rawValue < $1.rawValue }
    }
}

/// An app's policy as it was set: a preset, and individual settings that override it.
public struct AppPolicy: Equatable, Sendable {
    public private(set) var preset = Policy.Preset.rollcall
    /// The overriding settings, sorted by name.
    private var overrides: [JSONValue.Member] = []
    /// The resulting policy.
    public private(set) var policy = Policy()

    /// Makes the preset `rollcall` without overrides.
    public init() {}

    /// Reads ``json``, or the body of an administrator: `{"preset": …, "settings": {…}}`.
    public init(_ json: JSONValue) throws(PolicyError) { self = try AppPolicy().changed(by: json) }

    /// The same with a change.
    ///
    /// Choosing a preset discards individual overrides, and `null` removes one. Throws for a setting that cannot be used; then nothing
    /// changes.
    public func changed(by json: JSONValue) throws(PolicyError) -> AppPolicy {
        var changed = self
        switch json["preset"] {
        case nil, .null: break
        case .string(let name):
            guard let preset = Policy.Preset(rawValue: name) else { throw Self.noPreset(name) }
            (changed.preset, changed.overrides) = (preset, [])
        default: throw Self.noPreset("?")
        }
        switch json["settings"] {
        case nil, .null: break
        case .object(let members): for member in members { try changed.override(member) }
        default: throw PolicyError(setting: "settings", problem: "must be an object of setting names and values")
        }
        changed.policy = Policy(changed.preset)
        for member in changed.overrides { try changed.policy.set(member.name, to: member.value) }
        try changed.policy.validate()
        changed.policy.boundCustomStatus()
        return changed
    }

    private static func noPreset(_ name: String) -> PolicyError {
        PolicyError(
            setting: "preset", problem: "\"\(name)\" is not one of \(Policy.Preset.allCases.map(\.rawValue).joined(separator: ", "))")
    }

    private mutating func override(_ member: JSONValue.Member) throws(PolicyError) {
        guard Policy.settingNames.contains(member.name) else { throw .noSetting(member.name) }
        overrides.removeAll { $0.name == member.name }
        guard member.value != .null else { return }
        let index = overrides.firstIndex { $0.name > member.name } ?? overrides.count
        overrides.insert(JSONValue.Member(name: member.name, value: member.value.withWholeNumber), at: index)
    }

    /// The preset and the overrides, as a durable row keeps them.
    public var json: [UInt8] {
        var json = JSONWriter(reserving: 256)
        json.object { json in
            json.member("preset", preset.rawValue)
            json.key("settings")
            json.object { json in
                for setting in Policy.settings where overrides.contains(where: { $0.name == setting.name }) {
                    policy.write(setting, showsSecrets: true, into: &json)
                }
            }
        }
        return json.bytes
    }

    /// Writes the preset and the values of all settings, without secrets.
    public func writeAll(into json: inout JSONWriter) {
        json.member("preset", preset.rawValue)
        json.key("settings")
        json.object { json in for setting in Policy.settings { policy.write(setting, showsSecrets: false, into: &json) } }
    }
}
