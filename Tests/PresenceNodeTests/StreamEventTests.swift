import PresenceWire
import Testing

@testable import PresenceCore
@testable import PresenceNode

/// The events of the stream as they are written against their description in `/openapi.json`.
@Suite struct StreamEventTests {
    private static let bob = UserID(app: "default", id: "bob")

    /// Every kind of event, with every field that it may have.
    private static var written: [[UInt8]] {
        var change = ListUpdate(user: UserID(app: "default", id: "ann"), version: .zero, isWhole: false, added: [], removed: [])
        change.added = [ListUpdate.Followed(target: bob, delivered: .nothing, since: 0, subscribeType: 3, expiresAt: 9)]
        change.unfollowed = [ListUpdate.Unfollowed(target: bob, subscribeType: 1)]
        let gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
        return [
            EventText.connected(
                session: SessionID(stamp: 9, node: 2), user: bob, node: NodeID("n"), heartbeat: gateway.heartbeat(of: bob, on: "ios"),
                now: Clock.now(), id: 7),
            EventText.statusChanged([Record(blank: bob)], id: 7), EventText.syncCompleted(3, id: 7),
            EventText.subscriptionsChanged(change, id: 7), EventText.subscriptionsExpired([bob], id: 7),
            EventText.ended(reason: SessionEnd.replaced, id: 7), EventText.ended(reason: SessionEnd.logout, id: 7),
            EventText.reconnectHint(reason: "draining", afterMilliseconds: 5, id: 7),
            EventText.tokenExpiring(at: 9, id: 7),
            EventText.sessionsChanged(
                [UserSession(id: SessionID(stamp: 9, node: 2), platform: "ios", deviceID: "phone", node: "", since: 5)], id: 7),
            EventText.profileChanged(of: bob, to: Version(milliseconds: 1, counter: 0, node: 1), id: 7),
        ] + notices.map { EventText.relationship($0, id: 7) }
    }

    /// Every kind of event of the relationship chain, as the owner of ann writes them.
    private static var notices: [RelationshipNotice] {
        let ann = UserID(app: "default", id: "ann")
        var friend = Friend(addTime: 1)
        friend.groupIDs = [1]
        let facts: [(key: String, fact: any RowFact)] = [
            ("1", FriendGroup(name: "work")), ("bob", friend), ("bob", friend), ("bob", ReceivedRequest(addTime: 1)),
            ("", ReadRequests(timestamp: 2)), ("bob", BlockedUser(since: 3)),
        ]
        var news = ChainNews()
        var lists: [Row.Kind: RowList] = [:]
        func note(_ row: Row) {
            let held = lists[row.kind, default: RowList()].entry(for: row.key)
            news.note(row, insteadOf: held, from: RelationshipState(), to: RelationshipState())
            _ = lists[row.kind, default: RowList()]
                .merge(RowList.Entry(key: row.key, version: row.version, value: row.value, expiresAt: nil))
        }
        for (time, fact) in facts.enumerated() {
            let version = Version(milliseconds: Milliseconds(time + 1), counter: 0, node: 1)
            note(
                ChainRules.Change(kind: type(of: fact.fact).kind, key: fact.key, fact: fact.fact).row(
                    of: ann, version: version, insteadOf: nil))
        }
        let groups = FriendGroups(lists[.friendGroup]!, of: ann)
        let groupsChanged = RelationshipNotice(
            .groupsChanged, RelationshipState(), data: groups.json(of: lists[.friend]!, of: ann, sequence: "s"))
        for kind in [Row.Kind.friend, .pendencyIn, .blocked] {
            let version = Version(milliseconds: 20, counter: 0, node: 1)
            note(ChainRules.Change.remove(kind, "bob").row(of: ann, version: version, insteadOf: nil))
        }
        return news.notices(groups: groups) + [groupsChanged, RelationshipNotice(.state, RelationshipState())]
    }

    @Test("Each event of the stream is described, with the fields that are written, and no other event is") func described() throws {
        var names: [String] = []
        for bytes in Self.written {
            let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n").map { $0.split(separator: ": ", maxSplits: 1) }
            let name = String(try #require(lines.first { $0[0] == "event" })[1])
            let data = try JSONReader.read(Array(try #require(lines.first { $0[0] == "data" })[1].utf8))
            names.append(name)
            let schema = try #require(OpenAPI.streamEvents.first { $0.name == name }?.data, "\(name) is not described")
            expect(data, fits: schema, name)
        }
        #expect(names.sorted() == OpenAPI.streamEvents.map(\.name).sorted())
    }

    /// Objects have the fields of their schema, at every depth that is described in place.
    private func expect(_ value: JSONValue, fits schema: JSONValue, _ name: String) {
        switch value {
        case .object(let members):
            guard schema["$ref"] == nil, schema["additionalProperties"] == nil else { return }
            let fields: [JSONValue.Member] = if case .object(let fields) = schema["properties"] { fields } else { [] }
            #expect(members.map(\.name) == fields.map(\.name), "\(name)")
            for member in members { expect(member.value, fits: schema["properties"]?[member.name] ?? .null, "\(name).\(member.name)") }
        case .array(let elements):
            #expect(!elements.isEmpty && schema["items"] != nil, "\(name)")
            for element in elements { expect(element, fits: schema["items"] ?? .null, name) }
        default: return
        }
    }
}
