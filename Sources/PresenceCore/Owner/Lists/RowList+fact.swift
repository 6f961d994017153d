import PresenceWire

extension RowList {
    /// The fact of a row; nil if there is none, or if it was removed.
    func fact<Fact: RowFact>(_ key: String, of user: UserID) -> Fact? {
        entry(for: key).flatMap { $0.fact(of: user) }
    }
}

extension RowList.Entry {
    /// The fact of the row; nil for a tombstone. A row of a list was checked when it was stored.
    func fact<Fact: RowFact>(of user: UserID) -> Fact? {
        isRemoved ? nil : try? Fact(Row(self, of: user, Fact.kind))
    }
}
