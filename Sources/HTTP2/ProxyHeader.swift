import NIOCore

/// The header of the PROXY protocol, version 2, by which a proxy names the client of a connection (HAProxy, proxy-protocol.txt §2.2).
struct ProxyHeader: Equatable {
    /// Bytes that begin no connection with the header of version 2.
    struct Malformed: Error, Equatable {}

    /// The address of the client; nil if the proxy speaks for itself, as in a health check, or does not know the client.
    let client: SocketAddress?
    /// The size of the header, in bytes.
    let bytesCount: Int

    private static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]
    /// The bytes before the addresses.
    private static let fixedBytes = 16
    /// The most bytes behind ``fixedBytes``: the longest addresses, and as much for further fields, such as the certificate's name.
    static let restBytesMax = 1_024

    /// Reads the header at the beginning of a connection.
    ///
    /// - Returns: nil while bytes are missing.
    static func read(_ bytes: ByteBufferView) throws(Malformed) -> ProxyHeader? {
        guard bytes.prefix(signature.count).elementsEqual(signature.prefix(bytes.count)) else { throw Malformed() }
        guard bytes.count >= fixedBytes else { return nil }
        let byte = { (offset: Int) in bytes[bytes.startIndex + offset] }
        let restBytes = Int(byte(14)) << 8 | Int(byte(15))
        guard byte(12) >> 4 == 2, restBytes <= restBytesMax else { throw Malformed() }
        guard bytes.count >= fixedBytes + restBytes else { return nil }
        let rest = bytes.dropFirst(fixedBytes).prefix(restBytes)
        switch byte(12) & 0xF {
        case 0: return ProxyHeader(client: nil, bytesCount: fixedBytes + restBytes)
        case 1: return ProxyHeader(client: try client(in: rest, family: byte(13)), bytesCount: fixedBytes + restBytes)
        default: throw Malformed()
        }
    }

    /// The source of a stream over IPv4 or IPv6; nil for another family.
    private static func client(in rest: ByteBufferView, family: UInt8) throws(Malformed) -> SocketAddress? {
        let addressBytes: Int
        switch family {
        case 0x11: addressBytes = 4
        case 0x21: addressBytes = 16
        default: return nil
        }
        guard rest.count >= 2 * addressBytes + 4 else { throw Malformed() }
        let port = rest.dropFirst(2 * addressBytes).prefix(2).reduce(0) { $0 << 8 | Int($1) }
        return try? SocketAddress(packedIPAddress: ByteBuffer(bytes: rest.prefix(addressBytes)), port: port)
    }
}
