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
    /// The members of a record's durable form, without the user and the version.
    mutating func facts(of record: Record) {
        member("statusType", record.statusType.name)
        member("customStatus", record.customStatus)
        member("customStatusExpiresAt", record.customStatusExpiresAt)
        member("customStatusVersion", record.customStatusVersion.text)
        key("onlinePlatforms")
        array { json in
            for platform in record.onlinePlatforms { json.string(platform) }
        }
        if record.isRegistered { member("isRegistered", true) }
        if !record.pushDevices.isEmpty {
            key("pushDevices")
            array { json in
                for device in record.pushDevices {
                    json.object { json in
                        json.member("platform", device.platform)
                        json.member("deviceID", device.deviceID)
                        json.member("until", device.until)
                    }
                }
            }
        }
        if let event = record.event {
            key("event")
            object { json in
                json.member("value", event.value)
                json.member("ext", event.ext)
                json.member("expiresAt", event.expiresAt)
                json.member("id", event.id.text)
                json.member("isForOnlineOnly", event.isForOnlineOnly)
                json.member("isSynced", event.isSynced)
            }
        }
        member("lastUpdateTime", record.lastUpdateTime)
        member("lastOnlineStatusUpdateTime", record.lastOnlineStatusUpdateTime)
        member("lastCustomStatusUpdateTime", record.lastCustomStatusUpdateTime)
        member("lastSeenTime", record.lastSeenTime)
        guard let privacy = record.privacy else { return }
        member("visibilityVersion", privacy.version.text)
        // The last one: see ``Row/namesRule``.
        member("visibilityWrittenAt", privacy.writtenAt.text)
    }
}

extension Row {
    private static let ruleMember = Array("\"visibilityWrittenAt\":\"".utf8)

    /// Whether a record was written by somebody who knew of a rule about who may see the user. Looks at the end of the text alone.
    var namesRule: Bool {
        guard let value else { return false }
        let start = value.count - Self.ruleMember.count - 24 - "\"}".utf8.count
        return start >= 0 && value[start...].starts(with: Self.ruleMember)
    }

    /// When the rule was written that the writer of a record knew of, and when it was last changed what others are shown by it. A record
    /// of before that was told does not say so: it counts as written with all faces of before.
    /// - Parameter json: what the row holds.
    func ruleNamed(in json: JSONValue) -> (writtenAt: Version, version: Version) {
        guard namesRule else { return (.zero, .zero) }
        let named = { (name: String) in json[name]?.text.flatMap { Version(text: $0) } }
        return (named("visibilityWrittenAt") ?? .zero, named("visibilityVersion") ?? version)
    }
}

extension Row {
    /// The durable form of a member, for this node alone.
    init(member card: Peer, hasLeft: Bool, version: Version) {
        var json = JSONWriter(reserving: 120)
        json.object { json in
            json.member("generation", Int64(clamping: card.generation))
            json.member("address", card.address)
            json.member("weight", Int64(card.weight))
            json.member("hasLeft", hasLeft ? 1 : 0)
        }
        self.init(user: UserID(app: "cluster", id: card.id.rawValue), kind: .member, key: "", version: version, value: json.bytes)
    }

    /// Reads a row of kind ``PresenceWire/Row/Kind/member``.
    func member() throws(RowError) -> (card: Peer, hasLeft: Bool) {
        let json = try JSONValue(self)
        guard let generation = json["generation"]?.wholeNumber, let address = json["address"]?.text else {
            throw RowError(self, "no address")
        }
        let card = Peer(
            id: NodeID(String(user.id)), generation: UInt64(clamping: generation), address: address,
            weight: UInt32(clamping: json["weight"]?.wholeNumber ?? 100))
        return (card, json["hasLeft"]?.wholeNumber == 1)
    }
}

extension Row {
    /// How far the version clock of a node may go, for this node alone.
    init(clockOf node: NodeID, bound: Milliseconds) {
        self.init(
            user: UserID(app: "cluster", id: node.rawValue), kind: .clock, key: "",
            version: Version(milliseconds: bound, counter: 0, node: 0), value: Array("{}".utf8))
    }
}

/// A row that does not hold what its kind says: the store was written by something else.
public struct RowError: Error, Equatable, Sendable, CustomStringConvertible {
    /// The row, and what is wrong with it.
    public let description: String

    /// A row of the disk that other nodes would not believe.
    init(aheadOfTime row: Row, at wall: Milliseconds) {
        self.init(
            row,
            "was written \((row.version.milliseconds - wall) / 1_000) s ahead of this machine's clock, and other nodes would refuse what this one "
                + "writes after it: set the clock right, or wait so long; with an empty data directory the other nodes give what they have")
    }

    init(_ row: Row, _ problem: String) { description = "row of \(row.user), kind \(row.kind), key \"\(row.key)\": \(problem)" }
}

extension Record {
    /// Reads a row of kind ``PresenceWire/Row/Kind/status``. Throws what is wrong with it.
    public init(_ row: Row) throws(RowError) { try self.init(JSONValue(row), version: row.version, of: row) }

    /// Reads what ``PresenceWire/JSONWriter/facts(of:)`` wrote.
    init(_ json: JSONValue, version: Version, of row: Row) throws(RowError) {
        self.init(blank: row.user)
        self.version = version
        guard let statusType = StatusType(name: json["statusType"]?.text ?? "") else { throw RowError(row, "no statusType") }
        self.statusType = statusType
        customStatus = json["customStatus"]?.text ?? ""
        customStatusExpiresAt = json["customStatusExpiresAt"]?.wholeNumber ?? 0
        customStatusVersion = json["customStatusVersion"]?.text.flatMap { Version(text: $0) } ?? (customStatus.isEmpty ? .zero : version)
        if case .array(let platforms) = json["onlinePlatforms"] { onlinePlatforms = platforms.compactMap(\.text) }
        isRegistered = json["isRegistered"] == .bool(true)
        if case .array(let devices) = json["pushDevices"] {
            pushDevices = devices.map { device in
                PushDevice(
                    platform: device["platform"]?.text ?? "", deviceID: device["deviceID"]?.text ?? "",
                    until: device["until"]?.wholeNumber ?? 0)
            }
        }
        if let kept = json["event"] {
            event = PublishedEvent(
                value: kept["value"]?.wholeNumber ?? 0, ext: kept["ext"]?.text ?? "", expiresAt: kept["expiresAt"]?.wholeNumber ?? 0,
                id: Version(text: kept["id"]?.text ?? "") ?? version, isForOnlineOnly: kept["isForOnlineOnly"] != .bool(false),
                isSynced: kept["isSynced"] != .bool(false))
        }
        lastUpdateTime = json["lastUpdateTime"]?.wholeNumber ?? 0
        lastOnlineStatusUpdateTime = json["lastOnlineStatusUpdateTime"]?.wholeNumber ?? 0
        lastCustomStatusUpdateTime = json["lastCustomStatusUpdateTime"]?.wholeNumber ?? 0
        lastSeenTime = json["lastSeenTime"]?.wholeNumber ?? 0
    }
}

extension Subscription {
    /// Reads a row of kind ``PresenceWire/Row/Kind/subscription``.
    init(_ row: Row) throws(RowError) {
        let json = row.value == nil ? JSONValue.null : try JSONValue(row)
        self.init(
            target: UserID(app: String(row.user.app), id: row.key),
            subscribeType: UInt8(clamping: json["subscribeType"]?.wholeNumber ?? 1),
            subscribedAt: json["subscribedAt"]?.wholeNumber ?? 0, expiresAt: row.expiresAt, version: row.version,
            isRemoved: row.value == nil)
    }
}

extension JSONValue {
    init(_ row: Row) throws(RowError) {
        guard let value = row.value else { throw RowError(row, "no value") }
        do { self = try JSONReader.read(value) } catch { throw RowError(row, "no JSON: \(error)") }
    }

    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var wholeNumber: Int64? {
        if case .integer(let number) = self { number } else { nil }
    }
}
