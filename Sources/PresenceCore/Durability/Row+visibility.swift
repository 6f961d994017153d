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
            json.array("userIDs", privacy.visibility.listed) { $0.string($1.id) }
            json.array("blocked", privacy.visibility.blocked) { $0.string($1.id) }
            json.member("writtenAt", privacy.writtenAt.text)
            if let held = privacy.heldVersion { json.member("heldVersion", held.text) }
            json.array("faces", privacy.contents) { json, content in json.object { $0.facts(of: content) } }
            json.array("named", privacy.named) { $0.string($1.user.id) }
            json.array("views", privacy.named) { if let view = $1.view { $0.view(view) } else { $0.array { _ in } } }
            if !privacy.news.isEmpty { json.news(privacy.news) }
            guard let others = privacy.others else { return }
            json.key("othersView")
            json.view(others)
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
        let views = try HiddenViews(json, of: row)
        guard
            let privacy = Privacy(
                visibility: visibility, writtenAt: writtenAt, version: row.version,
                heldVersion: json["heldVersion"]?.text.flatMap { Version(text: $0) }, contents: views.contents, named: views.named,
                others: views.others, news: ProfileNews(json, of: row))
        else { throw RowError(row, "it refers to a hidden view that does not exist") }
        self = privacy
    }
}

/// The hidden views of a row.
private struct HiddenViews {
    private(set) var contents: [Record] = []
    private(set) var named: [Privacy.Named] = []
    private(set) var others: Privacy.View?

    init(_ json: JSONValue, of row: Row) throws(RowError) {
        var records: [Record] = []
        for record in json["faces"]?.elements ?? [] {
            records.append(try Record(record, version: Version(text: record["version"]?.text ?? "") ?? .zero, of: row))
        }
        contents = records.map(\.content)
        let users = json["named"]?.users(besides: row.user) ?? []
        guard let views = json["views"]?.elements else {
            readEarlier(json, records, users)
            return
        }
        named = zip(users, views).map { Privacy.Named(user: $0, view: Privacy.View($1)) }
        others = json["othersView"].flatMap { Privacy.View($0) }
    }

    /// Reads the views of an earlier version, which had the version and the times of a content.
    private mutating func readEarlier(_ json: JSONValue, _ records: [Record], _ users: [UserID]) {
        func view(_ index: Int64) -> Privacy.View {
            let index = Int(clamping: index)
            let record = records.indices.contains(index) ? records[index] : nil
            return Privacy.View(content: index, version: record?.version ?? .zero, times: record?.times ?? RecordTimes())
        }
        let indices = json["namedFaces"]?.elements.compactMap(\.wholeNumber) ?? []
        named = zip(users, indices).map { Privacy.Named(user: $0, view: view($1)) }
        others = json["others"]?.wholeNumber.map(view)
    }
}

extension Privacy.View {
    /// Reads a view from a row; nil for none.
    fileprivate init?(_ json: JSONValue) {
        let fields = json.elements
        let numbers = fields.compactMap(\.wholeNumber)
        guard fields.count == 7, numbers.count == 6, let version = Version(text: fields[6].text ?? "") else { return nil }
        guard numbers.allSatisfy(Limits.times.contains) else { return nil }
        let times = RecordTimes(
            lastUpdateTime: numbers[1], lastOnlineStatusUpdateTime: numbers[2], lastCustomStatusUpdateTime: numbers[3],
            lastSeenTime: numbers[4])
        self.init(content: Int(numbers[0]), version: version, times: times, admittedAt: numbers[5])
    }
}

extension ProfileNews {
    /// Reads the news of a row. A row of an earlier version has none.
    fileprivate init(_ json: JSONValue, of row: Row) {
        let named = (json["news"]?.elements ?? []).compactMap { element in
            Entry(element).map { Named(user: UserID(element.elements[0].text ?? "", besides: row.user), entry: $0) }
        }
        self.init(named: named.sorted { $0.user < $1.user }, others: json["othersNews"].flatMap { Entry($0) } ?? Entry())
    }
}

extension ProfileNews.Entry {
    /// Reads the user's ID, the stamp, and the version before the wait; nil for anything else.
    fileprivate init?(_ json: JSONValue) {
        let fields = json.elements.compactMap(\.text)
        guard fields.count == 2 || fields.count == 3, let stamp = Version(text: fields[1]) else { return nil }
        let known = fields.count == 3 ? Version(text: fields[2]) : nil
        guard (known == nil) == (fields.count == 2) else { return nil }
        self.init(known: known, stamp: stamp)
    }
}

extension JSONWriter {
    fileprivate mutating func news(_ news: ProfileNews) {
        array("news", news.named) { $0.entry($1.entry, of: $1.user.id) }
        key("othersNews")
        entry(news.others, of: "")
    }

    private mutating func entry(_ entry: ProfileNews.Entry, of user: Substring) {
        array { json in
            json.string(user)
            json.string(entry.stamp.text)
            if let known = entry.known { json.string(known.text) }
        }
    }

    fileprivate mutating func view(_ view: Privacy.View) {
        let times = view.times
        array { json in
            for number in [
                Int64(view.content), times.lastUpdateTime, times.lastOnlineStatusUpdateTime, times.lastCustomStatusUpdateTime,
                times.lastSeenTime, view.admittedAt,
            ] { json.integer(number) }
            json.string(view.version.text)
        }
    }
}

extension JSONValue {
    fileprivate var elements: [JSONValue] {
        if case .array(let elements) = self { elements } else { [] }
    }

    fileprivate func users(besides neighbour: UserID) -> [UserID] { elements.compactMap { $0.text.map { UserID($0, besides: neighbour) } } }
}
