/// An element that stores its index in an ``UnorderedList``.
protocol UnorderedListElement: AnyObject {
    /// The index in the list; -1 outside of a list.
    var listIndex: Int { get set }
}

/// A list without an order, from which any element is removed in constant time.
///
/// The last element moves to the index of the removed one.
struct UnorderedList<Element: UnorderedListElement> {
    private(set) var elements: [Element] = []

    mutating func add(_ element: Element) {
        element.listIndex = elements.count
        elements.append(element)
    }

    /// Removes an element. Returns false when it is not in the list.
    mutating func remove(_ element: Element) -> Bool {
        guard element.listIndex >= 0 else { return false }
        let last = elements.removeLast()
        if last !== element {
            elements[element.listIndex] = last
            last.listIndex = element.listIndex
        }
        element.listIndex = -1
        return true
    }
}
