/// The operations of profiles and of the relationship chain (<doc:HTTPAPI#Operations>).
///
/// A decision about another user is answered with a code; the call throws only if nobody could decide. Every device of the user hears of a
/// change, also this one.
extension Friendship {
    // MARK: Profiles

    /// Returns the own profile (P1).
    public func getSelfProfile() async throws(PresenceError) -> UserProfile {
        let profile = try await call("getSelfProfile", Wire.Nothing(), as: Wire.OwnProfile.self).profile
        keep([profile])
        return profile
    }

    /// Returns the profiles of users (P3).
    ///
    /// - Parameter forceUpdate: whether to ask the node for profiles that the client has fetched before.
    public func getUsersProfile(_ userIDs: [String], forceUpdate: Bool = false) async throws(PresenceError) -> UserProfileAnswer {
        var answer = UserProfileAnswer()
        var missing = userIDs
        if !forceUpdate, !userIDs.isEmpty {
            answer.profileList = kept(userIDs)
            let known = Set(answer.profileList.map { UserKey($0.userID) })
            missing = userIDs.filter { !known.contains(UserKey($0)) }
            if missing.isEmpty { return answer }
        }
        let failed = try await inBatches(missing) { (batch) async throws(PresenceError) in
            let part = try await self.call("getUsersProfile", Wire.Users(userIDs: batch), as: Wire.Profiles.self)
            answer.profileList += part.profileList
            answer.errorUserList += part.errorUserList
            self.keep(part.profileList)
        }
        answer.errorUserList += failed
        return answer
    }

    /// Sets fields of the own profile (P5), by their keys: `Nick`, `FaceUrl`, `AllowType`, `Gender`, `Birthday`, `Location`, `Language`,
    /// `Level`, `Role`, `SelfSignature`, or `Custom_` and a name. An unknown key refuses the call.
    @discardableResult public func modifySelfProfile(_ values: [String: FieldValue]) async throws(PresenceError) -> UserProfile {
        let profile = try await call("modifySelfProfile", Wire.ProfileChange(values: values), as: Wire.OwnProfile.self).profile
        keep([profile])
        return profile
    }

    // MARK: Friends

    /// Adds a friend, or sends a request if the user must approve it (P12–P14).
    ///
    /// - Parameters:
    ///   - remark: at most 96 bytes.
    ///   - addWording: the text of the request, at most 120 bytes.
    ///   - addSource: `AddSource_Type_` and at most 8 bytes; empty for none.
    ///   - group: a group of the own list for the friend; nil for none.
    ///   - isOneWay: whether the own user does not become a friend of that user.
    public func addFriend(
        _ userID: String, remark: String = "", addWording: String = "", addSource: String = "", group: String? = nil,
        isOneWay: Bool = false
    ) async throws(PresenceError) -> FriendResult {
        let body = Wire.Addition(
            userID: userID, remark: remark, addWording: addWording, addSource: addSource, group: group,
            addType: isOneWay ? "single" : "both")
        return try await call("addFriend", body, as: FriendResult.self)
    }

    /// The answers to a friend request (P16).
    public enum Response: Int, Sendable, CaseIterable {
        /// The other user gets the own one as a friend.
        case agree = 0
        /// Both get a friend.
        case agreeAndAdd = 1
        case reject = 2
    }

    /// Answers a friend request (P16, P17).
    ///
    /// - Parameter remark: of the new friend, with ``Response/agreeAndAdd``; at most 96 bytes.
    public func doResponse(to userID: String, _ response: Response, remark: String = "") async throws(PresenceError) -> FriendResult {
        let body = Wire.Response(userID: userID, responseType: response.rawValue, remark: remark)
        return try await call("doResponse", body, as: FriendResult.self)
    }

    /// Deletes friends from the own list, and with `isTwoWay` the own user from theirs (P15).
    public func deleteFriends(_ userIDs: [String], isTwoWay: Bool) async throws(PresenceError) -> [FriendResult] {
        try await decide("deleteFriends", userIDs) { Wire.Deletion(userIDs: $0, delType: isTwoWay ? 2 : 1) }
    }

    /// Changes the remark, the groups and the custom fields of a friend (P11). A value that is nil stays as it is.
    ///
    /// - Parameters:
    ///   - groups: the names of all groups of the friend from now on.
    ///   - custom: by names without `Custom_`. An empty text removes a field.
    @discardableResult public func modifyFriend(
        _ userID: String, remark: String? = nil, groups: [String]? = nil, custom: [String: FieldValue] = [:]
    ) async throws(PresenceError) -> FriendResult {
        let body = Wire.FriendChange(userID: userID, values: .init(remark: remark, groups: groups, custom: custom))
        return try await call("modifyFriend", body, as: FriendResult.self)
    }

    /// Tells which users are friends (P18, P19).
    ///
    /// - Parameter isTwoWay: whether the lists of these users are read as well.
    public func checkFriends(_ userIDs: [String], isTwoWay: Bool) async throws(PresenceError) -> [FriendCheck] {
        var checks: [FriendCheck] = []
        for batch in userIDs.batches(of: usersMax) {
            let body = Wire.Check(userIDs: batch, checkType: isTwoWay ? 2 : 1)
            checks += try await call("checkFriends", body, as: Wire.Checks.self).resultList
        }
        return checks
    }

    // MARK: Requests

    /// Removes requests of these users from the own list alone (P27). Returns those that failed.
    @discardableResult public func deletePendency(
        _ userIDs: [String], _ type: FriendRequest.Kind
    ) async throws(PresenceError) -> [UserError] {
        var errors: [UserError] = []
        let failed = try await inBatches(userIDs) { (batch) async throws(PresenceError) in
            let body = Wire.PendencyDeletion(type: type.rawValue, userIDs: batch)
            errors += try await self.call("deletePendency", body, as: Wire.Errors.self).errorUserList ?? []
        }
        return errors + failed
    }

    /// Marks the requests up to a time as read, in milliseconds since 1970 (P28). Returns the number of those that are not.
    @discardableResult public func pendencyReport(upTo timestamp: Int64) async throws(PresenceError) -> Int {
        try await call("pendencyReport", Wire.Report(timestamp: timestamp), as: Wire.Unread.self).unreadCnt
    }

    // MARK: Blocklist

    /// Blocks users: friendships and requests with them end, and they see the own user OFFLINE (P29).
    public func addBlackList(_ userIDs: [String]) async throws(PresenceError) -> [FriendResult] {
        try await decide("addBlackList", userIDs) { Wire.Users(userIDs: $0) }
    }

    /// Ends blocks. Friendships do not come back (P30).
    public func deleteBlackList(_ userIDs: [String]) async throws(PresenceError) -> [FriendResult] {
        try await decide("deleteBlackList", userIDs) { Wire.Users(userIDs: $0) }
    }

    /// Returns the users on the own blocklist (P31).
    public func getBlackList() async throws(PresenceError) -> [String] { try await blockedUsers().users }

    /// The blocklist, with the sequence that its first page has. Later changes are told by events that begin there.
    func blockedUsers() async throws(PresenceError) -> (users: [String], sequence: String) {
        var page = try await call("getBlackList", Wire.Page(cursor: nil), as: Wire.Blocked.self)
        let sequence = page.seq
        var users = page.userIDs
        while let cursor = page.cursor {
            page = try await call("getBlackList", Wire.Page(cursor: cursor), as: Wire.Blocked.self)
            users += page.userIDs
        }
        return (users, sequence)
    }

    // MARK: Groups

    /// Creates groups, and adds friends to each of them (P32). All names must be new. Throws for a name that is not.
    @discardableResult public func createFriendGroup(
        _ names: [String], userIDs: [String] = []
    ) async throws(PresenceError) -> [FriendResult] {
        let answer = try await call("createFriendGroup", Wire.Groups(groupNames: names, userIDs: userIDs), as: Wire.GroupResults.self)
        return try answer.get()
    }

    /// Deletes groups. Their friends stay in the list (P33).
    public func deleteFriendGroup(_ names: [String]) async throws(PresenceError) {
        _ = try await call("deleteFriendGroup", Wire.Groups(groupNames: names), as: Wire.Empty.self)
    }

    /// Gives a group another name (P36).
    public func renameFriendGroup(_ name: String, to newName: String) async throws(PresenceError) {
        _ = try await call("renameFriendGroup", Wire.Renaming(oldName: name, newName: newName), as: Wire.GroupResults.self).get()
    }

    /// Adds friends to a group (P34).
    @discardableResult public func addFriendsToFriendGroup(
        _ name: String, _ userIDs: [String]
    ) async throws(PresenceError) -> [FriendResult] {
        try await call("addFriendsToFriendGroup", Wire.Group(groupName: name, userIDs: userIDs), as: Wire.GroupResults.self).get()
    }

    /// Removes friends from a group (P35).
    @discardableResult public func delFriendsFromFriendGroup(
        _ name: String, _ userIDs: [String]
    ) async throws(PresenceError) -> [FriendResult] {
        try await call("delFriendsFromFriendGroup", Wire.Group(groupName: name, userIDs: userIDs), as: Wire.GroupResults.self).get()
    }

    /// Returns groups with their friends (P37); nil for all.
    public func getFriendGroups(_ names: [String]? = nil) async throws(PresenceError) -> [FriendGroup] {
        try await groupList(names).groupList
    }

    /// The groups with their sequence.
    func groupList(_ names: [String]? = nil) async throws(PresenceError) -> Wire.GroupList {
        try await call("getFriendGroups", Wire.Groups(groupNames: names), as: Wire.GroupList.self)
    }

    // MARK: Calls

    /// Makes a decision about many users, in several calls if there are too many for one. The users of a call that failed have its error.
    private func decide(
        _ operation: String, _ userIDs: [String], _ body: ([String]) -> some Encodable & Sendable
    ) async throws(PresenceError) -> [FriendResult] {
        var results: [FriendResult] = []
        let failed = try await inBatches(userIDs) { (batch) async throws(PresenceError) in
            let part = try await self.call(operation, body(batch), as: Wire.Results.self)
            results += part.resultList + part.errorUserList.map(FriendResult.init)
        }
        return results + failed.map(FriendResult.init)
    }
}

extension FriendResult {
    fileprivate init(_ error: UserError) {
        self.init(userID: error.userID, resultCode: error.code.rawValue, resultInfo: error.reason)
    }
}

extension Wire {
    fileprivate struct Nothing: Encodable {}
    fileprivate struct OwnProfile: Decodable { let profile: UserProfile }
    fileprivate struct Profiles: Decodable {
        let profileList: [UserProfile]
        let errorUserList: [UserError]
    }
    fileprivate struct ProfileChange: Encodable { let values: [String: FieldValue] }
    fileprivate struct Addition: Encodable {
        let userID: String
        let remark: String
        let addWording: String
        let addSource: String
        let group: String?
        let addType: String
    }
    fileprivate struct Response: Encodable {
        let userID: String
        let responseType: Int
        let remark: String
    }
    fileprivate struct Deletion: Encodable {
        let userIDs: [String]
        let delType: Int
    }
    fileprivate struct Check: Encodable {
        let userIDs: [String]
        let checkType: Int
    }
    fileprivate struct Checks: Decodable { let resultList: [FriendCheck] }
    fileprivate struct Results: Decodable {
        let resultList: [FriendResult]
        let errorUserList: [UserError]
    }
    fileprivate struct PendencyDeletion: Encodable {
        let type: Int
        let userIDs: [String]
    }
    fileprivate struct Report: Encodable { let timestamp: Int64 }
    fileprivate struct Unread: Decodable { let unreadCnt: Int }
    fileprivate struct Page: Encodable { let cursor: String? }
    fileprivate struct Blocked: Decodable {
        let userIDs: [String]
        let seq: String
        let cursor: String?
    }
    fileprivate struct Groups: Encodable {
        var groupNames: [String]?
        var userIDs: [String]?
    }
    fileprivate struct Group: Encodable {
        let groupName: String
        let userIDs: [String]
    }
    fileprivate struct Renaming: Encodable {
        let oldName: String
        let newName: String
    }
    struct GroupList: Decodable {
        let groupList: [FriendGroup]
        let seq: String
    }
    /// The result of a call about groups: a code of the whole call, and the results of its users.
    fileprivate struct GroupResults: Decodable {
        let resultCode: Int
        let resultInfo: String
        let resultList: [FriendResult]?
        let errorUserList: [UserError]?

        /// The results of the users. Throws if the call has changed nothing.
        func get() throws(PresenceError) -> [FriendResult] {
            guard resultCode == 0 else {
                throw PresenceError(code: .init(rawValue: resultCode), status: 200, title: "friend group", detail: resultInfo)
            }
            return (resultList ?? []) + (errorUserList ?? []).map(FriendResult.init)
        }
    }
    fileprivate struct FriendChange: Encodable {
        struct Values: Encodable {
            let remark: String?
            let groups: [String]?
            let custom: [String: FieldValue]

            private struct Key: CodingKey {
                let stringValue: String
                var intValue: Int? { nil }
                init(_ name: String) { stringValue = name }
                init?(stringValue: String) { self.stringValue = stringValue }
                init?(intValue: Int) { nil }
            }

            func encode(to encoder: any Encoder) throws {
                var values = encoder.container(keyedBy: Key.self)
                try values.encodeIfPresent(remark, forKey: Key("Remark"))
                try values.encodeIfPresent(groups, forKey: Key("Group"))
                for (name, value) in custom { try values.encode(value, forKey: Key("Custom_\(name)")) }
            }
        }

        let userID: String
        let values: Values
    }
}
