import PresenceWire
import Testing

@testable import PresenceCore

/// A member that was declared dead may only be cut off, and show a user who has hidden meanwhile.
extension VisibilityTests {
    private static let hidden = Visibility().changed(by: .init(mode: .nobody))

    /// The time after the death of a single member in which it may go on, with the default settings: isolation, takeover and grace.
    private static let cutOffMax = Membership.Settings().isolationMax + CoreSettings().takeoverTimeout + CoreSettings().reconnectGrace

    /// Blocks all links to and from a node.
    private mutating func cutOff(_ node: Int) {
        for other in 0..<3 where other != node { cluster.losing += [(node, other), (other, node)] }
    }

    /// Two nodes declare the third one dead, which goes on.
    private mutating func declareDead(_ node: Int) {
        let dead = cluster.processes[node].node.cluster.own
        for index in 0..<3 where index != node {
            cluster.processes[index].node.unlinked(from: dead.id, evidence: .refused(generation: dead.generation), at: cluster.now)
        }
        cluster.settle()
    }

    private func answer(_ remnant: Remnant) -> ShownVisibility { ShownVisibility(visibility: Self.hidden, remnant: remnant) }

    @Test("An answer names no time while all members are alive, and after the death of one it names 19 s from there")
    mutating func mayBeSeenUntil() {
        #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.none))
        cutOff(2)
        declareDead(2)
        let end = cluster.now.wall + Self.cutOffMax.wholeMilliseconds
        #expect(Self.cutOffMax == .seconds(19))
        for _ in 0..<2 {
            cluster.advance(.seconds(4))
            #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.until(end)))
        }
        #expect(cluster.call(.getVisibility, by: "ann", on: 0)?.shown == answer(.none), "a question changes nothing")
        while cluster.now.wall < end - 100 { cluster.advance(.milliseconds(50)) }
        #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.until(end)))
        cluster.advance(.milliseconds(100))
        #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.none))
    }

    @Test("The time ends at the millisecond at which the member is done") func lastMillisecond() {
        var cluster = Cluster(
            own: MembershipTests.peer("a"), name: "test", gatewaysCount: 1, joins: false, settings: CoreSettings())
        var now = Now(instant: Instant(nanoseconds: 1_000_000_000), wall: 1_000_000)
        cluster.membership.learn(MembershipTests.peer("b"), at: now)
        #expect(cluster.mayBeSeenUntil(at: now) == 1_019_000)
        now.instant += Self.cutOffMax - .milliseconds(1)
        now.wall += 18_999
        #expect(cluster.mayBeSeenUntil(at: now) == 1_019_000)
        now.instant += .milliseconds(1)
        now.wall += 1
        #expect(cluster.mayBeSeenUntil(at: now) == nil)
    }

    @Test("An answer names no time if vendor push reaches the user") mutating func reachableByPush() {
        var settings = CoreSettings()
        settings.policy.pushReachableStaysOnline = true
        cluster = TestCluster(nodes: 3, settings: settings)
        cluster.login("ann", on: 0, device: "phone", isPushReachable: true)
        #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.none))
        cutOff(2)
        declareDead(2)
        #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.whileCutOff))
        guard case .owner(.visibility(_, .until))? = hide("ben", .init(mode: .nobody)) else {
            return #expect(Bool(false), "a user whom it does not reach")
        }
    }

    /// All records that are hidden in one millisecond have the same version.
    @Test("Each of two users who hide in one moment has the answer that its own devices call for") mutating func twoInOneMoment() {
        var settings = CoreSettings()
        settings.policy.pushReachableStaysOnline = true
        cluster = TestCluster(nodes: 3, settings: settings)
        let users = [cluster.user(ownedBy: 1, number: 0), cluster.user(ownedBy: 1, number: 1)]
        cluster.login(users[0], on: 1)
        cluster.login(users[1], on: 1, device: "phone", isPushReachable: true)
        cutOff(2)
        declareDead(2)
        for (token, name) in users.enumerated() {
            cluster.processes[1].node.perform(
                .setVisibility(.init(mode: .nobody)), caller: user(name), gateway: 0, token: UInt64(1_000 + token), at: cluster.now)
        }
        cluster.settle()
        cluster.endHides()
        let answers = cluster.processes[1].answers
        guard case .owner(.visibility(_, .until))? = answers[1_000] else { return #expect(Bool(false), "a user whom push does not reach") }
        #expect(answers[1_001]?.shown == answer(.whileCutOff))
    }

    @Test("A member that has left, or was removed by an operator, shows nobody anything") mutating func leftMember() {
        cluster.leave(2)
        cluster.advance(.seconds(1))
        #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.none))
        cluster.kill(1)
        let removal = cluster.processes[0].node.removeMember(cluster.processes[1].node.cluster.own.id, at: cluster.now)
        #expect(removal == .removed)
        #expect(hide("ann", .init(mode: .nobody))?.shown == answer(.none))
    }

    @Test("A node that is cut off shows a user who has hidden until the named time, and not later") mutating func cutOffNode() throws {
        let ann = cluster.user(ownedBy: 0)
        cluster.login(ann, on: 0)
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: [ann], on: 2)
        cutOff(2)
        declareDead(2)
        guard case .owner(.visibility(_, .until(let end))) = try #require(hide(ann, .init(mode: .nobody))) else {
            return #expect(Bool(false), "no time")
        }
        #expect(cluster.statuses(told: bob, of: ann) == ["ONLINE"])
        while cluster.now.wall < end { cluster.advance(.milliseconds(50)) }
        #expect(cluster.statuses(told: bob, of: ann).last == "OFFLINE")
        #expect(status(of: ann, to: "bob", on: 2)?.statusType == .offline)
    }

    @Test(
        "The time is a number in JSON, null for a time that nobody knows, and absent without a dead member",
        arguments: [
            (.none, ""), (.until(1_790_000_000_000), #","mayBeSeenUntil":1790000000000"#), (.whileCutOff, #","mayBeSeenUntil":null"#),
        ] as [(Remnant, String)])
    func json(remnant: Remnant, member: String) throws {
        var json = JSONWriter()
        let privacy = try #require(
            Privacy(visibility: Self.hidden, writtenAt: .zero, version: .zero, contents: [], named: [], others: nil))
        let answer = CallAnswer.owner(.visibility(privacy, remnant: remnant))
        try API.write(answer, to: .setVisibility, of: user("ann"), errors: [], policy: SharedPolicy(Policy()), into: &json)
        #expect(String(decoding: json.bytes, as: UTF8.self) == #"{"visibility":"nobody","userIDs":[],"invisible":false"# + member + "}")
    }
}
