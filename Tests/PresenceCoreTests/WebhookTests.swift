import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// Webhooks: the events, their order, their repetition, and what the death of a node changes.
@Suite struct WebhookTests {
    private static func cluster(_ change: (inout Policy) -> Void = { _ in }) -> TestCluster {
        var settings = CoreSettings()
        settings.policy.webhook.url = "https://app.example.com/rollcall"
        settings.policy.webhook.secret = "0123456789abcdef"
        change(&settings.policy)
        return TestCluster(nodes: 3, settings: settings)
    }

    var cluster = WebhookTests.cluster()

    @Test("X2 Each state change is one event, in order, with the status after it") mutating func actions() {
        let phone = cluster.login("ann", on: 0)
        cluster.setStatus("ann", "busy", on: 0)
        let web = cluster.login("ann", on: 1, platform: "web", device: "desk")
        cluster.close(phone, .loggedOut)
        cluster.advance(.milliseconds(100))
        cluster.lose(web)
        cluster.advance(.seconds(3))
        cluster.call(.kick(reason: "banned"), by: "ann", on: 2)
        cluster.advance(.milliseconds(600))
        let events = cluster.webhooks.events
        #expect(events.map(\.action) == ["Login", "CustomStatus", "Login", "Logout", "Disconnect", "Kick"])
        #expect(events.map { $0.json["platform"]?.textValue } == ["ios", nil, "web", "ios", "web", nil])
        let ids = [phone, web].map { cluster.clients[$0].session.description }
        #expect(events.map { $0.json["sessionID"]?.textValue } == [ids[0], nil, ids[1], ids[0], ids[1], nil])
        #expect(events.map { $0.json["deviceID"]?.textValue } == ["", nil, "desk", "", "desk", nil])
        #expect(events.map { $0.json["reason"]?.textValue } == [nil, nil, nil, nil, "LinkClose", nil])
        #expect(
            events.map { $0.json["userStatus"]!["statusType"]!.textValue } == [
                "ONLINE", "ONLINE", "ONLINE", "ONLINE", "OFFLINE", "OFFLINE",
            ])
        #expect(events[1].json["userStatus"]!["customStatus"] == .string("busy"))
        #expect(events.map(\.version) == events.map(\.version).sorted() && Set(events.map(\.version)).count == 6)
        #expect(cluster.webhooks.attempts.allSatisfy { $0.delivery.url == "https://app.example.com/rollcall" })
    }

    @Test("X2 A silent client's end is a disconnect with reason TimeOut") mutating func timeOut() {
        let ann = cluster.login("ann", on: 0)
        let detach = Detach(
            session: cluster.clients[ann].session, user: UserID(app: "default", id: "ann"), cause: .lost, silence: 400_000)
        cluster.processes[0].node.receive(.close(detach), from: 0, at: cluster.now)
        cluster.settle()
        cluster.advance(.seconds(3))
        #expect(cluster.webhooks.actions(of: "ann") == ["Login", "Disconnect"])
        #expect(cluster.webhooks.events.last?.json["reason"] == .string("TimeOut"))
    }

    @Test("A session whose token has ended ends with TokenExpired, after the grace") mutating func tokenExpired() {
        let ann = cluster.login("ann", on: 0)
        cluster.close(ann, .tokenExpired)
        cluster.advance(.milliseconds(600))
        #expect(cluster.webhooks.actions(of: "ann") == ["Login"])
        cluster.advance(.seconds(3))
        #expect(cluster.webhooks.actions(of: "ann") == ["Login", "TokenExpired"])
        #expect(cluster.webhooks.events.last?.json["userStatus"]?["statusType"] == .string("OFFLINE"))
    }

    @Test("X4 A login that replaces a session, or brings a lost device back, ends the older one as Replaced", arguments: [true, false])
    func replaced(isEvicted: Bool) {
        var cluster = Self.cluster { $0.multiClient = isEvicted ? .single : .all }
        let first = cluster.login("ann", on: 0, device: "phone")
        if !isEvicted { cluster.lose(first) }
        cluster.advance(.milliseconds(600))
        cluster.login("ann", on: 1, device: "phone")
        cluster.advance(.seconds(5))
        #expect(cluster.webhooks.actions(of: "ann") == ["Login", "Replaced", "Login"])
    }

    @Test("The first change is delivered at once, and those of the next 500 ms go together") mutating func spacing() {
        let ann = cluster.user(ownedBy: 0)
        let start = cluster.now.instant
        for number in 0..<10 {
            cluster.setStatus(ann, "\(number)", on: 0)
            cluster.advance(.milliseconds(20), step: .milliseconds(20))
        }
        cluster.advance(.milliseconds(600))
        let attempts = cluster.webhooks.attempts
        #expect(attempts.count <= 3 && cluster.webhooks.events.count == 10)
        #expect(attempts[0].at.instant <= start + .milliseconds(50))
        #expect(zip(attempts, attempts.dropFirst()).allSatisfy { $0.at.instant + Webhooks.spacing <= $1.at.instant })
    }

    @Test("A full delivery does not wait for the others' 500 ms") mutating func fullQueue() {
        let users = (0..<1_200).map { cluster.user(ownedBy: 0, number: $0) }
        cluster.setStatus(users[0], "first", on: 0)
        for user in users { cluster.setStatus(user, "busy", on: 0) }
        cluster.advance(.milliseconds(100))
        let queues = Dictionary(grouping: cluster.webhooks.attempts, by: \.delivery.queue).mapValues(\.count)
        #expect(queues.count == Webhooks.queuesCount && queues.values.allSatisfy { $0 >= 2 }, "deliveries of each queue: \(queues)")
    }

    @Test("A receiver that fails gets the same delivery again, after pauses that double") mutating func retries() {
        cluster.webhooks.mode = .fails
        cluster.login("ann", on: 0)
        cluster.advance(.seconds(40))
        let attempts = cluster.webhooks.attempts
        #expect(attempts.count >= 5 && Set(attempts.map(\.delivery.id)).count == 1)
        #expect(attempts.allSatisfy { $0.delivery.body == attempts[0].delivery.body })
        for (index, (earlier, later)) in zip(attempts, attempts.dropFirst()).enumerated() {
            let pause = Double((later.at.instant - earlier.at.instant).wholeMilliseconds) / 1_000
            let nominal = Double(1 << index)
            #expect(pause >= nominal * 0.8 && pause <= nominal * 1.2 + 0.1, "\(pause) s after failure \(index + 1)")
        }
        cluster.webhooks.mode = .accepts
        cluster.advance(.seconds(60))
        #expect(cluster.webhooks.actions(of: "ann") == ["Login"] && cluster.webhooks.events.count == 1)
    }

    @Test("An open circuit tries one delivery at a time, and a success closes it") mutating func circuit() {
        let users = (0..<40).map { cluster.user(ownedBy: 0, number: $0) }
        cluster.webhooks.mode = .fails
        for user in users { cluster.login(user, on: 1) }
        cluster.advance(.seconds(60))
        #expect(cluster.processes[0].node.statistics.webhooks.circuitsOpen == 1)
        let before = cluster.webhooks.attempts.count
        cluster.advance(.seconds(60))
        let tried = cluster.webhooks.attempts[before...]
        #expect((1...3).contains(tried.count) && Set(tried.map(\.delivery.queue)).count == 1)
        cluster.webhooks.mode = .accepts
        cluster.advance(.seconds(80))
        #expect(cluster.processes[0].node.statistics.webhooks.circuitsOpen == 0)
        #expect(users.allSatisfy { cluster.webhooks.actions(of: $0) == ["Login"] })
    }

    @Test("After 24 h an event is a dead letter, and later events are delivered") mutating func deadLetters() {
        let ann = cluster.user(ownedBy: 0)
        cluster.webhooks.mode = .fails
        cluster.login(ann, on: 1)
        cluster.advance(.seconds(1))
        cluster.advance(.seconds(86_400), step: .seconds(86_390))
        cluster.advance(.seconds(70))
        #expect(cluster.processes[0].node.statistics.owner.webhookEventsExpired == 1)
        cluster.webhooks.mode = .accepts
        cluster.setStatus(ann, "back", on: 1)
        cluster.advance(.seconds(70))
        #expect(cluster.webhooks.first(of: ann).last?.action == "CustomStatus" && !cluster.webhooks.actions(of: ann).contains("Login"))
    }

    @Test("After 24 h the later events of a delivery are delivered, although its oldest has become a dead letter")
    mutating func laterEvents() {
        let ann = cluster.user(ownedBy: 0)
        let since = cluster.now.wall
        cluster.login(ann, on: 1)
        cluster.advance(.seconds(1))
        cluster.advance(.seconds(36_000), step: .seconds(35_990))
        cluster.setStatus(ann, "later", on: 1)
        cluster.advance(.seconds(1))
        #expect(cluster.webhooks.actions(of: ann) == ["Login", "CustomStatus"])
        // Both are one delivery now.
        cluster.webhooks.mode = .fails
        cluster.call(.replayWebhooks(since: since), by: "admin", on: 0)
        cluster.advance(.seconds(1))
        cluster.advance(.seconds(50_400), step: .seconds(50_390))
        cluster.advance(.seconds(70))
        cluster.webhooks.mode = .accepts
        cluster.advance(.seconds(70))
        #expect(cluster.webhooks.events.map(\.action) == ["Login", "CustomStatus", "CustomStatus"])
    }

    @Test("Beyond 100 waiting events of a user the oldest are dead letters, and the newest arrive in order") mutating func bound() {
        let ann = cluster.user(ownedBy: 0)
        cluster.webhooks.mode = .fails
        for number in 0..<130 { cluster.setStatus(ann, "\(number)", on: 1) }
        cluster.advance(.seconds(1))
        #expect(cluster.processes[0].node.statistics.owner.webhookEventsDropped == 30)
        cluster.webhooks.mode = .accepts
        cluster.advance(.seconds(70))
        let texts = cluster.webhooks.first(of: ann).map { $0.json["userStatus"]!["customStatus"]!.textValue }
        #expect(texts.suffix(100) == (30..<130).map { "\($0)" }[...])
    }

    @Test("Beyond the bounds of an app and of a node each user keeps its newest event, and no event that was accepted counts")
    func backlog() {
        for isOfNode in [false, true] {
            var cluster = Self.cluster()
            let limit = isOfNode ? \WebhookBacklog.nodeBytesMax : \WebhookBacklog.appBytesMax
            cluster.processes[0].node.machines.owner.configure { $1[keyPath: limit] = 6_000 }
            let users = (0..<40).map { cluster.user(ownedBy: 0, number: $0) }
            cluster.webhooks.mode = .fails
            for number in 0..<5 {
                for user in users { cluster.setStatus(user, "\(number)", on: 1) }
            }
            cluster.advance(.seconds(1))
            let (webhooks, owner) = (cluster.processes[0].node.statistics.webhooks, cluster.processes[0].node.statistics.owner)
            #expect(owner.webhookEventsBeyondBacklog > 100 && owner.webhookEventsDropped == 0)
            #expect(webhooks.usersWaiting == 40 && webhooks.bytesWaiting < 6_000 + 40 * 600)
            cluster.webhooks.mode = .accepts
            cluster.advance(.seconds(70))
            let last = users.map { cluster.webhooks.first(of: $0).last?.json["userStatus"]?["customStatus"] }
            #expect(last.allSatisfy { $0 == .string("4") })
            let after = cluster.processes[0].node.statistics.webhooks
            #expect(after.usersWaiting == 0 && after.bytesWaiting == 0)
        }
    }

    @Test("A user waits until its delivery is accepted, and a new owner counts it") mutating func waitingUsers() {
        let ann = cluster.user(ownedBy: 0)
        cluster.webhooks.mode = .isSilent
        cluster.setStatus(ann, "busy", on: 1)
        cluster.advance(.seconds(1))
        #expect(cluster.processes[0].node.statistics.webhooks.usersWaiting == 1)
        #expect((1...2).allSatisfy { cluster.processes[$0].node.statistics.webhooks.usersWaiting == 0 })
        cluster.kill(0)
        cluster.advance(.seconds(5))
        #expect((1...2).map { cluster.processes[$0].node.statistics.webhooks.usersWaiting }.reduce(0, +) == 1)
    }

    @Test("A new URL is tried at once, although the old one has failed often") mutating func newURL() {
        let ann = cluster.user(ownedBy: 0)
        cluster.webhooks.mode = .fails
        cluster.setStatus(ann, "busy", on: 1)
        cluster.advance(.seconds(200))
        cluster.webhooks.mode = .accepts
        let policy = #"{"settings":{"webhook.url":"https://new.example/x","webhook.secret":"0123456789abcdef"}}"#
        cluster.call(.setAppPolicy(Array(policy.utf8)), by: "admin", on: 1)
        cluster.advance(.seconds(1))
        #expect(cluster.webhooks.actions(of: ann) == ["CustomStatus"])
        #expect(cluster.webhooks.attempts.last?.delivery.url == "https://new.example/x")
    }

    @Test("The next owner delivers what its predecessor could not, and announces no login twice") mutating func ownerDies() {
        let ann = cluster.user(ownedBy: 0)
        cluster.webhooks.mode = .fails
        let client = cluster.login(ann, on: 1)
        #expect(cluster.setStatus(ann, "busy", on: 1) != nil)
        cluster.kill(0)
        cluster.webhooks.mode = .accepts
        cluster.advance(.seconds(20))
        #expect(cluster.webhooks.actions(of: ann) == ["Login", "CustomStatus"])
        cluster.lose(client)
        cluster.advance(.seconds(5))
        #expect(cluster.webhooks.actions(of: ann) == ["Login", "CustomStatus", "Disconnect"])
    }

    @Test("A session whose gateway and owner die together ends with a disconnect") mutating func gatewayDies() {
        let ann = cluster.user(ownedBy: 0)
        cluster.login(ann, on: 0)
        cluster.advance(.milliseconds(200))
        cluster.kill(0)
        cluster.advance(.seconds(20))
        #expect(cluster.webhooks.actions(of: ann) == ["Login", "Disconnect"])
    }

    @Test("Sessions that are open when the webhook is switched on are not announced, and their ends are") func switchedOn() {
        var cluster = TestCluster(nodes: 3)
        let client = cluster.login("ann", on: 0)
        let policy = #"{"settings":{"webhook.url":"https://a.example/x","webhook.secret":"0123456789abcdef"}}"#
        cluster.call(.setAppPolicy(Array(policy.utf8)), by: "admin", on: 1)
        cluster.advance(.milliseconds(600))
        cluster.setStatus("ann", "busy", on: 0)
        cluster.close(client, .loggedOut)
        cluster.advance(.milliseconds(600))
        #expect(cluster.webhooks.actions(of: "ann") == ["CustomStatus", "Logout"])
    }

    @Test("A replay delivers the kept events since a time again, with their versions") mutating func replay() {
        cluster.login("ann", on: 0)
        cluster.advance(.seconds(5))
        let since = cluster.now.wall
        for number in 0..<2 { cluster.setStatus("ann", "\(number)", on: 0) }
        cluster.advance(.milliseconds(600))
        let delivered = cluster.webhooks.events
        cluster.call(.replayWebhooks(since: since), by: "admin", on: 1)
        cluster.advance(.milliseconds(600))
        #expect(cluster.lastAnswer(on: 1) == .owner(.replayed(eventsCount: 2, isComplete: true)))
        #expect(cluster.webhooks.events == delivered + delivered.suffix(2))
        for number in 2..<8 { cluster.setStatus("ann", "\(number)", on: 0) }
        cluster.advance(.milliseconds(600))
        cluster.call(.replayWebhooks(since: since), by: "admin", on: 1)
        cluster.advance(.milliseconds(600))
        #expect(cluster.lastAnswer(on: 1) == .owner(.replayed(eventsCount: UInt64(WebhookLog.deliveredMax), isComplete: false)))
    }

    @Test("Friends and profiles are told if they are switched on") func friendsAndProfiles() {
        var cluster = Self.cluster { $0.webhook.events = [.friends, .profile] }
        cluster.login("ann", on: 0)
        let nick = Profile.Change(name: Profile.Standard.nick.rawValue, value: .bytes(Array("Ann".utf8)))
        cluster.call(.friendCall(.modifyProfile([nick])), by: "ann", on: 0)
        cluster.advance(.milliseconds(600))
        let ben = UserID(app: "default", id: "ben")
        cluster.call(.chain(.add(ben, SentRequest(addTime: 0), isTwoWay: true)), by: "ann", on: 0)
        cluster.advance(.milliseconds(600))
        #expect(cluster.webhooks.actions(of: "ann") == ["ProfileChanged", "onFriendListAdded"])
        #expect(cluster.webhooks.actions(of: "ben") == ["onFriendListAdded"])
        #expect(cluster.webhooks.events.last { $0.user == "ben" }?.json["data"]?["friendList"]?.elements.first?["userID"] == .string("ann"))
    }

    /// Each run draws its own faults. Events that the receiver has taken count, also if its answer was lost.
    @Test(
        "No acknowledged change is lost and the order holds, while nodes die and the receiver fails",
        arguments: 1...5 as ClosedRange<UInt64>)
    func random(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        var cluster = Self.cluster()
        var acknowledged: [String: [String]] = [:]
        var dead: Int?
        for step in 0..<300 {
            let user = "user\(random.next() % 8)"
            let nodes = (0..<3).filter { $0 != dead }
            let node = nodes[Int(random.next() % UInt64(nodes.count))]
            switch random.next() % 40 {
            case 0 where dead == nil:
                cluster.kill(node)
                dead = node
            case 1, 2:
                if let index = dead { try cluster.restart(index, settings: cluster.settings) }
                dead = nil
            case 3: cluster.webhooks.mode = .fails
            case 4: cluster.webhooks.mode = .takesAndFails
            case 5: cluster.webhooks.mode = .isSilent
            case 6, 7, 8: cluster.webhooks.mode = .accepts
            case 9...12: cluster.login(user, on: node)
            case 13...15: if let open = cluster.clients.lastIndex(where: { $0.isOpen && $0.user == user }) { cluster.lose(open) }
            case 16...30:
                let text = "\(user)-\(step)"
                let before = cluster.setStatus(user, text, on: node)
                cluster.advance(.milliseconds(100))
                if case .owner(.record(let record)) = before ?? cluster.lastAnswer(on: node), record.customStatus == text {
                    acknowledged[user, default: []].append(text)
                }
            default: cluster.advance(.milliseconds(Int(random.next() % 3_000)))
            }
        }
        if let index = dead { try cluster.restart(index, settings: cluster.settings) }
        cluster.webhooks.mode = .accepts
        cluster.advance(.seconds(90))
        #expect(acknowledged.values.reduce(0) { $0 + $1.count } > 50)
        for (user, texts) in acknowledged {
            let received = cluster.webhooks.first(of: user)
            let custom = received.compactMap { $0.json["userStatus"]?["customStatus"]?.textValue }
            #expect(Set(texts).subtracting(custom).isEmpty, "lost of \(user): \(Set(texts).subtracting(custom).sorted())")
            #expect(received.map(\.version) == received.map(\.version).sorted(), "the order of \(user)")
        }
        for client in cluster.clients where client.isOpen {
            #expect(cluster.webhooks.actions(of: client.user).contains("Login"))
        }
    }
}
