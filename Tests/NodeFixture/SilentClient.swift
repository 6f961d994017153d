/// Logs in by hand and then says nothing more, not even the answer to a PING, unless it is asked to take data.
package final class SilentClient {
    private let connection: RawConnection

    /// Over HTTP/2.
    ///
    /// - Parameters:
    ///   - paths: of the streams that it opens.
    ///   - isReset: each is reset as soon as it is open.
    ///   - takesData: if not, its flow-control windows are closed, so that the node can send no byte of a body.
    package convenience init(
        port: Int, token: String, paths: [String] = ["/v1/events"], isReset: Bool = false, takesData: Bool = true
    ) throws {
        var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        // SETTINGS: none, or SETTINGS_INITIAL_WINDOW_SIZE with 0 (RFC 9113 §6.5.2).
        bytes += takesData ? [0, 0, 0, 4, 0, 0, 0, 0, 0] : [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]
        for (number, path) in paths.enumerated() {
            var block: [UInt8] = [0x82, 0x86]  // :method GET, :scheme http
            for (name, value) in [(":path", path), (":authority", "x"), ("authorization", "Bearer \(token)")] {
                block.append(0)
                block += Self.string(name) + Self.string(value)
            }
            let length = block.count
            let stream = 2 * number + 1
            bytes += [
                UInt8(length >> 16), UInt8(length >> 8 & 255), UInt8(length & 255), 1, 5, 0, 0, UInt8(stream >> 8), UInt8(stream & 255),
            ]
            bytes += block
            if isReset { bytes += [0, 0, 4, 3, 0, 0, 0, UInt8(stream >> 8), UInt8(stream & 255), 0, 0, 0, 8] }
        }
        try self.init(port: port, sending: bytes)
    }

    /// Over HTTP/1.1.
    package convenience init(port: Int, tokenOverHTTP1 token: String) throws {
        try self.init(port: port, sending: Array("GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(token)\r\n\r\n".utf8))
    }

    private init(port: Int, sending bytes: [UInt8]) throws {
        connection = try RawConnection(port: port)
        connection.send(bytes)
    }

    /// A string literal of HPACK (RFC 7541 §5.2), not Huffman-coded.
    private static func string(_ text: String) -> [UInt8] {
        var count = text.utf8.count
        guard count >= 127 else { return [UInt8(count)] + Array(text.utf8) }
        var length: [UInt8] = [127]
        count -= 127
        while count >= 128 {
            length.append(UInt8(count & 127 | 128))
            count >>= 7
        }
        return length + [UInt8(count)] + Array(text.utf8)
    }

    /// Drops all that arrives from now on, without an acknowledgement.
    package func loseNetwork() throws { try connection.loseNetwork() }

    /// Opens the flow-control windows of HTTP/2, and waits for a text in the bodies.
    ///
    /// - Returns: the bodies of all its streams, up to the text and beyond.
    @discardableResult package func takeData(until text: String) async throws -> String {
        // SETTINGS with a SETTINGS_INITIAL_WINDOW_SIZE of 16 MiB, and WINDOW_UPDATE by as much for the connection (RFC 9113 §6.9).
        connection.send([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0] + [0, 0, 4, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0])
        let frames = try await connection.receive(bytesOf: text) { Self.bodies(in: $0).contains(text) }
        return Self.bodies(in: frames)
    }

    /// The contents of the DATA frames among whole frames (RFC 9113 §4.1). A node pads no frame.
    private static func bodies(in frames: [UInt8]) -> String {
        var (content, start) = ([UInt8](), 0)
        while start + 9 <= frames.count {
            let length = Int(frames[start]) << 16 | Int(frames[start + 1]) << 8 | Int(frames[start + 2])
            let end = start + 9 + length
            guard end <= frames.count else { break }
            if frames[start + 3] == 0 { content += frames[(start + 9)..<end] }
            start = end
        }
        return String(decoding: content, as: UTF8.self)
    }

    package func close() { connection.close() }
}
