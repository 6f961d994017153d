import PresenceCore
import PresenceWire

/// Makes the calls about profiles, and checks their guarantees: see ``ProfileOracle``.
enum ProfileChecks {
    /// The time after which a client that is not told a profile any more has read what was told before.
    private static let lateMilliseconds = 10_000
    /// The time after which all nodes know a new follower, if nothing fails.
    private static let knownMilliseconds: Milliseconds = 1_000

    // MARK: Calls

    static func perform(_ action: ProfileAction, _ cluster: inout SimulatedCluster) {
        guard action.user < cluster.userIDs.count, action.others.allSatisfy({ $0 < cluster.userIDs.count }) else { return }
        for other in action.others { cluster.truth.concern(other) }
        if case .subscribe(let user, let targets, _) = action { cluster.truth.profiles.subscribe(user, to: targets) }
        cluster.call(action.call(cluster.userID), by: action.user)
    }

    /// Records that a call is about to be made.
    static func asked(_ call: FriendCall, by user: Int, _ cluster: inout SimulatedCluster) {
        if case .modifyProfile(let changes) = call { cluster.truth.profiles.ask(changes, by: user, at: cluster.time) }
    }

    /// Whether a call is about profiles.
    static func concern(_ call: Call) -> Bool {
        switch call {
        case .owner(.friendCall), .getUsersProfile: true
        case .subscribeUserStatus(_, _, _, let type): Subscription.isOfProfile(type)
        case .unsubscribeUserStatus(_, let type): type.map(Subscription.isOfProfile) ?? false
        default: false
        }
    }

    /// Handles an answer.
    ///
    /// - Parameter isAlone: whether the node was the only one: see ``ChainChecks/answered(_:to:isAlone:_:)``.
    static func answered(_ answer: CallAnswer, to call: SimulatedCall, isAlone: Bool, _ cluster: inout SimulatedCluster) {
        let isTrusted = ChainChecks.isTrusted(isAlone: isAlone, cluster)
        switch (call.call, answer) {
        case (.owner(.friendCall(.modifyProfile(let changes))), .owner(.friendCalled(let result))):
            cluster.stage.counts[.profilesSet] += 1
            let trust: ProfileOracle.Trust = isTrusted ? .complete : cluster.isExcused(by: .clockJumps) ? .none : .partial
            cluster.truth.profiles.answered(changes, by: call.user, askedAt: call.at, trust, at: cluster.time)
            checkAnswer(result.json, of: call.user, sets: changes, cluster)
            if isTrusted { check(result.json, of: call.user, since: call.at, cluster) }
        case (.getUsersProfile, .profiles(let profiles, _)):
            for case let profile? in profiles where isTrusted {
                cluster.userIndex(profile.user.id).map { check(profile.json, of: $0, since: call.at, cluster) }
            }
        case (.subscribeUserStatus, .subscribed), (.unsubscribeUserStatus, .done): break
        default: cluster.violate(.everyCallIsAnswered, "\(call.call) is answered with \(answer)")
        }
    }

    /// Checks that the answer to a call has the values that the call has set.
    private static func checkAnswer(_ json: [UInt8], of user: Int, sets changes: [Profile.Change], _ cluster: SimulatedCluster) {
        for change in changes {
            guard let field = Profile.Standard(rawValue: change.name), value(of: field, in: json) != change.value else { continue }
            cluster.violate(
                .profileIsAcknowledged, "user-\(user) sets \(change), and is answered \(String(decoding: json, as: UTF8.self))")
        }
    }

    /// Checks that each field of a profile has a value that it may have had since a moment.
    private static func check(_ json: [UInt8], of user: Int, since moment: Nanoseconds, _ cluster: SimulatedCluster) {
        for field in ProfilePlan.fields + [.allowType] {
            let values = cluster.truth.profiles.possibleValues(of: field, of: user, since: moment)
            // The app's setting stands in for one that the user has not made.
            if field == .allowType, values.contains(nil) { continue }
            let unset: FieldValue = field == .level ? .integer(0) : .text("")
            let right = values.map { $0 ?? unset }
            guard let held = value(of: field, in: json), !right.contains(held) else { continue }
            cluster.violate(.profileIsAcknowledged, "the \(field) of user-\(user) is \(words(held)), right is \(right.map(words))")
        }
    }

    private static func value(of field: Profile.Standard, in json: [UInt8]) -> FieldValue? {
        guard let profile = try? JSONReader.read(json) else { return nil }
        let names: [Profile.Standard: String] = [
            .nick: "nick", .selfSignature: "selfSignature", .level: "level", .allowType: "allowType",
        ]
        return names[field].flatMap { profile[$0] }.flatMap { FieldValue($0) }
    }

    private static func words(_ value: FieldValue) -> String {
        if case .integer(let number) = value { "\(number)" } else { value.text ?? "" }
    }

    // MARK: Settings of who may add a user

    /// The settings that say who may add the user of a call, and that a node may have followed since a moment.
    static func allowTypes(in call: DecidingCall, since moment: Nanoseconds, _ cluster: SimulatedCluster) -> [ChainPolicy.AllowType?] {
        guard case .chain(.add(let other, _, _, _)) = call, let user = cluster.userIndex(other.id) else { return [nil] }
        return cluster.truth.profiles.possibleValues(of: .allowType, of: user, since: moment).map { value in
            value?.text.flatMap { ChainPolicy.AllowType(rawValue: $0.lowercased()) }
        }
    }

    // MARK: News

    /// Reads an event that a client has received.
    static func read(_ event: SimulatedClient.Event, by client: Int, _ cluster: inout SimulatedCluster) {
        guard let version = event.data["profileVersion"]?.text else { return }
        let own = cluster.clients[client].user
        guard event.name == "onUserProfileChanged" else { return cluster.clients[client].profiles.take(version, of: own) }
        guard let user = event.data["userID"]?.text.flatMap({ cluster.userIndex($0) }) else {
            return cluster.violate(.messagesAreReadable, "not the version of a profile: \(event.data)")
        }
        cluster.stage.counts[.profilesTold] += 1
        cluster.clients[client].profiles.take(version, of: user)
        if let told = Version(text: version) { HiddenProfileChecks.check(told, of: user, toldTo: own, &cluster) }
        let since = cluster.time - .milliseconds(lateMilliseconds)
        guard user != own, !cluster.isExcused(by: .lateMessages), !cluster.truth.profiles.mayFollow(own, user),
            !cluster.isExcused(by: .followsFriend(own, target: user, since: since))
        else { return }
        cluster.violate(.profileNewsArrive, "user-\(own) is told of the profile of user-\(user), whom it does not follow")
    }

    // MARK: At rest

    /// Checks the profiles of all users when the cluster is at rest, then sets one field of each and checks that the followers are told.
    static func finish(_ cluster: inout SimulatedCluster) {
        cluster.twice { cluster in for user in cluster.userIDs.indices { checkReplicas(user, cluster) } }
        if !cluster.isBroken { cluster.twice { checkNews(&$0) } }
        query(&cluster)
        for user in cluster.userIDs.indices where !cluster.isBroken {
            let change = Profile.Change(name: Profile.Standard.nick.rawValue, value: .text("the last name of \(user)"))
            cluster.call(.friendCall(.modifyProfile([change])), by: user)
            cluster.awaitAnswer()
        }
        if !cluster.isBroken { cluster.twice { checkNews(&$0) } }
        query(&cluster)
    }

    /// Reads the profiles of all users. The answer is checked like any other.
    private static func query(_ cluster: inout SimulatedCluster) {
        guard !cluster.isBroken else { return }
        cluster.call(.getUsersProfile(cluster.userIDs), by: 0)
        cluster.awaitAnswer()
    }

    /// Checks that all replicas of a user have the same profile and subscriptions to profiles, in memory and on disk.
    private static func checkReplicas(_ user: Int, _ cluster: SimulatedCluster) {
        ChainChecks.checkReplicas(user, [.profile, .profileSubscription], cluster)
        guard let owner = cluster.owner(of: user) else { return }
        let named = cluster.nodes[owner].kept(cluster.userID(user)).record.profileVersion
        let held = newest(of: user, cluster)
        guard named != held else { return }
        cluster.violate(.profileNewsArrive, "the record of user-\(user) names the profile \(named.text), it has \(held.text)")
    }

    /// The version of a user's profile by the user's owner.
    private static func newest(of user: Int, _ cluster: SimulatedCluster) -> Version {
        ChainChecks.rows(.profile, of: user, cluster).first?.version ?? .zero
    }

    /// Checks that each client knows the newest profiles of its user and of those whom the user follows, if they have changed since.
    ///
    /// A follower for whom the news wait need not know them.
    static func checkNews(_ cluster: inout SimulatedCluster) {
        for client in cluster.clients where client.isSynced && client.stream != nil && client.pipe.pushes.isEmpty {
            if cluster.isExcused(by: .stalled(until: client.stalledUntil, since: cluster.time + 1)) { continue }
            for (target, since) in followed(by: client.user, cluster) where !HiddenProfileChecks.waits(client.user, for: target, cluster) {
                let isExact = !cluster.isExcused(by: .faultsOfNodes)
                let begin = target == client.user ? .min : client.profiles.begin(followedSince: isExact ? since : nil)
                let newest = newest(of: target, cluster)
                if newest.milliseconds > begin { cluster.stage.counts[.profilesExpected] += 1 }
                guard let problem = client.profiles.problem(with: newest, of: target, after: begin, isExact: isExact) else { continue }
                let device = "device \(client.device) of user-\(client.user)"
                cluster.violate(.profileNewsArrive, "\(device) was told of the profile of user-\(target) \(problem)")
            }
        }
    }

    /// The users whose profiles a user follows by its owner's lists, and the user itself, each with the time since which all nodes know it.
    private static func followed(by user: Int, _ cluster: SimulatedCluster) -> [(target: Int, since: Milliseconds)] {
        let rows = ChainChecks.rows(.friend, of: user, cluster) + ChainChecks.rows(.profileSubscription, of: user, cluster)
        let others = rows.compactMap { row in cluster.userIndex(row.key).map { ($0, row.version.milliseconds + knownMilliseconds) } }
        return others + [(user, .min)]
    }
}
