import PresenceWire

extension [UInt32] {
    /// The index at which `element` is, or would be, in a sorted array.
    func insertionIndex(of element: UInt32) -> Int { insertionIndex { $0 < element } }

    func containsSorted(_ element: UInt32) -> Bool {
        let index = insertionIndex(of: element)
        return index < count && self[index] == element
    }
}
