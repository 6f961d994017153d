import PresenceWire

extension ChainCall {
    /// The decisions of the call, in its order.
    ///
    /// - Parameter request: the request that has the call.
    func decisions(in request: Request, _ owner: borrowing Owner) -> [(user: UserID, decision: Decision)] {
        switch self {
        case .add(let other, let request, let isTwoWay, _): [(other, .command(.add(request, isTwoWay: isTwoWay)))]
        case .respond(let other, let command): [(other, .command(command))]
        case .delete(let users, let isTwoWay): users.map { ($0, isTwoWay ? .command(.delete) : .deleteOneWay) }
        case .deleteAll(let isTwoWay):
            Self.deletedFriends(by: request, owner)
                .map { (UserID($0.key, besides: request.user), isTwoWay ? .command(.delete) : .deleteOneWay) }
        case .setBlocked(let users, let isBlocked): users.map { ($0, isBlocked ? .command(.block) : .unblock) }
        }
    }

    /// The friends that a call deletes which names none: those on the list.
    ///
    /// A repeated call also names the friends who have gone since it began: an earlier attempt may have deleted them, and their decisions
    /// may be open. The caller learns of them, and waits for them, as in a call that names its users.
    private static func deletedFriends(by request: Request, _ owner: borrowing Owner) -> [RowList.Entry] {
        guard let user = owner.index(ofKnown: request.user) else { return [] }
        let list = owner.users[user].list(.friend)
        guard request.isRepeated, request.begunAt > .zero else { return list.page(after: nil, limit: deletedMax).answerable }
        let isGone = { (entry: RowList.Entry) in !entry.isUnseen && entry.key != Row.lateMark && entry.version > request.begunAt }
        return Array(list.entries.filter { !$0.isRemoved || isGone($0) }.prefix(deletedMax)).answerable
    }
}

extension [RowList.Entry] {
    /// The first rows whose keys fit into the row that keeps the answer of a call.
    fileprivate var answerable: Self {
        var bytesCount = 0
        return Array(
            prefix { entry in
                bytesCount += entry.key.utf8.count
                return bytesCount <= Limits.rowBytesMax / 4
            })
    }
}
