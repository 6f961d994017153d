import PresenceWire

extension Row {
    /// The durable form of a user's visibility and hidden views.
    ///
    /// The friends have rows of their own, and are not repeated.
    init(_ privacy: Privacy, of user: UserID) {
        var json = JSONWriter(reserving: 320)
        json.object { json in
            json.member("visibility", privacy.visibility.mode.rawValue)
            json.member("invisible", privacy.visibility.isInvisible)
            json.member("userIDs", privacy.visibility.listed)
            json.member("blocked", privacy.visibility.blocked)
            json.member("writtenAt", privacy.writtenAt.text)
            json.key("faces")
            json.array { json in
                for hiddenView in privacy.hiddenViews {
                    json.object { json in
                        json.member("version", hiddenView.version.text)
                        json.facts(of: hiddenView)
                    }
                }
            }
            json.member("named", privacy.named.map(\.user))
            json.key("namedFaces")
            json.array { json in for named in privacy.named { json.integer(named.view.map { Int64($0.hiddenView) } ?? -1) } }
            if privacy.named.contains(where: { $0.view?.admittedAt ?? 0 > 0 }) {
                json.key("namedSince")
                json.array { json in for named in privacy.named { json.integer(named.view?.admittedAt ?? 0) } }
            }
            guard let others = privacy.others else { return }
            json.member("others", Int64(others.hiddenView))
            if others.admittedAt > 0 { json.member("othersSince", others.admittedAt) }
        }
        self.init(user: user, kind: .visibility, key: "", version: privacy.version, value: json.bytes)
    }
}

extension Privacy {
    /// Reads a row of kind ``PresenceWire/Row/Kind/visibility``. Throws the error in it.
    init(_ row: Row) throws(RowError) {
        let json = try JSONValue(row)
        var visibility = Visibility()
        guard let mode = Visibility.Mode(rawValue: json["visibility"]?.text ?? "") else { throw RowError(row, "visibility is missing") }
        visibility.mode = mode
        visibility.isInvisible = json["invisible"] == .bool(true)
        visibility.listed = json["userIDs"]?.users(besides: row.user) ?? []
        visibility.blocked = json["blocked"]?.users(besides: row.user) ?? []
        guard let writtenAt = Version(text: json["writtenAt"]?.text ?? "") else { throw RowError(row, "writtenAt is missing") }
        var hiddenViews: [Record] = []
        for hiddenView in json["faces"]?.elements ?? [] {
            guard let version = Version(text: hiddenView["version"]?.text ?? "") else {
                throw RowError(row, "a hidden view has no version")
            }
            hiddenViews.append(try Record(hiddenView, version: version, of: row))
        }
        let users = json["named"]?.users(besides: row.user) ?? []
        let views = json["namedFaces"]?.elements.compactMap(\.wholeNumber) ?? []
        // An earlier version has written no times, and no viewer without a view.
        let times = json["namedSince"]?.elements.compactMap(\.wholeNumber) ?? users.map { _ in 0 }
        let named = zip(users, zip(views, times)).map { user, view in Named(user: user, view: View(view.0, since: view.1)) }
        let others = json["others"]?.wholeNumber.flatMap { View($0, since: json["othersSince"]?.wholeNumber ?? 0) }
        guard
            let privacy = Privacy(
                visibility: visibility, writtenAt: writtenAt, version: row.version, hiddenViews: hiddenViews, named: named, others: others)
        else { throw RowError(row, "it refers to a hidden view that does not exist") }
        self = privacy
    }
}

extension Privacy.View {
    /// Reads a view from a row; nil for none.
    fileprivate init?(_ hiddenView: Int64, since admittedAt: Milliseconds) {
        guard hiddenView >= 0 else { return nil }
        self.init(hiddenView: Int(clamping: hiddenView), admittedAt: Limits.times.contains(admittedAt) ? admittedAt : 0)
    }
}

extension JSONWriter {
    fileprivate mutating func member(_ name: StaticString, _ users: [UserID]) {
        key(name)
        array { json in for user in users { json.string(user.id) } }
    }
}

extension JSONValue {
    fileprivate var elements: [JSONValue] {
        if case .array(let elements) = self { elements } else { [] }
    }

    fileprivate func users(besides neighbour: UserID) -> [UserID] { elements.compactMap { $0.text.map { UserID($0, besides: neighbour) } } }
}
