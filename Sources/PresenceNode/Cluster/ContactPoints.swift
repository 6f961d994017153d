import Foundation
import Logging
import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Resolves contact points. A DNS name may stand for all nodes of a cluster, as a headless service of Kubernetes does.
enum ContactPoints {
    /// Whether `host` is an IP address, which needs no resolver.
    static func isAddress(_ host: String) -> Bool { (try? SocketAddress(ipAddress: host, port: 0)) != nil }

    /// Returns all addresses of `contact`, sorted; empty if the name does not resolve. Blocks, because it asks the system's resolver.
    static func resolve(_ contact: HostPort) -> [HostPort] {
        var hints = addrinfo()
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(contact.host, String(contact.port), &hints, &first) == 0 else { return [] }
        defer { freeaddrinfo(first) }
        var found: Set<HostPort> = []
        var next = first
        while let entry = next {
            var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            if getnameinfo(entry.pointee.ai_addr, entry.pointee.ai_addrlen, &host, socklen_t(host.count), nil, 0, NI_NUMERICHOST) == 0 {
                let text = host.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
                found.insert(HostPort(host: String(decoding: text, as: UTF8.self), port: contact.port))
            }
            next = entry.pointee.ai_next
        }
        return found.sorted { $0.description < $1.description }
    }
}
