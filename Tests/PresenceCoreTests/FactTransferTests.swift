import PresenceWire
import Testing

@testable import PresenceCore

/// Facts that leave a cluster and come into one, and all that a cluster holds about a user.
@Suite struct FactTransferTests {
    private var cluster = TestCluster(nodes: 3)

    private func user(_ name: String) -> UserID { UserID(app: "default", id: name) }

    private static func fact(_ kind: Row.Kind, _ key: String, _ value: String, until end: Milliseconds? = nil) -> PortableFact {
        PortableFact(kind: kind, key: key, value: Array(value.utf8), expiresAt: end)
    }

    private static let facts = [
        fact(.status, "", #"{"isRegistered":true}"#),
        fact(.profile, "", #"{"Nick":"Ann","Gender":2}"#),
        fact(.friendGroup, "7", #"{"name":"work"}"#),
        fact(.blocked, "eve", #"{"since":1000}"#),
        fact(.friend, "ben", #"{"remark":"Benny","groupIDs":[7],"addTime":2000}"#),
        fact(.pendencyIn, "cid", #"{"addWording":"hi","nickname":"Cid","addTime":3000}"#),
        fact(.pendencyOut, "dan", #"{"remark":"Danny","groupID":7,"nickname":"Dan","addTime":4000}"#),
        fact(.pendencyRead, "", #"{"timestamp":2500}"#),
        fact(.subscription, "ben", #"{"subscribeType":3,"subscribedAt":5000}"#),
        fact(.subscription, "fay", #"{"subscribeType":1,"subscribedAt":6000}"#, until: 1_800_000_000_000),
        fact(.profileSubscription, "fay", #"{"subscribeType":2,"subscribedAt":7000}"#, until: 1_800_000_000_000),
    ]

    private mutating func take(
        _ facts: [PortableFact], by name: String = "ann", isDryRun: Bool = false, on node: Int = 1
    ) -> [FactImportAnswer.Outcome] {
        let call = Call.owner(.importFacts(FactImportRequest(facts, isDryRun: isDryRun)))
        let answer = cluster.call(call, by: name, on: node, origin: .backEnd) ?? waited(on: node)
        return answer.flatMap { FactImportAnswer($0) }?.outcomes ?? []
    }

    /// The answer to a call that waits until all nodes hide a user.
    private mutating func waited(on node: Int) -> CallAnswer? {
        cluster.advance(.seconds(1))
        return cluster.lastAnswer(on: node)
    }

    private mutating func export(_ name: String, isWhole: Bool = false, on node: Int = 2) throws -> [String] {
        let call = Call.owner(.exportFacts(FactExportRequest(after: nil, isWhole: isWhole)))
        let answer = cluster.call(call, by: name, on: node, origin: .backEnd)
        let page = try #require(answer.flatMap { FactExportAnswer($0) })
        #expect(page.next == nil)
        return page.facts.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("An import takes each kind of fact, and an export has them again, to the byte") mutating func allKinds() throws {
        #expect(take(Self.facts) == Array(repeating: .imported, count: Self.facts.count))
        let lines = Self.facts.map { fact in
            let end = fact.expiresAt.map { ",\"expiresAt\":\($0)" } ?? ""
            return #"{"userID":"ann","kind":"\#(fact.kind.name)","key":"\#(fact.key)","value":"#
                + String(decoding: fact.value, as: UTF8.self) + end + "}"
        }
        // The fields of a profile are in the order of their names.
        let sorted = lines.map { $0.replacing(#""Nick":"Ann","Gender":2"#, with: #""Gender":2,"Nick":"Ann""#) }
        for node in 0..<3 { #expect(try export("ann", on: node) == sorted) }
        cluster.kill(cluster.ownerIndex(of: "ann"))
        cluster.advance(.seconds(5))
        let alive = try #require((0..<3).first { cluster.processes[$0].isUp })
        #expect(try export("ann", on: alive) == sorted)
    }

    @Test("A repeated import changes nothing, and keeps what the user has changed meanwhile") mutating func repeated() throws {
        _ = take(Self.facts)
        var change = FriendChange()
        change.remark = "my own"
        cluster.call(.friendCall(.modifyFriend(user("ben"), change)), by: "ann", on: 0)
        let before = try export("ann")
        #expect(take(Self.facts) == Array(repeating: .present, count: Self.facts.count))
        #expect(try export("ann") == before && before.contains { $0.contains("my own") })
    }

    @Test("A dry run judges as the import does, and writes nothing") mutating func dryRun() throws {
        #expect(take(Self.facts, isDryRun: true) == Array(repeating: .imported, count: Self.facts.count))
        #expect(try export("ann") == [])
        #expect(take(Self.facts) == Array(repeating: .imported, count: Self.facts.count))
    }

    @Test("A bad fact is refused with its reason, and costs no other fact") mutating func bad() throws {
        let bad: [(PortableFact, Int, String)] = [
            (Self.fact(.friend, "ann", #"{"addTime":1}"#), 6017, "the key is the user itself"),
            (Self.fact(.friend, "ben", "{}"), 6017, "addTime is missing"),
            (Self.fact(.friend, "ben", #"{"addTime":1,"groupIDs":[9]}"#), 30_001, "no group of this name"),
            (Self.fact(.friendGroup, "x", #"{"name":"a"}"#), 6017, "the key is not a number"),
            (Self.fact(.profile, "", #"{"Gender":3}"#), 6017, "is not a whole number of 0 to 2"),
            (Self.fact(.profile, "", #"{"Nick":"Ann\n"}"#), 6017, "Nick must be a text without control characters"),
            (Self.fact(.profile, "", #"{"Gender":2,"FaceUrl":{"base64":"QW5u"}}"#), 6017, "FaceUrl must be a text, not base 64"),
            (Self.fact(.subscription, "ben", #"{"subscribeType":3,"subscribedAt":1}"#), 31_704, "is not a friend"),
            (Self.fact(.subscription, "ben", #"{"subscribeType":2,"subscribedAt":1}"#), 6017, "must be 1 or 3"),
            (Self.fact(.subscription, "ben", #"{"subscribeType":1,"subscribedAt":1}"#, until: 5), 6017, "has ended"),
            (Self.fact(.status, "", #"{"statusType":"ONLINE"}"#), 6017, "a status is not imported"),
            (Self.fact(.webhookLog, "", "{}"), 6017, "is not one that an import takes"),
        ]
        let good = Self.fact(.friend, "zoe", #"{"addTime":1}"#)
        let outcomes = take(bad.map(\.0) + [good])
        #expect(outcomes.count == bad.count + 1 && outcomes.last == .imported)
        for ((fact, code, words), outcome) in zip(bad, outcomes) {
            guard case .refused(code, let reason) = outcome else {
                Issue.record("\(fact.kind) \(fact.key): \(outcome)")
                continue
            }
            #expect(reason.contains(words))
        }
        #expect(try export("ann") == [#"{"userID":"ann","kind":"friend","key":"zoe","value":{"addTime":1}}"#])
    }

    @Test("The limits of the policy hold for the facts of one call together") mutating func limits() {
        cluster.call(
            .setAppPolicy(Array(#"{"settings":{"friends.max":2,"pendency.max":1,"blockList.max":1,"friends.groupsMax":1}}"#.utf8)),
            by: "ops", on: 0, origin: .backEnd)
        cluster.advance(.seconds(1))
        let facts = [
            Self.fact(.friendGroup, "1", #"{"name":"a"}"#), Self.fact(.friendGroup, "2", #"{"name":"b"}"#),
            Self.fact(.blocked, "x", #"{"since":1}"#), Self.fact(.blocked, "y", #"{"since":1}"#),
            Self.fact(.friend, "x", #"{"addTime":1}"#), Self.fact(.friend, "b", #"{"addTime":1}"#),
            Self.fact(.friend, "c", #"{"addTime":1}"#), Self.fact(.friend, "d", #"{"addTime":1}"#),
            Self.fact(.pendencyIn, "e", #"{"addTime":1}"#), Self.fact(.pendencyIn, "f", #"{"addTime":1}"#),
            Self.fact(.pendencyOut, "x", #"{"addTime":1}"#),
        ]
        let codes = take(facts).map { if case .refused(let code, _) = $0 { code } else { 0 } }
        #expect(codes == [0, 30_011, 0, 30_013, 30_515, 0, 0, 30_010, 0, 30_012, 30_515])
    }

    @Test("An imported block hides the user, and an imported subscription is followed")
    mutating func effects() {
        let eve = cluster.login("eve", on: 0)
        cluster.login("ann", on: 1)
        cluster.login("fay", on: 2)
        let own = cluster.login("ann", on: 2, platform: "web")
        cluster.subscribe("eve", to: ["ann"], on: 0)
        #expect(cluster.clients[eve].view["ann"]?["statusType"] == .string("ONLINE"))
        _ = take(Self.facts)
        cluster.advance(.seconds(30))
        #expect(cluster.clients[eve].view["ann"]?["statusType"] == .string("OFFLINE"))
        #expect(cluster.clients[own].view["fay"]?["statusType"] == .string("ONLINE"))
    }

    @Test("exportUser has the facts, the sessions and everybody whose lists have the user, at each node") mutating func everything() throws
    {
        _ = take(Self.facts)
        cluster.login("ann", on: 0, device: "p")
        cluster.setStatus("ann", "reviewing", on: 0)
        cluster.subscribe("fay", to: ["ann"], on: 2)
        _ = take([Self.fact(.friend, "ann", #"{"addTime":1,"remark":"private"}"#)], by: "ben")
        _ = take([Self.fact(.blocked, "ann", #"{"since":1}"#)], by: "dan")
        cluster.advance(.seconds(1))
        for node in 0..<3 {
            let called = cluster.call(.exportUser(after: nil), by: "ann", on: node, origin: .backEnd)
            let answer = try #require(called)
            guard case .userExported(let page) = answer else {
                Issue.record("\(answer)")
                return
            }
            #expect(page.end == nil && page.sessions?.map(\.deviceID) == ["p"])
            let facts = page.facts.map { String(decoding: $0, as: UTF8.self) }
            #expect(facts.first?.contains("\"customStatus\":\"reviewing\"") == true)
            #expect(facts.contains { $0.contains("Benny") } && facts.contains { $0.contains("\"kind\":\"profileSubscription\"") })
            let mentions = Set(page.mentions.map { "\($0.user.id) \($0.kind.name)" })
            #expect(mentions == ["fay subscription", "ben friend", "dan blocked", "dan visibility"] && page.mentions.count == 4)
            #expect(!facts.contains { $0.contains("private") })
        }
    }

    @Test("Facts that do not fit on one page are on the following pages, each once") mutating func pages() throws {
        let remark = String(repeating: "r", count: 90)
        let custom = (0..<10).map { "\"F\($0)\":\"\(String(repeating: "v", count: 400))\"" }.joined(separator: ",")
        for start in stride(from: 0, to: 300, by: 100) {
            let facts = (start..<start + 100).map {
                Self.fact(.friend, "f\($0)", #"{"remark":"\#(remark)","addTime":1,"custom":{\#(custom)}}"#)
            }
            #expect(take(facts).allSatisfy { $0 == .imported })
        }
        var (position, pagesCount, found) = (nil as UserExport.Position?, 0, [String]())
        repeat {
            let called = cluster.call(.exportUser(after: position), by: "ann", on: 2, origin: .backEnd)
            let answer = try #require(called)
            guard case .userExported(let page) = answer else {
                Issue.record("\(answer)")
                return
            }
            let facts = try page.facts.map { try JSONReader.read($0) }
            found += facts.filter { $0["kind"] == .string("friend") }.compactMap { $0["key"]?.textValue }
            position = page.end.flatMap { UserExport.Position(text: $0.text) }
            #expect(position == page.end)
            pagesCount += 1
        } while position != nil
        #expect(pagesCount > 3 && found.count == 300 && Set(found) == Set((0..<300).map { "f\($0)" }))
    }

    @Test("The list of all users of an app has each user with facts once, and no user of another app") mutating func users() throws {
        for number in 0..<40 { _ = take([Self.fact(.friend, "zoe", #"{"addTime":1}"#)], by: "u\(number)") }
        cluster.login("seen", on: 0)
        cluster.subscribe("fan", to: ["nobody"], on: 1)
        var (after, found) = (nil as UserID?, [String]())
        repeat {
            let query = OnlineQuery(app: "default", after: after, limit: 7, isOfAll: true)
            let called = cluster.call(.onlineUsers(query), by: "ops", on: 2, origin: .backEnd)
            let answer = try #require(called)
            guard case .owner(.onlineUsers(let page, _)) = answer else {
                Issue.record("\(answer)")
                return
            }
            found += page.map { String($0.user.id) }
            after = page.count == 7 ? page.last?.user : nil
        } while after != nil
        #expect(found.count == 42 && Set(found) == Set((0..<40).map { "u\($0)" } + ["seen", "fan"]))
    }
}
