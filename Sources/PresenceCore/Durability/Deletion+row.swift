import PresenceWire

extension Deletion: RowFact {
    static var kind: Row.Kind { .deletion }

    init(_ fields: RowFields) throws(RowError) {
        var removed: [Removed] = []
        if let member = fields.members.first(where: { $0.name == "removed" }) {
            guard case .object(let counts) = member.value else { throw fields.error("removed", "is not an object") }
            for count in counts {
                guard let kind = Row.Kind(name: count.name), let number = count.value.wholeNumber, number >= 0 else {
                    throw fields.error("removed.\(count.name)", "is not the number of facts of a kind")
                }
                removed.append(Removed(kind: kind, count: UInt64(number)))
            }
        }
        self.init(
            receiptID: try fields.text("receiptID", bytesMax: Limits.nameBytesMax), voidUpTo: try fields.version("voidUpTo"),
            begunAt: try fields.time("begunAt"), sweptAt: try fields.number("sweptAt", in: Limits.times),
            completedAt: try fields.number("completedAt", in: Limits.times), removed: removed,
            nodes: try fields.names("nodes", countMax: Self.nodesMax))
    }

    func write(to json: inout JSONWriter) {
        json.member("receiptID", receiptID)
        json.member("voidUpTo", voidUpTo)
        json.member("begunAt", begunAt)
        if let sweptAt { json.member("sweptAt", sweptAt) }
        if let completedAt { json.member("completedAt", completedAt) }
        json.key("removed")
        json.counts(of: removed)
        json.array("nodes", nodes) { $0.string($1) }
    }
}

extension RowFields {
    /// Names of nodes; none if they are missing.
    fileprivate func names(_ name: String, countMax: Int) throws(RowError) -> [String] {
        guard let member = members.first(where: { $0.name == name }) else { return [] }
        guard case .array(let elements) = member.value, elements.count <= countMax else {
            throw error(name, "is not an array of at most \(countMax) names")
        }
        let names = elements.compactMap(\.text)
        guard names.count == elements.count else { throw error(name, "is not an array of texts") }
        return names
    }
}

extension JSONWriter {
    /// Writes an object with the number of facts of each kind.
    mutating func counts(of removed: [Deletion.Removed]) {
        object { json in
            for part in removed {
                json.key(text: part.kind.name)
                json.integer(Int64(clamping: part.count))
            }
        }
    }
}
