import PresenceClient

/// The app's one instance of CommsEase's SDK.
public final class NIMSDK: Sendable {
    private static let instance = SharedInstance<NIMSDK>()

    /// The event calls.
    public let subscribeManager: NIMEventSubscribeManager

    private init(_ subscribeManager: NIMEventSubscribeManager) { self.subscribeManager = subscribeManager }

    /// Makes the instance that ``shared()`` returns. An app calls it once, when it starts.
    public static func register(_ configuration: ClientConfiguration) throws {
        instance.set(NIMSDK(try NIMEventSubscribeManager(configuration)))
    }

    /// The instance of ``register(_:)``, which must have been called.
    public static func shared() -> NIMSDK {
        guard let sdk = instance.current else { preconditionFailure("call NIMSDK.register(_:) before NIMSDK.shared()") }
        return sdk
    }
}
