/// A device that vendor push can reach. It keeps its user ONLINE without a session (N19).
public struct PushDevice: Hashable, Sendable {
    public var platform: String
    /// The device's ID; empty if the client did not name its device.
    public var deviceID: String
    /// The time until which the device counts, unless it has an open session.
    public var until: Milliseconds

    /// The time that a device counts after its last write: 30 days.
    public static let horizon: Milliseconds = 30 * 86_400_000
    /// The remaining time below which the owner writes a device with a session again. A device whose session is lost counts for 15 to 30
    /// days.
    ///
    /// The owner does not write at the loss: watchers would receive a change.
    public static let renewBefore: Milliseconds = horizon / 2
    /// Most devices of one user, as many as sessions. One more replaces the device without a session that ends first.
    public static let countMax = Limits.sessionsPerUserMax

    public init(platform: String, deviceID: String, until: Milliseconds) {
        self.platform = platform
        self.deviceID = deviceID
        self.until = until
    }
}
