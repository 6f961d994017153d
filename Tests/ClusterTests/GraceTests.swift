import Glibc
import NodeFixture
import Testing

/// The grace of a lost device while the owner of its user stops.
@Suite(.serialized, .timeLimit(.minutes(2))) struct GraceTests {
    /// `offlineGrace` of the preset.
    private static let grace = Duration.seconds(2)

    /// A user whom a node owns.
    private func user(ownedBy node: Int, in cluster: ServedCluster) async throws -> String {
        for name in (0..<100).map({ "user\($0)" }) {
            let explained = try await cluster.admin("explain", #"{"viewer":"\#(name)","target":"\#(name)"}"#)
            if explained.json["ownerOfTarget"]?["node"]?.text == cluster.nodes[node].nodeID { return name }
        }
        throw TestFailure("n\(node) owns none of 100 users")
    }

    /// An open stream, and what it has told.
    private struct Watcher {
        var events: AsyncThrowingStream<[UInt8], any Error>.Iterator
        var told = ""

        /// Reads until a user was told to have a status.
        mutating func read(until status: String, of user: String) async throws {
            while !told.contains(#""userID":"\#(user)","statusType":"\#(status)""#) {
                guard let piece = try await events.next() else { throw TestFailure("never: \(user) is \(status); told: \(told)") }
                told += String(decoding: piece, as: UTF8.self)
            }
        }
    }

    /// A user whom the second of three nodes owns. The user's device is on the third, and a watcher on the first sees the user ONLINE.
    private struct Scene {
        let cluster: ServedCluster
        let user: String
        let device: Task<Void, any Error>
        var watcher: Watcher
    }

    private func begin() async throws -> Scene {
        let cluster = try await ServedCluster.start(nodes: 3)
        let user = try await user(ownedBy: 1, in: cluster)
        var watcher = Watcher(events: try cluster.events("watcher", node: 0).makeAsyncIterator())
        #expect(try await cluster.call("subscribeUserStatus", "{\"userIDs\":[\"\(user)\"]}", as: "watcher", node: 0).status == 200)
        let device = Task { for try await _ in try cluster.events(user, node: 2) {} }
        try await watcher.read(until: "ONLINE", of: user)
        return Scene(cluster: cluster, user: user, device: device, watcher: watcher)
    }

    @Test("A user whose device is lost just before the owner stops goes OFFLINE after the grace, and not later") func ownerStops()
        async throws
    {
        var scene = try await begin()
        let (cluster, user) = (scene.cluster, scene.user)
        let lostAt = ContinuousClock.now
        scene.device.cancel()
        cluster.nodes[1].signal(SIGTERM)
        try await scene.watcher.read(until: "OFFLINE", of: user)
        let absence = ContinuousClock.now - lostAt
        #expect(absence <= Self.grace + .seconds(2), "\(absence)")
        #expect(absence >= Self.grace - .milliseconds(200), "\(absence)")
        #expect(try await cluster.nodes[1].ended() == 0)
        try await cluster.stop()
    }

    @Test("Of 80 texts that a user sets while a call to hide waits, 63 wait with it, and the others are refused with 429")
    func textsBehindAHide() async throws {
        var scene = try await begin()
        let (cluster, user) = (scene.cluster, scene.user)
        async let hidden = cluster.call("setVisibility", #"{"invisible":true}"#, as: user, node: 0)
        try await cluster.until("the call waits") {
            try await cluster.nodes[1].metricsText().contains("\nrollcall_hides_waiting 1\n")
        }
        let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<80 {
                group.addTask {
                    try await cluster.call("setSelfStatus", "{\"customStatus\":\"text \(number)\"}", as: user, node: number % 3).status
                }
            }
            return try await group.reduce(into: [Int: Int]()) { $0[$1, default: 0] += 1 }
        }
        #expect(statuses == [200: 63, 429: 17])
        #expect(try await hidden.status == 200)
        try await scene.watcher.read(until: "OFFLINE", of: user)
        #expect(!scene.watcher.told.contains("text "))
        scene.device.cancel()
        try await cluster.stop()
    }
}
