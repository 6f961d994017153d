import PresenceWire
import Testing

@testable import PresenceCore

/// The views of a node.
@Suite struct FanOutTests {
    var views = FanOut(settings: CoreSettings())

    private static let ann: Record = {
        var record = Record(blank: user("ann"))
        record.version = Version(milliseconds: 5, counter: 0, node: 1)
        return record
    }()

    init() {
        _ = views.subscribe([user("ann")], gateway: 0)
        _ = views.receive(Watched(user: user("ann"), record: Self.ann), at: 0)
    }

    /// The version is the same, but nodes that do not hold it have sent clients a later complete position since.
    @Test("Gateways receive the time from which a new owner answers for an unchanged record") mutating func knownSince() {
        let first = views.receive(Watched(user: user("ann"), record: nil, knownSince: 7), at: 20)
        #expect(first?.record.knownSince == 7)
        #expect(first?.record.version == Self.ann.version)
        let same = views.receive(Watched(user: user("ann"), record: nil, knownSince: 7), at: 20)
        #expect(same == nil)
        var told = Self.ann
        told.knownSince = 9
        let delta = views.receive(told, at: 20)
        #expect(delta?.record.knownSince == 9)
        told.version = .zero
        told.knownSince = 11
        let older = views.receive(told, at: 20)
        #expect(older == nil)
    }
    /// A record from another side of a split arrives after this node has sent a complete position later than the record's version.
    @Test("A record that arrives after a later complete position is known from its arrival", arguments: [true, false])
    mutating func lateRecord(isDelta: Bool) {
        views.completeUpTo = 10
        var late = Self.ann
        late.version = Version(milliseconds: 8, counter: 0, node: 2)
        let told = isDelta ? views.receive(late, at: 20) : views.receive(Watched(user: user("ann"), record: late), at: 20)
        #expect(told?.record.knownSince == 20)
        late.version = Version(milliseconds: 11, counter: 0, node: 2)
        let inTime = views.receive(late, at: 21)
        #expect(inTime?.record.knownSince == 0)
    }

    /// Two owners kept different hidden views under one version, because one of them had its views from a node that watched.
    @Test("A new owner receives the hidden views as the previous owner sent them") mutating func originalHiddenViews() {
        var hiding = Self.ann
        hiding.version = Version(milliseconds: 6, counter: 0, node: 1)
        let nobody = Visibility().changed(by: .init(mode: .nobody))
        hiding.privacy = Privacy().changed(
            to: nobody, writtenAt: hiding.version, hiddenView: Record(blank: user("ann")), at: hiding.version)
        let delivered = views.receive(hiding, at: 20)
        #expect(delivered?.record.shown(to: user("bob")).version == hiding.version, "not older than what bob was shown")
        #expect(views.recordHeld(of: user("ann")) == hiding)
        #expect(views.watch(for: user("ann"), withRecord: true)?.record == hiding)
    }

    @Test("Hidden views that came late are as late with the next record") mutating func lateHiddenViews() {
        views.completeUpTo = 10
        var hiding = Self.ann
        hiding.version = Version(milliseconds: 8, counter: 0, node: 2)
        let nobody = Visibility().changed(by: .init(mode: .nobody))
        hiding.privacy = Privacy().changed(to: nobody, writtenAt: hiding.version, hiddenView: Self.ann, at: hiding.version)
        _ = views.receive(hiding, at: 20)
        hiding.version = Version(milliseconds: 30, counter: 0, node: 2)
        let next = views.receive(hiding, at: 30)
        #expect(next?.record.shown(to: user("bob")).knownSince == 20)
    }

    /// No earlier client of this node has received the user.
    @Test("A record that is registered later is not late") mutating func laterWatch() {
        views.completeUpTo = 10
        _ = views.subscribe([user("bob")], gateway: 0)
        var bob = Record(blank: user("bob"))
        bob.version = Version(milliseconds: 8, counter: 0, node: 2)
        let first = views.receive(Watched(user: user("bob"), record: bob), at: 20)
        #expect(first?.record.knownSince == 0)
    }
}
