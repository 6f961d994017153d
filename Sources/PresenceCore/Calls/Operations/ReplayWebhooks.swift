import PresenceWire

/// `replayWebhooks`: delivers the kept webhook events of an app since a time once more.
enum ReplayWebhooks: OperatorOperation {
    typealias Answer = ReplayAnswer
    static let description = OpenAPI.Operation(
        name: "replayWebhooks",
        summary: "Delivers webhook events of the app that were delivered since a time, and are still kept, once more.",
        request: Schema.object([
            Schema.required(
                "since", Schema.integer(0...Limits.times.upperBound, "The time of the first event, in milliseconds since 1970."))
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required("events", Schema.described(Schema.integer, "The number of events that are delivered once more.")),
            Schema.required(
                "isComplete",
                Schema.described(Schema.bool, "false if events since that time are not kept any more: a user's last ones are, for a day.")),
        ]))

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        guard let since = try fields.integer("since", in: 0...Limits.times.upperBound) else {
            throw .parameter("since: is missing; it must be a time in milliseconds since 1970")
        }
        return API.Parsed(call: .replayWebhooks(since: since), subject: caller, errors: [])
    }

    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        json.object { json in
            json.member("events", Int64(answer.eventsCount))
            json.member("isComplete", answer.isComplete)
        }
    }

    /// Takes the count of one node. The call is answered after those of all nodes.
    static func take(
        _ count: UInt64, isComplete: Bool, of call: PendingCalls.CallIndex, _ calls: inout Calls, _ edge: borrowing Edge,
        _ cluster: inout Cluster
    ) {
        calls.waiting[call]?.answered.replayed.eventsCount += Int(clamping: min(count, 1 << 40))
        if !isComplete { calls.waiting[call]?.answered.replayed.isComplete = false }
        guard let pending = calls.waiting[call], pending.openCount == 0 else { return }
        let (eventsCount, isComplete) = pending.answered.replayed
        calls.finish(call, .owner(.replayed(eventsCount: UInt64(eventsCount), isComplete: isComplete)), edge, &cluster)
    }
}

extension ReplayAnswer: OperationAnswer {}

extension Webhooks {
    /// Replays the events of the users that this node owns. The answer waits until the rows are on two disks.
    mutating func perform(
        replayOf app: String, since: Milliseconds, _ request: Request, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster,
        at now: Now
    ) {
        let (count, isComplete) = replay(app, since: since, &owner, &cluster, at: now)
        cluster.outbox.answerWhenStored(request, .replayed(eventsCount: UInt64(count), isComplete: isComplete), to: peer)
    }
}

extension OwnerOperation {
    /// Whether all nodes are asked, each for the users that it owns.
    ///
    /// A node that dies meanwhile fails the call. Only a count of followers and the loads of the nodes go on without it.
    var isForAllNodes: Bool {
        switch self {
        case .onlineUsers, .replayWebhooks, .followers, .mentions, .explain(_, .load): true
        default: false
        }
    }
}
