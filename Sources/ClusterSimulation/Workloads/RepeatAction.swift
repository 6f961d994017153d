import PresenceCore
import PresenceWire

/// A step of a client that repeats its calls by their keys (<doc:HTTPAPI#Repeated-calls>).
public enum RepeatAction: Sendable {
    /// The client makes a call at any node, for the first time or again.
    case attempt(RepeatedAttempt)
    /// The owner of a user ends, by SIGKILL or after a drain, if all nodes are up.
    case endOwner(user: Int, isDrain: Bool, downMilliseconds: Int)
}

/// One attempt of a call with a key.
public struct RepeatedAttempt: Sendable {
    let call: RepeatedCall
    /// Whether the answer is lost on its way to the client.
    let losesAnswer: Bool
}

/// A call with a key.
///
/// It belongs to a story: calls about the same two users, or about the events of one user. Each call of a story follows the answer to the
/// call before, and nothing else changes these facts. That determines the first answer of each call.
public struct RepeatedCall: Hashable, Sendable {
    /// The operation of a call. Numbers name users.
    enum Operation: Hashable, Sendable {
        case add(Int)
        case accept(Int)
        case delete(Int)
        case block(Int)
        case unblock(Int)
        /// Calls of an app's back end: an addition by force, an import, and the deletion of all friends. The named user is the only one.
        case force(Int)
        case bring(Int)
        case deleteAll(Int)
        case publish(Int64)
    }

    /// The validity of an event, in seconds: longer than a history.
    static let eventSeconds: Int64 = 300

    let story: Int
    /// The number of calls of the story before this one.
    let position: Int
    /// The user who calls.
    let user: Int
    let operation: Operation

    var key: CallKey { CallKey("story-\(story)-\(position)", digest: UInt64(position)) }

    /// The other user of a decision; nil for an event.
    var other: Int? {
        switch operation {
        case .add(let other), .accept(let other), .delete(let other), .block(let other), .unblock(let other), .force(let other),
            .bring(let other), .deleteAll(let other):
            other
        case .publish: nil
        }
    }

    /// The call to a node.
    func call(_ id: (Int) -> UserID) -> Call {
        switch operation {
        case .add(let other): .chain(.add(id(other), SentRequest(addTime: 0), isTwoWay: true))
        case .accept(let requester): .chain(.respond(id(requester), .accept(remark: "", isTwoWay: true)))
        case .delete(let other): .chain(.delete([id(other)], isTwoWay: true))
        case .block(let other): .chain(.setBlocked([id(other)], true))
        case .unblock(let other): .chain(.setBlocked([id(other)], false))
        case .force(let other):
            BackEndAction.addByForce(user: user, other: other, isTwoWay: true, group: nil, number: position).call(id)
        case .bring(let other):
            BackEndAction.importFriends(user: user, friends: [other], group: nil, isDated: true, number: position).call(id)
        case .deleteAll: BackEndAction.deleteAll(user: user, isTwoWay: true).call(id)
        case .publish(let value):
            .publishEvent(value: value, ext: "", seconds: Self.eventSeconds, isForOnlineOnly: true, isSynced: true)
        }
    }

    /// The result of a decision after all earlier calls of the story.
    ///
    /// - Parameter allowType: the app's setting for who may add a user.
    func result(_ allowType: ChainPolicy.AllowType) -> ChainCode {
        if case .add = operation, allowType == .confirm { .pending } else { .done }
    }

    /// Whether each of the two users has the other as a friend after the call: the user who calls, and the other one.
    func makesFriends(_ allowType: ChainPolicy.AllowType) -> (own: Bool, other: Bool) {
        switch operation {
        case .add: (allowType != .confirm, allowType != .confirm)
        case .accept, .force: (true, true)
        case .bring: (true, false)
        case .delete, .deleteAll, .block, .unblock, .publish: (false, false)
        }
    }

    /// Whether the caller blocks the other user after the call.
    var blocks: Bool { if case .block = operation { true } else { false } }
}
