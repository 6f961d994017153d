import NodeFixture
import Testing

/// The traces that calls about unknown users leave on three nodes.
@Suite(.serialized, .timeLimit(.minutes(3))) struct UnknownUserTests {
    private static let targetsCount = 200

    /// Three nodes with a preset.
    private func serving(_ preset: String) async throws -> ServedCluster {
        let fixture = try await ServedCluster.start(nodes: 3)
        #expect(try await fixture.admin("setAppPolicy", "{\"preset\":\"\(preset)\"}").status == 200)
        return fixture
    }

    /// The sum of a gauge over all nodes.
    private func sum(_ gauge: String, of fixture: ServedCluster) async throws -> Int {
        var sum = 0
        for node in fixture.nodes {
            let line = try await node.metricsText().split(separator: "\n").first { $0.hasPrefix("\(gauge) ") }
            sum += Int(try #require(line).split(separator: " ")[1]) ?? 0
        }
        return sum
    }

    private func call(_ operation: String, _ targets: Range<Int>, _ fixture: ServedCluster, node: Int) async throws {
        let users = targets.map { "\"nobody\($0)\"" }.joined(separator: ",")
        let answer = try await fixture.call(operation, "{\"userIDs\":[\(users)]}", node: node)
        #expect(answer.status == 200, "\(answer.json)")
        let codes = answer.json["resultList"]?.elements.map { $0["resultCode"]?.number }
        #expect(codes == targets.map { _ in 0 }, "\(answer.json)")
    }

    @Test(
        "Blocks of unknown users and their ends leave nothing with these users, and repeating them leaves nothing more",
        arguments: ["rollcall", "tencent", "rongcloud", "commsease"])
    func blocks(preset: String) async throws {
        let fixture = try await serving(preset)
        var rowsCount = 0
        for round in 0..<2 {
            for start in stride(from: 0, to: Self.targetsCount, by: 100) {
                try await call("addBlackList", start..<start + 100, fixture, node: round)
                try await call("deleteBlackList", start..<start + 100, fixture, node: 2)
            }
            #expect(try await sum("rollcall_users_owned", of: fixture) == 1, "only ann")
            #expect(try await sum("rollcall_users_replicated", of: fixture) <= 2)
            rowsCount = try await rowsOfAllReplicas(fixture)
            #expect(rowsCount <= 3 * 5 * Self.targetsCount, "the lists of ann have one row for each target and kind")
        }
        try await fixture.stop()
    }

    @Test(
        "Additions of unknown users leave rows by users, not by calls, and a caller who has decided about 4,096 users adds no further one",
        arguments: ["rollcall", "tencent", "rongcloud", "commsease"])
    func additions(preset: String) async throws {
        let fixture = try await serving(preset)
        let kinds = ["both", "single", "request"]
        let targets = kinds.flatMap { kind in (0..<20).map { (kind, "\(kind)\($0)") } }
        var rowsCounts: [Int] = []
        for round in 0..<3 {
            for kind in kinds {
                let names = targets.filter { $0.0 == kind }.map(\.1)
                let allowType = kind == "request" ? "confirm" : "any"
                try await fixture.setPolicy("{\"rate.chain\":false,\"profile.defaultAllowType\":\"\(allowType)\"}")
                for name in names { #expect(try await add(name, kind, fixture, node: round) == (kind == "request" ? 30_539 : 0)) }
                let users = names.map { "\"\($0)\"" }.joined(separator: ",")
                let (operation, type) = kind == "request" ? ("deletePendency", "\"type\":2") : ("deleteFriends", "\"delType\":2")
                let answer = try await fixture.call(operation, "{\"userIDs\":[\(users)],\(type)}", node: 2)
                #expect(answer.status == 200, "\(answer.json)")
            }
            #expect(try await sum("rollcall_users_owned", of: fixture) == 1 + targets.count)
            rowsCounts.append(try await rowsOfAllReplicas(fixture))
        }
        #expect(rowsCounts[2] == rowsCounts[1], "the same calls about the same users")

        // Blocks of unknown users leave nothing with them, and fill the outbox a hundred at a time.
        for start in stride(from: 0, to: 4_100, by: 100) {
            try await call("addBlackList", start..<start + 100, fixture, node: 0)
            try await call("deleteBlackList", start..<start + 100, fixture, node: 2)
        }
        let usersCount = try await sum("rollcall_users_owned", of: fixture)
        let rowsCount = try await rowsOfAllReplicas(fixture)
        for kind in kinds { #expect(try await add("further-\(kind)", kind, fixture, node: 1) == 30_012) }
        #expect(try await sum("rollcall_users_owned", of: fixture) == usersCount)
        #expect(try await rowsOfAllReplicas(fixture) == rowsCount, "a refused addition leaves nothing")
        #expect(usersCount == 1 + targets.count)
        // A user among those can be added, and another user adds whom it wants.
        #expect(try await add("nobody4099", "both", fixture, node: 1) == 30_539)
        let other = try await fixture.call("addFriend", "{\"userID\":\"further-both\"}", as: "ben", node: 1)
        #expect(other.json["resultCode"]?.number == 30_539, "\(other.json)")
        try await fixture.stop()
    }

    @Test("In preset zim, which requires registered users, calls about unknown users leave nothing")
    func registeredUsersAlone() async throws {
        let fixture = try await serving("zim")
        try await fixture.setPolicy(#"{"rate.chain":false}"#)
        #expect(try await fixture.admin("importUsers", #"{"userIDs":["ann"]}"#).status == 200)
        for number in 0..<20 {
            let node = number % 3
            for kind in ["both", "single"] { #expect(try await add("nobody\(number)", kind, fixture, node: node) == 30_003) }
            for (operation, more) in [
                ("addBlackList", ""), ("deleteBlackList", ""), ("deleteFriends", #","delType":2"#), ("deletePendency", #","type":2"#),
                ("subscribeUserStatus", #","expiry":60"#),
            ] {
                let answer = try await fixture.call(operation, "{\"userIDs\":[\"nobody\(number)\"]\(more)}", node: node)
                #expect(answer.status == 200, "\(operation): \(answer.json)")
            }
        }
        #expect(try await sum("rollcall_users_owned", of: fixture) == 1, "only ann")
        #expect(try await sum("rollcall_lists_rows", of: fixture) == 0)
        try await fixture.stop()
    }

    /// The code of an addition by ann.
    private func add(_ name: String, _ kind: String, _ fixture: ServedCluster, node: Int) async throws -> Int64? {
        let type = kind == "single" ? "single" : "both"
        let answer = try await fixture.call("addFriend", "{\"userID\":\"\(name)\",\"addType\":\"\(type)\"}", node: node)
        return answer.json["resultCode"]?.number
    }

    /// The rows of the lists of all users on three disks.
    private func rowsOfAllReplicas(_ fixture: ServedCluster) async throws -> Int {
        var rowsCount = 0
        // The third node writes later than the two for whom the answer waits.
        try await fixture.until("every replica has the same rows") {
            let count = try await sum("rollcall_lists_rows", of: fixture)
            defer { rowsCount = count }
            return count == rowsCount && count.isMultiple(of: 3) && count > 0
        }
        return rowsCount
    }
}
