import PresenceWire

/// `explain`: explains why a viewer sees a user as it does.
///
/// Each node that has a part of the answer contributes it.
enum Explain: OperatorOperation {
    /// The parts that have arrived.
    struct Answer: OperationAnswer {
        let parts: [Explanation]

        init?(_ answer: CallAnswer) {
            guard case .explained(let parts) = answer else { return nil }
            self.parts = parts
        }
    }

    static let description = OpenAPI.Operation(
        name: "explain", summary: "Explains what a viewer sees of a target, with the parts of the answer from each node that has one.",
        request: Schema.object([
            Schema.required("viewer", Schema.reference("UserID")), Schema.required("target", Schema.reference("UserID")),
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("viewer", Schema.reference("UserID")), Schema.required("target", Schema.reference("UserID")),
            Schema.required("preset", Schema.preset), Schema.sometimes("ownerOfTarget", ["type": "object"]),
            Schema.sometimes("ownerOfViewer", ["type": "object"]), Schema.required("nodes", Schema.list(of: ["type": "object"])),
        ]))

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let viewer = try fields.user("viewer", besides: caller)
        return API.Parsed(call: .explain(try fields.user("target", besides: caller)), subject: viewer, errors: [])
    }

    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        guard case .explain(let target) = parsed.call else { throw .wrongAnswer }
        let (viewer, parts) = (parsed.subject, answer.parts)
        let preset = owner.appPolicy(String(viewer.app))?.policy.preset ?? .rollcall
        json.object { json in
            json.member("viewer", viewer.id)
            json.member("target", target.id)
            json.member("preset", preset.rawValue)
            if let part = parts.first(where: { $0.part == .target }) { json.member("ownerOfTarget", json: part.json) }
            if let part = parts.first(where: { $0.part == .viewer }) { json.member("ownerOfViewer", json: part.json) }
            json.array("nodes", parts.filter { $0.part == .view }) { $0.value($1.json) }
        }
    }
}

extension Explain {
    /// Asks the target's owner, the viewer's owner, and every node that may hold a stream of the viewer.
    static func ask(
        about target: UserID, by viewer: UserID, for call: PendingCalls.CallIndex, _ calls: inout Calls, _ cluster: inout Cluster
    ) {
        calls.ask(.explain(viewer, .target), of: target, for: call, &cluster)
        calls.ask(.explain(target, .viewer), of: viewer, for: call, &cluster)
        calls.askAllNodes(.explain(target, .view), of: viewer, for: call, &cluster)
    }
}

/// The explanation of one node: why a viewer sees a user as it does.
enum ExplanationText {
    /// The part of this node about users. A question for its load is refused: the composition answers it, see `loadText(for:)`.
    static func part(
        of request: Request, about other: UserID, _ part: OwnerOperation.Explained, _ edge: borrowing Edge, _ owner: borrowing Owner,
        _ cluster: borrowing Cluster, at now: Now
    ) -> Answer {
        guard part != .load else { return .refused(.unavailable) }
        var json = JSONWriter(reserving: 1_024)
        json.object { json in
            json.member("node", cluster.own.id.rawValue)
            switch part {
            case .target: writeTarget(request.user, viewer: other, into: &json, owner, cluster, at: now)
            case .viewer: writeViewer(request.user, target: other, into: &json, owner, cluster, at: now)
            case .view: writeView(of: other, viewer: request.user, into: &json, edge, owner, cluster)
            case .load: break
            case .own: writeOwn(request.user, into: &json, owner, cluster, at: now)
            }
        }
        return .explained(part, json.bytes)
    }

    private static func writeTarget(
        _ target: UserID, viewer: UserID, into json: inout JSONWriter, _ owner: borrowing Owner, _ cluster: Cluster, at now: Now
    ) {
        let user = owner.index(ofKnown: target).map { owner.users[$0] } ?? OwnedUser(record: Record(blank: target))
        json.member("userID", target.id)
        json.key("userStatus")
        json.userStatus(user.record)
        write(user.sessions, into: &json, cluster, at: now)
        json.array("watchedByNodes", user.watchers) { $0.string(cluster.peers[$1].peer.id.rawValue) }
        if let privacy = user.record.privacy {
            json.member("visibility", privacy.visibility.mode.rawValue)
            json.member("invisible", privacy.visibility.isInvisible)
            if let hiddenView = privacy.hiddenView(for: viewer), viewer != target {
                json.key("shownToViewer")
                json.userStatus(hiddenView)
            }
        }
        if let doubt = user.confirmationDeadline {
            json.member("unconfirmedForMilliseconds", max((doubt - now.instant).wholeMilliseconds, 0))
        }
        let blocksHide = owner.policies.policy(of: target).chain.blockHidesStatus
        let hiddenFrom = owner.index(ofKnown: target).flatMap { ChainVisibility(user: $0).hiddenFrom(viewer, by: owner, at: now) }
        json.key("because")
        json.array { json in
            for reason in reasons(of: user, cluster, at: now) { json.string(reason) }
            guard viewer != target else { return }
            for reason in rules(of: user, about: viewer, blocksHide: blocksHide, hiddenFrom: hiddenFrom) { json.string(reason) }
            if let hiddenView = user.record.privacy?.hiddenView(for: viewer) {
                json.string(
                    "the target is hidden from the viewer, who sees \(hiddenView.statusType.name) since \(hiddenView.lastOnlineStatusUpdateTime)"
                )
            }
        }
    }

    /// The part for the user itself. It does not say who watches the user.
    private static func writeOwn(
        _ id: UserID, into json: inout JSONWriter, _ owner: borrowing Owner, _ cluster: Cluster, at now: Now
    ) {
        let user = owner.index(ofKnown: id).map { owner.users[$0] } ?? OwnedUser(record: Record(blank: id))
        let policy = owner.policies.policy(of: id)
        json.member("userID", id.id)
        json.key("userStatus")
        json.userStatus(
            user.record, showsPlatforms: policy.exposesPlatforms, isUnknown: policy.selfReport == .unknown, isOwn: true)
        write(user.sessions, into: &json, cluster, at: now)
        json.member("visibility", (user.record.privacy?.visibility.mode ?? .everyone).rawValue)
        json.member("invisible", user.record.privacy?.visibility.isInvisible ?? false)
        json.key("because")
        json.array { json in
            for reason in reasons(of: user, cluster, at: now) { json.string(reason) }
            if user.listeners.isEmpty { return }
            json.string("\(user.listeners.count) streams hear without being seen, and do not make the user ONLINE (presence=none)")
        }
    }

    /// The reasons in words.
    private static func reasons(of user: OwnedUser, _ cluster: Cluster, at now: Now) -> [String] {
        let record = user.record
        if record.version == .zero { return ["no record of the user exists: UNLOGINED"] }
        var reasons = user.sessions.map { session in
            let place = "\(session.platform) on \(cluster.peers[session.peer].peer.id)"
            guard let until = session.graceDeadline else { return "a session is open: \(place)" }
            return "a session disconnected and may resume within \(max((until - now.instant).wholeMilliseconds, 0)) ms: \(place)"
        }
        reasons += record.pushDevices.map { "vendor push reaches a device at least until \($0.until): \($0.platform)" }
        if let doubt = user.confirmationDeadline, user.sessions.isEmpty {
            let left = max((doubt - now.instant).wholeMilliseconds, 0)
            reasons.append("the owner changed; ONLINE is unconfirmed and ends in \(left) ms unless a session registers")
        }
        guard reasons.isEmpty else { return reasons }
        switch record.statusType {
        case .online: return ["no session is open and none may resume: ONLINE ends at the next review"]
        case .offline:
            let time = record.lastOnlineStatusUpdateTime
            return [
                "the last session ended at \(time) without a logout: it was lost and did not resume within its grace, or a kick ended it"
            ]
        case .unlogined:
            return [record.lastSeenTime > 0 ? "the user logged out, and did not log in again" : "the user has never logged in"]
        }
    }

    /// The block, the friendship and the open decision that decide whether the viewer sees the user, in words.
    ///
    /// - Parameters:
    ///   - blocksHide: the setting `block.hidesStatus`.
    ///   - hiddenFrom: the time at which the user hides from the viewer; nil if the lists have taken effect for the viewer.
    private static func rules(of user: OwnedUser, about viewer: UserID, blocksHide: Bool, hiddenFrom: Milliseconds?) -> [String] {
        let (target, key) = (user.record.user, String(viewer.id))
        let rule = user.record.privacy?.visibility ?? Visibility()
        let wait = hiddenFrom.map { " from \($0) on, so that the user looks lost" } ?? ""
        var reasons: [String] = []
        if let blocked: BlockedUser = user.list(.blocked).fact(key, of: target) {
            let hides = blocksHide || rule.blocked.contains(viewer)
            let effect =
                hides ? "which hides the status (block.hidesStatus)\(wait)" : "which hides nothing, because block.hidesStatus is off"
            reasons.append("\(target.id) has blocked \(viewer.id) since \(blocked.since), \(effect)")
        }
        if let open = user.outboxCommand(about: viewer) {
            let decision = "a decision of \(target.id) about \(viewer.id) (\(open.command.name))"
            reasons.append("\(decision) waits for the owner of \(viewer.id) since \(open.begunAt)")
        }
        guard rule.mode == .friends else { return reasons }
        guard let friend: Friend = user.list(.friend).fact(key, of: target) else {
            let effect = wait.isEmpty ? "" : ", which hides the status\(wait)"
            return reasons + ["\(target.id) is visible to friends, and \(viewer.id) is not in the friend list\(effect)"]
        }
        return reasons + ["\(target.id) is visible to friends, and \(viewer.id) is in the friend list since \(friend.addTime)"]
    }

    private static func writeViewer(
        _ viewer: UserID, target: UserID, into json: inout JSONWriter, _ owner: borrowing Owner, _ cluster: Cluster, at now: Now
    ) {
        let user = owner.index(ofKnown: viewer).map { owner.users[$0] } ?? OwnedUser(record: Record(blank: viewer))
        let policy = owner.policies.policy(of: viewer)
        json.member("userID", viewer.id)
        write(user.sessions, into: &json, cluster, at: now)
        let subscriptions = user.subscriptions.active(within: Int(policy.subscriptionsMax))
        json.member("subscriptions", Int64(subscriptions.liveCount))
        json.member("subscriptionsMax", policy.subscriptionsMax)
        json.member("statusEnabled", policy.statusEnabled)
        json.key("because")
        json.array { json in
            if viewer == target { json.string("a user always sees itself") }
            if !policy.statusEnabled { json.string("userStatus.enabled is off for the app: users see only themselves") }
            if policy.plan == .basic { json.string("the app's plan is \"basic\": users see only themselves") }
            if let entry = subscriptions.subscription(to: target) {
                let end = entry.expiresAt.map { ", until \($0)" } ?? ""
                json.string("the viewer follows the target since \(entry.subscribedAt)\(end)")
            } else if owner.index(ofKnown: viewer).map({ FriendFollows(user: $0).isTold(target, by: owner) }) == true {
                json.string("the target is a friend, whom the viewer sees without a subscription (friends.autoNotify)")
            } else if user.subscriptions.contains(target) {
                json.string(
                    "the viewer's subscription is inactive: \(policy.subscriptionsMax) newer ones reach subscription.maxPerSubscriber")
            } else if let removed = user.subscriptions.tombstones(of: [target]).first {
                json.string(
                    "the viewer no longer follows the target: removed, evicted or expired at \(removed.version.milliseconds)")
            } else if viewer != target {
                json.string("the viewer does not follow the target")
            }
        }
    }

    private static func write(_ sessions: [OwnedSession], into json: inout JSONWriter, _ cluster: Cluster, at now: Now) {
        json.array("sessions", sessions) { json, session in
            json.object { json in
                json.member("sessionID", session.id.description)
                json.member("platform", session.platform)
                json.member("deviceID", session.deviceID)
                json.member("node", cluster.peers[session.peer].peer.id.rawValue)
                if let until = session.graceDeadline {
                    json.member("mayResumeForMilliseconds", max((until - now.instant).wholeMilliseconds, 0))
                }
            }
        }
    }

    /// The state of this node's gateways.
    private static func writeView(
        of target: UserID, viewer: UserID, into json: inout JSONWriter, _ edge: borrowing Edge, _ owner: borrowing Owner,
        _ cluster: borrowing Cluster
    ) {
        let held = edge.fanOut.recordHeld(of: target)
        json.member("viewerSessions", Int64(edge.sessions.sessions(of: viewer).count))
        json.member("versionHeld", (held?.version ?? .zero).text)
        json.member("statusHeld", (held?.statusType ?? .unlogined).name)
        json.member("statusShown", (held?.shown(to: viewer).statusType ?? .unlogined).name)
        json.member("isConfirmed", edge.fanOut.record(of: target) != nil)
        // The followers among the users that this node owns. The sum over all nodes is the number of followers.
        json.member("followersOfTarget", Int64(owner.users.followersCount(of: target)))
        let peer = cluster.owner(of: target)
        json.member("ownerByThisNode", cluster.peers[peer].peer.id.rawValue)
        json.member("lastProofOfLifeOfOwner", peer == 0 ? edge.position : edge.relays.knownUpTo(peer))
        json.member("completeUpTo", edge.position)
        json.member("isUnsure", cluster.unsure.contains(target))
    }
}

extension ChainCommand {
    /// The kind of decision, for operators.
    fileprivate var name: String {
        switch self {
        case .add: "add"
        case .accept: "accept"
        case .reject: "reject"
        case .delete: "delete"
        case .block: "block"
        }
    }
}
