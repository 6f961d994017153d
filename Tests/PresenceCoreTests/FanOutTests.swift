import PresenceWire
import Testing

@testable import PresenceCore

/// What a node holds of those who are watched on it.
@Suite struct FanOutTests {
    var views = FanOut(settings: CoreSettings())

    private static let ann: Record = {
        var record = Record(blank: user("ann"))
        record.version = Version(milliseconds: 5, counter: 0, node: 1)
        return record
    }()

    init() {
        _ = views.want([user("ann")], gateway: 0)
        _ = views.receive(Watched(user: user("ann"), record: Self.ann))
    }

    /// Seed 40206: the version is the same, but nodes that did not hold it have told clients since that all is complete.
    @Test mutating func gatewaysHearSinceWhenAnotherOwnerAnswersForWhatTheyHold() {
        let first = views.receive(Watched(user: user("ann"), record: nil, knownSince: 7))
        #expect(first?.record.knownSince == 7)
        #expect(first?.record.version == Self.ann.version)
        let same = views.receive(Watched(user: user("ann"), record: nil, knownSince: 7))
        #expect(same == nil)
        var told = Self.ann
        told.knownSince = 9
        let delta = views.receive(told)
        #expect(delta?.record.knownSince == 9)
        told.version = .zero
        told.knownSince = 11
        let older = views.receive(told)
        #expect(older == nil)
    }
}
