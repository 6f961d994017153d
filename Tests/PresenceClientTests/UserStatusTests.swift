import PresenceWire
import Testing

@testable import PresenceClient

/// The status of this client against the list of the fields of a record (``PresenceWire/Record/Field``).
@Suite struct UserStatusTests {
    /// The members of a `UserStatus`, each with another value than a blank status has.
    private func written() throws -> [JSONValue.Member] {
        var record = Record(blank: UserID(app: "default", id: "bob"))
        (record.statusType, record.version) = (.online, Version(milliseconds: 1_790_000_000_000, counter: 0, node: 7))
        record.onlinePlatforms = ["ios"]
        record.events = PublishedEvents(
            newest: PublishedEvent(value: 10_001, ext: "x", expiresAt: 5, session: SessionID(stamp: 9, node: 2)),
            forLogins: PublishedEvent(value: 10_002, ext: "y", expiresAt: 9, isForOnlineOnly: false))
        var json = JSONWriter()
        json.userStatus(record, isOwn: true)
        guard case .object(let members) = try JSONReader.read(json.bytes) else { return [] }
        return members.enumerated().map { position, member in
            let value: JSONValue =
                switch member.value {
                case .integer(0): .integer(1_000 + Int64(position))
                case .string(""): "text \(position)"
                case .bool(false): true
                default: member.value
                }
            return .init(name: member.name, value: value)
        }
    }

    @Test("A status has every field that a viewer sees, and keeps its value") func fields() throws {
        let written = try written()
        #expect(written.map(\.name) == Record.Field.allCases.flatMap(\.statusMembers), "the example lacks a field")
        var json = JSONWriter()
        json.value(.object(written))
        let status = try JSON.decode(UserStatus.self, from: json.bytes)
        let kept = try JSONReader.read(try JSON.encode(status))
        for member in written { #expect(kept[member.name]?.sorted == member.value.sorted, "\(member.name)") }
    }
}

extension JSONValue {
    /// The same with the members of each object in the order of their names.
    fileprivate var sorted: JSONValue {
        switch self {
        case .object(let members):
            .object(members.map { Member(name: $0.name, value: $0.value.sorted) }.sorted { $0.name < $1.name })
        case .array(let elements): .array(elements.map(\.sorted))
        default: self
        }
    }
}
