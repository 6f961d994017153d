/// A device that vendor push can reach: its user is ONLINE by it without a session (N19).
public struct PushDevice: Hashable, Sendable {
    public var platform: String
    /// Empty when the client did not name its device.
    public var deviceID: String
    /// When it counts no more, unless a session of it is open.
    public var until: Milliseconds

    /// How long it counts after it was last written. 30 days.
    public static let horizon: Milliseconds = 30 * 86_400_000
    /// A device with a session is written again when it would count for less than that, so that a lost one counts for 15 to 30 days.
    /// Not at the loss: whoever watches would be told of a change then.
    public static let renewBefore: Milliseconds = horizon / 2
    /// Most of one user, as many as sessions; of those without a session the one whose time ends first gives way.
    public static let countMax = Limits.sessionsPerUserMax

    public init(platform: String, deviceID: String, until: Milliseconds) {
        self.platform = platform
        self.deviceID = deviceID
        self.until = until
    }
}
