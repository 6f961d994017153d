/// The slots of a connection's streams.
///
/// A slot is changed in its memory, without a copy, a uniqueness check or an exclusivity check. Together these were a fifth of the cost of
/// a request. One ``HTTP2Session`` owns the table, and calls ``deallocate()`` once.
struct HTTP2StreamTable {
    private struct Header {
        var base: UnsafeMutablePointer<HTTP2Stream>
        var capacity: Int
        var count: Int
        var ready: [Int] = []
        /// The slots without a stream.
        var free: [Int] = []
    }

    private let header: UnsafeMutablePointer<Header>

    init() {
        header = .allocate(capacity: 1)
        header.initialize(to: Header(base: .allocate(capacity: 1), capacity: 1, count: 0))
    }

    func deallocate() {
        header.pointee.base.deinitialize(count: header.pointee.count)
        header.pointee.base.deallocate()
        header.deinitialize(count: 1)
        header.deallocate()
    }

    /// The slots of event streams that have something to send, in order.
    ///
    /// Every push touches this list.
    var ready: [Int] {
        @inline(__always) _read { yield header.pointee.ready }
        @inline(__always) nonmutating _modify { yield &header.pointee.ready }
    }

    var count: Int { header.pointee.count }

    var indices: Range<Int> { 0..<header.pointee.count }

    subscript(slot: Int) -> HTTP2Stream {
        @inline(__always) _read {
            precondition(slot >= 0 && slot < header.pointee.count, "no stream has slot \(slot)")
            yield header.pointee.base[slot]
        }
        @inline(__always) nonmutating _modify {
            precondition(slot >= 0 && slot < header.pointee.count, "no stream has slot \(slot)")
            yield &header.pointee.base[slot]
        }
    }

    /// Takes a free slot, or adds one. Slots move: the caller must not be inside an access to one.
    func take() -> Int {
        if let slot = header.pointee.free.popLast() { return slot }
        let count = header.pointee.count
        if count == header.pointee.capacity { grow() }
        (header.pointee.base + count).initialize(to: HTTP2Stream())
        header.pointee.count = count + 1
        return count
    }

    /// Makes a slot free. It has no stream any more.
    func giveBack(_ slot: Int) { header.pointee.free.append(slot) }

    /// Removes the last slots as long as `isUnused` holds, and frees their memory. One slot stays.
    func trim(while isUnused: (HTTP2Stream) -> Bool) {
        var count = header.pointee.count
        while count > 1, isUnused(header.pointee.base[count - 1]) {
            count -= 1
            (header.pointee.base + count).deinitialize(count: 1)
        }
        if count < header.pointee.count {
            header.pointee.count = count
            move(toCapacity: count)
        }
        header.pointee.free.removeAll { $0 >= count }
        if header.pointee.free.isEmpty { header.pointee.free = [] }
    }

    private func grow() { move(toCapacity: header.pointee.count * 2) }

    private func move(toCapacity capacity: Int) {
        let count = header.pointee.count
        let moved = UnsafeMutablePointer<HTTP2Stream>.allocate(capacity: capacity)
        moved.moveInitialize(from: header.pointee.base, count: count)
        header.pointee.base.deallocate()
        header.pointee.base = moved
        header.pointee.capacity = capacity
    }
}
