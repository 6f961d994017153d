import Foundation
import InProcessFixture
import NodeFixture
import PresenceNode
import PresenceWire
import Testing

@testable import PresenceClient

/// Nodes that go while clients are logged in.
@Suite(.serialized, .timeLimit(.minutes(3))) struct ResilienceTests {
    private func expectViewsToEqualOwners(_ fixture: Fixture, _ client: PresenceClient, users: [String], node: Int) async throws {
        let body = "{\"userIDs\":[\(users.map { "\"\($0)\"" }.joined(separator: ","))]}"
        try await fixture.until("the view equals what the owners say") {
            let known = try await fixture.call("getUserStatus", body, as: "somebody", node: node).json["userStatusList"]?.elements ?? []
            guard known.count == users.count else { return false }
            for record in known {
                guard let user = record["userID"]?.text, let status = await client.status(of: user),
                    status.version == record["version"]?.text, status.statusType.rawValue == record["statusType"]?.text,
                    status.customStatus == record["customStatus"]?.text
                else { return false }
            }
            return true
        }
    }

    /// The node cuts every stream without a word.
    @Test("A client whose stream is cut resumes at another node and misses nothing") func cutStream() async throws {
        let fixture = try await Fixture.start(nodes: 3) { $0.drainTimeout = .zero }
        let users = (0..<12).map { "u\($0)" }
        let ann = try await fixture.client("ann") {
            $0.addresses = Array($0.addresses[1...] + $0.addresses[..<1])
            $0.random = Least()
        }
        let watcher = try await fixture.client("watcher", nodes: [0])
        try await watcher.login()
        try await watcher.subscribeUserStatus(["ann"])
        let seen = RecordingListener()
        watcher.addListener(seen)
        let states = ann.connectionChanges
        #expect(try await ann.login().node == "n1")
        try await ann.subscribeUserStatus(users)
        for user in users { #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"before"}"#, as: user).status == 200) }
        async let stopping: Void = fixture.nodes[1].stop()
        for user in users { #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"after"}"#, as: user).status == 200) }
        try await stopping
        try await fixture.until("ann is back") { await ann.session.map { $0.node != "n1" } ?? false }
        try await expectViewsToEqualOwners(fixture, ann, users: users, node: 2)
        #expect(await ann.statuses.values.filter { $0.customStatus == "after" }.count == users.count)
        await ann.close()
        let told = await states.reduce(into: [ConnectionState]()) { $0.append($1.state) }
        #expect(told.starts(with: [.connecting, .connected]))
        #expect(!seen.statuses.contains { $0.userID == "ann" && $0.statusType == .offline })
        await watcher.close()
        for node in [0, 2] { try await fixture.nodes[node].stop() }
    }

    @Test("A client of a killed process resumes at another node") func killedProcess() async throws {
        let fixture = try await Fixture.start(nodes: 2)
        let join = ["--join", "127.0.0.1:\(fixture.nodes[0].ports.cluster)"]
        let process = try await ServedNode.serving(["--dev"] + join, named: "process", in: fixture.folder)
        try await fixture.until("the process is a member") {
            try await fixture.nodes[0].metricsText().contains("rollcall_members{state=\"alive\"} 3\n")
        }
        let users = (0..<12).map { "u\($0)" }
        let ann = try await fixture.client("ann") { configuration in
            configuration.addresses.insert("http://127.0.0.1:\(process.ports.client)", at: 0)
            configuration.random = Least()
        }
        #expect(try await ann.login().node == "process")
        try await ann.subscribeUserStatus(users)
        let states = ann.connectionChanges
        process.signal(SIGKILL)
        for await change in states where change.state == .connected { break }
        for user in users {
            try await fixture.until("the owner of \(user) is there") {
                try await fixture.call("setSelfStatus", #"{"customStatus":"after"}"#, as: user).status == 200
            }
        }
        try await expectViewsToEqualOwners(fixture, ann, users: users, node: 1)
        #expect(await ann.statuses.values.filter { $0.customStatus == "after" }.count == users.count)
        await ann.close()
        try await fixture.stop()
    }

    /// The kernel of a frozen process accepts connections and what is sent on them.
    @Test("Clients of a frozen process, busy or idle, open their sessions elsewhere within 12 s, and nobody sees an OFFLINE")
    func frozenProcess() async throws {
        let fixture = try await Fixture.start(nodes: 2)
        let join = ["--join", "127.0.0.1:\(fixture.nodes[0].ports.cluster)"]
        let process = try await ServedNode.serving(["--dev"] + join, named: "process", in: fixture.folder)
        try await fixture.until("the process is a member") {
            try await fixture.nodes[0].metricsText().contains("rollcall_members{state=\"alive\"} 3\n")
        }
        let watcher = try await fixture.client("watcher", nodes: [0])
        let seen = RecordingListener()
        watcher.addListener(seen)
        try await watcher.login()
        let (clientUsers, users) = (["ann", "idle"], ["ann", "idle", "plain"])
        try await watcher.subscribeUserStatus(users)
        var clients: [PresenceClient] = []
        for user in clientUsers {
            let client = try await fixture.client(user) { configuration in
                configuration.addresses.insert("http://127.0.0.1:\(process.ports.client)", at: 0)
                configuration.random = Least()
                configuration.callTimeout = .seconds(2)
                configuration.deviceID = "phone"
            }
            let session = try await client.login()
            #expect(session.node == "process" && session.heartbeatInterval == StreamWatch.heartbeatSeconds)
            clients.append(client)
        }
        let plain = try ServedCluster(nodes: [process], folder: fixture.folder).events("plain")
        let reading = Task { for try await _ in plain {} }
        defer { reading.cancel() }
        try await fixture.until("the watcher sees all") { users.allSatisfy { seen.newest[$0]?.statusType == .online } }
        let states = clients.map(\.connectionChanges)
        try process.standStill()
        let start = ContinuousClock.now
        #expect(try await clients[0].getUserStatus(["ann"]).userStatusList.map(\.statusType) == [.online])
        for (user, client) in zip(clientUsers, clients) {
            try await fixture.until("\(user) has a session elsewhere") { await client.session.map { $0.node != "process" } ?? false }
        }
        #expect(ContinuousClock.now - start < .seconds(12))
        // A plain stream asks for no comments. Its user is missed when the grace of the frozen node's sessions is over.
        try await fixture.until("the watcher sees the user of the plain stream OFFLINE") { seen.newest["plain"]?.statusType == .offline }
        #expect(!seen.statuses.contains { clientUsers.contains($0.userID) && $0.statusType == .offline })
        for client in clients + [watcher] { await client.close() }
        for states in states { #expect(await states.reduce(into: [ConnectionState]()) { $0.append($1.state) } == [.disconnected]) }
        process.signal(SIGKILL)
        try await fixture.stop()
    }

    /// With `offlineGrace` zero a gap of any length would be seen.
    @Test("A client leaves a draining node without a gap", arguments: [(false, false), (true, false), (false, true)])
    func drain(underTLS: Bool, overURLSession: Bool) async throws {
        let folder = TemporaryFolder()
        let certificate = underTLS ? try await SelfSignedCertificate(in: folder) : nil
        let fixture = try await Fixture.start(nodes: 3, in: folder) { configuration in
            configuration.core.policy.offlineGrace = .zero
            configuration.drainTimeout = .seconds(5)
            configuration.tlsCertificate = certificate?.path
            configuration.tlsKey = certificate?.keyPath
        }
        let watcher = try await fixture.client("watcher", nodes: [0], under: certificate)
        let told = RecordingListener()
        watcher.addListener(told)
        try await watcher.login()
        let users = (0..<4).map { "u\($0)" }
        try await watcher.subscribeUserStatus(users)
        var clients: [PresenceClient] = []
        for user in users {
            let client = try await fixture.client(user, nodes: [1, 2, 0], under: certificate) {
                $0.random = Least()
                $0.preferredTransport = overURLSession ? .urlSession : .asyncHTTPClient
            }
            #expect(try await client.login().node == "n1")
            try await client.subscribeUserStatus(users)
            clients.append(client)
        }
        #expect(await clients[0].isMultiplexed == underTLS)
        try await fixture.until("the watcher sees all") { Set(users).isSubset(of: Set(told.newest.keys)) }
        let changes = clients.map(\.connectionChanges)
        try await fixture.nodes[1].stop()
        for client in clients {
            let session = await client.session
            #expect(session?.node == "n2")
        }
        try await clients[3].setSelfStatus("last")
        try await fixture.until("the watcher sees the last") { told.newest["u3"]?.customStatus == "last" }
        #expect(told.statuses.filter { $0.statusType != .online && $0.version > "1" && users.contains($0.userID) }.map(\.userID) == [])
        for client in clients { await client.close() }
        // Nothing was reported but the end: the apps of these clients noticed nothing.
        for change in changes { #expect(await change.reduce(into: []) { $0.append($1) } == [ConnectionChange(.disconnected, .closed)]) }
        await watcher.close()
        for node in [0, 2] { try await fixture.nodes[node].stop() }
    }

    @Test("With one session a user, a newer login ends the older client; a client that follows a hint to another node goes on")
    func oneSession() async throws {
        let fixture = try await Fixture.start(nodes: 3) { configuration in
            configuration.core.policy.multiClient = .single
            configuration.drainTimeout = .seconds(5)
        }
        let phone = try await fixture.client("ann", nodes: [0])
        let desk = try await fixture.client("ann", nodes: [1, 2]) { $0.random = Least() }
        try await phone.login()
        let events = phone.events
        #expect(try await desk.login().node == "n1")
        var told: [PresenceEvent] = []
        for await event in events {
            told.append(event)
            if case .connectionStateChanged = event { break }
        }
        #expect(
            told.suffix(2) == [
                .kickedOffline(reason: "replaced"), .connectionStateChanged(.init(.disconnected, .kickedOffline("replaced"))),
            ])
        let (changes, moved) = (desk.events, desk.connectionChanges)
        try await fixture.nodes[1].stop()
        try await fixture.until("the desk has moved") { await desk.session?.node == "n2" }
        try await desk.setSelfStatus("still here")
        for await event in changes {
            if case .kickedOffline = event { Issue.record("the own next stream ended the client") }
            if case .userStatusChanged(let statuses) = event, statuses.contains(where: { $0.customStatus == "still here" }) { break }
        }
        #expect(await desk.connectionState == .connected)
        await desk.close()
        let states = await moved.reduce(into: [ConnectionState]()) { $0.append($1.state) }
        #expect(states.last == .disconnected && !states.dropLast().contains(.disconnected))
        await phone.close()
        for node in [0, 2] { try await fixture.nodes[node].stop() }
    }

    @Test("A client finds a single node again after its restart") func loneNode() async throws {
        let configure: (inout NodeConfiguration) -> Void = { $0.listen.port = portOfThisRun }
        var fixture = try await Fixture.start(configure)
        let ann = try await fixture.client("ann")
        try await ann.login()
        try await ann.subscribeUserStatus(["bob"])
        let changes = ann.connectionChanges
        let folder = fixture.folder
        try await fixture.stop()
        for await change in changes where change.state == .reconnecting { break }
        fixture = try await Fixture.start(in: folder, configure)
        for await change in changes where change.state == .connected { break }
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"hello"}"#, as: "bob").status == 200)
        try await fixture.until("ann hears of bob") { await ann.status(of: "bob")?.customStatus == "hello" }
        await ann.close()
        try await fixture.stop()
    }
}
