import PresenceWire

extension FriendRequestKind {
    init(_ kind: Row.Kind) { self = kind == .pendencyIn ? .received : .sent }

    /// The kind of the rows with such requests.
    var rowKind: Row.Kind { self == .received ? .pendencyIn : .pendencyOut }
}

/// The facts of the relationship chain as answers and events have them.
extension JSONWriter {
    /// Writes a friend, as clients receive it (P10).
    mutating func friend(_ friend: Friend, _ userID: String, in groups: FriendGroups) {
        object { json in
            json.member("userID", userID)
            json.member("remark", friend.remark)
            json.array("groups", groups.names(of: friend.groupIDs)) { $0.string($1) }
            json.member("addWording", friend.addWording)
            json.member("addSource", friend.addSource)
            json.member("addTime", friend.addTime)
            json.key("custom")
            json.object { json in
                for field in friend.customFields {
                    json.key(text: field.name)
                    json.value(field.value)
                }
            }
        }
    }

    /// Writes a friend request as clients receive it. A row of a list was checked when it was stored.
    mutating func request(_ row: Row) {
        let kind = FriendRequestKind(row.kind)
        let request: (addTime: Milliseconds, addSource: String, addWording: String, nickname: String)? =
            switch kind {
            case .received: (try? ReceivedRequest(row)).map { ($0.addTime, $0.addSource, $0.addWording, $0.nickname) }
            case .sent: (try? SentRequest(row)).map { ($0.addTime, $0.addSource, $0.addWording, $0.nickname) }
            }
        guard let request else { return }
        object { json in
            json.member("userID", row.key)
            json.member("addTime", request.addTime)
            json.member("addSource", request.addSource)
            json.member("addWording", request.addWording)
            json.member("nickname", request.nickname)
            json.member("type", Int64(kind.rawValue))
        }
    }

    /// Writes a group with its friends, or with their number alone.
    mutating func group(_ group: FriendGroups.Group, _ friends: [String], isNamed: Bool = true) {
        object { json in
            json.member("name", group.name)
            json.member("userCnt", Int64(friends.count))
            guard isNamed else { return }
            json.array("userIDs", friends) { $0.string($1) }
        }
    }
}
