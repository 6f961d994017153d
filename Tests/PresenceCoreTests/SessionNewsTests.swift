import PresenceWire
import Testing

@testable import PresenceCore

/// `onSessionsChanged` and `getSessions`: the sessions of a user are told to the user's own devices.
@Suite struct SessionNewsTests {
    var cluster = TestCluster(nodes: 3)

    /// The sessions that a stream was told, event by event, by their clients in order.
    private func told(_ client: Int) -> [[Int]] {
        cluster.clients[client].events.filter { $0.name == "onSessionsChanged" }.map { event in
            event.data["sessions"]!.elements.map { session in
                cluster.clients.firstIndex { $0.session.description == session["sessionID"]?.textValue } ?? -1
            }.sorted()
        }
    }

    private mutating func settle() { cluster.advance(.milliseconds(100)) }

    @Test("A user with one session is told nothing of it, from the login to the end") mutating func alone() {
        let phone = cluster.login("ann", on: 0)
        cluster.setStatus("ann", "busy", on: 1)
        cluster.advance(.seconds(20))
        #expect(told(phone) == [])
    }

    @Test("A login and a logout are told to all sessions of the user, on whichever nodes, and to nobody else")
    mutating func loginAndLogout() {
        let phone = cluster.login("ann", on: 0, device: "p")
        let bob = cluster.login("bob", on: 0)
        cluster.subscribe("bob", to: ["ann"], on: 0)
        let web = cluster.login("ann", on: 1, platform: "web", device: "w")
        settle()
        let pad = cluster.login("ann", on: 2, platform: "pad")
        settle()
        #expect(told(phone) == [[phone, web], [phone, web, pad]])
        #expect(told(web) == [[phone, web], [phone, web, pad]])
        #expect(told(pad) == [[phone, web, pad]])
        cluster.close(web, .loggedOut)
        settle()
        #expect(told(phone).last == [phone, pad] && told(pad).last == [phone, pad] && told(web).count == 2)
        cluster.call(.logout(cluster.clients[pad].session), by: "ann", on: 1)
        settle()
        #expect(told(phone).last == [phone] && told(phone).count == 4)
        #expect(told(bob) == [])
        let session = cluster.clients[phone].events.last { $0.name == "onSessionsChanged" }!.data["sessions"]!.elements[0]
        #expect(session["platform"]?.textValue == "ios" && session["deviceID"]?.textValue == "p" && session["since"]!.number > 0)
    }

    @Test("A lost session is told at once, and its return within the grace as well") mutating func loss() {
        let phone = cluster.login("ann", on: 0, device: "p")
        let web = cluster.login("ann", on: 1, platform: "web", device: "w")
        settle()
        cluster.lose(web)
        settle()
        #expect(told(phone) == [[phone, web], [phone]])
        let again = cluster.login("ann", on: 2, platform: "web", device: "w")
        settle()
        #expect(told(phone).last == [phone, again] && told(again) == [[phone, again]])
        cluster.advance(.seconds(20))
        #expect(told(phone).count == 3)
    }

    @Test("Changes between two ticks make one event, and a login that replaces a session as well") mutating func coalesced() {
        let phone = cluster.login("ann", on: 0)
        let web = cluster.login("ann", on: 1, platform: "web", device: "w")
        let pad = cluster.login("ann", on: 2, platform: "pad")
        settle()
        #expect(told(phone) == [[phone, web, pad]])
        let other = cluster.login("ann", on: 2, platform: "web", device: "w")
        settle()
        #expect(told(phone) == [[phone, web, pad], [phone, pad, other]])
        #expect(!cluster.clients[web].isOpen)
        cluster.call(.kick(reason: "banned"), by: "ann", on: 1)
        settle()
        #expect(told(phone).count == 2)
    }

    @Test(
        "The death of the owner's node tells nothing new, and that of a session's node the end of its sessions", arguments: [true, false])
    mutating func nodeDies(hostsSession: Bool) {
        let ann = cluster.user(ownedBy: 0)
        let phone = cluster.login(ann, on: 1)
        let web = cluster.login(ann, on: hostsSession ? 0 : 2, platform: "web")
        settle()
        cluster.kill(0)
        cluster.advance(.seconds(30))
        #expect(told(phone) == (hostsSession ? [[phone, web], [phone]] : [[phone, web]]))
        let pad = cluster.login(ann, on: 2, platform: "pad")
        settle()
        #expect(told(phone).last == (hostsSession ? [phone, pad] : [phone, web, pad]))
        #expect(told(pad) == [hostsSession ? [phone, pad] : [phone, web, pad]])
    }

    @Test("A message that a broken link has lost is made good when the link is back") mutating func lostMessage() {
        let ann = cluster.user(ownedBy: 0)
        let phone = cluster.login(ann, on: 1)
        let web = cluster.login(ann, on: 2, platform: "web")
        settle()
        cluster.losing = [(0, 1)]
        cluster.close(web, .loggedOut)
        settle()
        #expect(told(phone) == [[phone, web]])
        cluster.losing = []
        cluster.link(0, 1)
        cluster.link(1, 0)
        cluster.advance(.seconds(2))
        #expect(told(phone) == [[phone, web], [phone]])
    }

    @Test("A blocked stream is told the newest sessions alone, when its queue has room") mutating func blocked() {
        let phone = cluster.login("ann", on: 0)
        cluster.processes[0].gateways[0].value.block(cluster.clients[phone].index, at: cluster.now)
        let web = cluster.login("ann", on: 1, platform: "web")
        settle()
        cluster.close(web, .loggedOut)
        let pad = cluster.login("ann", on: 2, platform: "pad")
        settle()
        #expect(told(phone) == [])
        cluster.processes[0].gateways[0].value.unblock(cluster.clients[phone].index)
        cluster.settle()
        #expect(told(phone) == [[phone, pad]])
    }

    @Test("getSessions answers the open sessions with their nodes at any node, and names the calling one") mutating func getSessions() {
        let phone = cluster.login("ann", on: 0, device: "p")
        settle()
        let web = cluster.login("ann", on: 1, platform: "web")
        settle()
        let lost = cluster.login("ann", on: 2, platform: "pad")
        cluster.lose(lost)
        settle()
        let call = Call.owner(.sessions([user("ann")]))
        for node in 0..<3 {
            let session = cluster.clients[phone].session
            cluster.call(call, by: "ann", on: node, originSession: .session(session))
            guard case .ownSessions(let sessions, let current) = cluster.lastAnswer(on: node) else {
                Issue.record("\(String(describing: cluster.lastAnswer(on: node)))")
                continue
            }
            #expect(sessions.map(\.id) == [phone, web].map { cluster.clients[$0].session } && current == session)
            #expect(sessions.map(\.node) == ["node-0", "node-1"] && sessions.map(\.deviceID) == ["p", ""])
        }
        cluster.call(.owner(.sessions([user("nobody")])), by: "nobody", on: 0)
        settle()
        #expect(cluster.lastAnswer(on: 0) == .ownSessions([], current: nil))
    }
}
