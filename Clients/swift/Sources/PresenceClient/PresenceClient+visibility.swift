/// The rule that says which users may see the own status.
///
/// All others see the user as OFFLINE since the user hid from them.
public struct Visibility: Codable, Equatable, Sendable {
    /// The viewers whom a user admits.
    public enum Mode: String, Codable, CaseIterable, Sendable {
        case everyone, friends, list, nobody
    }

    /// See ``Mode``.
    public var mode: Mode
    /// The viewers of ``Mode/list``; at most 100.
    public var userIDs: [String]
    /// Whether the user is hidden from everyone for now, whatever ``mode`` says.
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
    /// Sets the own visibility; nil leaves a field unchanged. When it returns, no client sees any more what it may not see.
    ///
    /// Soon after a change that others saw, a call that hides takes up to the policy's `offlineGrace` (2 s), so that the user looks lost.
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

    /// Returns the own visibility.
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
