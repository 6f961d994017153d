#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The allocator of a release build, asked by its own interface (`mallctl`); nil in a process that has another one.
package struct Jemalloc {
    private typealias Control =
        @convention(c) (
            UnsafePointer<CChar>, UnsafeMutableRawPointer?, UnsafeMutablePointer<Int>?, UnsafeMutableRawPointer?, Int
        ) -> Int32

    private let control: Control

    package init?() {
        guard let symbol = dlsym(nil, "mallctl") else { return nil }
        control = unsafeBitCast(symbol, to: Control.self)
    }

    /// Bytes that are handed out.
    package var allocatedBytes: Int {
        var (epoch, allocated, size) = (UInt64(1), 0, MemoryLayout<Int>.size)
        _ = control("epoch", nil, nil, &epoch, MemoryLayout<UInt64>.size)
        _ = control("stats.allocated", &allocated, &size, nil, 0)
        return allocated
    }

    /// Has a thread of the allocator give freed pages back to the kernel after ten seconds.
    ///
    /// Without it a thread that no longer allocates keeps what it has freed: the writer of the store and the pool that checks tokens,
    /// after a storm of logins. Returns whether the allocator can.
    @discardableResult package func giveBackInBackground() -> Bool {
        var isOn = true
        return control("background_thread", nil, nil, &isOn, MemoryLayout<Bool>.size) == 0
    }
}
