/// The bounds of everything that nodes and clients send.
///
/// A bound that an app may change is the default of its policy (<doc:Configuration#Settings-of-a-policy>).
public enum Limits {
    /// Longest user, app and node ID, in UTF-8 bytes.
    public static let nameBytesMax = 64
    /// A stream ticket: app and user in Base64url, a time and random bits.
    public static let ticketBytesMax = 256
    /// Longest custom status, in UTF-8 bytes.
    public static let customStatusBytesMax = 256
    /// Most users in one subscribe or unsubscribe call.
    public static let subscribeUsersMax = 200
    /// Most users in one query.
    public static let queryUsersMax = 500
    /// Most users in one `importUsers`.
    public static let importUsersMax = 1_000
    /// Most users that a subscriber follows. One more evicts the earliest (T21).
    public static let subscriptionsMax = 3_000
    /// Shortest and longest validity of a subscription, in seconds (N6).
    public static let subscriptionSeconds: ClosedRange<Int64> = 60...2_592_000
    /// Shortest and longest validity of a custom status, in seconds: the shortest of N12, and the 30 days of N6.
    public static let customStatusSeconds: ClosedRange<Int64> = 1...2_592_000
    /// The first value of an event that an app may publish (N2).
    public static let eventValueMin: Int64 = 10_000
    /// Longest `ext` of an event, in UTF-8 bytes.
    public static let eventBytesMax = 1_024
    /// Shortest and longest validity of an event, in seconds; the longest is the default (N12).
    public static let eventSeconds: ClosedRange<Int64> = 60...604_800
    /// Most rows on one page of `getSubscribedUserStatus` (R10).
    public static let pageRowsMax = 200
    /// Most users on the list that a user chooses for a visibility.
    public static let visibilityUsersMax = 100
    /// Most friends, and most blocked users, in a visibility between two nodes.
    public static let chainUsersMax = 10_000
    /// Most users in one call of the relationship chain.
    public static let chainBatchMax = 100
    /// Longest text of a refusal between two nodes, in UTF-8 bytes. It has room for the names of all settings.
    public static let detailBytesMax = 8 << 10
    /// Longest remark of a friend (P12), in UTF-8 bytes.
    public static let remarkBytesMax = 96
    /// Longest wording of a friend request (P12), in UTF-8 bytes.
    public static let wordingBytesMax = 120
    /// Longest source of a friend request, in UTF-8 bytes: `AddSource_Type_` and 8 more (P13).
    public static let addSourceBytesMax = 23
    /// Longest name of a friend group, in UTF-8 bytes.
    public static let friendGroupNameBytesMax = 30
    /// Most friend groups of a user.
    public static let friendGroupsMax = 32
    /// Most custom fields of a profile, and of a friend.
    public static let customFieldsMax = 20
    /// Longest name of a custom field, without its prefix, in bytes.
    public static let customNameBytesMax = 8
    /// Longest value of a field of a profile, or of a custom field, in bytes.
    public static let fieldBytesMax = 500
    /// Range of times on the wire and on disk, in milliseconds since 1970.
    ///
    /// JSON keeps integers of this range exactly (RFC 8259 §6), and sums of such times do not overflow.
    public static let times: ClosedRange<Milliseconds> = -(1 << 53)...(1 << 53)
    /// Longest platform name, in bytes.
    public static let platformBytesMax = 32
    public static let deviceBytesMax = 128
    /// Most streams of a user that hear without being seen (`presence=none`). Beyond it the one that was opened first ends.
    public static let listenersPerUserMax = 16
    /// Most sessions that one user may have open in the whole cluster. One more evicts the oldest.
    public static let sessionsPerUserMax = 64
    /// Longest value of a durable row, in bytes.
    public static let rowBytesMax = 64 << 10
    /// Longest value of a row with a visibility, in bytes.
    ///
    /// It has room for a full blocklist, all names with hidden views, their texts, and the news that wait, whatever JSON must escape.
    public static let visibilityRowBytesMax = 2 << 20
    /// Largest batch between two nodes, in bytes.
    public static let batchBytesMax = 1 << 20
    /// Longest list in one message between nodes.
    ///
    /// A batch has no room for more, so a forged count cannot reserve memory.
    public static let listCountMax = 1 << 16

    /// Whether `text` can name a platform: 1–32 letters, digits, `-`, `_` or `.`.
    public static func isValidPlatform(_ text: String) -> Bool {
        (1...platformBytesMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }

    /// Whether `text` can name a user, an app or a node: 1–64 bytes without control characters (C0, DEL, C1).
    @inlinable
    public static func isValidName(_ text: some StringProtocol) -> Bool {
        let bytesCount = text.utf8.count
        guard bytesCount >= 1, bytesCount <= nameBytesMax else { return false }
        var isPlain = true
        for byte in text.utf8 where !(0x20..<0x7F).contains(byte) { isPlain = false }
        return isPlain || hasNoControls(text)
    }

    /// Whether `text` has no control characters (C0, DEL, C1).
    public static func hasNoControls(_ text: some StringProtocol) -> Bool {
        text.unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7F...0x9F).contains($0.value) }
    }

    /// Whether `bytes` are two names of printable ASCII with one NUL between them.
    ///
    /// Most names are. They need no check of their characters.
    static func arePlainNames(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var separator = -1
        for index in bytes.indices where !(0x20..<0x7F).contains(bytes[index]) {
            guard bytes[index] == 0, separator < 0 else { return false }
            separator = index
        }
        return (1...nameBytesMax).contains(separator) && (1...nameBytesMax).contains(bytes.count - separator - 1)
    }
}
