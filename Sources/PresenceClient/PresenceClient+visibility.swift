/// Who may see a user. To all others she looks as if she had gone OFFLINE when she hid from them, and had stayed so.
public struct Visibility: Codable, Equatable, Sendable {
    /// Whom a user lets see her status.
    public enum Mode: String, Codable, CaseIterable, Sendable {
        case everyone, friends, list, nobody
    }

    /// See ``Mode``.
    public var mode: Mode
    /// Who may see the user with ``Mode/list``; at most 100.
    public var userIDs: [String]
    /// For now nobody may, whatever ``mode`` says.
    public var isInvisible: Bool

    public init(mode: Mode = .everyone, userIDs: [String] = [], isInvisible: Bool = false) {
        self.mode = mode
        self.userIDs = userIDs
        self.isInvisible = isInvisible
    }

    enum CodingKeys: String, CodingKey {
        case mode = "visibility"
        case userIDs
        case isInvisible = "invisible"
    }
}

extension PresenceClient {
    /// Says who may see one's status; what is nil stays as it is. When it returns nobody is shown any more what it may not see.
    @discardableResult public func setVisibility(
        _ mode: Visibility.Mode? = nil, userIDs: [String]? = nil, isInvisible: Bool? = nil
    ) async throws(PresenceError) -> Visibility {
        let change = Wire.Visibility(visibility: mode, userIDs: userIDs, invisible: isInvisible)
        var facts: Set<Fact> = []
        if mode != nil { facts.insert(.visibilityMode) }
        if userIDs != nil { facts.insert(.visibilityUsers) }
        if isInvisible != nil { facts.insert(.invisibility) }
        return try await inTurn(Claim(facts: facts)) { (number) async throws(PresenceError) in
            try await self.call("setVisibility", as: Visibility.self, number: number) { change }
        }
    }

    /// Who may see one's status.
    public func getVisibility() async throws(PresenceError) -> Visibility {
        try await call("getVisibility", Wire.Visibility(), as: Visibility.self)
    }
}

extension Wire {
    fileprivate struct Visibility: Encodable {
        var visibility: PresenceClient_VisibilityMode?
        var userIDs: [String]?
        var invisible: Bool?
    }
}

private typealias PresenceClient_VisibilityMode = Visibility.Mode
