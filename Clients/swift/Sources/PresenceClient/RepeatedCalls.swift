/// The operations whose calls the client can repeat safely (<doc:HTTPAPI#Repeated-calls>).
enum RepeatedCalls {
    /// The operations whose repetition could be told apart. All others have the same effect if they are carried out twice.
    private static let keyed: Set<String> = [
        "publishEvent", "addFriend", "doResponse", "deleteFriends", "deletePendency", "pendencyReport", "modifyFriend", "createFriendGroup",
        "deleteFriendGroup", "renameFriendGroup", "addFriendsToFriendGroup", "delFriendsFromFriendGroup", "addBlackList",
        "deleteBlackList", "importFriends", "deleteAllFriends",
    ]

    /// A random key for a call and its repetitions; nil for an operation without keys.
    ///
    /// It does not come from the configured source: two clients with equal random numbers would have the same keys.
    static func key(of operation: String) -> String? {
        guard keyed.contains(operation) else { return nil }
        var random = SystemRandomNumberGenerator()
        return [random.next(), random.next()].map { (number: UInt64) in String(number, radix: 36) }.joined(separator: "-")
    }

    /// Whether a lost answer leaves no doubt, because the operation only reads.
    static func isRead(_ operation: String) -> Bool { ["get", "check", "explain"].contains { operation.hasPrefix($0) } }
}
