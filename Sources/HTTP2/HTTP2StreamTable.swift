/// The places of a connection's streams, each changed where it lies: no copy, no check for uniqueness, no exclusivity check; together
/// these were a fifth of what a request cost. Owned by one ``HTTP2Session``, which calls ``deallocate()`` once.
struct HTTP2StreamTable {
    private struct Header {
        var base: UnsafeMutablePointer<HTTP2Stream>
        var capacity: Int
        var count: Int
    }

    private let header: UnsafeMutablePointer<Header>

    init() {
        header = .allocate(capacity: 1)
        header.initialize(to: Header(base: .allocate(capacity: 1), capacity: 1, count: 0))
    }

    func deallocate() {
        header.pointee.base.deinitialize(count: header.pointee.count)
        header.pointee.base.deallocate()
        header.deallocate()
    }

    var count: Int { header.pointee.count }

    var indices: Range<Int> { 0..<header.pointee.count }

    subscript(slot: Int) -> HTTP2Stream {
        @inline(__always) _read {
            precondition(slot >= 0 && slot < header.pointee.count, "no stream has place \(slot)")
            yield header.pointee.base[slot]
        }
        @inline(__always) nonmutating _modify {
            precondition(slot >= 0 && slot < header.pointee.count, "no stream has place \(slot)")
            yield &header.pointee.base[slot]
        }
    }

    /// Adds a place and returns it. Places move: nothing of them may be borrowed meanwhile.
    func append(_ stream: HTTP2Stream) -> Int {
        let count = header.pointee.count
        if count == header.pointee.capacity { grow() }
        (header.pointee.base + count).initialize(to: stream)
        header.pointee.count = count + 1
        return count
    }

    private func grow() {
        let count = header.pointee.count
        let larger = UnsafeMutablePointer<HTTP2Stream>.allocate(capacity: count * 2)
        larger.moveInitialize(from: header.pointee.base, count: count)
        header.pointee.base.deallocate()
        header.pointee.base = larger
        header.pointee.capacity = count * 2
    }
}
