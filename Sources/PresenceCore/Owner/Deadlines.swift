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
    private var places: [UInt32] = []

    var count: Int { heap.count }

    /// The entry with the earliest deadline.
    var first: (at: Time, index: Index)? { heap.first.map { ($0.at, $0.index) } }

    /// The deadline of `index`; nil for none.
    func deadline(of index: Index) -> Time? { place(of: index).map { heap[$0].at } }

    /// Sets the deadline of `index`, and drops an earlier one.
    mutating func set(_ index: Index, at time: Time) {
        if let place = place(of: index) {
            let isEarlier = time < heap[place].at
            heap[place].at = time
            if isEarlier { rise(from: place) } else { sink(from: place) }
            return
        }
        while places.count <= Int(index) { places.append(0) }
        heap.append(Entry(at: time, index: index))
        places[Int(index)] = UInt32(heap.count)
        rise(from: heap.count - 1)
    }

    /// Removes the deadline of `index`.
    mutating func remove(_ index: Index) {
        guard let place = place(of: index) else { return }
        places[Int(index)] = 0
        let last = heap.removeLast()
        guard place < heap.count else { return }
        put(last, at: place)
        rise(from: place)
        sink(from: place)
    }

    private func place(of index: Index) -> Int? {
        guard Int(index) < places.count, places[Int(index)] > 0 else { return nil }
        return Int(places[Int(index)]) - 1
    }

    private mutating func put(_ entry: Entry, at place: Int) {
        heap[place] = entry
        places[Int(entry.index)] = UInt32(place + 1)
    }

    private mutating func rise(from start: Int) {
        let entry = heap[start]
        var place = start
        while place > 0, entry < heap[(place - 1) / 2] {
            put(heap[(place - 1) / 2], at: place)
            place = (place - 1) / 2
        }
        if place != start { put(entry, at: place) }
    }

    private mutating func sink(from start: Int) {
        let entry = heap[start]
        var place = start
        while true {
            var child = 2 * place + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1] < heap[child] { child += 1 }
            guard heap[child] < entry else { break }
            put(heap[child], at: place)
            place = child
        }
        if place != start { put(entry, at: place) }
    }
}
