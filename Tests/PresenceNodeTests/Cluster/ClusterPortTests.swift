import Foundation
import Glibc
import HTTP2
import InProcessFixture
import Logging
import NIOCore
import NIOPosix
import NodeFixture
import PresenceWire
import Testing

@testable import PresenceNode

/// Content on the cluster port that no node sends. It ends its stream or its connection, is counted, and changes nothing.
@Suite(.serialized, .timeLimit(.minutes(5))) struct ClusterPortTests {
    /// Two nodes; what the second says to the first passes through a recorder.
    private func recordLink(secret: String?) async throws -> (fixture: Fixture, recorder: Recorder) {
        let recorder = try await Recorder.listen()
        let fixture = try await Fixture.start(nodes: 2) { configuration in
            configuration.clusterSecret = secret
            if configuration.nodeID == "n0" {
                configuration.advertise = HostPort(host: "127.0.0.1", port: recorder.port)
            } else {
                recorder.target = configuration.join[0].port
                configuration.join = [HostPort(host: "127.0.0.1", port: recorder.port)]
            }
        }
        for user in 0..<20 {
            #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"true"}"#, as: "u\(user)", node: 1).status == 200)
        }
        return (fixture, recorder)
    }

    private func expectSound(_ fixture: Fixture) async throws {
        #expect(try await fixture.nodes[0].metricsText().contains("rollcall_members{state=\"alive\"} 2\n"))
        for user in 0..<20 {
            let answer = try await fixture.call("getUserStatus", #"{"userIDs":["u\#(user)"]}"#, as: "u\(user)")
            #expect(answer.json["userStatusList"]?.elements[0]["customStatus"]?.text == "true")
        }
    }

    private func rejections(_ fixture: Fixture, _ reason: String) async throws -> Int {
        let name = "rollcall_cluster_streams_rejected_total{reason=\"\(reason)\"} "
        let line = try await fixture.nodes[0].metricsText().split(separator: "\n").first { $0.hasPrefix(name) }
        return Int(line?.dropFirst(name.count) ?? "") ?? -1
    }

    @Test("A replayed recording of a link is refused", arguments: [nil, "the secret of this cluster"]) func replayedLink(secret: String?)
        async throws
    {
        let (fixture, recorder) = try await recordLink(secret: secret)
        let recording = recorder.bytes
        #expect(recording.count > 2_000)
        #expect(try await rejections(fixture, "wrongSecret") == 0)
        let replay = try RawConnection(port: fixture.nodes[0].ports.cluster)
        replay.send(recording)
        try await fixture.until("its proof is refused, because the node's random number is another one") {
            try await rejections(fixture, "wrongSecret") == 1
        }
        replay.close()
        try await expectSound(fixture)
        try await fixture.stop()
    }

    @Test("A recording of a link that is cut or changed anywhere does not harm the node") func damagedLink() async throws {
        let (fixture, recorder) = try await recordLink(secret: nil)
        let recording = recorder.bytes
        var random = SplitMix64(seed: 3)
        for _ in 0..<60 {
            var bytes = Array(recording.prefix(Int.random(in: 0..<min(recording.count, 8_000), using: &random)))
            for _ in 0..<Int.random(in: 0...3, using: &random) where !bytes.isEmpty {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let connection = try RawConnection(port: fixture.nodes[0].ports.cluster)
            connection.send(bytes)
            connection.close()
        }
        for size in [1, 100, 100_000] {
            let connection = try RawConnection(port: fixture.nodes[0].ports.cluster)
            connection.send((0..<size).map { _ in UInt8.random(in: 0...255, using: &random) })
            connection.close()
        }
        try await expectSound(fixture)
        try await fixture.stop()
    }

    @Test("A batch is applied once and in its order") func repeatedBatch() async throws {
        let fixture = try await Fixture.start()
        let member = try await Member.join(fixture.nodes[0])
        let batch = Self.batch()
        #expect(try await member.post("batch/0", batch) == 200)
        #expect(try await member.post("batch/0", batch) == 400, "a second time")
        #expect(try await member.post("batch/99", batch) == 400, "too far ahead")
        for path in ["batch/", "batch/-1", "batch/x", "batch/18446744073709551616"] { #expect(try await member.post(path, batch) == 400) }
        #expect(try await member.post("batch/1", batch) == 200)
        #expect(try await rejections(fixture, "junk") == 6)
        try await member.close()
        try await fixture.stop()
    }

    @Test("A node tells its release to a member and not to a stranger, and a member that cannot tell its own stays a member")
    func release() async throws {
        let fixture = try await Fixture.start()
        let stranger = try await Member.connect(fixture.nodes[0])
        #expect(try await stranger.post("release", []) == 409)
        try await stranger.close()
        let member = try await Member.join(fixture.nodes[0])
        let answer = try await member.exchange("release", [])
        #expect(answer.status == 200)
        let release = try NodeRelease(answer.body)
        #expect(release.version == Release.version && abs(release.startTime - Clock.now().wall) < 600_000)
        // Fields of a later release may follow. An answer without a start, and one with a version for a terminal, are refused.
        #expect(try NodeRelease(answer.body + [1, 2, 3]) == release)
        #expect(throws: DecodeError.self) { try NodeRelease(Array(answer.body.prefix(answer.body.count - 1))) }
        let without = NodeRelease(version: "1", startTime: 1, takesTraces: false)
        #expect(release.takesTraces)
        #expect(try NodeRelease(without.bytes) == without)
        #expect(throws: DecodeError.badName) { try NodeRelease(NodeRelease(version: "1\u{1B}[31m", startTime: 1).bytes) }
        // The node's own link to this member is down, so the node does not know its release.
        let asked = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/clusterStatus",
            headers: [("authorization", "Bearer \(try await TokenMint().token(user: "ops", isAdmin: true))")], body: "{}",
            on: MultiThreadedEventLoopGroup.singleton.next())
        let status = try JSON(asked.body)["members"]?.elements ?? []
        #expect(status.map { $0["node"]?.text } == ["member", "n0"], "\(status)")
        #expect(status.map { $0["version"]?.text } == [nil, Release.version] && status.first?["startTime"] == nil, "\(status)")
        try await member.close()
        try await fixture.stop()
    }

    @Test("The answer about a release is bounded, and belongs to one process") func releaseAnswers() throws {
        let own = NodeRelease(version: "1.0.0", startTime: 5)
        let (old, new) = (Peer(id: NodeID("b"), generation: 1, address: "b:1"), Peer(id: NodeID("b"), generation: 2, address: "b:1"))
        var releases = PeerReleases(own: own)
        let tell = { (releases: inout PeerReleases, status: Int, bytes: [UInt8]) throws(DecodeError) in
            releases.begins(at: "b:1", status: status)
            bytes.withUnsafeBytes { releases.continues(at: "b:1", $0) }
            try releases.ends(at: "b:1")
        }
        var isAsked = releases.ask(old, at: "b:1")
        try tell(&releases, 404, Array("{}".utf8))
        #expect(isAsked && releases.release(of: old) == nil)
        isAsked = releases.ask(old, at: "b:1")
        try tell(&releases, 200, NodeRelease(version: "0.9.0", startTime: 3).bytes)
        #expect(isAsked && releases.release(of: old)?.version == "0.9.0", "after a 404 it is asked again")
        isAsked = releases.ask(old, at: "b:1")
        #expect(!isAsked && releases.release(of: new) == nil, "a later process may run another release")
        isAsked = releases.ask(new, at: "b:1")
        try tell(&releases, 200, own.bytes + Array(repeating: 0, count: NodeRelease.answerBytesMax))
        #expect(isAsked && releases.release(of: new) == nil, "the answer is too long")
        isAsked = releases.ask(new, at: "b:1")
        try tell(&releases, 200, own.bytes)
        #expect(isAsked && releases.release(of: new) == own)
        releases.remove("b:1")
        #expect(releases.release(of: new) == nil)
    }

    @Test("A batch that is too large ends only its stream") func largeBatch() async throws {
        let fixture = try await Fixture.start()
        let member = try await Member.join(fixture.nodes[0])
        #expect(try await member.post("batch/0", Array(repeating: 0, count: 4 * Limits.batchBytesMax + 1)) == 413)
        #expect(try await rejections(fixture, "tooLarge") == 1)
        #expect(try await member.post("batch/0", Self.batch()) == 200)
        try await member.close()
        try await fixture.stop()
    }

    @Test("A batch that is cut or changed anywhere does not harm the node") func damagedBatch() async throws {
        let fixture = try await Fixture.start()
        #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"true"}"#).status == 200)
        let member = try await Member.join(fixture.nodes[0])
        let batch = Self.batch()
        var random = SplitMix64(seed: 5)
        var number = 0
        var refused = 0
        for cut in 1..<batch.count {
            let status = try await member.post("batch/\(number)", Array(batch.prefix(cut)))
            number += 1
            #expect(status == 200 || status == 400)
            refused += status == 400 ? 1 : 0
        }
        // All but the few that end where a message does.
        #expect(refused >= batch.count - 8, "\(refused) of \(batch.count)")
        for _ in 0..<400 {
            var bytes = batch
            for _ in 0...Int.random(in: 0..<3, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let status = try await member.post("batch/\(number)", bytes)
            number += 1
            #expect(status == 200 || status == 400)
        }
        let answer = try await fixture.call("getUserStatus", #"{"userIDs":["ann"]}"#)
        #expect(answer.json["userStatusList"]?.elements[0]["customStatus"]?.text == "true")
        try await member.close()
        try await fixture.stop()
    }

    // MARK: Strangers

    @Test("A stranger learns nothing before it has proved that it knows the secret") func strangerLearnsNothing() async throws {
        let fixture = try await Fixture.start {
            $0.clusterSecret = "the secret of this cluster"
            $0.cluster = "covert"
        }
        let card = Member.hello("stranger", cluster: "covert", listeningAt: 1).bytes
        let nonce = ClusterSecret.nonce()
        // On a connection of its own: what a stranger is answered, after an empty hello if it says that first.
        let answer = { (path: String, body: [UInt8], isGreeted: Bool) in
            let stranger = try await Member.connect(fixture.nodes[0])
            if isGreeted { #expect(try await stranger.exchange("hello", []).status == 200) }
            let answer = try await stranger.exchange(path, body)
            try await fixture.until("it is closed") { try await !stranger.isOpen }
            return answer
        }
        var answers: [(status: Int, body: [UInt8])] = []
        for secret in [nil, "another one, as long"] {
            for path in ["trial", "proof"] {
                let stranger = try await Member.connect(fixture.nodes[0])
                let number = try await stranger.exchange("hello", []).body
                #expect(number.count == ClusterSecret.bytesCount)
                let proof = ClusterSecret(secret).proof(.caller, caller: nonce, listener: number, hello: card)
                answers.append(try await stranger.exchange(path, nonce + proof + card))
                try await fixture.until("it is closed") { try await !stranger.isOpen }
            }
        }
        #expect(answers.map(\.status) == [403, 403, 403, 403])
        // The hello of earlier versions; what is no hello; and what only nodes may send.
        for (path, body) in [("hello", nonce + card), ("hello", [0]), ("proof", []), ("trial", nonce), ("batch/0", card), ("else", [])] {
            for isGreeted in [false, true] { answers.append(try await answer(path, body, isGreeted)) }
        }
        answers.append(try await answer("hello", [], true))
        #expect(answers.allSatisfy { $0.status >= 400 })
        for told in answers.map({ String(decoding: $0.body, as: UTF8.self) }) {
            #expect(!told.contains("n0") && !told.contains("covert") && !told.contains("127.0.0.1"), "\(told)")
        }
        try await fixture.stop()
    }

    @Test("A stranger has lower limits than a member") func strangerLimits() async throws {
        let fixture = try await Fixture.start()
        for (count, status) in [(256 << 10, 403), (256 << 10 + 1, 413)] {
            let stranger = try await Member.connect(fixture.nodes[0])
            #expect(try await stranger.exchange("hello", []).status == 200)
            #expect(try await stranger.post("proof", Array(repeating: 0, count: count)) == status)
            try await stranger.close()
        }
        let member = try await Member.join(fixture.nodes[0])
        #expect(try await member.post("batch/0", Array(repeating: 0, count: 1 << 20)) == 400, "read, and no batch")
        try await member.close()
        try await fixture.stop()
    }

    @Test("An invalid node name is refused", arguments: ["a\nb", "a\u{1B}[31m", "", "a\u{85}"]) func invalidName(name: String) async throws
    {
        let fixture = try await Fixture.start()
        for hello in [
            Member.hello(name, listeningAt: 1), Member.hello("m", cluster: name, listeningAt: 1),
            Member.hello("m", listeningAt: 1, members: [Peer(id: NodeID(name), generation: 1, address: "127.0.0.1:1")]),
            Member.hello("m", listeningAt: 1, members: [Peer(id: NodeID("m"), generation: 1, address: "127.0.0.1\(name):1\(name)")]),
        ] {
            let stranger = try await Member.connect(fixture.nodes[0])
            let answer = try await stranger.prove(hello)
            #expect(answer.status == (name.isEmpty && hello.members.first?.id.rawValue == "m" ? 200 : 400), "\(hello)")
            try await stranger.close()
        }
        try await fixture.stop()
    }

    /// Each under another name, as fast as they can.
    @Test("Wrong proofs are counted and logged once") func wrongProofs() async throws {
        let lines = LogLines()
        var configuration = NodeConfiguration.loopback(nodeID: "n", directory: TemporaryFolder().path, beside: [])
        configuration.clusterSecret = "the secret of this cluster"
        let node = try await RollcallNode.start(configuration, logger: Logger(label: "test") { _ in lines })
        for number in 0..<200 {
            let stranger = try await Member.connect(node)
            #expect(try await stranger.prove(Member.hello("stranger\(number)", listeningAt: 1)).status == 403)
            try await stranger.close()
        }
        #expect(
            lines.all.count == 1 && lines.all[0].contains("the cluster secret of the caller differs from that of this node"), "\(lines.all)"
        )
        #expect(lines.all[0].contains("127.0.0.1") && !lines.all[0].contains("stranger"))
        let metrics = try await node.metricsText()
        #expect(metrics.contains("rollcall_cluster_streams_rejected_total{reason=\"wrongSecret\"} 200\n"))
        try await node.stop()
    }

    /// The member dies while the node's own link to it is not up yet, so no broken link reports it.
    @Test("A member that dies while its link is opened is dead without a suspicion") func deathWhileConnecting() async throws {
        let fixture = try await Fixture.start()
        let listener = try RawListener()
        let member = try await Member.join(fixture.nodes[0], listeningAt: listener.port)
        try await fixture.until("it is a member") {
            try await fixture.nodes[0].metricsText().contains("rollcall_members{state=\"alive\"} 2\n")
        }
        try await fixture.until("the node opens its link, and waits for an answer") { listener.hasCaller }
        listener.close()
        try await member.close()
        var wasSuspect = false
        try await fixture.until("it is known to be dead") {
            let metrics = try await fixture.nodes[0].metricsText()
            wasSuspect = wasSuspect || !metrics.contains("rollcall_members{state=\"suspect\"} 0\n")
            return metrics.contains("rollcall_members{state=\"dead\"} 1\n")
        }
        #expect(!wasSuspect)
        try await fixture.stop()
    }

    private static func links(up: Int, down: Int) -> String {
        "rollcall_links{state=\"up\"} \(up)\nrollcall_links{state=\"down\"} \(down)\n"
    }

    /// If addresses change with every start, a node would try the old ones forever.
    @Test("A node gives up the old address of a member that has moved") func movedMember() async throws {
        let fixture = try await Fixture.start()
        let first = try await Member.join(fixture.nodes[0], listeningAt: 1)
        try await fixture.until("its address is tried") { try await fixture.nodes[0].metricsText().contains(Self.links(up: 0, down: 1)) }
        let listener = try RawListener()
        let second = try await Member.join(fixture.nodes[0], listeningAt: listener.port, generation: 2)
        try await fixture.until("the new address is tried") { listener.hasCaller }
        #expect(try await fixture.nodes[0].metricsText().contains(Self.links(up: 0, down: 1)))
        for member in [first, second] { try await member.close() }
        listener.close()
        try await fixture.stop()
    }

    @Test("A node does not connect to a member that has left until it comes back") func leftMember() async throws {
        let fixture = try await Fixture.start(nodes: 2)
        let links = { try await fixture.nodes[0].metricsText() }
        #expect(try await links().contains(Self.links(up: 1, down: 0)))
        try await fixture.nodes[1].stop()
        try await fixture.until("there is no link") { try await links().contains(Self.links(up: 0, down: 0)) }
        let configuration = NodeConfiguration.loopback(nodeID: "n1", directory: fixture.directory, beside: [fixture.nodes[0]])
        let again = try await RollcallNode.start(configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await fixture.until("there is a link again") { try await links().contains(Self.links(up: 1, down: 0)) }
        try await again.stop()
        try await fixture.nodes[0].stop()
    }

    /// Messages of several kinds about users that no call names.
    private static func batch() -> [UInt8] {
        var writer = WireWriter()
        let user = UserID(app: "elsewhere", id: "eve")
        var record = Record(blank: user)
        record.customStatus = "from a member"
        record.version = Version(milliseconds: 1_000, counter: 0, node: 9)
        writer.message(.delta(record))
        writer.message(.watched([Watched(user: user, record: record)]))
        writer.message(.unwatch([user, UserID(app: "elsewhere", id: "adam")]))
        writer.message(.replicated(ticket: 4))
        writer.message(.misrouted([user]))
        writer.message(.complete(upTo: Version(milliseconds: 1_000, counter: 0, node: 9)))
        return writer.bytes
    }
}

/// A listener that passes on what it gets, and keeps the bytes of the first connection's caller.
private final class Recorder: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    private let lock = NSLock()
    /// By connection, in the order of their beginnings: an object's identifier may be that of one that is gone.
    private var recorded: [[UInt8]] = []
    private var targetPort = 0
    private var listener: (any Channel)?

    var port: Int { listener?.localAddress?.port ?? 0 }
    /// The bytes on the link. Before it a node only asks on another connection whether it would be refused.
    var bytes: [UInt8] { lock.withLock { recorded.max { $0.count < $1.count } ?? [] } }
    var target: Int {
        get { lock.withLock { targetPort } }
        set { lock.withLock { targetPort = newValue } }
    }

    static func listen() async throws -> Recorder {
        let recorder = Recorder()
        recorder.listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { caller in
                let loop = caller.eventLoop
                return ClientBootstrap(group: loop).connect(host: "127.0.0.1", port: recorder.target).flatMap { callee in
                    let index = recorder.begin()
                    return loop.submit {
                        try caller.pipeline.syncOperations.addHandler(Pipe(to: callee) { recorder.keep($0, of: index) })
                        try callee.pipeline.syncOperations.addHandler(Pipe(to: caller) { _ in })
                    }.flatMap { caller.setOption(.autoRead, value: true) }
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        return recorder
    }

    private func begin() -> Int {
        lock.withLock {
            recorded.append([])
            return recorded.count - 1
        }
    }

    private func keep(_ bytes: ByteBuffer, of index: Int) {
        lock.withLock { recorded[index] += Array(bytes.readableBytesView) }
    }

    private final class Pipe: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let other: any Channel
        private let look: (ByteBuffer) -> Void

        init(to other: any Channel, look: @escaping (ByteBuffer) -> Void) {
            self.other = other
            self.look = look
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = unwrapInboundIn(data)
            look(bytes)
            other.writeAndFlush(bytes, promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) { other.close(promise: nil) }
    }
}

/// A port that takes callers and never answers them; it refuses them once it is closed.
private final class RawListener {
    private let descriptor: Int32
    let port: Int

    init() throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutablePointer(to: &address) { [descriptor] pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) + listen(descriptor, 8) + getsockname(descriptor, $0, &size)
            }
        }
        guard status == 0 else { throw TestFailure("listen: \(errno)") }
        port = Int(address.sin_port.bigEndian)
    }

    /// Whether a connection stands.
    var hasCaller: Bool {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&waiting, 1, 0) == 1
    }

    func close() { _ = Glibc.close(descriptor) }
}

/// Keeps what is logged, a line for each event with its values.
private final class LogLines: LogHandler, @unchecked Sendable {
    private let lock = NSLock()
    private var lines: [String] = []

    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.warning
    var all: [String] { lock.withLock { lines } }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { lock.withLock { lines.append("\(event.message) \(event.metadata ?? [:])") } }
}
