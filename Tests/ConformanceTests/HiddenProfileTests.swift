import NodeFixture
import Testing

extension ConformanceTests {
    /// The profiles of users who have blocked a follower or are invisible, over HTTP on three nodes.
    @Suite struct HiddenProfileTests {
        /// How a user hides from a follower and shows itself again.
        struct Hiding: Sendable, CustomTestStringConvertible {
            let name: String
            var preset = "rollcall"
            var settings = "{}"
            let hide: (operation: String, body: String)
            let show: (operation: String, body: String)
            /// Whether the follower is told the profile meanwhile.
            var tellsAtOnce = false

            var testDescription: String { "\(name), preset \(preset)" }
        }

        private static let setting = "profile.newsWaitWhileInvisible"
        private static let block = Hiding(
            name: "a block", hide: ("addBlackList", users(["ben"])), show: ("deleteBlackList", users(["ben"])))
        private static let blockThatHidesNothing = Hiding(
            name: "a block with block.hidesStatus off", settings: #"{"block.hidesStatus":false}"#, hide: block.hide, show: block.show,
            tellsAtOnce: true)
        private static let invisible = Hiding(
            name: "invisible", hide: ("setVisibility", #"{"invisible":true}"#), show: ("setVisibility", #"{"invisible":false}"#))
        private static let invisibleInTencent = Hiding(
            name: "invisible", preset: "tencent", hide: invisible.hide, show: invisible.show, tellsAtOnce: true)

        @Test(
            "P43 A blocked follower, and in preset rollcall each follower of an invisible user, is told of profiles after that, and not before",
            arguments: [block, blockThatHidesNothing, invisible, invisibleInTencent])
        func news(_ hiding: Hiding) async throws {
            let app = try await App(hiding.preset, hiding.settings)
            let ann = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            try await follow(in: app)
            let first = try await rename("Ann", in: app, node: 1)
            try await told([first], to: ben)

            try await call(hiding.hide, in: app, node: 2)
            let second = try await rename("Annie", in: app, node: 1)
            let third = try await rename("Anna", in: app, node: 0)
            try await ann.until("her own profile") { Self.versions(of: "ann", $0).last == third }
            if hiding.tellsAtOnce {
                try await told([first, second, third], to: ben)
            } else {
                #expect(try await listedVersions(in: app) == [first, first, first])
            }
            try await call(hiding.show, in: app, node: 1)
            try await told(hiding.tellsAtOnce ? [first, second, third] : [first, third], to: ben)
            #expect(try await listedVersions(in: app) == [third, third, third])

            // Without a change nobody is told anything at the end.
            try await call(hiding.hide, in: app, node: 0)
            try await call(hiding.show, in: app, node: 2)
            let fourth = try await rename("Ann", in: app, node: 2)
            try await told(hiding.tellsAtOnce ? [first, second, third, fourth] : [first, third, fourth], to: ben)
        }

        @Test(
            "P43 A follower who was away when a block or invisibility ended is told the profile when the stream resumes, and only then",
            arguments: [block, invisible])
        func away(_ hiding: Hiding) async throws {
            let app = try await App(hiding.preset)
            let ann = try await app.login("ann", node: 0)
            var ben: Session? = try await app.login("ben", node: 1)
            try await follow(in: app)
            let first = try await rename("Ann", in: app, node: 1)
            try await told([first], to: #require(ben))
            var position = try #require(ben?.events.last { !$0.id.isEmpty }?.id)
            ben = nil

            try await call(hiding.hide, in: app, node: 2)
            let second = try await rename("Annie", in: app, node: 1)
            try await ann.until("her own profile") { Self.versions(of: "ann", $0).last == second }
            ben = try await app.login("ben", node: 2, query: "platform=web&lastEventID=\(position)")
            #expect(Self.versions(of: "ann", try #require(ben).events).contains(second) == false)
            position = try #require(ben?.events.last { !$0.id.isEmpty }?.id)
            ben = nil
            try await call(hiding.show, in: app, node: 1)
            let resumed = try await app.login("ben", node: 0, query: "platform=pad&lastEventID=\(position)")
            try await resumed.until("the profile that has waited") { Self.versions(of: "ann", $0).contains(second) }
            let fresh = try await app.login("ben", node: 1, query: "platform=ios")
            let third = try await rename("Ann", in: app, node: 2)
            for session in [resumed, fresh] {
                try await session.until("the newest profile") { Self.versions(of: "ann", $0).last == third }
            }
            #expect(Self.versions(of: "ann", fresh.events) == [third])
        }

        @Test(
            "P43 The setting profile.newsWaitWhileInvisible is on in preset rollcall alone, and tells what has waited when it is turned off"
        )
        func setting() async throws {
            let app = try await App("rollcall")
            #expect(try await app.policy()["settings"][Self.setting] == .bool(true))
            let other = try await App("zim")
            #expect(try await other.policy()["settings"][Self.setting] == .bool(false))
            _ = try await app.login("ann", node: 0)
            let ben = try await app.login("ben", node: 1)
            try await follow(in: app)
            try await call(Self.invisible.hide, in: app, node: 2)
            let first = try await rename("Ann", in: app, node: 1)
            try await app.set(#"{"profile.newsWaitWhileInvisible":false}"#)
            try await told([first], to: ben)
            let second = try await rename("Anna", in: app, node: 2)
            try await told([first, second], to: ben)
        }

        private func follow(in app: App) async throws {
            #expect(try await app.call("subscribeUserStatus", #"{"userIDs":["ann"],"subscribeType":2}"#, as: "ben", node: 2).status == 200)
        }

        /// The version of ann's profile in ben's list of subscriptions, at each node.
        private func listedVersions(in app: App) async throws -> [String?] {
            var versions: [String?] = []
            for node in 0..<3 {
                let rows = try await app.call("getSubscribedUserStatus", #"{"subscribeType":2}"#, as: "ben", node: node)["subscriptions"]
                versions.append(rows.elements.first?["profileVersion"]?.text)
            }
            return versions
        }

        private func call(_ call: (operation: String, body: String), in app: App, node: Int) async throws {
            let answer = try await app.call(call.operation, call.body, node: node)
            #expect(answer.status == 200)
        }

        private func rename(_ name: String, in app: App, node: Int) async throws -> String? {
            let answer = try await app.call("modifySelfProfile", #"{"values":{"Nick":"\#(name)"}}"#, node: node)
            #expect(answer.status == 200)
            return answer["profile"]["version"]?.text
        }

        /// Waits for exactly these versions of the profile.
        private func told(_ versions: [String?], to session: Session) async throws {
            try await session.until("the versions \(versions)") { Self.versions(of: "ann", $0).count >= versions.count }
            #expect(Self.versions(of: "ann", session.events) == versions)
        }

        private static func versions(of user: String, _ events: [Session.Event]) -> [String?] {
            events.filter { $0.name == "onUserProfileChanged" && $0.json["userID"]?.text == user }.map { $0.json["profileVersion"]?.text }
        }
    }
}
