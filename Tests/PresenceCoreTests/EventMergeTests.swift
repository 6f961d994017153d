import PresenceWire
import Testing

@testable import PresenceCore

/// Events that two sides of a split have taken: the events, the custom status and the rest of a record are facts of their own.
@Suite struct EventMergeTests {
    private let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)

    private func version(_ step: Milliseconds, node: UInt32 = 1) -> Version {
        Version(milliseconds: now.wall + step, counter: 0, node: node)
    }

    private func event(_ value: Int64, at step: Milliseconds, isForOnlineOnly: Bool) -> PublishedEvent {
        PublishedEvent(
            value: value, ext: "", expiresAt: now.wall + 300_000, id: version(step), isForOnlineOnly: isForOnlineOnly, isSynced: true)
    }

    /// The events of an owner that holds `first` and receives `second`.
    private func kept(_ first: Record, _ second: Record) throws -> Record {
        var owners = Owner(clock: VersionClock(node: 9), settings: CoreSettings())
        let index = owners.index(of: user("ann"))
        _ = owners.keep(first, at: index, now: now)
        _ = owners.keep(second, at: index, now: now)
        return owners.record(of: user("ann"))
    }

    @Test("An event of one side and a custom status of the other are both kept") func bothSides() throws {
        var left = Record(blank: user("ann"))
        left.version = version(1)
        left.events.publish(event(10_001, at: 1, isForOnlineOnly: true))
        var right = Record(blank: user("ann"))
        (right.version, right.customStatusVersion, right.customStatus) = (version(2, node: 2), version(2, node: 2), "lunch")
        for record in [try kept(left, right), try kept(right, left)] {
            #expect(record.events.newest?.value == 10_001 && record.customStatus == "lunch")
            #expect(record.version > right.version, "it is another content than each side had")
        }
    }

    @Test("The newest event of each kind is kept") func newest() throws {
        var left = Record(blank: user("ann"))
        left.version = version(1)
        left.events.publish(event(10_001, at: 1, isForOnlineOnly: false))
        var right = Record(blank: user("ann"))
        right.version = version(2, node: 2)
        right.events.publish(event(10_002, at: 2, isForOnlineOnly: true))
        for record in [try kept(left, right), try kept(right, left)] {
            #expect(record.events.newest?.value == 10_002 && record.events.forLogins?.value == 10_001)
        }
    }

    /// An old copy does not bring an event back that a newer one has replaced and that has ended since, also from the disk.
    @Test("A replaced event does not come back") func replaced() throws {
        var left = Record(blank: user("ann"))
        left.version = version(1)
        left.events.publish(event(10_001, at: 1, isForOnlineOnly: false))
        var right = left
        right.version = version(2)
        right.events.publish(event(10_002, at: 2, isForOnlineOnly: false))
        right.events.expire(at: .max)
        right.version = version(3)
        let read = try Record(Row(right))
        #expect(read.events == right.events)
        for record in [try kept(left, read), try kept(read, left)] { #expect(record.events.isEmpty && record.version == right.version) }
    }
}
