import NIOCore

#if canImport(Glibc)
    import Glibc
#endif

/// How a connection's kernel sends again what was not acknowledged.
public enum Retransmission: Sendable {
    /// After a fifth of a second, then each time after twice as long, as RFC 6298 has it: five losses in a row are a stall of six seconds.
    case usual
    /// Quickly, and a second apart at most: for the few connections between nodes, which are to live with a network that loses a third of all packets,
    /// and must carry again as soon as it is healed.
    case quick

    typealias Option = (name: ChannelOptions.Types.SocketOption, value: Int)

    var options: [Option] { self == .quick ? Self.supported : [] }

    /// Options of Linux, each since another version; a kernel that lacks one of them goes on as usual.
    private static let supported: [Option] = {
        #if os(Linux)
            return [
                (thinLinearTimeouts, 1), (longestMilliseconds, 1_000), (shortestMicroseconds, 50_000),
                (acknowledgementMicroseconds, 20_000),
            ].filter(isSupported).map { name, value in
                (ChannelOptions.Types.SocketOption(level: .tcp, name: NIOBSDSocket.Option(rawValue: name)), Int(value))
            }
        #else
            return []
        #endif
    }()

    #if os(Linux)
        /// Six retransmissions are evenly spaced while few packets are on their way. Since Linux 2.6.34.
        private static let thinLinearTimeouts = CInt(16)
        /// The longest time between two retransmissions. Since Linux 6.15.
        private static let longestMilliseconds = CInt(44)
        /// The shortest, beyond the round trip. Since Linux 6.17, like the next.
        private static let shortestMicroseconds = CInt(45)
        /// How long the other end of such a connection holds back an acknowledgement: less than the shortest time.
        private static let acknowledgementMicroseconds = CInt(46)

        private static func isSupported(_ name: CInt, _ value: CInt) -> Bool {
            let descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
            guard descriptor >= 0 else { return false }
            defer { close(descriptor) }
            return withUnsafePointer(to: value) { setsockopt(descriptor, CInt(IPPROTO_TCP), name, $0, socklen_t(MemoryLayout<CInt>.size)) }
                == 0
        }
    #endif
}
