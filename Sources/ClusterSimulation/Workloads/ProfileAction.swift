import PresenceCore
import PresenceWire

/// A step that is about profiles. Numbers name users.
public enum ProfileAction: Sendable {
    /// The user sets fields of the own profile. `number` is in each value, so that each call of a history sets other values.
    case setFields(user: Int, [Profile.Standard], number: Int)
    /// The user sets who may add the user as a friend.
    case setAllowType(user: Int, ChainPolicy.AllowType)
    /// The user subscribes to profiles, of any users or of friends.
    case subscribe(user: Int, targets: [Int], ofFriends: Bool)
    /// The user ends subscriptions to profiles; nil for all.
    case unsubscribe(user: Int, targets: [Int]?, ofFriends: Bool)
    case query(user: Int, targets: [Int])

    /// The user who calls.
    var user: Int {
        switch self {
        case .setFields(let user, _, _), .setAllowType(let user, _), .subscribe(let user, _, _), .unsubscribe(let user, _, _),
            .query(let user, _):
            user
        }
    }

    /// The users whom the call names, besides the caller.
    var others: [Int] {
        switch self {
        case .setFields, .setAllowType: []
        case .subscribe(_, let targets, _), .query(_, let targets): targets
        case .unsubscribe(_, let targets, _): targets ?? []
        }
    }

    /// The call to a node.
    func call(_ id: (Int) -> UserID) -> Call {
        switch self {
        case .setFields(_, let fields, let number):
            .friendCall(.modifyProfile(fields.map { .init(name: $0.rawValue, value: Self.value(of: $0, number: number)) }))
        case .setAllowType(_, let type):
            .friendCall(.modifyProfile([.init(name: Profile.Standard.allowType.rawValue, value: .text(type.rawValue.uppercased()))]))
        case .subscribe(_, let targets, let ofFriends):
            .subscribeUserStatus(targets.map(id), seconds: nil, sync: false, subscribeType: Self.type(ofFriends: ofFriends))
        case .unsubscribe(_, let targets, let ofFriends):
            .unsubscribeUserStatus(targets?.map(id), subscribeType: Self.type(ofFriends: ofFriends))
        case .query(_, let targets): .getUsersProfile(targets.map(id))
        }
    }

    private static func value(of field: Profile.Standard, number: Int) -> FieldValue {
        field == .level ? .integer(Int64(number)) : .text("\(field.rawValue) \(number)")
    }

    private static func type(ofFriends: Bool) -> UInt8 { ofFriends ? ProfileSubscription.friendProfile : ProfileSubscription.profile }
}
