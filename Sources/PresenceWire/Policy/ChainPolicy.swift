/// The settings of an app for profiles and the relationship chain.
///
/// The wide properties come last, so that the size is a multiple of their alignment. In debug builds Swift 6.3 sets a property with the
/// padding behind it, and changed the property that followed this value in ``Policy``.
public struct ChainPolicy: Equatable, Sendable {
    /// The users who may add a user as a friend, if that user's profile does not say it (P2).
    public enum AllowType: String, CaseIterable, Sendable {
        case any
        /// Each request waits for the user's approval.
        case confirm
        /// Nobody may.
        case deny
    }

    /// The status of a blocker that blocked users see.
    public enum BlockedView: Sendable { case offline, status }

    /// Whether users on a blocklist see their blocker OFFLINE. Setting `block.hidesStatus`.
    public var blockHidesStatus: Bool {
        get { blockedView == .offline }
        set { blockedView = newValue ? .offline : .status }
    }

    /// The time at which followers are told that the profile of an invisible user has changed.
    public enum InvisibleProfileNews: Sendable { case atOnce, onceVisible }

    /// Whether the news of an invisible user's profile wait until the user is visible again. Setting `profile.newsWaitWhileInvisible`.
    public var profileNewsWaitWhileInvisible: Bool {
        get { invisibleProfileNews == .onceVisible }
        set { invisibleProfileNews = newValue ? .onceVisible : .atOnce }
    }

    /// Whether the relationship chain can be used. Off answers 72001. Setting `chain.enabled`.
    public var isEnabled = true
    /// Whether users receive their friends' changes without a subscription (T28, N23). Setting `friends.autoNotify`.
    public var autoNotifiesFriends = true
    /// Whether a request to a user who has sent one makes both friends at once. Setting `friends.mutualRequestAccepts`.
    public var mutualRequestsAccept = true
    /// See ``AllowType``. Setting `profile.defaultAllowType`.
    public var defaultAllowType = AllowType.any
    /// See ``BlockedView``.
    public var blockedView = BlockedView.offline
    /// See ``InvisibleProfileNews``.
    public var invisibleProfileNews = InvisibleProfileNews.onceVisible
    /// The limit of the calls that change the relationship chain or check it, together; nil for none. Setting `rate.chain`.
    public var rate: Policy.Rate? = Policy.Rate(calls: 20, seconds: 5)
    /// Most friends of one user, 1–10,000 (P14). Setting `friends.max`.
    public var friendsMax: Int64 = 3_000
    /// Most received, and most sent friend requests of one user, 1–10,000. Setting `pendency.max`.
    public var pendencyMax: Int64 = 1_000
    /// Most users on one blocklist, 1–1,000 (P29). Setting `blockList.max`.
    public var blockListMax: Int64 = 1_000
    /// Most users in one call of the relationship chain, 1–100. Setting `chain.batchMax`.
    public var batchMax = Int64(Limits.chainBatchMax)
    /// Most groups of friends of one user, 1–32 (P32). Setting `friends.groupsMax`.
    public var friendGroupsMax = Int64(Limits.friendGroupsMax)
    /// Longest name of a group of friends in UTF-8 bytes, 1–30. Setting `friends.groupNameBytes`.
    public var friendGroupNameBytesMax = Int64(Limits.friendGroupNameBytesMax)
    /// Longest remark of a friend in UTF-8 bytes, 0–96 (P12). Setting `friends.remarkBytes`.
    public var remarkBytesMax = Int64(Limits.remarkBytesMax)
    /// Longest wording of a friend request in UTF-8 bytes, 0–120 (P12). Setting `friends.wordingBytes`.
    public var wordingBytesMax = Int64(Limits.wordingBytesMax)
    /// Longest value of a field of a profile, in bytes, 1–500. Setting `profile.valueBytes`.
    public var profileValueBytesMax = Int64(Limits.fieldBytesMax)
    /// The custom fields of friends (P11), sorted by name, at most ``Limits/customFieldsMax``. Setting `friends.customFields`.
    public var friendFields: [CustomFieldDeclaration] = []
    /// The custom fields of profiles (P8), likewise. Setting `profile.customFields`.
    public var profileFields: [CustomFieldDeclaration] = []
}
