import NIOCore

/// What the connections of one event loop share.
public final class HTTPLoop {
    public let eventLoop: any EventLoop
    let sharedLimits: SharedLimits
    public weak var delegate: (any HTTPServerDelegate)?
    let chunk = FrameChunk()
    /// The buffer that outgoing bytes are collected in; taken out while in use.
    var scratch = ByteBuffer()
    private var dirty: [HTTPServerConnection] = []
    private var isScheduled = false
    /// The open connections, in no particular order.
    public var connections: [HTTPServerConnection] { openConnections.elements }
    private var openConnections = UnorderedList<HTTPServerConnection>()
    /// New connections whose protocol is not known. The list replaces a timer for each, which kept a closed connection's memory until it fired.
    private(set) var undecided = UnorderedList<ProtocolDetector>()
    var pacedAddresses = PacedAddresses()
    private var isSweeping = false
    /// Each answer over HTTP/1.1 ends its connection.
    private(set) var isLeaving = false
    /// Connections that have had their last word and wait for the peer to read it.
    var lingeringCount = 0
    static let lingeringMax = 256
    /// How long such a connection waits. A variable for tests on a busy machine alone.
    var lingeringTime = TimeAmount.milliseconds(250)
    /// How long a connection that ends in good order waits for its peer to close, so that nothing of what was sent is lost.
    static let farewellTime = TimeAmount.seconds(1)
    /// Connections with requests that are left for the next turn.
    private var continuing: [HTTP1ServerConnection] = []
    private var isContinuing = false
    /// When the time of the turn is over, if one has begun.
    private var turnEnd: NIODeadline?
    /// For the answers of this loop.
    let date = HTTPDate()

    public init(eventLoop: any EventLoop, limits: HTTPLimits, delegate: (any HTTPServerDelegate)?) {
        self.eventLoop = eventLoop
        sharedLimits = SharedLimits(limits)
        self.delegate = delegate
    }

    public var limits: HTTPLimits { sharedLimits.limits }

    /// Open connections.
    public var connectionsCount: Int { connections.count }

    func add(_ connection: HTTPServerConnection) {
        openConnections.add(connection)
        if isLeaving { connection.leave() }
        scheduleSweep()
        delegate?.connectionOpened(connection)
    }

    func remove(_ connection: HTTPServerConnection) {
        if openConnections.remove(connection) { delegate?.connectionClosed(connection) }
    }

    func add(_ detector: ProtocolDetector) {
        undecided.add(detector)
        scheduleSweep()
    }

    /// Removes a connection that has closed, or whose protocol is known now.
    func remove(_ detector: ProtocolDetector) { _ = undecided.remove(detector) }

    /// Ends the connections that hold most until all together hold no more than they may.
    func boundHeldBytes() {
        while sharedLimits.heldBytes > limits.heldBytesMax {
            let heldBytes = sharedLimits.heldBytes
            connections.max { $0.heldBytes < $1.heldBytes }?.endForHeldBytes()
            guard sharedLimits.heldBytes < heldBytes else { return }
        }
    }

    /// Has the connection flushed at the end of this turn.
    func setNeedsFlush(_ connection: HTTPServerConnection) {
        dirty.append(connection)
        guard !isScheduled else { return }
        isScheduled = true
        eventLoop.assumeIsolated().execute { self.flush() }
    }

    /// Writes and flushes every connection that has something to say, once.
    public func flush() {
        isScheduled = false
        while let connection = dirty.popLast() { connection.flush() }
        boundHeldBytes()
    }

    /// Whether there is time left in this turn for what connections have received, one millisecond for all of them.
    func mayWork(at now: NIODeadline) -> Bool {
        if let turnEnd { return now < turnEnd }
        turnEnd = now + .milliseconds(1)
        eventLoop.assumeIsolated().execute { self.turnEnd = nil }
        return true
    }

    /// Has the connection go on with its requests after the others have had their turn.
    func continueLater(_ connection: HTTP1ServerConnection) {
        continuing.append(connection)
        if continuing.count == 1, !isContinuing { scheduleContinuation() }
    }

    /// Each of these may read again, which takes about as long as what it does.
    private static let continuedAtOnceMax = 16

    /// Lets those that wait longest go on, for half a millisecond, and the others later.
    ///
    /// An event loop runs its tasks until none is due, and only then reads. So the next time is a little after everything else is done.
    private func scheduleContinuation() {
        eventLoop.assumeIsolated().scheduleTask(in: .microseconds(200)) {
            let connections = self.continuing
            self.continuing = []
            self.isContinuing = true
            let end = NIODeadline.now() + .microseconds(500)
            var count = 0
            while count < min(connections.count, Self.continuedAtOnceMax), .now() < end {
                connections[count].work()
                count += 1
            }
            self.continuing.insert(contentsOf: connections.dropFirst(count), at: 0)
            self.flush()
            self.isContinuing = false
            if !self.continuing.isEmpty { self.scheduleContinuation() }
        }
    }

    /// Looks after all connections once a second, while there are any.
    private func scheduleSweep() {
        guard !isSweeping, !connections.isEmpty || !undecided.elements.isEmpty else { return }
        isSweeping = true
        eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
            self.isSweeping = false
            self.date.refresh(at: .now())
            self.sweep(at: .now())
            self.scheduleSweep()
        }
    }

    /// Ends connections and streams whose time is over.
    func sweep(at now: NIODeadline) {
        for detector in undecided.elements { detector.sweep(at: now) }
        pacedAddresses.sweep(at: now)
        for connection in connections {
            connection.sweep(at: now)
            connection.readMuchAgain(at: now)
        }
        boundHeldBytes()
    }

    /// Has every connection end once nothing is open there, those too that are accepted from now on. See ``HTTPServerConnection/leave()``.
    public func leave() {
        isLeaving = true
        for connection in connections { connection.leave() }
    }

    /// As ``leave()``, but those on which nothing is open end now.
    public func goAway() {
        isLeaving = true
        for connection in connections { connection.goAway() }
    }

    /// Cuts every connection.
    public func closeAll() {
        for connection in connections { connection.cutOff() }
        for detector in undecided.elements { detector.context?.close(promise: nil) }
    }
}
