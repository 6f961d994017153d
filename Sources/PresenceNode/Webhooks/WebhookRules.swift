import Foundation
import NIOCore
import PresenceWire

/// The addresses to which this node delivers webhooks.
///
/// An app's administrator chooses the URL. Without these rules a URL could reach services that only the node can reach (SSRF): the metadata
/// service of a cloud, a database without a password, another node.
struct WebhookRules: Sendable {
    /// Whether receivers on this machine are allowed, also without TLS (`dev`).
    var allowsLoopback = false
    /// Whether receivers at private and link-local addresses are allowed (`webhookPrivateAddresses`).
    var allowsPrivate = false

    /// The reason why a URL cannot be used, as far as its text says; nil if it can.
    func problem(of url: String) -> String? {
        guard let parts = URLComponents(string: url), let host = parts.host, !host.isEmpty else { return "is not a URL with a host" }
        let bare = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        if let address = try? SocketAddress(ipAddress: bare, port: 443) { return problem(of: address, isPlain: parts.scheme == "http") }
        let isLocal = bare.lowercased() == "localhost"
        guard parts.scheme == "https" || (isLocal && allowsLoopback) else {
            return "must begin with https://; http:// is for loopback with --dev"
        }
        return isLocal && !allowsLoopback && !allowsPrivate ? "\(host) is this machine; webhookPrivateAddresses allows it" : nil
    }

    /// The reason why the node does not connect to an address; nil if it does.
    ///
    /// - Parameter isPlain: whether the connection is without TLS.
    func problem(of address: SocketAddress, isPlain: Bool) -> String? {
        let scope = Scope(of: address)
        if isPlain, !(scope == .loopback && allowsLoopback) { return "must begin with https://; http:// is for loopback with --dev" }
        switch scope {
        case .global: return nil
        case .loopback where allowsLoopback: return nil
        default:
            return allowsPrivate
                ? nil : "\(address.ipAddress ?? "?") is a private, link-local or reserved address; webhookPrivateAddresses allows it"
        }
    }

    /// The reach of an address, by IANA's registries of special-purpose addresses (RFC 6890).
    private enum Scope {
        case global, loopback, special

        init(of address: SocketAddress) {
            switch address {
            case .v4(let address): self.init(ipv4: withUnsafeBytes(of: address.address.sin_addr) { Array($0) })
            case .v6(let address): self.init(ipv6: withUnsafeBytes(of: address.address.sin6_addr) { Array($0) })
            case .unixDomainSocket: self = .special
            }
        }

        private init(ipv4 bytes: [UInt8]) {
            switch (bytes[0], bytes[1]) {
            case (127, _): self = .loopback
            case (0, _), (10, _), (100, 64...127), (169, 254), (172, 16...31), (192, 168), (198, 18...19), (224..., _): self = .special
            case (192, 0) where bytes[2] == 0 || bytes[2] == 2, (198, 51) where bytes[2] == 100, (203, 0) where bytes[2] == 113:
                self = .special
            default: self = .global
            }
        }

        private init(ipv6 bytes: [UInt8]) {
            let isZero = { (range: Range<Int>) in bytes[range].allSatisfy { $0 == 0 } }
            if isZero(0..<15), bytes[15] == 1 {
                self = .loopback
            } else if isZero(0..<10), bytes[10] == 0xFF, bytes[11] == 0xFF {
                self.init(ipv4: Array(bytes[12...]))  // IPv4-mapped
            } else if bytes.starts(with: [0x00, 0x64, 0xFF, 0x9B]), isZero(4..<12) {
                self.init(ipv4: Array(bytes[12...]))  // NAT64
            } else if bytes.starts(with: [0x20, 0x02]) {
                self.init(ipv4: Array(bytes[2..<6]))  // 6to4
            } else if bytes.starts(with: [0x20, 0x01, 0x0D, 0xB8]) || isZero(0..<12) {
                self = .special
            } else {
                // Global unicast is 2000::/3. All else is unique local, link-local, multicast or reserved.
                self = bytes[0] & 0xE0 == 0x20 ? .global : .special
            }
        }
    }
}

extension WebhookRules {
    /// The reason why the URL in a call of `setAppPolicy` cannot be used; nil if it names none, or if it can.
    func problem(ofPolicy body: [UInt8]) -> String? {
        guard case .string(let url)? = (try? JSONReader.read(body))?["settings"]?["webhook.url"], WebhookPolicy.isValid(url: url) else {
            return nil
        }
        return problem(of: url)
    }
}
