import NodeFixture
import Testing

extension ConformanceTests {
    /// Many sessions of one user, and which of them make room for others.
    @Suite(.serialized) struct DeviceTests {
        /// Why a session was ended; nil for one that was not.
        private func kickReason(of session: Session) -> String? {
            session.events.last { $0.name == "onKickedOffline" }?.json["reason"]?.text
        }

        private func untilReplaced(_ session: Session) async throws {
            try await session.until("the session is replaced") { events in
                events.contains { $0.name == "onKickedOffline" && $0.json["reason"]?.text == "replaced" }
            }
        }

        /// The nodes start in the order of their numbers, and so the IDs of their sessions are ordered.
        @Test("Beyond 64 sessions the one with the earliest login ends, on whichever node it is") func earliestLogin() async throws {
            let app = try await App("rollcall")
            let first = try await app.login("ann", node: 2, query: "platform=ios&deviceID=d0")
            var others: [Session] = []
            for number in 1..<64 { others.append(try await app.login("ann", node: number % 3, query: "platform=ios&deviceID=d\(number)")) }
            #expect(kickReason(of: first) == nil)
            others.append(try await app.login("ann", node: 0, query: "platform=ios&deviceID=d64"))
            try await untilReplaced(first)
            // Each later session is told a later change, so none of them was ended before it.
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"here"}"#).code == 0)
            for session in others { try await session.status(of: "ann") { $0.custom == "here" } }
            #expect(others.allSatisfy { kickReason(of: $0) == nil })
            for session in others { session.close() }
        }

        @Test("With one session per user, a login takes the place of a device that only vendor push reaches") func pushDevice()
            async throws
        {
            let app = try await App("rollcall", #"{"login.multiClient":"single","state.pushReachableStaysOnline":true}"#)
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let phone = try await app.login("ann", node: 0, query: "platform=ios&deviceID=phone&pushReachable=true")
            try await bob.status(of: "ann") { $0.platforms == ["ios"] }
            phone.close()
            try await app.cluster.until("the phone has no session") {
                let asked = try await app.admin("queryOnlineStatus", users(["ann"], #""withSessions":true"#))
                return asked.statuses[0]["sessions"]?.elements.isEmpty == true
            }
            // Another user, who is lost after the phone, is OFFLINE: the time to return is over.
            let dora = try await app.login("dora", node: 2)
            dora.close()
            try await app.until("dora", is: "OFFLINE")
            #expect(try await app.status(of: "ann").general == "ONLINE")
            let desk = try await app.login("ann", node: 2, query: "platform=web&deviceID=desk")
            try await bob.status(of: "ann") { $0.platforms == ["web"] }
            desk.close()
            try await bob.status(of: "ann") { $0.general == "OFFLINE" }
            #expect(try await app.platforms(of: "ann") == [])
        }

        /// The first stream is read by nobody from then on, and no FIN ends it, as when a phone has left its network.
        @Test("A device that logs in again on another node takes the place of its half-open session, and watchers see nothing")
        func sameDevice() async throws {
            let app = try await App("rollcall")
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let old = try RawConnection(port: app.cluster.nodes[0].ports.client)
            let head =
                "GET /v1/events?platform=ios&deviceID=phone HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(try app.token("ann"))\r\n\r\n"
            old.send(Array(head.utf8))
            try await bob.status(of: "ann") { $0.general == "ONLINE" }
            let tablet = try await app.login("ann", node: 0, query: "platform=ios&deviceID=tablet")
            let new = try await app.login("ann", node: 2, query: "platform=ios&deviceID=phone")
            try await old.receive(until: "\"reason\":\"replaced\"")
            let asked = try await app.admin("queryOnlineStatus", users(["ann"], #""withSessions":true"#))
            #expect(asked.statuses[0]["sessions"]?.elements.compactMap { $0["deviceID"]?.text }.sorted() == ["phone", "tablet"])
            for session in [tablet, new] {
                #expect(kickReason(of: session) == nil)
                let id = session.events.first { $0.name == "onConnected" }?.json["sessionID"]?.text ?? ""
                #expect(try await app.call("logout", "{\"sessionID\":\"\(id)\"}").code == 0)
            }
            try await bob.status(of: "ann") { $0.general == "UNLOGINED" && $0["lastSeenTime"]?.number != 0 }
            #expect(bob.statuses(of: "ann").compactMap(\.general) == ["UNLOGINED", "ONLINE", "UNLOGINED"])
            old.close()
        }

        @Test("A login with the same deviceID on another platform replaces nothing, and each of both sessions ends by itself")
        func otherPlatform() async throws {
            let app = try await App("rollcall")
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let phone = try await app.login("ann", node: 0, query: "platform=ios&deviceID=d")
            let desk = try await app.login("ann", node: 2, query: "platform=web&deviceID=d")
            try await bob.status(of: "ann") { $0.platforms == ["ios", "web"] }
            #expect(try await app.call("logout", "{\"sessionID\":\"\(id(of: desk))\"}").code == 0)
            try await bob.until("the phone alone is left") { events in
                let platforms = events.flatMap { $0.json["userStatusList"]?.elements ?? [] }.filter { $0.user == "ann" }.map(\.platforms)
                return platforms.suffix(2) == [["ios", "web"], ["ios"]]
            }
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"here"}"#, node: 1).code == 0)
            try await phone.status(of: "ann") { $0.custom == "here" }
            #expect(kickReason(of: phone) == nil && kickReason(of: desk) == nil)
            desk.close()
        }

        @Test("explainSelf tells a user why it is ONLINE, at any node, and nothing about its followers") func explainSelf() async throws {
            let app = try await App("rollcall")
            let bob = try await app.login("bob", node: 1)
            #expect(try await app.call("subscribeUserStatus", users(["ann"]), as: "bob", node: 1).code == 0)
            let phone = try await app.login("ann", node: 2, query: "platform=ios&deviceID=phone")
            try await bob.status(of: "ann") { $0.general == "ONLINE" }
            let host = try #require(phone.events.first { $0.name == "onConnected" }?.json["node"]?.text)
            for node in 0..<3 {
                let said = try await app.call("explainSelf", "{}", node: node)
                #expect(said.json["userStatus"]?.general == "ONLINE", "\(said.json)")
                #expect(said.json["sessions"]?.elements.compactMap { $0["deviceID"]?.text } == ["phone"])
                #expect(said.json["because"]?.elements.compactMap(\.text) == ["a session is open: ios on \(host)"])
                #expect(said.json["watchedByNodes"] == nil && said.json["visibility"]?.text == "everyone")
            }
            #expect(try await app.call("logout", "{}").code == 0)
            try await bob.status(of: "ann") { $0.general == "UNLOGINED" && $0["lastSeenTime"]?.number != 0 }
            let said = try await app.call("explainSelf", #"{"asUser":"ann"}"#, as: "backend", isAdmin: true, node: 1)
            #expect(said.json["because"]?.elements.compactMap(\.text) == ["the user logged out, and did not log in again"], "\(said.json)")
            #expect(try await app.call("explainSelf", #"{"asUser":"ann"}"#, as: "bob").status == 403)
        }

        private func id(of session: Session) -> String {
            session.events.first { $0.name == "onConnected" }?.json["sessionID"]?.text ?? ""
        }

        private func untilTold(_ session: Session, _ ids: [String]) async throws {
            try await session.until("the sessions are \(ids)") { events in
                let told = events.last { $0.name == "onSessionsChanged" }?.json["sessions"]?.elements
                return told?.compactMap { $0["sessionID"]?.text }.sorted() == ids.sorted()
            }
        }

        @Test("A user's own sessions are told to each of them, getSessions lists them at any node, and logout ends one")
        func ownSessions() async throws {
            let app = try await App("rollcall")
            let bob = try await app.login("bob", node: 1)
            let phone = try await app.login("ann", node: 0, query: "platform=ios&deviceID=phone")
            let desk = try await app.login("ann", node: 1, query: "platform=web")
            let pad = try await app.login("ann", node: 2, query: "platform=ipad&deviceID=pad")
            let ids = [phone, desk, pad].map(id)
            for session in [phone, desk, pad] { try await untilTold(session, ids) }
            let told = try #require(phone.events.last { $0.name == "onSessionsChanged" }?.json["sessions"]?.elements)
            #expect(told.map { $0["deviceID"]?.text } == ["phone", "", "pad"])
            #expect(told.map { $0["platform"]?.text } == ["ios", "web", "ipad"])
            #expect(told.allSatisfy { $0["since"]?.number ?? 0 > 0 && $0["node"] == nil })
            for node in 0..<3 {
                let answer = try await app.call("getSessions", "{\"sessionID\":\"\(ids[1])\"}", node: node)
                let sessions = answer.json["sessions"]?.elements ?? []
                #expect(sessions.compactMap { $0["sessionID"]?.text } == ids, "\(answer.json)")
                #expect(sessions.map { $0["isCurrent"] } == [.bool(false), .bool(true), .bool(false)])
                #expect(Set(sessions.compactMap { $0["node"]?.text }).count == 3)
            }
            #expect(try await app.call("logout", "{\"sessionID\":\"\(ids[1])\"}", node: 2).code == 0)
            try await desk.until("the desk is logged out") { $0.contains { $0.name == "onLogout" } }
            for session in [phone, pad] { try await untilTold(session, [ids[0], ids[2]]) }
            pad.close()
            try await untilTold(phone, [ids[0]])
            // The only session of the user on the node is the calling one.
            let alone = try await app.call("getSessions", "{}")
            #expect(alone.json["sessions"]?.elements.map { $0["isCurrent"] } == [.bool(true)], "\(alone.json)")
            let back = try await app.call("getSessions", #"{"asUser":"bob"}"#, as: "backend", isAdmin: true, node: 2)
            #expect(back.json["sessions"]?.elements.map { $0["isCurrent"] } == [.bool(false)], "\(back.json)")
            #expect(!bob.events.contains { $0.name == "onSessionsChanged" })
        }
    }
}
