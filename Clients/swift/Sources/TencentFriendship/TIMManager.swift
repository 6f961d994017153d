import PresenceClient

/// The option of the caches of profiles and of the relationship chain (P4).
public struct TIMFriendProfileOption: Sendable, Equatable {
    /// Default: a day.
    public var expiredSeconds = 86_400

    public init() {}
}

/// The settings of a user.
public struct TIMUserConfig: Sendable, Equatable {
    public var friendProfileOpt = TIMFriendProfileOption()

    public init() {}
}

/// The user who logs in.
public struct TIMLoginParam: Sendable, Equatable {
    /// Not used: the token names the user and the app.
    public var accountType = ""
    public var identifier = ""
    /// The app's token; empty for the one of the configuration.
    public var userSig = ""
    /// Not used.
    public var appidAt3rd = ""
    /// Not used.
    public var sdkAppId = 0

    public init() {}
}

/// The document's entry: login, logout, and the listener of messages.
public final class TIMManager: Sendable {
    private struct State {
        var config = TIMUserConfig()
        var listener: (any TIMMessageListener)?
        var client: PresenceClient?
        var userSig = ""
    }

    private static let instance = SharedInstance<TIMManager>()

    private let configuration: ClientConfiguration
    private let state = Locked(State())

    public init(_ configuration: ClientConfiguration) { self.configuration = configuration }

    /// Makes the instance that ``sharedInstance()`` returns. An app calls it once, when it starts.
    public static func configure(_ configuration: ClientConfiguration) { instance.set(TIMManager(configuration)) }

    /// The instance of ``configure(_:)``, which must have been called.
    public static func sharedInstance() -> TIMManager {
        guard let manager = instance.current else { preconditionFailure("call TIMManager.configure(_:) before sharedInstance()") }
        return manager
    }

    /// Sets what ``initSdk()`` uses.
    public func setUserConfig(_ config: TIMUserConfig) { state.withLock { $0.config = config } }

    /// Sets the listener of messages; nil for none. The manager keeps it.
    public func setMessageListener(_ listener: (any TIMMessageListener)?) { state.withLock { $0.listener = listener } }

    /// Makes the client. Returns 0, or 1 if the configuration has no valid certificates.
    @discardableResult public func initSdk() -> Int { (try? client()) == nil ? 1 : 0 }

    /// Logs in (P45): returns 0, and calls back.
    @discardableResult public func login(_ param: TIMLoginParam, succ: TIMSucc? = nil, fail: TIMFail? = nil) -> Int {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.login(param) }
    }

    /// Logs in.
    public func login(_ param: TIMLoginParam) async throws(TIMError) {
        state.withLock { $0.userSig = param.userSig }
        let client = try client()
        do { try await client.login() } catch { throw TIMError(error) }
    }

    /// Logs out: returns 0, and calls back.
    @discardableResult public func logout(succ: TIMSucc? = nil, fail: TIMFail? = nil) -> Int {
        Callbacks.send(succ, fail) { () async throws(TIMError) -> Void in try await self.logout() }
    }

    /// Logs out.
    public func logout() async throws(TIMError) {
        let client = try client()
        do { try await client.logout() } catch { throw TIMError(error) }
    }

    /// The friendship calls of this manager's user.
    public var friendshipManager: TIMFriendshipManager { TIMFriendshipManager(self) }

    /// The client behind this manager. It is made once.
    func client() throws(TIMError) -> PresenceClient {
        let (config, known) = state.withLock { ($0.config, $0.client) }
        if let known { return known }
        var configuration = configuration
        configuration.keepsRelationships = true
        configuration.profileExpiry = .seconds(config.friendProfileOpt.expiredSeconds)
        let provider = configuration.token
        configuration.token = { [weak self] in
            let userSig = self?.state.withLock { $0.userSig } ?? ""
            return userSig.isEmpty ? try await provider() : userSig
        }
        let made: PresenceClient
        do { made = try PresenceClient(configuration) } catch {
            throw TIMError(code: PresenceError.Code.badParameter.rawValue, msg: "trustedCertificatesPEM: \(error)")
        }
        let client = state.withLock { state in
            state.client = state.client ?? made
            return state.client ?? made
        }
        client.addListener(Bridge { [weak self] in self?.state.withLock { $0.listener } }, for: self)
        return client
    }

    private final class Bridge: PresenceListener {
        private let listener: @Sendable () -> (any TIMMessageListener)?

        init(_ listener: @escaping @Sendable () -> (any TIMMessageListener)?) { self.listener = listener }

        func onRelationshipChanged(_ change: RelationshipChange) {
            if let message = TIMMessage(change) { listener()?.onNewMessage([message]) }
        }
    }
}

/// Calls in the document's form (P45).
enum Callbacks {
    /// Begins a call without an answer. Returns 0.
    static func send(_ succ: TIMSucc?, _ fail: TIMFail?, _ body: @escaping @Sendable () async throws(TIMError) -> Void) -> Int {
        Task {
            do throws(TIMError) {
                try await body()
                succ?()
            } catch { fail?(error.code, error.msg) }
        }
        return 0
    }

    /// Begins a call. Returns 0, because it is sent; its result comes by one of the two callbacks.
    static func request<Answer: Sendable>(
        _ succ: (@Sendable (Answer) -> Void)?, _ fail: TIMFail?, _ body: @escaping @Sendable () async throws(TIMError) -> Answer
    ) -> Int {
        Task {
            do throws(TIMError) {
                let answer = try await body()
                succ?(answer)
            } catch { fail?(error.code, error.msg) }
        }
        return 0
    }
}
