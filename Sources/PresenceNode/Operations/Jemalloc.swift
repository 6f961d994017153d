#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The allocator of a release build, controlled through `mallctl`; nil in a process with another allocator.
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

    /// Allocated bytes.
    package var allocatedBytes: Int {
        var (epoch, allocated, size) = (UInt64(1), 0, MemoryLayout<Int>.size)
        _ = control("epoch", nil, nil, &epoch, MemoryLayout<UInt64>.size)
        _ = control("stats.allocated", &allocated, &size, nil, 0)
        return allocated
    }

    /// The time after which freed pages return to the kernel, so that a burst is over with its cause. jemalloc's default is ten seconds.
    private static let decayMilliseconds = 1_000

    /// Starts a thread of the allocator that returns freed pages to the kernel within ``decayMilliseconds``.
    ///
    /// Without that thread, a thread that no longer allocates keeps its freed pages. After a storm of logins these are the writer of the
    /// store and the pool that checks tokens. Returns whether the allocator supports this.
    @discardableResult package func giveBackInBackground() -> Bool {
        var (isOn, decay, arenasCount, size) = (true, Self.decayMilliseconds, UInt32(0), MemoryLayout<UInt32>.size)
        // The first name is for arenas that do not exist yet. The call fails for each of the others that does not.
        _ = control("arenas.dirty_decay_ms", nil, nil, &decay, MemoryLayout<Int>.size)
        _ = control("arenas.narenas", &arenasCount, &size, nil, 0)
        for arena in 0..<arenasCount { _ = control("arena.\(arena).dirty_decay_ms", nil, nil, &decay, MemoryLayout<Int>.size) }
        return control("background_thread", nil, nil, &isOn, MemoryLayout<Bool>.size) == 0
    }
}
