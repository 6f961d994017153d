import PresenceWire
import Testing

@testable import PresenceCore

/// A query that waits for one owner while a user of another one hides.
extension VisibilityTests {
    enum Place: CaseIterable {
        /// The node that answers the query owns the user who hides.
        case owned
        /// The node watches that user.
        case watched
        /// The node has asked that user's owner, which has answered.
        case fetched
    }

    @Test(
        "A query that waited while a user hid shows what the user shows now, whether it waits to its deadline or not",
        arguments: Place.allCases, [true, false])
    mutating func waitingQuery(place: Place, isAnswered: Bool) throws {
        let ann = cluster.user(ownedBy: place == .owned ? 0 : 1)
        let other = cluster.user(ownedBy: 2)
        cluster.login(ann, on: 1, customStatus: "here")
        cluster.login(other, on: 1)
        if place == .watched {
            cluster.login("follower", on: 0)
            cluster.subscribe("follower", to: [ann], on: 0)
        }
        cluster.losing = [(0, 2)]
        let viewer = "viewer"
        #expect(cluster.call(.getUserStatus([user(ann), user(other)]), by: viewer, on: 0) == nil, "the query waits")
        let answers = cluster.processes[0].answers
        cluster.losing = []
        // The other owner has taken the request, and does not answer it.
        let peer = try #require(cluster.processes[0].node.cluster.peerIndex(cluster.processes[2].node.cluster.own.id))
        cluster.processes[0].node.acknowledged(by: peer, at: cluster.now)
        let shown = ShownVisibility(visibility: Visibility().changed(by: .init(mode: .nobody)))
        #expect(hide(ann, .init(mode: .nobody), on: 1)?.shown == shown)
        if isAnswered {
            cluster.unlink(0, 2)
            cluster.link(0, 2)
        }
        cluster.advance(.seconds(6))
        // order does not matter: the query is the only call of this node without an answer then.
        let late = cluster.processes[0].answers.filter { answers[$0.key] == nil }.map(\.value)
        guard case .userStatusList(let records, _, _)? = late.first, late.count == 1 else {
            return #expect(Bool(false), "the query has the answers \(late)")
        }
        #expect(records[0]?.statusType == .offline)
        #expect(records[0]?.customStatus == "")
        #expect((records[1]?.statusType == .online) == isAnswered)
    }
}
