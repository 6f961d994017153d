/// The deadlines of many entries: the earliest first, and the lowest index first among equal ones.
///
/// Each index occurs at most once. A deadline that is moved or removed leaves nothing behind.
///
/// It is a binary heap that knows the position of each index.
struct Deadlines<Time: Comparable> {
    typealias Index = UInt32

    private struct Entry: Comparable {
        var at: Time
        let index: Index

        static func < (left: Entry, right: Entry) -> Bool { (left.at, left.index) < (right.at, right.index) }
    }

    private var heap: [Entry] = []
    /// For each index its position in the heap, counted from 1; 0 if it has no deadline.
    private var positions: [UInt32] = []

    var count: Int { heap.count }

    /// The entry with the earliest deadline.
    var first: (at: Time, index: Index)? { heap.first.map { ($0.at, $0.index) } }

    /// The deadline of `index`; nil for none.
    func deadline(of index: Index) -> Time? { position(of: index).map { heap[$0].at } }

    /// Sets the deadline of `index`, and drops an earlier one.
    mutating func set(_ index: Index, at time: Time) {
        if let position = position(of: index) {
            let isEarlier = time < heap[position].at
            heap[position].at = time
            if isEarlier { rise(from: position) } else { sink(from: position) }
            return
        }
        while positions.count <= Int(index) { positions.append(0) }
        heap.append(Entry(at: time, index: index))
        positions[Int(index)] = UInt32(heap.count)
        rise(from: heap.count - 1)
    }

    /// Removes the deadline of `index`.
    mutating func remove(_ index: Index) {
        guard let position = position(of: index) else { return }
        positions[Int(index)] = 0
        let last = heap.removeLast()
        guard position < heap.count else { return }
        put(last, at: position)
        rise(from: position)
        sink(from: position)
    }

    private func position(of index: Index) -> Int? {
        guard Int(index) < positions.count, positions[Int(index)] > 0 else { return nil }
        return Int(positions[Int(index)]) - 1
    }

    private mutating func put(_ entry: Entry, at position: Int) {
        heap[position] = entry
        positions[Int(entry.index)] = UInt32(position + 1)
    }

    private mutating func rise(from start: Int) {
        let entry = heap[start]
        var position = start
        while position > 0, entry < heap[(position - 1) / 2] {
            put(heap[(position - 1) / 2], at: position)
            position = (position - 1) / 2
        }
        if position != start { put(entry, at: position) }
    }

    private mutating func sink(from start: Int) {
        let entry = heap[start]
        var position = start
        while true {
            var child = 2 * position + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1] < heap[child] { child += 1 }
            guard heap[child] < entry else { break }
            put(heap[child], at: position)
            position = child
        }
        if position != start { put(entry, at: position) }
    }
}
