import PresenceWire

/// Users about whom a node may not know better: it hears no majority of the members, or does not hear the users' owner.
public struct UnsureUsers: Equatable, Sendable {
    private enum Scope: Equatable { case none, all, slots(SlotSet) }

    private let scope: Scope

    /// No user, which is the rule.
    public static let none = UnsureUsers(scope: .none)
    /// All users.
    public static let all = UnsureUsers(scope: .all)

    private init(scope: Scope) { self.scope = scope }

    init(slots: SlotSet) { scope = slots.count == 0 ? .none : .slots(slots) }

    /// Whether there is no such user.
    public var isEmpty: Bool { scope == .none }

    /// The slots of these users.
    var slotsCount: Int {
        switch scope {
        case .none: 0
        case .all: Ring.slotsCount
        case .slots(let slots): slots.count
        }
    }

    /// Whether a user is one of them.
    public func contains(_ user: UserID) -> Bool {
        switch scope {
        case .none: false
        case .all: true
        case .slots(let slots): slots.contains(user.slot)
        }
    }
}
