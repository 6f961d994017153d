import NodeFixture
import Testing

extension ConformanceTests {
    /// A user whose client changes the status in a loop, in preset `rollcall`.
    @Suite struct NoisyUserTests {
        @Test(
            "Followers of a user who changes 2,000 times are pushed 20 changes and then one in 250 ms, the last one too, and nobody else waits"
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
            for follower in followers { try await follower.status(of: "noisy") { $0["version"]?.text == version } }
            // One more for the record that a subscription sends, and one for the part of a slot.
            let countMax = 20 + Int(start.duration(to: clock.now) / .milliseconds(250)) + 2
            for follower in followers {
                let told = follower.statuses(of: "noisy")
                #expect(told.count <= countMax, "\(told.count) pushes of 2,000 changes, at most \(countMax) are right")
                #expect(told.last?.custom == last.custom)
            }
            #expect(times.sorted()[5] < .milliseconds(250), "calm waits like noisy: \(times)")
            await noisy.close()
        }

        /// Makes 2,000 changes, 20 in one write, as fast as they are answered. Each must be taken.
        private func change(_ noisy: Pairs) async throws {
            for batch in 0..<100 {
                try await noisy.send((0..<20).map { ("setSelfStatus", "{\"customStatus\":\"\(20 * batch + $0)\"}") })
            }
        }
    }
}
