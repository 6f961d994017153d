import Foundation
import Glibc

/// A connection that sends bytes, and reads some if it is asked to.
package final class RawConnection {
    private let descriptor: Int32

    /// - Parameter own: the address of this machine that it comes from.
    package init(port: Int, from own: String = "127.0.0.1") throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var origin = sockaddr_in()
        origin.sin_family = sa_family_t(AF_INET)
        origin.sin_addr.s_addr = inet_addr(own)
        let bound = withUnsafePointer(to: &origin) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        guard bound == 0 else { throw TestFailure("bind: \(errno)") }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        let status = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        // A reset may come before connect returns.
        guard status == 0 || errno == ECONNRESET else { throw TestFailure("connect: \(errno)") }
    }

    /// Waits for a text, on a thread of its own: the pool that tests run on has a thread a core. Fails after half a minute of silence.
    ///
    /// - Returns: all that has arrived, up to the text and beyond.
    @discardableResult package func receive(until text: String) async throws -> String {
        try await receive(text) { $0.contains(text) }
    }

    /// Waits for an HTTP/1.1 answer with its whole body.
    package func receiveAnswer() async throws -> String {
        try await receive("an answer") { text in
            guard let head = text.firstRange(of: "\r\n\r\n") else { return false }
            let length = text[..<head.lowerBound].lowercased().firstMatch(of: /content-length: ([0-9]+)/).flatMap { Int($0.1) }
            return text[head.upperBound...].utf8.count >= length ?? 0
        }
    }

    private func receive(_ expected: String, isComplete: @escaping @Sendable (String) -> Bool) async throws -> String {
        let bytes = try await receive(bytesOf: expected) { isComplete(String(decoding: $0, as: UTF8.self)) }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Waits as ``receive(until:)`` does, for bytes that need not be a text.
    package func receive(bytesOf expected: String, isComplete: @escaping @Sendable ([UInt8]) -> Bool) async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<[UInt8], any Error>) in
            Thread.detachNewThread { [descriptor] in
                var silence = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                var received: [UInt8] = []
                var bytes = [UInt8](repeating: 0, count: 1 << 18)
                while !isComplete(received) {
                    let count = poll(&silence, 1, 30_000) > 0 ? recv(descriptor, &bytes, bytes.count, 0) : 0
                    guard count > 0 else { return done.resume(throwing: TestFailure("never received: \(expected)")) }
                    received += bytes.prefix(count)
                }
                done.resume(returning: received)
            }
        }
    }

    /// Content that the other side does not read any more, because it has closed, is dropped.
    package func send(_ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count <= 0 { return }
            sent += count
        }
    }

    /// A filter of a socket, as the kernel takes it (`sock_fprog`).
    private struct Filter {
        let count: UInt16
        let instructions: UnsafeMutablePointer<UInt64>
    }

    /// Has the kernel drop all that arrives from now on, without an acknowledgement. For the other side the network is dead.
    package func loseNetwork() throws {
        var drop: UInt64 = 6  // BPF_RET | BPF_K: of each segment take 0 bytes.
        let status = withUnsafeMutablePointer(to: &drop) { instruction in
            var filter = Filter(count: 1, instructions: instruction)
            return setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &filter, socklen_t(MemoryLayout<Filter>.size))
        }
        guard status == 0 else { throw TestFailure("setsockopt: \(errno)") }
    }

    package func close() { _ = Glibc.close(descriptor) }
}
