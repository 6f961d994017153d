#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The value of a custom field, or of a field whose bytes need not be UTF-8 (P8).
public enum FieldValue: Sendable, Hashable {
    case integer(Int64)
    case text(String)
    /// Bytes that are not UTF-8.
    case bytes([UInt8])

    /// The bytes of a text, or the bytes; nil for a number.
    public var bytes: [UInt8]? {
        switch self {
        case .integer: nil
        case .text(let text): Array(text.utf8)
        case .bytes(let bytes): bytes
        }
    }
}

extension FieldValue: Codable {
    private enum CodingKeys: String, CodingKey { case base64 }

    /// Reads the JSON of a node: a number, a text, or `{"base64":"…"}`.
    public init(from decoder: any Decoder) throws {
        if let object = try? decoder.container(keyedBy: CodingKeys.self) {
            self = .bytes(Array(try object.decode(Data.self, forKey: .base64)))
            return
        }
        let value = try decoder.singleValueContainer()
        do { self = .text(try value.decode(String.self)) } catch DecodingError.typeMismatch {
            self = .integer(try value.decode(Int64.self))
        }
    }

    /// Writes the JSON of a call.
    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .bytes(let bytes):
            var object = encoder.container(keyedBy: CodingKeys.self)
            try object.encode(Data(bytes), forKey: .base64)
        case .integer(let number):
            var value = encoder.singleValueContainer()
            try value.encode(number)
        case .text(let text):
            var value = encoder.singleValueContainer()
            try value.encode(text)
        }
    }
}

/// The users who may add a user as a friend (P2).
public enum AllowType: String, Sendable, Codable, CaseIterable {
    /// Everybody.
    case any = "ANY"
    /// Everybody whom the user approves.
    case confirm = "CONFIRM"
    /// Nobody.
    case deny = "DENY"
}

/// A user's profile (P2).
public struct UserProfile: Sendable, Hashable, Codable, Identifiable {
    public var userID: String
    public var nick: String
    /// The own users who may add this one; nil if the user has not set it, and the app's setting holds.
    public var allowType: AllowType?
    public var faceURL: String
    /// Bytes, because profiles that come from another service need not be UTF-8.
    public var selfSignature: FieldValue
    /// 0 unknown, 1 male, 2 female.
    public var gender: Int
    public var birthday: UInt32
    public var location: FieldValue
    public var language: UInt32
    public var level: UInt32
    public var role: UInt32
    /// The custom fields, by their names without `Custom_`.
    public var custom: [String: FieldValue]
    /// Opaque; two profiles of a user with the same version are equal.
    public var version: String

    public var id: String { userID }
}

/// The answer to `getUsersProfile`.
public struct UserProfileAnswer: Sendable, Equatable {
    /// The profiles, those from the cache first.
    public var profileList: [UserProfile] = []
    /// The users that failed, and the reasons.
    public var errorUserList: [UserError] = []
}
