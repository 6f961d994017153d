import PresenceWire
import Testing

@testable import PresenceCore

/// P30: a viewer to whom nothing changes holds the version of the record, whatever the user does about other viewers.
@Suite struct HeldVersionTests {
    var cluster = TestCluster(nodes: 3)
    private let (ann, bob): (Int, Int)

    init() {
        (ann, bob) = (cluster.login("ann", on: 0), cluster.login("bob", on: 1))
        cluster.subscribe("bob", to: ["ann"], on: 1)
        cluster.advance(.seconds(5))
        cluster.setStatus("ann", "here", on: 0)
        cluster.advance(.seconds(5))
    }

    private mutating func record(seenBy viewer: String, on node: Int) -> Record? {
        let answer = cluster.call(.getUserStatus([user("ann")]), by: viewer, on: node)
        guard case .userStatusList(let records, _, _) = answer else { return nil }
        return records.first ?? nil
    }

    private mutating func version(seenBy viewer: String, on node: Int) -> Version? { record(seenBy: viewer, on: node)?.version }

    private mutating func versions(seenBy viewer: String = "bob") -> [Version?] { (0..<3).map { version(seenBy: viewer, on: $0) } }

    private var pushed: Int { cluster.clients[bob].events.count }

    private static let changes: [Call] = [
        .chain(.setBlocked([user("cid")], true)), .chain(.setBlocked([user("cid")], false)), .setVisibility(.init(isInvisible: false)),
        .setVisibility(.init(mode: .list, listed: [user("bob")])), .setVisibility(.init(mode: .list, listed: [user("bob"), user("dan")])),
        .setVisibility(.init(mode: .everyone)),
    ]

    @Test("No block, no end of one and no visibility moves the version that a viewer sees to whom nothing changes, at any node")
    mutating func blocks() throws {
        let (before, events) = (versions(), pushed)
        #expect(Set(before).count == 1 && before[0] != nil)
        for change in Self.changes {
            #expect(cluster.call(change, by: "ann", on: 2) != nil)
            cluster.advance(.seconds(1))
            #expect(versions() == before && pushed == events, "\(change)")
        }
        cluster.setStatus("ann", "next", on: 0)
        cluster.advance(.milliseconds(100))
        let next = versions()
        let (old, new) = (try #require(before[0]), try #require(next[0]))
        #expect(Set(next).count == 1 && new > old && pushed == events + 1)
    }

    @Test("A viewer who has resumed is pushed nothing by blocks of others, nor is one who resumes after them")
    mutating func resumed() {
        let position = cluster.clients[bob].lastEventID
        cluster.lose(bob)
        cluster.setStatus("ann", "while away", on: 0)
        cluster.advance(.milliseconds(500))
        let again = cluster.login("bob", on: 1, resumeFrom: position)
        cluster.advance(.milliseconds(200))
        #expect(cluster.clients[again].view["ann"]?["customStatus"] == .string("while away"))
        let events = cluster.clients[again].events.count
        for change in Self.changes {
            cluster.call(change, by: "ann", on: 2)
            cluster.advance(.milliseconds(500))
        }
        #expect(cluster.clients[again].events.count == events)
    }

    @Test("After a takeover and a restart of all nodes viewers hold the version that the visibility names, or a newer one")
    mutating func restarts() throws {
        cluster.call(.chain(.setBlocked([user("cid")], true)), by: "ann", on: 0)
        cluster.advance(.seconds(5))
        let before = try #require(version(seenBy: "bob", on: 1))
        for node in 0..<3 {
            cluster.kill(node)
            cluster.advance(.seconds(3))
            try cluster.restart(node)
            cluster.advance(.seconds(5))
        }
        let versions = versions()
        let after = try #require(versions[0])
        #expect(Set(versions).count == 1 && after >= before)
    }

    @Test("A viewer who may see the user again is shown a newer version than the hidden one, and others the one that they hold")
    mutating func returns() throws {
        let seen = version(seenBy: "bob", on: 1)
        cluster.call(.chain(.setBlocked([user("cid")], true)), by: "ann", on: 0)
        cluster.advance(.seconds(3))
        let hidden = try #require(version(seenBy: "cid", on: 1))
        cluster.call(.chain(.setBlocked([user("cid")], false)), by: "ann", on: 0)
        cluster.advance(.seconds(3))
        let shown = try #require(version(seenBy: "cid", on: 1))
        #expect(shown > hidden && version(seenBy: "bob", on: 1) == seen)
        cluster.call(.chain(.setBlocked([user("cid")], true)), by: "ann", on: 0)
        cluster.advance(.seconds(3))
        let again = try #require(version(seenBy: "cid", on: 1))
        #expect(again > shown && version(seenBy: "bob", on: 1) == seen)
    }

    @Test("A viewer is told a text and its end, although the clock was set back after the absent user had hidden and returned")
    mutating func clockSetBack() throws {
        cluster.close(ann, .loggedOut)
        cluster.advance(.seconds(5))
        for isInvisible in [true, false] {
            cluster.call(.setVisibility(.init(isInvisible: isInvisible)), by: "ann", on: 2)
            cluster.advance(.seconds(5))
        }
        cluster.now.wall -= 17_000
        let before = record(seenBy: "bob", on: 1)
        var seen = try #require(before)
        #expect(seen.customStatus == "here")
        for text in ["a", "b", "here", ""] {
            cluster.setStatus("ann", text, on: 0)
            cluster.advance(.seconds(1))
            let shown = self.record(seenBy: "bob", on: 1)
            let record = try #require(shown)
            #expect(record.customStatus == text && cluster.clients[bob].view["ann"]?["customStatus"] == .string(text))
            #expect(record.version > seen.version && record.lastUpdateTime > seen.lastUpdateTime)
            #expect(record.lastCustomStatusUpdateTime > seen.lastCustomStatusUpdateTime)
            seen = record
        }
    }

    @Test("No new friend and no end of a friendship moves the version that the other friends see")
    mutating func friends() throws {
        cluster.login("dan", on: 2)
        cluster.call(.friendCall(.importFriends([FriendImport(user: user("bob"))])), by: "ann", on: 2)
        cluster.call(.setVisibility(.init(mode: .friends)), by: "ann", on: 2)
        cluster.advance(.seconds(5))
        let (before, events) = (versions(), pushed)
        #expect(Set(before).count == 1 && before[0] != nil)
        let changes: [Call] = [
            .chain(.add(user("dan"), SentRequest(addTime: 0), isTwoWay: false)), .chain(.delete([user("dan")], isTwoWay: false)),
            .chain(.add(user("dan"), SentRequest(addTime: 0), isTwoWay: true)), .chain(.delete([user("dan")], isTwoWay: true)),
            .friendCall(.importFriends([FriendImport(user: user("dan"))])),
        ]
        var shown = try #require(version(seenBy: "dan", on: 2))
        for change in changes {
            cluster.call(change, by: "ann", on: 2)
            cluster.advance(.seconds(5))
            #expect(versions() == before && pushed == events, "\(change)")
            let versions = versions(seenBy: "dan")
            let new = try #require(versions[0])
            #expect(Set(versions).count == 1 && new > shown, "\(change)")
            shown = new
        }
        #expect(record(seenBy: "dan", on: 0)?.statusType == .online)
        cluster.setStatus("ann", "next", on: 0)
        cluster.advance(.milliseconds(100))
        let next = versions()
        #expect(Set(next).count == 1 && next == versions(seenBy: "dan") && pushed == events + 1)
    }

    @Test(
        "The end of a block or of a visibility moves no version for a viewer who sees the same OFFLINE",
        arguments: [false, true], [false, true])
    mutating func returnsToTheSame(isBlock: Bool, hidesOnline: Bool) throws {
        let hiding = { (isHidden: Bool) -> Call in
            isBlock ? .chain(.setBlocked([user("bob")], isHidden)) : .setVisibility(.init(isInvisible: isHidden))
        }
        if hidesOnline { cluster.call(hiding(true), by: "ann", on: 2) }
        for client in cluster.clients.indices where cluster.clients[client].user == "ann" { cluster.lose(client) }
        cluster.advance(.seconds(5))
        if !hidesOnline { cluster.call(hiding(true), by: "ann", on: 2) }
        cluster.advance(.seconds(5))
        let (before, events) = (try #require(record(seenBy: "bob", on: 1)), pushed)
        #expect(before.statusType == .offline)
        for isHidden in [false, true, false] {
            cluster.call(hiding(isHidden), by: "ann", on: 0)
            cluster.advance(.seconds(1))
            for node in 0..<3 { #expect(record(seenBy: "bob", on: node)?.version == before.version, "\(isHidden)") }
            #expect(pushed == events)
        }
        cluster.login("ann", on: 0)
        cluster.advance(.milliseconds(100))
        let versions = versions()
        let shown = try #require(versions[0])
        #expect(Set(versions).count == 1 && shown > before.version && pushed == events + 1)
    }

    @Test("A record that names an older version than the one it replaces is shown under its own version")
    func split() {
        var record = Record(blank: user("ann"))
        record.version = Version(milliseconds: 3, counter: 0, node: 1)
        var blocking = record
        blocking.version = Version(milliseconds: 7, counter: 0, node: 1)
        blocking.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(blocked: [user("cid")])), writtenAt: blocking.version, hiddenView: record,
            heldVersion: record.version, at: blocking.version)
        #expect(blocking.shown(to: user("bob")).version == record.version && blocking.versionHeld == record.version)
        #expect(blocking.replacing(record).shown(to: user("bob")).version == record.version)
        var other = record
        (other.version, other.customStatus) = (Version(milliseconds: 5, counter: 0, node: 2), "of the other side")
        #expect(blocking.replacing(other).shown(to: user("bob")).version == blocking.version)
        let merged = RecordMerge(of: blocking, into: other).result { Version(milliseconds: 9, counter: 0, node: 1) }
        #expect(merged.shown(to: user("bob")).version == Version(milliseconds: 9, counter: 0, node: 1))
    }

    @Test("A viewer to whom one side of a split has hidden the user is shown a newer version by the visibility of the other side")
    func splitVisibilities() {
        var record = Record(blank: user("ann"))
        (record.version, record.statusType) = (Version(milliseconds: 3, counter: 0, node: 1), .online)
        var hidden = record
        hidden.version = Version(milliseconds: 5, counter: 0, node: 1)
        hidden.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(isInvisible: true)), writtenAt: hidden.version,
            hiddenView: record.hidden(at: hidden.version, 5, by: Policy()), heldVersion: record.version, at: hidden.version)
        var visible = record
        visible.version = Version(milliseconds: 7, counter: 0, node: 2)
        visible.privacy = Privacy().changed(
            to: Visibility(), writtenAt: visible.version, hiddenView: record, heldVersion: record.version, at: visible.version)
        let bob = user("bob")
        #expect(hidden.shown(to: bob).version == hidden.version)
        #expect(visible.replacing(hidden).shown(to: bob).version == visible.version)
        let next = Version(milliseconds: 9, counter: 0, node: 1)
        // A change of the other side may come second, and have no part with a version of its own.
        var gone = record
        (gone.version, gone.statusType) = (Version(milliseconds: 5, counter: 0, node: 1), .offline)
        for (received, held) in [(visible, hidden), (hidden, visible), (gone, visible)] {
            let merge = RecordMerge(of: received, into: held)
            #expect(merge.hasNews && merge.result { next }.shown(to: bob).version == next)
        }
    }
}
