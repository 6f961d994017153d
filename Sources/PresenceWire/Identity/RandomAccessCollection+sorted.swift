extension RandomAccessCollection where Index == Int {
    /// The index of the first element for which `isBefore` is false, by binary search; the end if there is none.
    ///
    /// - Parameter isBefore: true for a prefix of the collection, and false for the rest.
    @inlinable
    public func insertionIndex(after isBefore: (Element) -> Bool) -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if isBefore(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
