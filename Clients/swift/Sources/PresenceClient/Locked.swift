import Foundation

/// A value behind a lock.
///
/// `Mutex` of the standard library needs iOS 18 and macOS 15. This one runs wherever the client does.
package final class Locked<Value>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    /// - Parameter value: the first value. Nothing else may refer to what it refers to, unless that is sendable.
    package init(_ value: Value) { self.value = value }

    /// Reads and changes the value. `body` must not take the same lock.
    package func withLock<Output, Failure: Error>(_ body: (inout Value) throws(Failure) -> Output) throws(Failure) -> Output {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
