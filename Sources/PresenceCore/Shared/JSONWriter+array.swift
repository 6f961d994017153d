import PresenceWire

extension JSONWriter {
    /// Writes a member with an array. `write` writes each element.
    @inline(__always)
    mutating func array<Elements: Sequence>(
        _ name: StaticString, _ elements: Elements, _ write: (inout JSONWriter, Elements.Element) -> Void
    ) {
        key(name)
        array { json in for element in elements { write(&json, element) } }
    }
}
