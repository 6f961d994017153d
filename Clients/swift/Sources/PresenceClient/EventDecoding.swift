#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// An event of the event stream (<doc:HTTPAPI#Events>).
enum ServerEvent: Equatable {
    case connected(Session)
    case userStatusChanged([UserStatus])
    case subscriptionSyncCompleted(SubscribeType)
    case subscriptionChangedOnOtherDevices(SubscriptionChange)
    case subscriptionExpired([String])
    case sessionsChanged([DeviceSession])
    case relationship(RelationshipNews)
    case kickedOffline(reason: String)
    case loggedOut
    case reconnectHint(after: Duration)
    case tokenExpiring

    /// Reads an event; nil for an unknown kind. Throws if the content does not match the name.
    init?(_ event: EventStreamParser.Event) throws {
        switch event.name {
        case "onConnected": self = .connected(try JSON.decode(Session.self, from: event.data))
        case "onUserStatusChanged": self = .userStatusChanged(try JSON.decode(Changed.self, from: event.data).userStatusList)
        case "onSubscriptionSyncCompleted":
            guard let type = SubscribeType(rawValue: try JSON.decode(Synced.self, from: event.data).subscribeType) else { return nil }
            self = .subscriptionSyncCompleted(type)
        case "onSubscriptionChangedOnOtherDevices":
            let change = try JSON.decode(OtherDevices.self, from: event.data)
            self = .subscriptionChangedOnOtherDevices(
                SubscriptionChange(
                    subscriptions: Self.entries(change.subscriptions, or: change.subscribed),
                    unsubscriptions: Self.entries(change.unsubscriptions, or: change.unsubscribed)))
        case "onSubscriptionExpired": self = .subscriptionExpired(try JSON.decode(Expired.self, from: event.data).userIDs)
        case "onSessionsChanged": self = .sessionsChanged(try JSON.decode(Wire.SessionList.self, from: event.data).sessions)
        case "onKickedOffline":
            let reason = try JSON.decode(Kicked.self, from: event.data).reason
            // Nodes of an earlier version send this in place of `onLogout`.
            self = reason == "logout" ? .loggedOut : .kickedOffline(reason: reason)
        case "onLogout": self = .loggedOut
        case "onTokenExpiring": self = .tokenExpiring
        case "onReconnectHint":
            self = .reconnectHint(after: .milliseconds(max(try JSON.decode(Hint.self, from: event.data).afterMilliseconds ?? 0, 0)))
        default:
            guard let news = try RelationshipNews(event) else { return nil }
            self = .relationship(news)
        }
    }

    private struct Changed: Decodable { let userStatusList: [UserStatus] }
    private struct Synced: Decodable { let subscribeType: Int }
    private struct Expired: Decodable { let userIDs: [String] }
    private struct Kicked: Decodable { let reason: String }
    private struct Hint: Decodable { let afterMilliseconds: Int64? }
    private struct OtherDevices: Decodable {
        let subscribed: [Target]?
        let unsubscribed: [Target]?
        let subscriptions: [Followed]?
        let unsubscriptions: [Followed]?
    }

    private struct Followed: Decodable {
        let userID: String
        let subscribeType: Int?
        let expiresAt: Int64?
    }

    /// The changed subscriptions without unknown types; from the names alone if the node sends nothing else.
    private static func entries(_ followed: [Followed]?, or targets: [Target]?) -> [SubscriptionChange.Entry] {
        guard let followed else { return (targets ?? []).map { SubscriptionChange.Entry(userID: $0.userID) } }
        return followed.compactMap { entry in
            SubscribeType(rawValue: entry.subscribeType ?? SubscribeType.onlineStatus.rawValue).map {
                SubscriptionChange.Entry(userID: entry.userID, subscribeType: $0, expiresAt: entry.expiresAt)
            }
        }
    }

    /// A user: the ID alone, or an object that contains it, because the API leaves the elements open.
    private struct Target: Decodable {
        let userID: String

        private enum CodingKeys: String, CodingKey { case userID }

        init(from decoder: any Decoder) throws {
            do { userID = try decoder.singleValueContainer().decode(String.self) } catch DecodingError.typeMismatch {
                userID = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .userID)
            }
        }
    }
}

/// JSON in bytes.
enum JSON {
    static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try JSONDecoder().decode(type, from: Data(bytes))
    }

    /// The bytes are the same for equal values: a node compares those of a repeated call.
    static func encode(_ value: some Encodable) throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return Array(try encoder.encode(value))
    }

    /// The body of a call.
    static func body(_ value: some Encodable, of operation: String) throws(PresenceError) -> [UInt8] {
        do { return try encode(value) } catch {
            throw PresenceError(code: .badParameter, title: "bad parameter", detail: "\(operation): \(error)")
        }
    }
}

/// `application/problem+json`.
struct Problem: Decodable {
    var title: String?
    var detail: String?
    var code: Int?
    var retryAfter: Int?
    var mayTakeEffect: Bool?
    var errorUserList: [UserError]?
}

extension PresenceError {
    /// The problem in a node's answer.
    init(status: Int, retryAfter: Int?, requestID: String? = nil, body: [UInt8]) {
        let problem: Problem
        do { problem = try JSON.decode(Problem.self, from: body) } catch {
            // The answer is not from a node but from a proxy in front of it. 429 and 503 have the same meaning everywhere, and after 502
            // and 504 nobody knows whether a node has carried out the call.
            let code: Code =
                switch status {
                case 429: .calledTooOften
                case 503: .overloaded
                case 502, 504: .unreachable
                default: .badAnswer
                }
            let asked = retryAfter.map { Duration.seconds($0) }
            self.init(
                code: code, status: status, title: "HTTP \(status)", detail: "not a problem document", retryAfter: asked,
                requestID: requestID)
            return
        }
        self.init(
            code: Code(rawValue: problem.code ?? Code.badAnswer.rawValue), status: status, title: problem.title ?? "HTTP \(status)",
            detail: problem.detail ?? "", retryAfter: (problem.retryAfter ?? retryAfter).map { .seconds($0) },
            mayTakeEffect: problem.mayTakeEffect ?? false, errorUserList: problem.errorUserList ?? [], requestID: requestID)
    }
}
