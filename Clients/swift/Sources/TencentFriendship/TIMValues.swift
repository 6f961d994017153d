import PresenceClient

/// `TIMSucc`: called after a call has succeeded.
public typealias TIMSucc = @Sendable () -> Void
/// `TIMFail`: called with the code and the text of the error.
public typealias TIMFail = @Sendable (_ code: Int, _ msg: String) -> Void

/// The error of a call in its `async` form: what ``TIMFail`` receives.
public struct TIMError: Error, Sendable, Equatable {
    /// The stable code.
    public let code: Int
    /// The error.
    public let msg: String

    init(_ error: PresenceError) { (code, msg) = (error.code.rawValue, error.detail) }

    /// The error of the first failed user, which stands for a call without results by user.
    init?(_ errors: [UserError]) {
        guard let first = errors.first else { return nil }
        (code, msg) = (first.code.rawValue, "\(first.userID): \(first.reason)")
    }

    init(code: Int, msg: String) { (self.code, self.msg) = (code, msg) }
}

/// A value of `modifySelfProfile` and `modifyFriend`: a text, a number, bytes, or texts.
public protocol TIMValue: Sendable {
    /// The value of a field; nil for texts.
    var fieldValue: FieldValue? { get }
}

extension String: TIMValue {
    public var fieldValue: FieldValue? { .text(self) }
}

extension Int: TIMValue {
    public var fieldValue: FieldValue? { .integer(Int64(self)) }
}

extension Int64: TIMValue {
    public var fieldValue: FieldValue? { .integer(self) }
}

extension UInt32: TIMValue {
    public var fieldValue: FieldValue? { .integer(Int64(self)) }
}

extension [UInt8]: TIMValue {
    /// `NSData` of the document.
    public var fieldValue: FieldValue? {
        // Bytes that are no text are replaced in it.
        let text = String(decoding: self, as: UTF8.self)
        return text.utf8.elementsEqual(self) ? .text(text) : .bytes(self)
    }
}

/// `NSArray` of the document, for ``TIMFriendTypeKey_Group``.
public struct TIMTexts: TIMValue, ExpressibleByArrayLiteral {
    /// The texts.
    public let texts: [String]

    public init(_ texts: [String]) { self.texts = texts }
    public init(arrayLiteral texts: String...) { self.texts = texts }

    public var fieldValue: FieldValue? { nil }
}

/// The users who may add a user as a friend: the value of ``TIMProfileTypeKey_AllowType``.
public enum TIMFriendAllowType: Int, Sendable {
    case anyone = 0
    case needConfirm = 1
    case denyAny = 2

    init(_ type: AllowType?) {
        self =
            switch type {
            case .confirm: .needConfirm
            case .deny: .denyAny
            case .any, nil: .anyone
            }
    }

    var type: AllowType {
        switch self {
        case .anyone: .any
        case .needConfirm: .confirm
        case .denyAny: .deny
        }
    }
}

public let TIM_FRIEND_ALLOW_ANY = TIMFriendAllowType.anyone
public let TIM_FRIEND_NEED_CONFIRM = TIMFriendAllowType.needConfirm
public let TIM_FRIEND_DENY_ANY = TIMFriendAllowType.denyAny

extension TIMFriendAllowType: TIMValue {
    public var fieldValue: FieldValue? { .text(type.rawValue) }
}

/// A user's gender: the value of ``TIMProfileTypeKey_Gender``.
public enum TIMGender: Int, Sendable, TIMValue {
    case unknown = 0
    case male = 1
    case female = 2

    public var fieldValue: FieldValue? { .integer(Int64(rawValue)) }
}

public let TIM_GENDER_UNKNOWN = TIMGender.unknown
public let TIM_GENDER_MALE = TIMGender.male
public let TIM_GENDER_FEMALE = TIMGender.female

public let TIMProfileTypeKey_Nick = "Nick"
public let TIMProfileTypeKey_FaceUrl = "FaceUrl"
public let TIMProfileTypeKey_AllowType = "AllowType"
public let TIMProfileTypeKey_Gender = "Gender"
public let TIMProfileTypeKey_Birthday = "Birthday"
public let TIMProfileTypeKey_Location = "Location"
public let TIMProfileTypeKey_Language = "Language"
public let TIMProfileTypeKey_Level = "Level"
public let TIMProfileTypeKey_Role = "Role"
public let TIMProfileTypeKey_SelfSignature = "SelfSignature"
/// The beginning of the key of a custom field that the app declares (P8).
public let TIMProfileTypeKey_Custom_Prefix = "Custom_"
public let TIMFriendTypeKey_Remark = "Remark"
public let TIMFriendTypeKey_Group = "Group"
/// The beginning of the key of a custom field of friends that the app declares (P11).
public let TIMFriendTypeKey_Custom_Prefix = "Custom_"

/// A user's profile (P2).
public struct TIMUserProfile: Sendable, Equatable {
    public let identifier: String
    public let nickname: String
    public let allowType: TIMFriendAllowType
    public let faceURL: String
    /// Bytes, because a migrated profile need not be UTF-8.
    public let selfSignature: [UInt8]
    public let gender: TIMGender
    public let birthday: UInt32
    public let location: [UInt8]
    public let language: UInt32
    public let level: UInt32
    public let role: UInt32
    /// The custom fields, by their keys with ``TIMProfileTypeKey_Custom_Prefix``. A text is returned as bytes (P8).
    public let customInfo: [String: FieldValue]

    init(_ profile: UserProfile) {
        identifier = profile.userID
        nickname = profile.nick
        allowType = TIMFriendAllowType(profile.allowType)
        faceURL = profile.faceURL
        selfSignature = profile.selfSignature.bytes ?? []
        gender = TIMGender(rawValue: profile.gender) ?? .unknown
        birthday = profile.birthday
        location = profile.location.bytes ?? []
        (language, level, role) = (profile.language, profile.level, profile.role)
        customInfo = profile.custom.asCustomInfo
    }
}

/// A friend on the own list (P10).
public struct TIMFriend: Sendable, Equatable {
    public let identifier: String
    public let remark: String
    public let groups: [String]
    public let addWording: String
    public let addSource: String
    /// In milliseconds since 1970.
    public let addTime: UInt64
    /// As ``TIMUserProfile/customInfo``, with ``TIMFriendTypeKey_Custom_Prefix``.
    public let customInfo: [String: FieldValue]
    /// The friend's profile; nil if its owner could not be reached.
    public let profile: TIMUserProfile?

    init(_ friend: Friend, profile: UserProfile?) {
        identifier = friend.userID
        (remark, groups, addWording, addSource) = (friend.remark, friend.groups, friend.addWording, friend.addSource)
        addTime = UInt64(clamping: friend.addTime)
        customInfo = friend.custom.asCustomInfo
        self.profile = profile.map { TIMUserProfile($0) }
    }

    /// A user on the blocklist, of whom nothing else is known (P31).
    init(blocked identifier: String) {
        self.identifier = identifier
        (remark, groups, addWording, addSource, addTime, customInfo, profile) = ("", [], "", "", 0, [:], nil)
    }
}

extension [String: FieldValue] {
    /// The custom fields with the prefix of their keys, and texts as bytes.
    fileprivate var asCustomInfo: [String: FieldValue] {
        Dictionary(uniqueKeysWithValues: map { (TIMProfileTypeKey_Custom_Prefix + $0.key, $0.value.bytes.map { .bytes($0) } ?? $0.value) })
    }
}
