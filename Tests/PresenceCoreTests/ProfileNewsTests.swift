import PresenceWire
import Testing

@testable import PresenceCore

/// The sessions that are told of a changed profile (P43), and what it costs. Ann and ben are friends with different owners.
@Suite struct ProfileNewsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    let phone: Int
    let browser: Int
    let benPhone: Int

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
        phone = cluster.login(ann, on: 1)
        browser = cluster.login(ann, on: 2, platform: "web")
        benPhone = cluster.login(ben, on: 0)
        set(#"{"friends.autoNotify":false}"#)
        decide(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true), by: ann)
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":\#(settings)}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    private mutating func decide(_ call: ChainCall, by name: String) {
        cluster.call(.chain(call), by: name, on: 2)
        cluster.advance(.milliseconds(100))
    }

    private mutating func setNick(_ nick: String, of name: String, on node: Int = 2) {
        cluster.call(.friendCall(.modifyProfile([.init(name: "Nick", value: .text(nick))])), by: name, on: node)
        cluster.advance(.milliseconds(50))
    }

    /// The versions that a device was told by events, each with its user.
    private func told(_ client: Int) -> [String] {
        cluster.clients[client].events.filter { $0.name == "onUserProfileChanged" }
            .map { "\($0.data["userID"]!.textValue) \($0.data["profileVersion"]!.textValue)" }
    }

    private func newest(of name: String) -> String { "\(name) \(cluster.record(of: name).profileVersion.text)" }

    private func statusCount(_ client: Int) -> Int { cluster.clients[client].events.count { $0.name == "onUserStatusChanged" } }

    @Test("All devices of the user and of its friends are told, and nobody else") mutating func friends() {
        let stranger = cluster.login("stranger", on: 0)
        setNick("Ann", of: ann)
        for client in [phone, browser, benPhone] { #expect(told(client) == [newest(of: ann)]) }
        #expect(told(stranger) == [])
        setNick("Ben", of: ben)
        for client in [phone, browser, benPhone] { #expect(told(client) == [newest(of: ann), newest(of: ben)]) }
    }

    @Test("Followers of the status are told nothing, and no device is told of a status") mutating func noStatus() {
        let follower = cluster.login("cid", on: 2)
        cluster.subscribe("cid", to: [ann], on: 2)
        cluster.advance(.milliseconds(50))
        let clients = [phone, browser, benPhone, follower]
        let before = clients.map(statusCount)
        setNick("Ann", of: ann)
        #expect(clients.map(statusCount) == before && told(follower) == [])
        cluster.setStatus(ann, "here", on: 0)
        #expect(cluster.clients[follower].view[ann]?["customStatus"]?.textValue == "here")
        #expect(cluster.clients[benPhone].view[ann] == nil)
        #expect(cluster.clients[follower].wentBack == 0)
    }

    @Test("With the switch for statuses on, friends are told both") mutating func autoNotify() {
        set(#"{"friends.autoNotify":true}"#)
        setNick("Ann", of: ann)
        cluster.setStatus(ann, "here", on: 0)
        #expect(told(benPhone) == [newest(of: ann)])
        #expect(cluster.clients[benPhone].view[ann]?["customStatus"]?.textValue == "here")
    }

    @Test("A changed profile costs one delta for each watching node, and no row of a friend") mutating func cost() {
        cluster.advance(.seconds(1))
        cluster.heard = []
        setNick("Ann", of: ann)
        let heard = cluster.heard!
        let deltas = heard.filter { if case .delta(let record) = $0.message { record.user == user(ann) } else { false } }
        #expect(deltas.map { [$0.from, $0.to] } == [[0, 1], [0, 2]])
        let rows = heard.flatMap { message -> [Row] in if case .replicate(_, let rows) = message.message { rows } else { [] } }
        #expect(rows.filter { $0.user != user(ann) } == [])
        #expect(Set(rows.map(\.kind)) == [.profile, .status])
    }

    @Test("A friend of a hidden user is told of the profile, and learns nothing of the status") mutating func hidden() {
        cluster.subscribe(ben, to: [ann], on: 0)
        cluster.call(.setVisibility(.init(mode: .nobody)), by: ann, on: 2)
        cluster.advance(.milliseconds(100))
        let (before, view) = (statusCount(benPhone), cluster.clients[benPhone].view[ann])
        setNick("Ann", of: ann)
        cluster.setStatus(ann, "secret", on: 0)
        setNick("Annie", of: ann)
        #expect(told(benPhone).count == 2 && told(benPhone).last == newest(of: ann))
        #expect(statusCount(benPhone) == before && cluster.clients[benPhone].view[ann] == view)
        for node in 0..<3 {
            guard case .userStatusList(let records, _, _) = cluster.call(.getUserStatus([user(ann)]), by: ben, on: node) else {
                Issue.record("no status")
                return
            }
            #expect(records[0]?.statusType == .offline && records[0]?.version.text == view?["version"]?.textValue)
        }
    }

    @Test("A new friend is followed, and a former one is not") mutating func changes() {
        decide(.delete([user(ben)], isTwoWay: true), by: ann)
        setNick("Ann", of: ann)
        let first = newest(of: ann)
        #expect(told(benPhone) == [] && told(phone) == [first])
        decide(.add(user(ann), SentRequest(addTime: 0), isTwoWay: true), by: ben)
        // The profile has changed since the session was opened.
        #expect(told(benPhone) == [first])
        setNick("Annie", of: ann)
        #expect(told(benPhone) == [first, newest(of: ann)])
    }

    @Test("A device whose queue is full is told the newest version once, when it reads again") mutating func blocked() {
        let client = cluster.clients[benPhone]
        cluster.processes[client.node].gateways[0].value.block(client.index, at: cluster.now)
        for nick in ["A", "B", "C"] { setNick(nick, of: ann) }
        setNick("Ben", of: ben)
        #expect(told(benPhone) == [])
        cluster.processes[client.node].gateways[0].value.unblock(client.index)
        cluster.settle()
        #expect(told(benPhone).sorted() == [newest(of: ann), newest(of: ben)].sorted())
    }

    @Test("A client that resumes is told the versions that it has missed, and a new one none", arguments: [0, 1, 2])
    mutating func resumed(node: Int) {
        let others = (0..<2).map { cluster.user(ownedBy: 2, number: $0) }
        for other in others {
            decide(.add(user(other), SentRequest(addTime: 0), isTwoWay: true), by: ben)
            setNick("before", of: other)
        }
        cluster.advance(.seconds(1))
        setNick("Ben", of: ben)
        let position = cluster.clients[benPhone].lastEventID
        cluster.lose(benPhone)
        cluster.advance(.seconds(1))
        setNick("Ann", of: ann)
        setNick("after", of: others[1])
        cluster.advance(.seconds(15), step: .milliseconds(500))
        let again = cluster.login(ben, on: node, platform: "web", resumeFrom: position)
        cluster.advance(.milliseconds(100))
        #expect(told(again).sorted() == [newest(of: ann), newest(of: others[1])].sorted())
        cluster.advance(.seconds(60), step: .milliseconds(500))
        let new = cluster.login(ben, on: node, platform: "pad")
        cluster.advance(.milliseconds(100))
        #expect(told(new) == [])
    }

    @Test("A new client is told no profile that has changed just before, and each one that changes afterwards", arguments: [0, 1, 2])
    mutating func changedJustBefore(node: Int) {
        setNick("Ann", of: ann)
        let new = cluster.login(ben, on: node, platform: "pad")
        cluster.advance(.milliseconds(100))
        #expect(told(new) == [])
        setNick("Annie", of: ann)
        #expect(told(new) == [newest(of: ann)])
    }

    /// Both sides of a split may have changed the profile. A list of the one side would stay older than one of the other for good.
    @Test("The list of all followed users gets a newer version by a friend, and none by a profile") mutating func listVersion() {
        let owner = cluster.ownerIndex(of: ann)
        let before = cluster.processes[owner].node.owner.list(of: user(ann)).version
        setNick("Ann", of: ann)
        #expect(cluster.processes[owner].node.owner.list(of: user(ann)).version == before)
        decide(.add(user("dora"), SentRequest(addTime: 0), isTwoWay: true), by: ann)
        #expect(cluster.processes[owner].node.owner.list(of: user(ann)).version > before)
    }

    @Test("Each login is told the version of the own profile") mutating func login() {
        setNick("Ann", of: ann)
        let tablet = cluster.login(ann, on: 0, platform: "tablet")
        cluster.advance(.milliseconds(100))
        let state = cluster.clients[tablet].events.first { $0.name == "onRelationshipState" }
        #expect(state?.data["profileVersion"]?.textValue == cluster.record(of: ann).profileVersion.text)
        #expect(told(tablet) == [])
    }

    @Test("A node that misses a changed profile on a broken link learns of it on the next link") mutating func lost() {
        cluster.losing = [(1, 0)]
        setNick("Ben", of: ben)
        cluster.unlink(1, 0)
        cluster.losing = []
        cluster.link(1, 0)
        cluster.advance(.seconds(3))
        #expect(told(benPhone) == [newest(of: ben)])
    }

    @Test("The sessions are told of later changes after the owners of both have changed") mutating func owners() {
        let other = cluster.login(ben, on: 2, platform: "web")
        cluster.kill(1)
        cluster.advance(.seconds(8))
        setNick("Ann", of: ann)
        #expect(told(other) == [newest(of: ann)])
        setNick("Ben", of: ben)
        #expect(told(other) == [newest(of: ann), newest(of: ben)] && told(browser) == [newest(of: ann), newest(of: ben)])
    }

    @Test("Apps without the relationship chain are told nothing") mutating func off() {
        set(#"{"chain.enabled":false}"#)
        setNick("Ann", of: ann)
        for client in [phone, benPhone] { #expect(told(client) == []) }
    }

    @Test("The gateways keep their invariants, and drop the profiles of sessions that have closed") mutating func closed() {
        setNick("Ann", of: ann)
        cluster.processes[0].gateways[0].value.checkInvariants()
        cluster.close(benPhone, .loggedOut)
        cluster.processes[0].gateways[0].value.checkInvariants()
        #expect(cluster.processes[0].gateways[0].value.usersCount == 0)
    }
}
