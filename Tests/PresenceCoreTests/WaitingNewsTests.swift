import PresenceWire
import Testing

@testable import PresenceCore

/// The news of a profile that wait while its user blocks a follower or is invisible.
@Suite struct WaitingNewsTests {
    private static let app = "default"
    private static let (ann, ben, cid) = (UserID(app: app, id: "ann"), UserID(app: app, id: "ben"), UserID(app: app, id: "cid"))

    /// A record of Ann that passes through changes of its profile and its visibility, one a millisecond.
    private struct History {
        private(set) var record = Record(blank: WaitingNewsTests.ann)
        private var time: Milliseconds = 0

        init() { setProfile() }

        private mutating func next() -> Version {
            time += 1
            return Version(milliseconds: time, counter: 0, node: 1)
        }

        mutating func setProfile() { record.profileVersion = next() }

        mutating func change(blocked: [UserID]? = nil, isInvisible: Bool? = nil) {
            let version = next()
            let old = record.privacy ?? Privacy()
            let visibility = old.visibility.changed(by: .init(isInvisible: isInvisible, blocked: blocked))
            var privacy = old.changed(to: visibility, writtenAt: version, hiddenView: Record(blank: record.user), at: version)
            privacy.updateNews(of: record.profileVersion, waitsWhileInvisible: true, at: version)
            (record.privacy, record.version) = (privacy, version)
        }

        func version(for viewer: UserID) -> Milliseconds { record.profileNews(for: viewer).version.milliseconds }
        func stamp(for viewer: UserID) -> Milliseconds { record.profileNews(for: viewer).stamp.milliseconds }
        var hasEntries: Bool { !(record.privacy?.news.isEmpty ?? true) }
    }

    @Test("The end of a block gives the news that have waited its own stamp, for the blocked viewer alone") func block() {
        var history = History()
        history.change(blocked: [Self.ben])
        history.setProfile()
        #expect(history.version(for: Self.ben) == 1 && history.stamp(for: Self.ben) == 1)
        #expect(history.version(for: Self.cid) == 3 && history.stamp(for: Self.cid) == 3)
        history.change(blocked: [])
        #expect(history.version(for: Self.ben) == 3 && history.stamp(for: Self.ben) == 4)
        #expect(history.stamp(for: Self.cid) == 3)
        // A later block without a change keeps the stamp.
        history.change(blocked: [Self.ben])
        history.change(blocked: [])
        #expect(history.stamp(for: Self.ben) == 4)
    }

    @Test("A block without a change leaves nothing") func nothing() {
        var history = History()
        history.change(blocked: [Self.ben])
        history.change(blocked: [])
        #expect(history.stamp(for: Self.ben) == 1 && !history.hasEntries)
    }

    @Test("A viewer who is blocked by an invisible user is told once neither holds") func both() {
        var history = History()
        history.change(blocked: [Self.ben])
        history.setProfile()
        history.change(isInvisible: true)
        history.change(blocked: [])
        #expect(history.version(for: Self.ben) == 1 && history.version(for: Self.cid) == 3)
        history.change(isInvisible: false)
        #expect(history.stamp(for: Self.ben) == 6 && history.stamp(for: Self.cid) == 3)
    }

    @Test("The row of a visibility has the news that wait and those that have waited") func row() throws {
        var history = History()
        history.change(blocked: [Self.ben, Self.cid])
        history.setProfile()
        history.change(blocked: [Self.cid], isInvisible: true)
        let privacy = try #require(history.record.privacy)
        #expect(try Privacy(Row(privacy, of: Self.ann)) == privacy)
        history.change(isInvisible: false)
        let later = try #require(history.record.privacy)
        #expect(try Privacy(Row(later, of: Self.ann)) == later && later != privacy)
    }

    @Test("A record that stands for several changes tells each viewer what the viewer may know") func coalesced() {
        var history = History()
        let first = history.record
        history.setProfile()
        history.change(blocked: [Self.ben])
        #expect(Delivery.hasProfileNews(history.record, after: first, for: Self.ben))
        let blocked = history.record
        history.setProfile()
        #expect(!Delivery.hasProfileNews(history.record, after: blocked, for: Self.ben))
        history.change(blocked: [])
        history.change(blocked: [Self.ben])
        #expect(Delivery.hasProfileNews(history.record, after: blocked, for: Self.ben))
        // The profile was changed before this position, and the block ended in its millisecond, perhaps after it.
        let floor = Version(milliseconds: 5, counter: 0, node: 0)
        #expect(Delivery.isProfileDue(history.record, to: Self.ben, resumingFrom: floor))
        #expect(!Delivery.isProfileDue(history.record, to: Self.cid, resumingFrom: floor))
    }

    @Test("A later change of the profile drops the stamps of those who are told it at once") func dropped() {
        var history = History()
        history.change(blocked: [Self.ben, Self.cid])
        history.setProfile()
        history.change(blocked: [])
        #expect(history.record.privacy?.news.named.map(\.user) == [Self.ben, Self.cid])
        history.setProfile()
        history.change(isInvisible: true)
        history.change(isInvisible: false)
        #expect(!history.hasEntries && history.stamp(for: Self.ben) == 5)
    }
}
