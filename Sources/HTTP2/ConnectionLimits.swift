import NIOConcurrencyHelpers
import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// How many connections a port holds at a time, all in all and from one address. A connection beyond it is reset as soon as it is accepted, before
/// anything is spent on it. Shared by the loops that serve the port.
public final class ConnectionLimits: Sendable {
    /// Why a connection was not taken.
    public enum Refusal: String, Sendable, CaseIterable {
        /// The port holds as many as it may.
        case connectionsMax
        /// One address has as many as it may; of IPv6 the first 64 bits count, because a customer of a provider has as many as that.
        case connectionsPerAddressMax
        /// The process or the system has no descriptor or no memory for one more; accepting pauses for ``pauseWithoutDescriptors``.
        case noDescriptor
    }

    private struct State {
        var connectionsCount = 0
        var byAddress: [Address: Int] = [:]
        var refused: [Refusal: UInt64] = [:]
    }

    /// How long nothing is accepted after a descriptor could not be had: what waits does so in the kernel's queue.
    static let pauseWithoutDescriptors = TimeAmount.milliseconds(100)
    /// Connections that are refused within ``pauseAfterRefusals`` before accepting pauses for as long, and the others on the loop have their turn.
    static let refusalsAtOnceMax = 32
    static let pauseAfterRefusals = TimeAmount.milliseconds(10)

    public let connectionsMax: Int
    /// 0 for no limit.
    public let perAddressMax: Int
    private let refused: @Sendable (Refusal) -> Void
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - perAddressMax: 0 for no limit.
    ///   - refused: called on the listener's loop for each connection that is not taken.
    public init(connectionsMax: Int, perAddressMax: Int, refused: @escaping @Sendable (Refusal) -> Void) {
        self.connectionsMax = connectionsMax
        self.perAddressMax = perAddressMax
        self.refused = refused
    }

    /// Connections that are open.
    public var connectionsCount: Int { state.withLockedValue { $0.connectionsCount } }

    /// Connections that were not taken so far.
    public var refusedCounts: [Refusal: UInt64] { state.withLockedValue { $0.refused } }

    /// Counts a connection in, or returns false.
    func enter(_ address: Address) -> Bool {
        let refusal: Refusal? = state.withLockedValue { state in
            if state.connectionsCount >= connectionsMax { return .connectionsMax }
            if perAddressMax > 0, state.byAddress[address, default: 0] >= perAddressMax { return .connectionsPerAddressMax }
            state.connectionsCount += 1
            state.byAddress[address, default: 0] += 1
            return nil
        }
        if let refusal { refuse(refusal) }
        return refusal == nil
    }

    func leave(_ address: Address) {
        state.withLockedValue { state in
            state.connectionsCount -= 1
            let count = state.byAddress[address, default: 1] - 1
            state.byAddress[address] = count == 0 ? nil : count
        }
    }

    func refuse(_ refusal: Refusal) {
        state.withLockedValue { $0.refused[refusal, default: 0] += 1 }
        refused(refusal)
    }

    /// One address, as the limits count it.
    public struct Address: Hashable, Sendable {
        private let isIPv6: Bool
        private let bits: UInt64

        /// - Parameter address: nil for a peer without one, as in tests: all of them count as one.
        public init(_ address: SocketAddress?) {
            switch address {
            case .v4(let address):
                isIPv6 = false
                bits = withUnsafeBytes(of: address.address.sin_addr) { UInt64($0.loadUnaligned(as: UInt32.self)) }
            case .v6(let address):
                let words = withUnsafeBytes(of: address.address.sin6_addr) { bytes in
                    (bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
                }
                // ::ffff:a.b.c.d is how a listener for both shows IPv4 (RFC 4291 §2.5.5.2).
                let isMapped = words.0 == 0 && UInt64(bigEndian: words.1) >> 32 == 0xFFFF
                isIPv6 = !isMapped
                bits = isMapped ? UInt64(UInt32(truncatingIfNeeded: UInt64(bigEndian: words.1)).bigEndian) : words.0
            case .unixDomainSocket, nil: (isIPv6, bits) = (false, 0)
            }
        }
    }
}
