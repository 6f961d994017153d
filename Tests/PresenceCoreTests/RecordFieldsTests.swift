import PresenceWire
import Testing

@testable import PresenceCore

/// Each place that knows the fields of a record, against the list of the fields (``PresenceWire/Record/Field``).
///
/// Each place is given two records that differ in one field. A place that forgets a field fails for that field.
@Suite struct RecordFieldsTests {
    typealias Field = Record.Field

    private static let wall: Milliseconds = 1_790_000_000_000

    private static func version(_ step: Int) -> Version { Version(milliseconds: wall + Int64(step), counter: 0, node: 7) }

    private static func event(_ step: Int, isForOnlineOnly: Bool) -> PublishedEvent {
        PublishedEvent(
            value: 10_000 + Int64(step), ext: "x", expiresAt: wall + 900_000, id: version(20 + step), isForOnlineOnly: isForOnlineOnly)
    }

    /// A visibility that admits nobody, with the hidden view of a record.
    private static func hiding(_ record: Record, at time: Version) -> Privacy {
        var policy = Policy()
        policy.offlineClearsCustomStatus = false
        return Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: time,
            hiddenView: record.hidden(at: time, time.milliseconds, by: policy), at: time)
    }

    /// Gives a field another value at each of the steps 1 and 2. Each value at step 1 is another one than in a blank record.
    private static func set(_ field: Field, of record: inout Record, to step: Int) {
        let time = wall + Int64(step)
        switch field {
        case .user: record.user = UserID(app: "default", id: "user-\(step)")
        case .version: record.version = version(step)
        case .statusType: record.statusType = step == 1 ? .online : .offline
        case .customStatus: record.customStatus = "text \(step)"
        case .customStatusExpiresAt: record.customStatusExpiresAt = time + 900_000
        case .customStatusHasOwnEnd: record.customStatusHasOwnEnd = step == 1
        case .customStatusVersion: record.customStatusVersion = version(step)
        case .profileVersion: record.profileVersion = version(10 + step)
        case .pushDevices: record.pushDevices = [PushDevice(platform: "ios", deviceID: "device-\(step)", until: time)]
        case .isRegistered: record.isRegistered = step == 1
        case .onlinePlatforms: record.onlinePlatforms = ["ios", "platform-\(step)"]
        case .lastUpdateTime: record.lastUpdateTime = time
        case .lastOnlineStatusUpdateTime: record.lastOnlineStatusUpdateTime = time - 10
        case .lastCustomStatusUpdateTime: record.lastCustomStatusUpdateTime = time - 20
        case .lastSeenTime: record.lastSeenTime = time - 5
        case .knownSince: record.knownSince = time - 30
        case .privacy: record.privacy = hiding(Record(blank: record.user), at: version(30 + step))
        case .events:
            record.events = PublishedEvents(
                newest: event(2 * step + 1, isForOnlineOnly: true), forLogins: event(2 * step, isForOnlineOnly: false))
        }
    }

    /// A record that differs from a blank one in each field.
    private static let full: Record = {
        var record = Record(blank: UserID(app: "default", id: "blank"))
        for field in Field.allCases { set(field, of: &record, to: 1) }
        return record
    }()

    private static let blank = Record(blank: UserID(app: "default", id: "blank"))

    /// ``full`` without a visibility.
    private static let admitting: Record = {
        var record = full
        record.privacy = nil
        return record
    }()

    /// The record with another value of one field.
    private static func changed(_ field: Field, of record: Record = full) -> Record {
        var record = record
        set(field, of: &record, to: 2)
        return record
    }

    private static func wire(_ record: Record) -> [UInt8] {
        var writer = WireWriter()
        writer.record(record)
        return writer.bytes
    }

    private static func read(_ bytes: [UInt8]) throws -> Record {
        try bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return try reader.record()
        }
    }

    private static func members(_ json: [UInt8]) throws -> [JSONValue.Member] {
        guard case .object(let members) = try JSONReader.read(json) else { return [] }
        return members
    }

    /// The members of a `UserStatus`.
    private static func status(_ record: Record, showsPlatforms: Bool = true) throws -> [JSONValue.Member] {
        var json = JSONWriter()
        json.userStatus(record, showsPlatforms: showsPlatforms)
        return try members(json.bytes)
    }

    /// The names of the members that only one of two objects has, or that differ.
    private static func difference(_ left: [JSONValue.Member], _ right: [JSONValue.Member]) -> Set<String> {
        Set((left.filter { !right.contains($0) } + right.filter { !left.contains($0) }).map(\.name))
    }

    // MARK: The list

    @Test("The list has every stored property of a record") func properties() {
        let stored = Mirror(reflecting: Self.blank).children.compactMap(\.label)
        let names = stored.map { $0.hasSuffix("Box") ? String($0.dropLast(3)) : $0 }
        #expect(names.sorted() == Field.allCases.map(\.rawValue).sorted())
    }

    @Test("The two records of these tests differ in one field, and both from a blank record", arguments: Record.Field.allCases)
    func samples(field: Field) {
        #expect(!Self.full.has(field, as: Self.blank), "the first value of a field must not be that of a blank record")
        let changed = Self.changed(field)
        #expect(Field.allCases.filter { !changed.has($0, as: Self.full) } == [field])
        #expect(changed != Self.full, "the equality of records forgets the field")
    }

    // MARK: Forms

    @Test("A field survives the wire", arguments: Record.Field.allCases) func wire(field: Field) throws {
        let changed = Self.changed(field)
        #expect(Self.wire(changed) != Self.wire(Self.full))
        #expect(try Self.read(Self.wire(changed)).has(field, as: changed))
    }

    @Test("A field survives its row, in the members of the list", arguments: Record.Field.allCases)
    func row(field: Field) throws {
        let changed = Self.changed(field)
        let (before, after) = (Row(Self.full), Row(changed))
        let differing = Self.difference(try Self.members(try #require(before.value)), try Self.members(try #require(after.value)))
        let read = try Record(after)
        switch field.form.row {
        case .column:
            #expect(differing.isEmpty && read.has(field, as: changed))
        case .members(let names):
            #expect(!differing.isEmpty && differing.isSubset(of: names), "\(differing)")
            #expect(read.has(field, as: changed))
        case .ownRow(let name):
            #expect(differing == [name] && field == .privacy && read.privacy == nil)
            let privacy = try #require(changed.privacy)
            #expect(try Privacy(Row(privacy, of: changed.user)) == privacy)
        case .nowhere:
            #expect(before == after && read.has(field, as: Self.blank))
        }
    }

    @Test("A row has the members of the list, and no others") func rowMembers() throws {
        let listed = Field.allCases.flatMap { field -> [String] in
            switch field.form.row {
            case .column, .nowhere: []
            case .members(let names): names
            case .ownRow(let name): [name]
            }
        }
        #expect(try Self.members(try #require(Row(Self.full).value)).map(\.name).sorted() == listed.sorted())
    }

    @Test("A viewer sees a field in the members of the list, and is told a change of them", arguments: Record.Field.allCases)
    func sight(field: Field) throws {
        let (full, changed) = (Self.full, Self.changed(field))
        let differing = Self.difference(try Self.status(full), try Self.status(changed))
        switch field.form.sight {
        case .never:
            #expect(differing.isEmpty && changed.looksLike(full))
        case .name(let name):
            #expect(differing == [name] && changed.looksLike(full))
        case .members(let names):
            #expect(!differing.isEmpty && differing.isSubset(of: names), "\(differing)")
            #expect(!changed.looksLike(full) && !changed.looksLike(full, showsPlatforms: false))
        case .unlessPlatformsAreHidden(let name):
            #expect(differing == [name])
            #expect(!changed.looksLike(full) && changed.looksLike(full, showsPlatforms: false))
            #expect(try Self.status(full, showsPlatforms: false) == Self.status(changed, showsPlatforms: false))
            var policy = Policy()
            policy.exposesPlatforms = false
            #expect(full.shown(by: policy).has(field, as: Self.blank))
        }
    }

    @Test("A UserStatus has the members of the list, in its order") func statusMembers() throws {
        #expect(try Self.status(Self.full).map(\.name) == Field.allCases.flatMap(\.statusMembers))
    }

    @Test("A record with nothing else is blank unless the field is of value", arguments: Record.Field.allCases)
    func blankness(field: Field) {
        var record = Self.blank
        Self.set(field, of: &record, to: 1)
        #expect(record.isBlank != field.form.isOfValue)
    }

    // MARK: Hidden views

    @Test("A hidden view has the form of a field in the list", arguments: Record.Field.allCases)
    func hiddenView(field: Field) throws {
        let time = Self.version(60_000)
        let viewer = UserID(app: "default", id: "viewer")
        func hidden(_ record: Record) -> Record {
            var hidden = record
            hidden.privacy = Self.hiding(record, at: time)
            return hidden
        }
        let (full, changed) = (hidden(Self.admitting), hidden(Self.changed(field, of: Self.admitting)))
        let (shown, shownOfChanged) = (full.shown(to: viewer), changed.shown(to: viewer))
        let isSameContent = full.privacy?.contents == changed.privacy?.contents
        var later = full
        Self.set(field, of: &later, to: 2)
        switch field.form.hiddenView {
        case .content:
            #expect(!isSameContent && shownOfChanged.has(field, as: changed))
            #expect(later.shown(to: viewer) == shown)
        case .view:
            #expect(isSameContent && !shown.has(field, as: Self.blank))
            #expect(later.shown(to: viewer) == shown)
        case .blank:
            #expect(isSameContent && shown.has(field, as: Self.blank))
            #expect(field == .privacy || later.shown(to: viewer) == shown)
        case .current:
            #expect(isSameContent && later.shown(to: viewer).has(field, as: later))
        }
        #expect(try Self.read(Self.wire(changed)).shown(to: viewer).has(field, as: shownOfChanged))
        let privacy = try #require(changed.privacy)
        var stored = changed
        stored.privacy = try Privacy(Row(privacy, of: changed.user))
        #expect(stored.shown(to: viewer).has(field, as: shownOfChanged))
    }

    // MARK: Merges

    @Test("A merge keeps the value of the side with the newer version of the field's part", arguments: Record.Field.allCases)
    func merge(field: Field) {
        var older = Self.admitting
        var newer = older
        (older.version, newer.version) = (Self.version(100), Self.version(200))
        var expected = newer
        switch field.form.merge {
        case .key, .version: break
        case .record:
            // The newer custom status of the other side does not bring the rest of its record.
            Self.set(field, of: &newer, to: 2)
            older.customStatusVersion = Self.version(300)
            expected = newer
        case .customStatus:
            Self.set(field, of: &older, to: 2)
            older.customStatusVersion = Self.version(300)
            expected = older
        case .events, .visibility:
            Self.set(field, of: &older, to: 2)
            expected = older
        case .registration:
            newer.isRegistered = false
            expected = older
        }
        for (received, held) in [(newer, older), (older, newer)] {
            let merged = RecordMerge(of: received, into: held).result { Self.version(400) }
            switch field.form.merge {
            case .version: #expect(merged.version == newer.version)
            case .visibility: #expect(merged.privacy?.writtenAt == older.privacy?.writtenAt && merged.privacy != nil)
            case .key, .record, .customStatus, .events, .registration: #expect(merged.has(field, as: expected))
            }
        }
    }
}
