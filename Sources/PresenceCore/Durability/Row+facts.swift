import PresenceWire

extension Row {
    /// The durable form of a user's record.
    init(_ record: Record) {
        var json = JSONWriter(reserving: 320)
        json.object { $0.facts(of: record) }
        self.init(user: record.user, kind: .status, key: "", version: record.version, value: json.bytes)
    }

    /// The durable form of a subscription of `user`.
    init(_ subscription: Subscription, of user: UserID) {
        var json = JSONWriter(reserving: 80)
        json.object { json in
            json.member("subscribeType", Int64(subscription.subscribeType))
            json.member("subscribedAt", subscription.subscribedAt)
        }
        self.init(
            user: user, kind: .subscription, key: String(subscription.target.id), version: subscription.version,
            value: subscription.isRemoved ? nil : json.bytes, expiresAt: subscription.expiresAt)
    }
}

extension JSONWriter {
    /// Writes the members of a record's durable form, without the user and the version.
    mutating func facts(of record: Record) {
        member("statusType", record.statusType.name)
        member("customStatus", record.customStatus)
        member("customStatusExpiresAt", record.customStatusExpiresAt)
        if record.customStatusHasOwnEnd { member("customStatusHasOwnEnd", true) }
        member("customStatusVersion", record.customStatusVersion.text)
        array("onlinePlatforms", record.onlinePlatforms) { $0.string($1) }
        if record.isRegistered { member("isRegistered", true) }
        if record.profileVersion > .zero { member("profileVersion", record.profileVersion) }
        if !record.pushDevices.isEmpty {
            array("pushDevices", record.pushDevices) { json, device in
                json.object { json in
                    json.member("platform", device.platform)
                    json.member("deviceID", device.deviceID)
                    json.member("until", device.until)
                }
            }
        }
        if record.hasPublished {
            let events = record.events
            member("newestEventID", events.newestID.text)
            member("newestLoginEventID", events.newestIDForLogins.text)
            if let event = events.newest { fact("event", event) }
            if let event = events.forLogins { fact("loginEvent", event) }
        }
        member("lastUpdateTime", record.lastUpdateTime)
        member("lastOnlineStatusUpdateTime", record.lastOnlineStatusUpdateTime)
        member("lastCustomStatusUpdateTime", record.lastCustomStatusUpdateTime)
        member("lastSeenTime", record.lastSeenTime)
        guard let privacy = record.privacy else { return }
        // This member is the last: see ``Row/namesRule``.
        member("rule", RuleName(privacy).text)
    }

    private mutating func fact(_ name: StaticString, _ event: PublishedEvent) {
        key(name)
        object { json in
            json.member("value", event.value)
            json.member("ext", event.ext)
            json.member("expiresAt", event.expiresAt)
            json.member("id", event.id.text)
            json.member("isForOnlineOnly", event.isForOnlineOnly)
            json.member("isSynced", event.isSynced)
            if let session = event.session { json.member("session", session.description) }
        }
    }
}

/// The visibility that the writer of a record knew.
///
/// In a row it is one text of 32 characters. Each change of a record sends its row to the replicas, and the visibility seldom changes.
struct RuleName: Comparable {
    /// The length of ``text``.
    static let textBytesCount = 32

    /// When the visibility was written.
    let writtenAt: Version
    /// The version of its last change of hidden views.
    let version: Version

    /// The name of no visibility.
    static let none = RuleName(writtenAt: .zero, version: .zero)

    init(writtenAt: Version, version: Version) { (self.writtenAt, self.version) = (writtenAt, version) }

    init(_ privacy: Privacy) { self.init(writtenAt: privacy.writtenAt, version: privacy.version) }

    /// Reads ``text``; nil for any other text.
    init?(text: String) {
        guard let bytes = Base64.bytes(of: text), bytes.count == 24 else { return nil }
        let number = { (range: Range<Int>) in bytes[range].reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        writtenAt = Version(stamp: number(0..<8), node: UInt32(number(8..<12)))
        version = Version(stamp: number(12..<20), node: UInt32(number(20..<24)))
    }

    /// The bytes of both versions, the most significant first, in base 64.
    var text: String {
        var bytes: [UInt8] = []
        for version in [writtenAt, version] {
            withUnsafeBytes(of: version.stamp.bigEndian) { bytes += $0 }
            withUnsafeBytes(of: version.node.bigEndian) { bytes += $0 }
        }
        return Base64.text(of: bytes)
    }

    static func < (left: RuleName, right: RuleName) -> Bool { (left.writtenAt, left.version) < (right.writtenAt, right.version) }
}

extension Row {
    private static let ruleMember = Array("\"rule\":\"".utf8)

    /// Whether the writer of the record knew a visibility of the user. Reads only the end of the text.
    var namesRule: Bool {
        guard let value else { return false }
        let start = value.count - Self.ruleMember.count - RuleName.textBytesCount - "\"}".utf8.count
        return start >= 0 && value[start...].starts(with: Self.ruleMember)
    }
}

extension Row {
    /// The durable form of a member. It stays on this node.
    init(member peer: Peer, hasLeft: Bool, version: Version) {
        var json = JSONWriter(reserving: 120)
        json.object { json in
            json.member("generation", Int64(clamping: peer.generation))
            json.member("address", peer.address)
            json.member("weight", Int64(peer.weight))
            json.member("hasLeft", hasLeft ? 1 : 0)
        }
        self.init(user: UserID(app: "cluster", id: peer.id.rawValue), kind: .member, key: "", version: version, value: json.bytes)
    }

    /// Reads a row of kind ``PresenceWire/Row/Kind/member``.
    func member() throws(RowError) -> (peer: Peer, hasLeft: Bool) {
        let json = try JSONValue(self)
        guard let generation = json["generation"]?.wholeNumber, let address = json["address"]?.text else {
            throw RowError(self, "generation or address is missing")
        }
        let peer = Peer(
            id: NodeID(String(user.id)), generation: UInt64(clamping: generation), address: address,
            weight: UInt32(clamping: json["weight"]?.wholeNumber ?? 100))
        return (peer, json["hasLeft"]?.wholeNumber == 1)
    }
}

extension Row {
    /// The bound of a node's version clock. It stays on this node.
    ///
    /// - Parameter mark: a time at which the node's disk was complete; nil for none.
    init(clockOf node: NodeID, bound: Milliseconds, complete mark: DiskCompleteness.Mark?) {
        var json = JSONWriter(reserving: 64)
        json.object { json in
            guard let mark else { return }
            json.member("completeAt", mark.time)
            json.member("ring", String(mark.ring))
        }
        self.init(
            user: UserID(app: "cluster", id: node.rawValue), kind: .clock, key: "",
            version: Version(milliseconds: bound, counter: 0, node: 0), value: json.bytes)
    }
}

/// A row whose content does not match its kind: another program has written the store.
public struct RowError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The row and the error in it.
    public let description: String

    /// The error of a row on disk that other nodes would refuse.
    init(aheadOfTime row: Row, at wall: Milliseconds) {
        self.init(
            row,
            "was written \((row.version.milliseconds - wall) / 1_000) s ahead of this machine's clock, so other nodes would refuse later writes of "
                + "this node; synchronize the clock (NTP), wait that long, or start with an empty data directory to copy the rows of other nodes"
        )
    }

    init(_ row: Row, _ problem: String) { description = "row of \(row.user), kind \(row.kind), key \"\(row.key)\": \(problem)" }
}

/// The facts of a record that a row or a hidden view holds, read member by member.
struct RecordFacts {
    private var record: Record
    private var hasStatusType = false
    private var customStatusVersion: Version?
    /// The visibility that the record's writer knew.
    private(set) var ruleNamed = RuleName.none
    private var event: PublishedEvent?
    private var loginEvent: PublishedEvent?
    private var newestEventID = Version.zero
    private var newestLoginEventID = Version.zero

    /// Reads a row of kind ``PresenceWire/Row/Kind/status``.
    init(_ row: Row) throws(RowError) {
        guard let value = row.value else { throw RowError(row, "the value is missing") }
        var facts = RecordFacts(row.user, row.version)
        do { try JSONReader.readMembers(of: value) { facts.take($0, $1) } } catch { throw RowError(row, "the value is not JSON: \(error)") }
        self = facts
    }

    init(_ user: UserID, _ version: Version) {
        record = Record(blank: user)
        record.version = version
    }

    /// - Throws: the error in `row`, which holds these facts.
    func record(in row: Row) throws(RowError) -> Record {
        guard hasStatusType else { throw RowError(row, "statusType is missing") }
        var record = record
        record.customStatusVersion = customStatusVersion ?? (record.customStatus.isEmpty ? .zero : record.version)
        record.events = PublishedEvents(
            newest: event, forLogins: loginEvent, newestID: newestEventID, newestIDForLogins: newestLoginEventID)
        return record
    }

    /// Reads one member of the output of ``PresenceWire/JSONWriter/facts(of:)``. A member of another type or name is ignored.
    mutating func take(_ name: UnsafeRawBufferPointer, _ value: JSONValue) {
        switch value {
        case .integer(let number): take(name, number)
        case .string(let text): take(name, text)
        case .bool(let isSo):
            if name.spells("isRegistered") { record.isRegistered = isSo }
            if name.spells("customStatusHasOwnEnd") { record.customStatusHasOwnEnd = isSo }
        case .array(let elements):
            if name.spells("onlinePlatforms") { record.onlinePlatforms = elements.compactMap(\.text) }
            if name.spells("pushDevices") { record.pushDevices = elements.map { PushDevice($0) } }
        case .object:
            if name.spells("event") { event = PublishedEvent(value, version: record.version) }
            if name.spells("loginEvent") { loginEvent = PublishedEvent(value, version: record.version) }
        case .null, .number: break
        }
    }

    private mutating func take(_ name: UnsafeRawBufferPointer, _ text: String) {
        if name.spells("statusType") {
            guard let statusType = StatusType(name: text) else { return }
            (record.statusType, hasStatusType) = (statusType, true)
        } else if name.spells("customStatus") {
            record.customStatus = text
        } else if name.spells("customStatusVersion") {
            customStatusVersion = Version(text: text)
        } else if name.spells("profileVersion") {
            record.profileVersion = Version(text: text) ?? .zero
        } else if name.spells("newestEventID") {
            newestEventID = Version(text: text) ?? .zero
        } else if name.spells("newestLoginEventID") {
            newestLoginEventID = Version(text: text) ?? .zero
        } else if name.spells("rule") {
            ruleNamed = RuleName(text: text) ?? .none
        }
    }

    private mutating func take(_ name: UnsafeRawBufferPointer, _ number: Int64) {
        guard Limits.times.contains(number) else { return }
        if name.spells("customStatusExpiresAt") {
            record.customStatusExpiresAt = number
        } else if name.spells("lastUpdateTime") {
            record.lastUpdateTime = number
        } else if name.spells("lastOnlineStatusUpdateTime") {
            record.lastOnlineStatusUpdateTime = number
        } else if name.spells("lastCustomStatusUpdateTime") {
            record.lastCustomStatusUpdateTime = number
        } else if name.spells("lastSeenTime") {
            record.lastSeenTime = number
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether these are the bytes of `name`.
    fileprivate func spells(_ name: StaticString) -> Bool {
        count == name.utf8CodeUnitCount && name.withUTF8Buffer { elementsEqual($0) }
    }
}

extension JSONValue {
    /// A time that a node may have written; nil for any other number.
    fileprivate var time: Milliseconds? { wholeNumber.flatMap { Limits.times.contains($0) ? $0 : nil } }
}

extension PushDevice {
    fileprivate init(_ json: JSONValue) {
        self.init(
            platform: json["platform"]?.text ?? "", deviceID: json["deviceID"]?.text ?? "", until: json["until"]?.time ?? 0)
    }
}

extension PublishedEvent {
    fileprivate init(_ json: JSONValue, version: Version) {
        self.init(
            value: json["value"]?.wholeNumber ?? 0, ext: json["ext"]?.text ?? "", expiresAt: json["expiresAt"]?.time ?? 0,
            id: Version(text: json["id"]?.text ?? "") ?? version, isForOnlineOnly: json["isForOnlineOnly"] != .bool(false),
            isSynced: json["isSynced"] != .bool(false), session: json["session"]?.text.flatMap { SessionID($0) })
    }
}

extension Record {
    /// Reads a row of kind ``PresenceWire/Row/Kind/status``. Throws the error in it.
    public init(_ row: Row) throws(RowError) { self = try RecordFacts(row).record(in: row) }

    /// Reads the output of ``PresenceWire/JSONWriter/facts(of:)`` as a part of `row`.
    init(_ json: JSONValue, version: Version, of row: Row) throws(RowError) {
        var facts = RecordFacts(row.user, version)
        if case .object(let members) = json {
            for member in members {
                var name = member.name
                name.withUTF8 { facts.take(UnsafeRawBufferPointer($0), member.value) }
            }
        }
        self = try facts.record(in: row)
    }
}

extension Subscription {
    /// Reads a row of kind ``PresenceWire/Row/Kind/subscription``.
    init(_ row: Row) throws(RowError) {
        let json = row.value == nil ? JSONValue.null : try JSONValue(row)
        if let expiresAt = row.expiresAt, !Limits.times.contains(expiresAt) { throw RowError(row, "expires at \(expiresAt)") }
        self.init(
            target: UserID(app: String(row.user.app), id: row.key),
            subscribeType: UInt8(clamping: json["subscribeType"]?.wholeNumber ?? 1),
            subscribedAt: json["subscribedAt"]?.time ?? 0, expiresAt: row.expiresAt, version: row.version,
            isRemoved: row.value == nil)
    }
}

extension JSONValue {
    init(_ row: Row) throws(RowError) {
        guard let value = row.value else { throw RowError(row, "the value is missing") }
        do { self = try JSONReader.read(value) } catch { throw RowError(row, "the value is not JSON: \(error)") }
    }

    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var wholeNumber: Int64? {
        if case .integer(let number) = self { number } else { nil }
    }
}
