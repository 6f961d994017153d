import PresenceCore
import PresenceWire

/// A step of the relationship chain. Numbers name users.
public enum ChainAction: Sendable {
    /// `number` is in the remark, so that each request of a history has another one.
    case add(user: Int, other: Int, isTwoWay: Bool, number: Int)
    case accept(user: Int, requester: Int, isTwoWay: Bool)
    case reject(user: Int, requester: Int)
    case delete(user: Int, others: [Int], isTwoWay: Bool)
    case block(user: Int, others: [Int])
    case unblock(user: Int, others: [Int])
    /// The user's client goes on to read pages of its list. Otherwise it asks for the changes since one of the lists that it had.
    ///
    /// `choice` names that list, modulo their number. The client reads the whole list for nil, `limit` friends at a time.
    case sync(user: Int, choice: Int?, limit: Int)

    /// The user who calls.
    var user: Int {
        switch self {
        case .add(let user, _, _, _), .accept(let user, _, _), .reject(let user, _), .delete(let user, _, _), .block(let user, _),
            .unblock(let user, _), .sync(let user, _, _):
            user
        }
    }

    /// The users whom the call concerns, besides the caller.
    var others: [Int] {
        switch self {
        case .add(_, let other, _, _), .accept(_, let other, _), .reject(_, let other): [other]
        case .delete(_, let others, _), .block(_, let others), .unblock(_, let others): others
        case .sync: []
        }
    }

    /// The call to a node; nil for ``sync(user:choice:limit:)``, which depends on what the client has read.
    func call(_ id: (Int) -> UserID) -> Call? {
        switch self {
        case .add(_, let other, let isTwoWay, let number):
            var request = SentRequest(addTime: 0)
            request.remark = "request \(number)"
            return .chain(.add(id(other), request, isTwoWay: isTwoWay))
        case .accept(_, let requester, let isTwoWay): return .chain(.respond(id(requester), .accept(remark: "", isTwoWay: isTwoWay)))
        case .reject(_, let requester): return .chain(.respond(id(requester), .reject))
        case .delete(_, let others, let isTwoWay): return .chain(.delete(others.map(id), isTwoWay: isTwoWay))
        case .block(_, let others): return .chain(.setBlocked(others.map(id), true))
        case .unblock(_, let others): return .chain(.setBlocked(others.map(id), false))
        case .sync: return nil
        }
    }
}
