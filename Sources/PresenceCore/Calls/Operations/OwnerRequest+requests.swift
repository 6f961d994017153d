import PresenceWire

/// The friend requests of a user: read by pages, removed and marked as read (P20–P28).
extension OwnerRequest {
    /// The JSON of one page of friend requests.
    ///
    /// The sequence covers both kinds of requests. Requests are in the order of their last change. A page ends between two milliseconds, so
    /// that `timestamp` continues; 0 ends.
    func requests(_ query: RequestQuery, of owner: borrowing Owner) -> [UInt8] {
        let requests = owner.friendRequests(of: id)
        let sequence = requests.sequence
        var items: [FriendRequestItem] = []
        var hasMore = false
        if query.since != sequence {
            // A page of each list has all changes that the common page may have.
            let start = Version(lastOf: query.after)
            for (kind, list) in [(FriendRequestKind.received, requests.received), (.sent, requests.sent)]
            where query.kind == nil || query.kind == kind {
                let page = list.page(changedAfter: start, limit: query.limit, withTombstones: false)
                items += page.map { FriendRequestItem(kind: kind, entry: $0) }
                let rest = page.last.map { list.page(changedAfter: $0.version, limit: 1, withTombstones: false) } ?? []
                if !rest.isEmpty { hasMore = true }
            }
            items.sort { ($0.entry.version, $0.kind.rawValue) < ($1.entry.version, $1.kind.rawValue) }
        }
        let count = items.pageCount(limit: query.limit)
        var json = JSONWriter(reserving: 256 + 160 * count)
        json.object { json in
            json.member("seq", sequence)
            json.member("timestamp", hasMore || count < items.count ? items[count - 1].changedAt : 0)
            json.member("unreadCnt", requests.unreadCount)
            json.array("pendencyList", items[..<count]) { $0.request(Row($1.entry, of: id, $1.kind.rowKind)) }
        }
        return json.bytes
    }

    /// Removes friend requests from the user's list. The list of the other user stays as it is.
    func deleteRequests(of users: [UserID], _ kind: FriendRequestKind, on owner: inout Owner, into outbox: inout Outbox)
        -> FriendCallResult
    {
        let rowKind = kind.rowKind
        var changes: [ChainRules.Change] = []
        var outcomes: [ChainOutcome] = []
        for other in users {
            let key = String(other.id)
            let entry = list(rowKind, of: owner).entry(for: key)
            let isThere = entry.map { !$0.isRemoved } ?? false
            if isThere { changes.append(.remove(rowKind, key)) } else { writeAgain(rowKind, key, of: owner, into: &outbox) }
            outcomes.append(ChainOutcome(user: other, code: isThere || mayHaveWritten(entry) ? .done : .noRequest))
        }
        write(changes, on: &owner, into: &outbox)
        return FriendCallResult(users: outcomes)
    }

    /// Marks the received requests up to a time as read.
    ///
    /// The time never goes back, because two devices may report in any order. A time in the future counts as now, so that later requests
    /// are unread.
    func readRequests(upTo time: Milliseconds, on owner: inout Owner, into outbox: inout Outbox) -> FriendCallResult {
        let time = min(time, owner.clock.milliseconds(at: now.wall))
        if time > owner.friendRequests(of: id).readTime {
            write([.set(ReadRequests(timestamp: time), "")], on: &owner, into: &outbox)
        } else {
            writeAgain(.pendencyRead, "", of: owner, into: &outbox)
        }
        var json = JSONWriter(reserving: 32)
        json.object { $0.member("unreadCnt", owner.friendRequests(of: id).unreadCount) }
        return FriendCallResult(json: json.bytes)
    }
}

/// One row of a page of friend requests.
private struct FriendRequestItem {
    let kind: FriendRequestKind
    let entry: RowList.Entry

    /// The time of the last change.
    var changedAt: Milliseconds { entry.version.milliseconds }
}

extension Version {
    /// The last version of a millisecond. All changes of later milliseconds are newer.
    fileprivate init(lastOf time: Milliseconds) {
        // A stamp has 48 bits of milliseconds.
        self.init(milliseconds: min(time, 1 << 48 - 1), counter: .max, node: .max)
    }
}

extension [FriendRequestItem] {
    /// The number of items on a page. The page has all changes of its last millisecond.
    fileprivate func pageCount(limit: Int) -> Int {
        guard count > limit else { return count }
        return limit + self[limit...].prefix { $0.changedAt == self[limit - 1].changedAt }.count
    }
}
