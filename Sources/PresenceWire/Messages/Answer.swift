/// How long a member that was declared dead, but is only cut off, may show hidden fields after their user has hidden.
public enum Remnant: Hashable, Sendable {
    /// There is no such member.
    case none
    /// Until this time.
    case until(Milliseconds)
    /// As long as it is cut off: vendor push reaches the user there as well (N19).
    case whileCutOff
}

/// The answer of an owner.
public enum Answer: Hashable, Sendable {
    /// Answers `setSelfStatus`, `publishEvent` and `register` with the record as it is now.
    case record(Record)
    /// Answers `subscribe`: the targets evicted to make room (T21), those without room (R7), and those who are not friends, as type 3
    /// requires (R3).
    case subscribed(evicted: [UserID], refused: [UserID] = [], nonFriends: [UserID] = [])
    /// Answers `subscribe`: nothing was changed yet, because these targets may have reached the follower limit. The caller asks all nodes.
    case followerLimitReached([UserID])
    /// Answers `followers`, in the order of the request.
    case followers([UInt64])
    /// Answers `unsubscribe`, `logout`, `kick`, `setPolicy` and `countQuery`.
    case done
    /// Answers `subscriptions`.
    case subscriptions([Subscription], total: Int)
    /// Answers `records`.
    case records([Record])
    /// Answers `setVisibility` and `visibility` with the current visibility.
    case visibility(Privacy, remnant: Remnant = .none)
    /// Answers `explain` with a JSON object.
    case explained(OwnerOperation.Explained, [UInt8])
    /// Answers `chain` with the result for each of its users.
    case chained([ChainOutcome])
    /// Answers `chain` like ``chained(_:)`` after a block, while a dead member may show the blocker to the blocked users.
    case blocked([ChainOutcome], remnant: Remnant)
    /// Answers `friends` with a JSON object.
    case listed([UInt8])
    /// Answers `friendCall`.
    case friendCalled(FriendCallResult)
    /// Answers `checkRelations` with those of its users for whom the answer is yes.
    case relationsChecked([UserID])
    /// Answers `profiles`. If the profiles of all users are too long for one answer, the last users are left out, and are asked for again.
    case profiles([AnsweredProfile])
    /// Answers `sessions`, in the order of the request.
    case sessions([[UserSession]])
    /// Answers `onlineUsers` with a page, in order, and the number of all ONLINE users of the app that the node owns.
    case onlineUsers([OnlineUser], total: UInt64)
    /// Answers `replayWebhooks` with the number of events, and whether the node has kept all that it was asked for.
    case replayed(eventsCount: UInt64, isComplete: Bool)
    /// Answers `exportFacts`.
    case factsExported(FactExportAnswer)
    /// Answers `importFacts`.
    case factsImported(FactImportAnswer)
    /// Answers `mentions`.
    case mentioned(MentionAnswer)
    /// Answers `deleteUser`.
    case deleted(DeletionAnswer)
    /// Refuses the operation. Nothing was changed.
    case refused(Refusal)
    /// Refuses the call, because the user has reached the rate limit; the next call succeeds after so many seconds (7008).
    case rateLimited(retryAfter: UInt64)
    /// Sends the request back: the node does not decide about its users now, or the request may have waited for too long. The node has
    /// neither performed nor counted it. The caller repeats the request.
    case sentBack
}

/// The byte that names the kind of an owner's answer.
private enum AnswerTag: UInt8 {
    case record = 1
    case subscribed = 2
    case done = 3
    case subscriptions = 4
    case records = 5
    case refused = 6
    case explained = 7
    case visibility = 8
    case followerLimitReached = 9
    case followers = 10
    case rateLimited = 11
    case chained = 12
    case listed = 13
    case friendCalled = 16
    case relationsChecked = 17
    case profiles = 18
    case sessions = 19
    case onlineUsers = 20
    case replayed = 21
    case blocked = 22
    case factsExported = 23
    case factsImported = 24
    case mentioned = 25
    case deleted = 26
    case sentBack = 27
}

extension WireWriter {
    /// Writes an answer with its tag.
    mutating func answer(_ answer: Answer) {
        switch answer {
        case .record(let record):
            tag(AnswerTag.record)
            self.record(record)
        case .subscribed(let evicted, let refused, let nonFriends):
            tag(AnswerTag.subscribed)
            for list in [evicted, refused, nonFriends] { users(list) }
        case .followerLimitReached(let targets): tagged(.followerLimitReached) { $0.users(targets) }
        case .followers(let counts): tagged(.followers) { $0.list(counts) { $0.unsigned($1) } }
        case .done: tag(AnswerTag.done)
        case .subscriptions(let page, let total):
            tag(AnswerTag.subscriptions)
            list(page) { $0.subscription($1) }
            unsigned(UInt64(total))
        case .records(let records):
            tag(AnswerTag.records)
            list(records) { $0.record($1) }
        case .explained(let part, let json):
            tag(AnswerTag.explained)
            tag(part.rawValue)
            text(String(decoding: json, as: UTF8.self))
        case .visibility(let privacy, let remnant):
            tag(AnswerTag.visibility)
            self.privacy(privacy)
            self.remnant(remnant)
        case .chained(let outcomes): outcomes.write(nil, into: &self)
        case .blocked(let outcomes, let remnant): outcomes.write(remnant, into: &self)
        case .listed(let json): tagged(.listed) { $0.text(String(decoding: json, as: UTF8.self)) }
        case .friendCalled(let result): tagged(.friendCalled) { result.write(into: &$0) }
        case .relationsChecked(let found): tagged(.relationsChecked) { $0.users(found) }
        case .profiles(let profiles): tagged(.profiles) { $0.list(profiles) { $1.write(into: &$0) } }
        case .sessions(let lists): tagged(.sessions) { $0.list(lists) { $0.list($1) { $1.write(into: &$0) } } }
        case .onlineUsers(let users, let total):
            tag(AnswerTag.onlineUsers)
            list(users) { $1.write(into: &$0) }
            unsigned(total)
        case .replayed(let eventsCount, let isComplete):
            tag(AnswerTag.replayed)
            unsigned(eventsCount)
            tag(isComplete ? 1 : 0)
        case .factsExported(let answer): tagged(.factsExported) { answer.write(into: &$0) }
        case .factsImported(let answer): tagged(.factsImported) { answer.write(into: &$0) }
        case .mentioned(let answer): tagged(.mentioned) { answer.write(into: &$0) }
        case .deleted(let answer): tagged(.deleted) { answer.write(into: &$0) }
        case .refused(let refusal):
            tag(AnswerTag.refused)
            unsigned(UInt64(refusal.code))
            text(refusal.shortDetail)
            tag(refusal.mayTakeEffect ? 1 : 0)
        case .rateLimited(let retryAfter): tagged(.rateLimited) { $0.unsigned(retryAfter) }
        case .sentBack: tag(AnswerTag.sentBack)
        }
    }

    private mutating func tagged(_ name: AnswerTag, _ write: (inout WireWriter) -> Void) {
        tag(name)
        write(&self)
    }
}

extension WireWriter {
    public mutating func remnant(_ remnant: Remnant) {
        switch remnant {
        case .none: tag(0)
        case .until(let time):
            tag(1)
            signed(time)
        case .whileCutOff: tag(2)
        }
    }
}

extension [ChainOutcome] {
    /// Writes the results with their tag and, after a block, how long a dead member may show what they hide.
    fileprivate func write(_ remnant: Remnant?, into wire: inout WireWriter) {
        wire.tag(remnant == nil ? AnswerTag.chained : .blocked)
        wire.list(self) { $1.write(into: &$0) }
        if let remnant { wire.remnant(remnant) }
    }
}

extension ChainOutcome {
    fileprivate static func list(from wire: inout WireReader) throws(DecodeError) -> [ChainOutcome] {
        try wire.list { reader throws(DecodeError) in try reader.chainOutcome() }
    }
}

extension Remnant {
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        switch try wire.tag() {
        case 0: self = .none
        case 1: self = .until(try wire.time())
        case 2: self = .whileCutOff
        case let other: throw .unknownTag(other)
        }
    }
}

extension WireReader {
    /// Reads an answer; see ``WireWriter/answer(_:)``.
    mutating func answer() throws(DecodeError) -> Answer {
        switch try tag(as: AnswerTag.self) {
        case .record: return .record(try record())
        case .subscribed: return .subscribed(evicted: try users(), refused: try users(), nonFriends: try users())
        case .followerLimitReached: return .followerLimitReached(try users())
        case .followers: return .followers(try list { reader throws(DecodeError) in try reader.unsigned() })
        case .done: return .done
        case .subscriptions:
            let page = try list { reader throws(DecodeError) in try Subscription(from: &reader) }
            return .subscriptions(page, total: Int(clamping: try unsigned()))
        case .records: return .records(try list { reader throws(DecodeError) in try reader.record() })
        case .explained: return .explained(try explained(), Array(try text(bytesMax: Limits.rowBytesMax).utf8))
        case .visibility: return .visibility(try privacy(), remnant: try Remnant(from: &self))
        case .listed: return .listed(Array(try text(bytesMax: Limits.batchBytesMax).utf8))
        case .friendCalled: return .friendCalled(try FriendCallResult(from: &self))
        case .relationsChecked: return .relationsChecked(try users())
        case .profiles: return .profiles(try list { reader throws(DecodeError) in try AnsweredProfile(from: &reader) })
        case .sessions: return .sessions(try UserSession.lists(from: &self))
        case .onlineUsers: return .onlineUsers(try OnlineUser.list(from: &self), total: try unsigned())
        case .replayed: return .replayed(eventsCount: try unsigned(), isComplete: try flag())
        case .factsExported: return .factsExported(try FactExportAnswer(from: &self))
        case .factsImported: return .factsImported(try FactImportAnswer(from: &self))
        case .mentioned: return .mentioned(try MentionAnswer(from: &self))
        case .deleted: return .deleted(try DeletionAnswer(from: &self))
        case .chained: return .chained(try list { reader throws(DecodeError) in try reader.chainOutcome() })
        case .blocked: return .blocked(try ChainOutcome.list(from: &self), remnant: try Remnant(from: &self))
        case .refused:
            let code = Int(clamping: try unsigned())
            var refusal = Refusal(code: code, detail: try text(bytesMax: Limits.detailBytesMax))
            refusal.mayTakeEffect = try flag()
            return .refused(refusal)
        case .rateLimited: return .rateLimited(retryAfter: try unsigned())
        case .sentBack: return .sentBack
        }
    }
}

extension Refusal {
    /// The detail as it fits between two nodes, cut between two characters.
    fileprivate var shortDetail: String {
        var detail = detail
        while detail.utf8.count > Limits.detailBytesMax { detail.removeLast() }
        return detail
    }
}
