import Glibc
import Logging
import PresenceNode

/// The memory of an idle session: a whole node in this process, and clients that are only sockets.
enum SessionMemory {
    /// The sessions of the two runs that are compared. Neither they nor the users are near a power of two, where tables double.
    private static let counts = [800, 1_600]
    /// A connection releases the memory of its requests after 5 s. The timer of its first header ends after 10 s.
    private static let settleSeconds: UInt32 = 13

    static func bytesPerSession() async throws -> Int {
        guard let allocator = Jemalloc() else { throw GateError(description: "jemalloc is not linked") }
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let directory = "/tmp/rollcall-gate-\(getpid())"
        var configuration = NodeConfiguration.loopback(nodeID: "a", directory: directory, beside: [])
        configuration.streamsPerConnectionMax = 1_100
        var logger = Logger(label: "rollcall")
        logger.logLevel = .critical
        let node = try await RollcallNode.start(configuration, logger: logger)
        let mint = try await TokenMint()
        var tokens: [String] = []
        for user in 0..<counts[1] { tokens.append(try await mint.token(user: "user\(user)")) }
        var allocated: [Int] = []
        for (start, end) in [(0, counts[0]), (counts[0], counts[1])] {
            for token in tokens[start..<end] { try RawClient.open(port: node.ports.client, token: token) }
            sleep(settleSeconds)
            allocated.append(allocator.allocatedBytes)
        }
        for path in ["rollcall.sqlite", "rollcall.sqlite-wal", "rollcall.sqlite-shm"] { unlink("\(directory)/a/\(path)") }
        return (allocated[1] - allocated[0]) / (counts[1] - counts[0])
    }
}

/// A client that takes no memory. It subscribes to one user, opens an event stream, and sends nothing more.
enum RawClient {
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    /// Leaves the connection open.
    static func open(port: Int, token: String) throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        guard status == 0 else { throw GateError(description: "connect: \(String(cString: strerror(errno)))") }
        let body = Array(#"{"userIDs":["star"]}"#.utf8)
        let stream = frame(1, flags: 5, stream: 1, head(method: 0x82, path: "/v1/events", token: token))
        let call =
            frame(1, flags: 4, stream: 3, head(method: 0x83, path: "/v1/subscribeUserStatus", token: token))
            + frame(0, flags: 1, stream: 3, body)
        let request = preface + frame(4, flags: 0, stream: 0, []) + stream + call
        guard send(descriptor, request, request.count, 0) == request.count else { throw GateError(description: "send: \(errno)") }
        // The answer to the call, `onConnected`, the own status, and `onSubscriptionSyncCompleted`.
        try withUnsafeTemporaryAllocation(of: CChar.self, capacity: 65_537) { buffer in
            var count = 0
            while true {
                let received = recv(descriptor, buffer.baseAddress! + count, 65_536 - count, 0)
                guard received > 0 else { throw GateError(description: "the node has closed the connection") }
                count += received
                if contains(buffer.baseAddress!, count, "onSubscriptionSyncCompleted"),
                    contains(buffer.baseAddress!, count, "errorUserList")
                {
                    return
                }
            }
        }
    }

    private static func contains(_ bytes: UnsafePointer<CChar>, _ count: Int, _ text: String) -> Bool {
        UnsafeRawBufferPointer(start: bytes, count: count).firstRange(of: Array(text.utf8)) != nil
    }

    /// A header block of literals without a table (RFC 7541 §6.2.2), except for the method and the scheme.
    private static func head(method: UInt8, path: String, token: String) -> [UInt8] {
        [method, 0x86] + literal([0x04], path) + literal([0x01], "node") + literal([0x0f, 0x08], "Bearer \(token)")
    }

    private static func literal(_ name: [UInt8], _ value: String) -> [UInt8] {
        let count = value.utf8.count
        guard count >= 127 else { return name + [UInt8(count)] + value.utf8 }
        precondition(count < 127 + 128 * 128, "a value of \(count) bytes")
        let rest = count - 127
        let length = rest < 128 ? [127, UInt8(rest)] : [127, UInt8(rest & 127 | 128), UInt8(rest >> 7)]
        return name + length + value.utf8
    }

    private static func frame(_ type: UInt8, flags: UInt8, stream: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [0, UInt8(payload.count >> 8), UInt8(payload.count & 255), type, flags, 0, 0, 0, stream] + payload
    }
}
