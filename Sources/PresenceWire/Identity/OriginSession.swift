/// The session that makes a call. It has the call's answer, and the user's other sessions receive the call's effect by their streams (R14).
public enum OriginSession: Hashable, Sendable {
    /// No node knows it yet.
    case unknown
    /// No session: the app's back end calls for its user.
    case backEnd
    case session(SessionID)

    /// Messages and calls name a session for `backEnd` that does not exist.
    private static let backEndID = SessionID(stamp: 0, node: 0)

    /// - Parameter id: the session as messages and calls name it; nil if it is unknown.
    public init(_ id: SessionID?) { self = id.map { $0 == Self.backEndID ? .backEnd : .session($0) } ?? .unknown }

    /// The session as messages name it.
    var wire: SessionID? { self == .backEnd ? Self.backEndID : session }

    /// The session, if it is known.
    public var session: SessionID? { if case .session(let id) = self { id } else { nil } }
}
