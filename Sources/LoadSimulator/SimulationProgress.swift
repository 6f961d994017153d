/// The present numbers of a simulation, for another thread.
public struct SimulationProgress: Sendable {
    public var phase = "connecting"
    public var usersLive = 0
    public var changes = 0
    public var pushes = 0
    public var p50Milliseconds = 0.0
    public var p99Milliseconds = 0.0
    /// The last second that is over; nil in the first one.
    public var lastSecond: SimulationReport.Second?
    /// Seconds since the simulation began.
    public var seconds = 0.0

    public init() {}
}
