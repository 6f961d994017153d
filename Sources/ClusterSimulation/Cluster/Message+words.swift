import PresenceCore
import PresenceWire

extension Message {
    /// A description for the reader of a log; nil for frequent messages without news: signs of life and probes.
    var words: String? {
        switch self {
        case .complete, .membership, .viewDigest: nil
        case .beginSync(let registrationID, let ranges): "beginSync \(registrationID)\(ranges == .all ? "" : " of \(ranges.count) ranges")"
        case .requestRegistered(let registrationID, _): "requestRegistered \(registrationID)"
        case .registered(let registrationID, let hashes): "registered \(registrationID)\(hashes.isEmpty ? ", not known yet" : "")"
        case .endSync(let registrationID): "endSync \(registrationID)"
        case .attach(let attach): "attach \(attach.session) of \(attach.user.id)\(attach.isLogin ? "" : " again")"
        case .detach(let detach): "detach \(detach.session) of \(detach.user.id)"
        case .watch(let watches): "watch " + watches.map { "\($0.user.id) \($0.held.text)" }.joined(separator: ", ")
        case .unwatch(let users): "unwatch \(Self.names(users))"
        case .pendingEnds(let ends):
            "pendingEnds "
                + ends.map { "\($0.user.id) until \($0.graceEndsAt ?? 0), \($0.ended.count) sessions" }.joined(separator: ", ")
        case .request(let request): "request \(request.id) of \(request.user.id): \(request.operation)"
        case .delta(let record): "delta \(record.user.id): \(record.words)"
        case .relay(let record, let targets): "relay to \(targets.count) \(record.user.id): \(record.words)"
        case .relayed(let slots): "relayed by others \(slots.map(\.slot))"
        case .watched(let watched):
            "watched "
                + watched.map { "\($0.user.id): \($0.record?.words ?? "nothing newer, known since \($0.knownSince)")" }.joined(
                    separator: ", ")
        case .listUpdate(let listUpdate):
            "list of \(listUpdate.user.id)\(listUpdate.isWhole ? ", whole" : ""): \(Self.names(listUpdate.added.map(\.target)))"
                + (listUpdate.removed.isEmpty ? "" : ", not \(Self.names(listUpdate.removed))")
                + (listUpdate.sessions.isEmpty ? "" : ", of \(listUpdate.sessions.count) sessions")
        case .end(let session, let user, let reason): "end \(session) of \(user.id): \(reason)"
        case .answer(let id, .record(let record)): "answer \(id): \(record.words)"
        case .answer(let id, .records(let records)):
            "answer \(id): " + records.map { "\($0.user.id) \($0.words)" }.joined(separator: ", ")
        case .answer(let id, let answer): "answer \(id): \(answer)"
        case .misrouted(let users): "misrouted \(Self.names(users))"
        case .replicate(let ticket, let rows):
            "replicate \(ticket ?? 0): " + rows.map { "\($0.user.id) \($0.kind) \($0.key) \($0.version.text)" }.joined(separator: ", ")
        case .askFollowed(let id, _, let users): "askFollowed \(id): \(Self.names(users))"
        case .areFollowed(let id, let users): "areFollowed \(id): \(Self.names(users))"
        case .offer(_, _, let slots, _, let isLast): "offer of \(slots.count) slots\(isLast ? "" : ", more follow")"
        case .fetch(_, let slots): "fetch \(slots.count) slots"
        case .sent(_, let count): "sent \(count) slots"
        case .digest: "digest"
        case .bucketDigest(_, let buckets): "bucketDigest of \(buckets.count) buckets"
        default: "\(self)"
        }
    }

    private static func names(_ users: [UserID]) -> String { users.map(\.id).joined(separator: " ") }

    /// The descriptions of a batch's messages, one on each line.
    static func words(of batch: [UInt8]) -> String { all(in: batch).compactMap(\.words).map { "\n      " + $0 }.joined() }

    /// The messages of a batch, as far as it can be read.
    static func all(in batch: [UInt8]) -> [Message] {
        batch.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            reader.rules = ReceivedRules(withoutConnection: Privacy())
            var messages: [Message] = []
            while reader.remainingBytes > 0, let message = try? reader.message() { messages.append(message) }
            return messages
        }
    }
}

extension CallAnswer {
    /// A description for the reader of a log.
    var words: String {
        switch self {
        case .owner(.record(let record)): record.words
        case .owner(let answer): "\(answer)"
        default: "\(self)"
        }
    }
}

extension Call {
    /// A description for the reader of a log.
    var words: String { if case .owner(let operation) = self { "\(operation)" } else { "\(self)" } }
}
