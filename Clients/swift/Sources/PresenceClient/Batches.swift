/// The most users of one call. The client cuts longer lists into several calls, and merges the results.
///
/// The node's policy decides. A call beyond it is refused with 6017.
public struct CallLimits: Sendable, Equatable {
    /// Users of one `getUserStatus`, or of one `getSubscribedUserStatus` that names users.
    public var queryUsersMax: Int
    /// Users of one `subscribeUserStatus`.
    public var subscribeUsersMax: Int
    /// Users of one `unsubscribeUserStatus`.
    public var unsubscribeUsersMax: Int
    /// Rows of one page of `getSubscribedUserStatus`.
    public var pageRowsMax: Int
    /// Users of one call about profiles or the relationship chain.
    public var chainUsersMax: Int

    /// - Parameters: see the properties.
    public init(queryUsersMax: Int, subscribeUsersMax: Int, unsubscribeUsersMax: Int, pageRowsMax: Int = 200, chainUsersMax: Int = 100) {
        self.queryUsersMax = max(queryUsersMax, 1)
        self.subscribeUsersMax = max(subscribeUsersMax, 1)
        self.unsubscribeUsersMax = max(unsubscribeUsersMax, 1)
        self.pageRowsMax = max(pageRowsMax, 1)
        self.chainUsersMax = max(chainUsersMax, 1)
    }

    /// Rollcall's own preset.
    public static let rollcall = CallLimits(queryUsersMax: 500, subscribeUsersMax: 200, unsubscribeUsersMax: 200)
    /// The limits of Tencent's document.
    public static let tencent = CallLimits(queryUsersMax: 500, subscribeUsersMax: 100, unsubscribeUsersMax: 100)
    /// The limits of RongCloud's document; 200 where it is silent.
    public static let rongcloud = CallLimits(queryUsersMax: 200, subscribeUsersMax: 200, unsubscribeUsersMax: 200)
    /// The limits of CommsEase's document.
    public static let commsease = CallLimits(queryUsersMax: 100, subscribeUsersMax: 100, unsubscribeUsersMax: 100)
    /// The limits of ZEGOCLOUD's document.
    public static let zim = CallLimits(queryUsersMax: 200, subscribeUsersMax: 100, unsubscribeUsersMax: 100)
}

extension Array where Element == String {
    /// The elements in order, each once, in runs of at most `countMax`. An empty list is one empty run, so that the node can reject it.
    func batches(of countMax: Int) -> [[String]] {
        var seen: Set<UserKey> = []
        let unique = filter { seen.insert(UserKey($0)).inserted }
        guard unique.count > countMax else { return [unique] }
        return stride(from: 0, to: unique.count, by: countMax).map { Array(unique[$0..<Swift.min($0 + countMax, unique.count)]) }
    }
}
