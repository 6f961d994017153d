import NodeFixture
import PresenceNode
import Testing

@testable import PresenceClient

/// Against real nodes, in this process.
@Suite(.serialized, .timeLimit(.minutes(2))) struct NodeTests {
    @Test func aChangeOfAFollowedUserReachesSequenceAndView() async throws {
        let fixture = try await Fixture.start(nodes: 3)
        let ann = try await fixture.client("ann", nodes: [0])
        let bob = try await fixture.client("bob", nodes: [2])
        let changes = ann.onUserStatusChanged
        try await ann.login()
        try await ann.subscribeUserStatus(["bob"])
        try await bob.login()
        let set = try await bob.setSelfStatus("in a meeting")
        let seen = await changes.first { status, _ in status.customStatus == "in a meeting" }
        #expect(seen == set)
        #expect(await ann.status(of: "bob") == set)
        try await bob.logout()
        let last = await changes.first { status, _ in status.userID == "bob" && status.statusType == .unlogined }
        #expect(last != nil)
        try await ann.logout()
        try await fixture.stop()
    }
}
