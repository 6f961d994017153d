import NodeFixture
import Testing

extension ConformanceTests {
    /// A user whose client changes the status in a loop, in preset `rollcall`.
    @Suite struct NoisyUserTests {
        @Test(
            "Followers and the own device of a user who changes 2,000 times get 20 changes and then one in 250 ms, and nobody else waits"
        )
        func followersArePushedLittle() async throws {
            let app = try await App("rollcall")
            var followers: [Session] = []
            for node in 0..<3 {
                followers.append(try await app.login("fan\(node)", node: node))
                let answer = try await app.call(
                    "subscribeUserStatus", #"{"userIDs":["noisy","calm"]}"#, as: "fan\(node)", node: node)
                #expect(answer.status == 200)
            }
            let device = try await app.login("noisy", node: 1, query: "platform=web")
            let noisy = try await Pairs.connect(port: app.cluster.nodes[0].ports.client, token: try app.token("noisy"))
            let clock = ContinuousClock()
            let start = clock.now
            async let changes: Void = change(noisy)
            var times: [Duration] = []
            for number in 0..<10 {
                let changedAt = clock.now
                let answer = try await app.call("setSelfStatus", "{\"customStatus\":\"calm \(number)\"}", as: "calm", node: 1)
                #expect(answer.status == 200)
                for follower in followers { try await follower.status(of: "calm") { $0.custom == "calm \(number)" } }
                times.append(changedAt.duration(to: clock.now))
            }
            try await changes
            let last = try await app.status(of: "noisy", as: "fan0", node: 2)
            let version = try #require(last["version"]?.text)
            for session in followers + [device] { try await session.status(of: "noisy") { $0["version"]?.text == version } }
            // One more for the record that a subscription sends, one for the login of the device, and one for the part of a slot.
            let countMax = 20 + Int(start.duration(to: clock.now) / .milliseconds(250)) + 3
            for session in followers + [device] {
                let told = session.statuses(of: "noisy")
                #expect(told.count <= countMax, "\(told.count) pushes of 2,000 changes, at most \(countMax) are right")
                #expect(told.last?.custom == last.custom)
            }
            #expect(times.sorted()[5] < .milliseconds(250), "calm waits like noisy: \(times)")
            await noisy.close()
        }

        /// How a user stops being ONLINE.
        enum End: String, CaseIterable, Sendable {
            case logout, loss, hiding
        }

        @Test("A user who changes in a loop and then logs out, is lost or hides is shown so at once", arguments: End.allCases)
        func endsAtOnce(_ end: End) async throws {
            // Without a grace a loss and a hide take effect at once, while the user has no push left.
            let app = try await App("rollcall", end == .logout ? "{}" : #"{"offlineGrace":0}"#)
            let clock = ContinuousClock()
            var times: [Duration] = []
            for user in ["noisy0", "noisy1", "noisy2"] {
                let device = try await app.login(user, node: 2, query: "platform=web")
                let fan = try await app.login("fan-\(user)", node: 1)
                #expect(try await app.call("subscribeUserStatus", users([user]), as: "fan-\(user)", node: 0).errors == [])
                try await fan.status(of: user) { $0.general == "ONLINE" }
                let noisy = try await Pairs.connect(port: app.cluster.nodes[0].ports.client, token: try app.token(user))
                try await change(noisy, times: 200)
                let version = try #require(try await app.status(of: user, as: "watcher", node: 0)["version"]?.text)
                // This was pushed last, so the next change has to wait for some 250 ms.
                try await fan.status(of: user) { $0["version"]?.text == version }
                let start = clock.now
                switch end {
                case .logout: #expect(try await app.call("logout", "{}", as: user, node: 0).code == 0)
                case .loss: device.close()
                case .hiding: #expect(try await app.call("setVisibility", #"{"invisible":true}"#, as: user, node: 0).code == 0)
                }
                try await fan.status(of: user) { $0.general != "ONLINE" }
                times.append(start.duration(to: clock.now))
                await noisy.close()
                device.close()
            }
            // The machine may be busy in one of the rounds. A change that waits takes long in each.
            #expect(times.min() ?? .seconds(1) < .milliseconds(150), "\(times)")
        }

        /// Makes changes, 20 in one write, as fast as they are answered. Each must be taken.
        private func change(_ noisy: Pairs, times: Int = 2_000) async throws {
            for batch in 0..<times / 20 {
                try await noisy.send((0..<20).map { ("setSelfStatus", "{\"customStatus\":\"\(20 * batch + $0)\"}") })
            }
        }
    }
}
