extension RandomAccessCollection where Index == Int {
    /// The first place whose element does not come before what is looked for, found by halving; the end if all come before it.
    ///
    /// - Parameter isBefore: true for a beginning of the collection, and false for the rest.
    func firstPlace(after isBefore: (Element) -> Bool) -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if isBefore(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension [UInt32] {
    /// Where `element` stands, or would stand, in a sorted array.
    func firstPlace(of element: UInt32) -> Int { firstPlace { $0 < element } }

    func containsSorted(_ element: UInt32) -> Bool {
        let place = firstPlace(of: element)
        return place < count && self[place] == element
    }
}
