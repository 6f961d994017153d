import PresenceClient

/// Tencent's calls of profiles and the relationship chain (`documents/004…`), over a ``PresenceClient/PresenceClient``.
///
/// Each call has two forms: `async`, and the document's, which returns 0 when the call is sent and calls back (P45).
public struct TIMFriendshipManager: Sendable {
    private let manager: TIMManager

    init(_ manager: TIMManager) { self.manager = manager }

    /// The calls of ``TIMManager/sharedInstance()``.
    public static func sharedInstance() -> TIMFriendshipManager { TIMManager.sharedInstance().friendshipManager }

    private func call<Answer>(_ body: (Friendship) async throws(PresenceError) -> Answer) async throws(TIMError) -> Answer {
        let client = try manager.client()
        do { return try await body(client.friendship) } catch { throw TIMError(error) }
    }

    // MARK: Profiles

    /// Returns the own profile (P1).
    public func getSelfProfile() async throws(TIMError) -> TIMUserProfile {
        try await call { (client) async throws(PresenceError) -> TIMUserProfile in
            TIMUserProfile(try await client.getSelfProfile())
        }
    }

    /// The same in the document's form.
    @discardableResult public func getSelfProfile(succ: (@Sendable (TIMUserProfile) -> Void)?, fail: TIMFail?) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> TIMUserProfile in try await self.getSelfProfile() }
    }

    /// Returns the profiles of users (P3). Without `forceUpdate` those that were fetched before are used again (P4).
    public func getUsersProfile(_ users: [String], forceUpdate: Bool) async throws(TIMError) -> [TIMUserProfile] {
        try await call { (client) async throws(PresenceError) -> [TIMUserProfile] in
            try await Self.profiles(of: users, forceUpdate: forceUpdate, from: client)
        }
    }

    /// The same in the document's form.
    @discardableResult public func getUsersProfile(
        _ users: [String], forceUpdate: Bool, succ: (@Sendable ([TIMUserProfile]) -> Void)?, fail: TIMFail?
    ) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMUserProfile] in
            try await self.getUsersProfile(users, forceUpdate: forceUpdate)
        }
    }

    /// Sets fields of the own profile (P5). An unknown key refuses the call (P6).
    public func modifySelfProfile(_ values: [String: any TIMValue]) async throws(TIMError) {
        try await call { (client) async throws(PresenceError) -> Void in
            _ = try await client.modifySelfProfile(try Self.fields(values))
        }
    }

    /// The same in the document's form.
    @discardableResult public func modifySelfProfile(_ values: [String: any TIMValue], succ: TIMSucc?, fail: TIMFail?) -> Int {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.modifySelfProfile(values) }
    }

    // MARK: Friends

    /// Returns all friends with their profiles (P9).
    public func getFriendList() async throws(TIMError) -> [TIMFriend] {
        try await call { (client) async throws(PresenceError) -> [TIMFriend] in
            try await Self.friends(from: client)
        }
    }

    /// The same in the document's form.
    @discardableResult public func getFriendList(succ: (@Sendable ([TIMFriend]) -> Void)?, fail: TIMFail?) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriend] in try await self.getFriendList() }
    }

    /// Changes the remark, the groups and the custom fields of a friend (P11).
    public func modifyFriend(_ identifier: String, values: [String: any TIMValue]) async throws(TIMError) {
        try await call { (client) async throws(PresenceError) -> Void in
            try await Self.modify(identifier, values, at: client)
        }
    }

    /// The same in the document's form.
    @discardableResult public func modifyFriend(_ identifier: String, values: [String: any TIMValue], succ: TIMSucc?, fail: TIMFail?) -> Int
    {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.modifyFriend(identifier, values: values) }
    }

    /// Adds a friend, or sends a request (P12–P14).
    public func addFriend(_ request: TIMFriendRequest) async throws(TIMError) -> TIMFriendResult {
        try await call { (client) async throws(PresenceError) -> TIMFriendResult in
            TIMFriendResult(
                try await client.addFriend(
                    request.identifier, remark: request.remark, addWording: request.addWording, addSource: request.addSource,
                    group: request.group.isEmpty ? nil : request.group))
        }
    }

    /// The same in the document's form.
    @discardableResult public func addFriend(_ request: TIMFriendRequest, succ: (@Sendable (TIMFriendResult) -> Void)?, fail: TIMFail?)
        -> Int
    {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> TIMFriendResult in try await self.addFriend(request) }
    }

    /// Deletes friends (P15).
    public func deleteFriends(_ users: [String], delType: TIMDelFriendType) async throws(TIMError) -> [TIMFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendResult] in
            try await client.deleteFriends(users, isTwoWay: delType == .both).map { TIMFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func deleteFriends(
        _ users: [String], delType: TIMDelFriendType, succ: (@Sendable ([TIMFriendResult]) -> Void)?, fail: TIMFail?
    ) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendResult] in
            try await self.deleteFriends(users, delType: delType)
        }
    }

    /// Deletes a friend: the name in the document's signature (P15).
    public func delFriend(_ user: String, delType: TIMDelFriendType) async throws(TIMError) -> [TIMFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendResult] in
            try await client.deleteFriends([user], isTwoWay: delType == .both).map { TIMFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func delFriend(
        _ user: String, delType: TIMDelFriendType, succ: (@Sendable ([TIMFriendResult]) -> Void)?, fail: TIMFail?
    ) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendResult] in try await self.delFriend(user, delType: delType) }
    }

    /// Answers a friend request (P16, P17).
    public func doResponse(_ response: TIMFriendResponse) async throws(TIMError) -> TIMFriendResult {
        try await call { (client) async throws(PresenceError) -> TIMFriendResult in
            TIMFriendResult(
                try await client.doResponse(to: response.identifier, response.responseType.response, remark: response.remark))
        }
    }

    /// The same in the document's form.
    @discardableResult public func doResponse(_ response: TIMFriendResponse, succ: (@Sendable (TIMFriendResult) -> Void)?, fail: TIMFail?)
        -> Int
    {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> TIMFriendResult in try await self.doResponse(response) }
    }

    /// Tells which users are friends (P18, P19).
    public func checkFriends(_ checkInfo: TIMFriendCheckInfo) async throws(TIMError) -> [TIMCheckFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMCheckFriendResult] in
            try await client.checkFriends(checkInfo.users, isTwoWay: checkInfo.checkType == .bidirection).map { TIMCheckFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func checkFriends(
        _ checkInfo: TIMFriendCheckInfo, succ: (@Sendable ([TIMCheckFriendResult]) -> Void)?, fail: TIMFail?
    ) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMCheckFriendResult] in try await self.checkFriends(checkInfo) }
    }

    // MARK: Requests

    /// Returns a page of friend requests (P21–P26).
    public func getPendencyList(_ pendencyRequest: TIMFriendPendencyRequest) async throws(TIMError) -> TIMFriendPendencyPage {
        try await call { (client) async throws(PresenceError) -> TIMFriendPendencyPage in
            try await Self.page(pendencyRequest, from: client)
        }
    }

    /// The same in the document's form.
    @discardableResult public func getPendencyList(
        _ pendencyRequest: TIMFriendPendencyRequest, succ: (@Sendable (TIMFriendPendencyResponse, [TIMFriendPendencyItem]) -> Void)?,
        fail: TIMFail?
    ) -> Int {
        let received = succ.map { succ -> @Sendable (TIMFriendPendencyPage) -> Void in { succ($0.response, $0.items) } }
        return Callbacks.request(received, fail) { () async throws(TIMError) -> TIMFriendPendencyPage in
            try await self.getPendencyList(pendencyRequest)
        }
    }

    /// Removes requests from the own list (P27).
    public func deletePendency(_ type: TIMPendencyGetType, users identifiers: [String]) async throws(TIMError) {
        try await call { (client) async throws(PresenceError) -> Void in
            try await Self.deletePendency(type, identifiers, at: client)
        }
    }

    /// The same in the document's form.
    @discardableResult public func deletePendency(_ type: TIMPendencyGetType, users identifiers: [String], succ: TIMSucc?, fail: TIMFail?)
        -> Int
    {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.deletePendency(type, users: identifiers) }
    }

    /// Marks the requests up to a time as read (P28).
    public func pendencyReport(_ timestamp: UInt64) async throws(TIMError) {
        try await call { (client) async throws(PresenceError) -> Void in
            _ = try await client.pendencyReport(upTo: Int64(clamping: timestamp))
        }
    }

    /// The same in the document's form.
    @discardableResult public func pendencyReport(_ timestamp: UInt64, succ: TIMSucc?, fail: TIMFail?) -> Int {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.pendencyReport(timestamp) }
    }

    // MARK: Blocklist

    /// Blocks users (P29).
    public func addBlackList(_ identifiers: [String]) async throws(TIMError) -> [TIMFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendResult] in
            try await client.addBlackList(identifiers).map { TIMFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func addBlackList(_ identifiers: [String], succ: (@Sendable ([TIMFriendResult]) -> Void)?, fail: TIMFail?)
        -> Int
    {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendResult] in try await self.addBlackList(identifiers) }
    }

    /// Ends blocks (P30).
    public func deleteBlackList(_ identifiers: [String]) async throws(TIMError) -> [TIMFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendResult] in
            try await client.deleteBlackList(identifiers).map { TIMFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func deleteBlackList(_ identifiers: [String], succ: (@Sendable ([TIMFriendResult]) -> Void)?, fail: TIMFail?)
        -> Int
    {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendResult] in try await self.deleteBlackList(identifiers) }
    }

    /// Returns the users on the own blocklist (P31). The document's type is ``TIMFriend``: these have the user ID alone.
    public func getBlackList() async throws(TIMError) -> [TIMFriend] {
        try await call { (client) async throws(PresenceError) -> [TIMFriend] in
            try await client.getBlackList().map { TIMFriend(blocked: $0) }
        }
    }

    /// Returns the user IDs on the own blocklist (P31): the list of texts of which the document speaks.
    public func getBlackListUserIDs() async throws(TIMError) -> [String] {
        try await call { (client) async throws(PresenceError) -> [String] in try await client.getBlackList() }
    }

    /// The same in the document's form.
    @discardableResult public func getBlackListUserIDs(succ: (@Sendable ([String]) -> Void)?, fail: TIMFail?) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [String] in try await self.getBlackListUserIDs() }
    }

    /// The same in the document's form.
    @discardableResult public func getBlackList(succ: (@Sendable ([TIMFriend]) -> Void)?, fail: TIMFail?) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriend] in try await self.getBlackList() }
    }

    // MARK: Groups

    /// Creates groups of friends (P32).
    public func createFriendGroup(_ groupNames: [String], users identifiers: [String]) async throws(TIMError) -> [TIMFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendResult] in
            try await client.createFriendGroup(groupNames, userIDs: identifiers).map { TIMFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func createFriendGroup(
        _ groupNames: [String], users identifiers: [String], succ: (@Sendable ([TIMFriendResult]) -> Void)?, fail: TIMFail?
    ) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendResult] in
            try await self.createFriendGroup(groupNames, users: identifiers)
        }
    }

    /// Deletes groups of friends (P33).
    public func deleteFriendGroup(_ groupNames: [String]) async throws(TIMError) {
        try await call { (client) async throws(PresenceError) -> Void in
            try await client.deleteFriendGroup(groupNames)
        }
    }

    /// The same in the document's form.
    @discardableResult public func deleteFriendGroup(_ groupNames: [String], succ: TIMSucc?, fail: TIMFail?) -> Int {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.deleteFriendGroup(groupNames) }
    }

    /// Adds friends to a group (P34).
    public func addFriendsToFriendGroup(_ groupName: String, users identifiers: [String]) async throws(TIMError) -> [TIMFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendResult] in
            try await client.addFriendsToFriendGroup(groupName, identifiers).map { TIMFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func addFriendsToFriendGroup(
        _ groupName: String, users identifiers: [String], succ: (@Sendable ([TIMFriendResult]) -> Void)?, fail: TIMFail?
    ) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendResult] in
            try await self.addFriendsToFriendGroup(groupName, users: identifiers)
        }
    }

    /// Removes friends from a group (P35).
    public func delFriendsFromFriendGroup(_ groupName: String, users identifiers: [String]) async throws(TIMError) -> [TIMFriendResult] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendResult] in
            try await client.delFriendsFromFriendGroup(groupName, identifiers).map { TIMFriendResult($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func delFriendsFromFriendGroup(
        _ groupName: String, users identifiers: [String], succ: (@Sendable ([TIMFriendResult]) -> Void)?, fail: TIMFail?
    ) -> Int {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendResult] in
            try await self.delFriendsFromFriendGroup(groupName, users: identifiers)
        }
    }

    /// Gives a group another name (P36).
    public func renameFriendGroup(_ oldName: String, newName: String) async throws(TIMError) {
        try await call { (client) async throws(PresenceError) -> Void in
            try await client.renameFriendGroup(oldName, to: newName)
        }
    }

    /// The same in the document's form.
    @discardableResult public func renameFriendGroup(_ oldName: String, newName: String, succ: TIMSucc?, fail: TIMFail?) -> Int {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.renameFriendGroup(oldName, newName: newName) }
    }

    /// Returns groups of friends (P37); nil for all.
    public func getFriendGroups(_ groupNames: [String]?) async throws(TIMError) -> [TIMFriendGroup] {
        try await call { (client) async throws(PresenceError) -> [TIMFriendGroup] in
            try await client.getFriendGroups(groupNames).map { TIMFriendGroup($0) }
        }
    }

    /// The same in the document's form.
    @discardableResult public func getFriendGroups(_ groupNames: [String]?, succ: (@Sendable ([TIMFriendGroup]) -> Void)?, fail: TIMFail?)
        -> Int
    {
        Callbacks.request(succ, fail) { () async throws(TIMError) -> [TIMFriendGroup] in try await self.getFriendGroups(groupNames) }
    }
}

/// A page of friend requests, in the `async` form.
public struct TIMFriendPendencyPage: Sendable, Equatable {
    public let response: TIMFriendPendencyResponse
    public let items: [TIMFriendPendencyItem]
}

extension TIMFriendshipManager {
    private static func profiles(
        of users: [String], forceUpdate: Bool, from client: Friendship
    ) async throws(PresenceError) -> [TIMUserProfile] {
        let answer = try await client.getUsersProfile(users, forceUpdate: forceUpdate)
        guard let error = answer.errorUserList.first, answer.profileList.isEmpty else {
            return answer.profileList.map { TIMUserProfile($0) }
        }
        throw PresenceError(code: error.code, title: "no profile", detail: "\(error.userID): \(error.reason)")
    }

    private static func friends(from client: Friendship) async throws(PresenceError) -> [TIMFriend] {
        let (friends, profiles) = try await client.getFriendsWithProfiles()
        let byUser = Dictionary(profiles.map { (UserKey($0.userID), $0) }) { first, _ in first }
        return friends.map { TIMFriend($0, profile: byUser[UserKey($0.userID)]) }
    }

    /// The fields of a profile. The document's value of ``TIMProfileTypeKey_AllowType`` is a number.
    private static func fields(_ values: [String: any TIMValue]) throws(PresenceError) -> [String: FieldValue] {
        var fields: [String: FieldValue] = [:]
        for (key, value) in values {
            guard var field = value.fieldValue else { throw badValue(key) }
            if key == TIMProfileTypeKey_AllowType, case .integer(let number) = field {
                guard let type = TIMFriendAllowType(rawValue: Int(clamping: number)), let text = type.fieldValue else {
                    throw badValue(key)
                }
                field = text
            }
            fields[key] = field
        }
        return fields
    }

    private static func modify(
        _ identifier: String, _ values: [String: any TIMValue], at client: Friendship
    ) async throws(PresenceError) {
        var custom: [String: FieldValue] = [:]
        var remark: String?
        for (key, value) in values where key != TIMFriendTypeKey_Group {
            guard let field = value.fieldValue else { throw badValue(key) }
            if key == TIMFriendTypeKey_Remark {
                guard case .text(let text) = field else { throw badValue(key) }
                remark = text
            } else if key.hasPrefix(TIMFriendTypeKey_Custom_Prefix) {
                custom[String(key.dropFirst(TIMFriendTypeKey_Custom_Prefix.count))] = field
            } else {
                throw PresenceError(code: .badParameter, title: "bad parameter", detail: "values.\(key): is no key of a friend")
            }
        }
        let groups = values[TIMFriendTypeKey_Group].map { ($0 as? TIMTexts)?.texts }
        if case .some(nil) = groups { throw badValue(TIMFriendTypeKey_Group) }
        let result = try await client.modifyFriend(identifier, remark: remark, groups: groups ?? nil, custom: custom)
        guard result.resultCode != 0 else { return }
        throw PresenceError(code: .init(rawValue: result.resultCode), status: 200, title: "friend", detail: result.resultInfo)
    }

    private static func badValue(_ key: String) -> PresenceError {
        PresenceError(code: .badParameter, title: "bad parameter", detail: "values.\(key): has the wrong type")
    }

    private static func page(
        _ request: TIMFriendPendencyRequest, from client: Friendship
    ) async throws(PresenceError) -> TIMFriendPendencyPage {
        let page = try await client.pendencyPage(
            since: request.seq.isEmpty ? nil : request.seq, after: Int64(clamping: request.timestamp),
            limit: Int(clamping: request.numPerPage), type: request.type.rawValue)
        let response = TIMFriendPendencyResponse(
            seq: page.seq, timestamp: UInt64(clamping: page.timestamp), unreadCnt: UInt64(clamping: page.unreadCnt))
        return TIMFriendPendencyPage(response: response, items: page.requests.map { TIMFriendPendencyItem($0) })
    }

    private static func deletePendency(
        _ type: TIMPendencyGetType, _ users: [String], at client: Friendship
    ) async throws(PresenceError) {
        let kinds: [FriendRequest.Kind] = type == .both ? [.received, .sent] : [type == .comeIn ? .received : .sent]
        for kind in kinds {
            guard let error = try await client.deletePendency(users, kind).first, type != .both else { continue }
            throw PresenceError(code: error.code, status: 200, title: "request", detail: "\(error.userID): \(error.reason)")
        }
    }
}
