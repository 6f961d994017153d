import NIOCore

/// Work of an event loop that yields to the reads of other clients, and continues in a later turn: see ``HTTPLoop/continueLater(_:)``.
public protocol ContinuedWork: AnyObject {
    /// Does some of the work, for about a quarter of a millisecond. For the rest, call ``HTTPLoop/continueLater(_:)`` again.
    func work()
}

/// The state that the connections of one event loop share. Used on that loop only.
public final class HTTPLoop {
    public let eventLoop: any EventLoop
    let sharedLimits: SharedLimits
    public weak var delegate: (any HTTPServerDelegate)?
    let chunk = FrameChunk()
    /// The buffer for outgoing bytes. It is taken out while in use.
    var scratch = ByteBuffer()
    /// The connections that the flush at the end of this turn flushes. It is scheduled while there are any.
    private var dirty: [HTTPServerConnection] = []
    /// The open connections, in no particular order.
    public var connections: [HTTPServerConnection] { openConnections.elements }
    private var openConnections = UnorderedList<HTTPServerConnection>()
    /// New connections whose protocol is not detected yet.
    ///
    /// A timer for each would keep a closed connection's memory until it fires.
    private(set) var undecided = UnorderedList<ProtocolDetector>()
    var pacedAddresses = PacedAddresses()
    private var isSweeping = false
    /// The detectors and connections below these indices have not had their turn in the present sweep.
    private var unswept = (detectors: 0, connections: 0)
    /// Each answer ends its connection when nothing else is open there.
    private(set) var isLeaving = false
    /// Connections that wait for the peer to read their last GOAWAY.
    var lingeringCount = 0
    static let lingeringMax = 256
    /// The time for which such a connection waits. It is a variable only for tests on a busy machine.
    var lingeringTime = TimeAmount.milliseconds(250)
    /// The time for which a connection that ends without a fault waits for its peer to close, so that no sent byte is lost.
    var farewellTime = TimeAmount.seconds(1)
    /// Work for the next turn, which is scheduled while there is any. It stays here until the turn has flushed its answers.
    private var continuing: [any ContinuedWork] = []
    /// The end of the present turn, nil outside of a turn, and the time until which decoded header lists use up their share of the loop's.
    private var times = (turnEnd: NIODeadline?.none, decodingUsedUntil: NIODeadline.distantPast)
    /// The fields that all answers of this loop have.
    private var answerFields = (date: HTTPDate(), requestIDs: RequestID.Source())
    /// Compresses this loop's answers. It exists from the first one that no other request gets.
    private(set) lazy var compression = AnswerCompression(for: self)
    private(set) lazy var largeAnswers = LargeAnswers(for: self)

    /// - Parameter origins: the origins of web pages that may call this server.
    public init(
        eventLoop: any EventLoop, limits: HTTPLimits, origins: AllowedOrigins = AllowedOrigins(), delegate: (any HTTPServerDelegate)?
    ) {
        self.eventLoop = eventLoop
        sharedLimits = SharedLimits(limits, origins: OriginTable(origins))
        self.delegate = delegate
    }

    public var limits: HTTPLimits { sharedLimits.limits }

    var origins: OriginTable { sharedLimits.origins }

    /// The `Date` of this loop's answers.
    var date: HTTPDate { answerFields.date }

    /// The part of ``RequestID`` that this loop's answers share.
    var idNumber: UInt32 { answerFields.requestIDs.loop }

    /// The number of a new connection, for ``RequestID``.
    func nextSerial() -> UInt32 { answerFields.requestIDs.nextConnection() }

    /// The number of open connections.
    public var connectionsCount: Int { connections.count }

    func add(_ connection: HTTPServerConnection) {
        openConnections.add(connection)
        if isLeaving { connection.leave() }
        scheduleSweep()
        delegate?.connectionOpened(connection)
    }

    func remove(_ connection: HTTPServerConnection) {
        largeAnswers.remove(connection)
        if openConnections.remove(connection) { delegate?.connectionClosed(connection) }
    }

    func add(_ detector: ProtocolDetector) {
        undecided.add(detector)
        scheduleSweep()
    }

    /// Removes a connection that is closed, or whose protocol is detected.
    func remove(_ detector: ProtocolDetector) { _ = undecided.remove(detector) }

    /// The bytes of requests and answers that the connections hold together.
    public var heldBytes: Int { sharedLimits.heldBytes }

    /// Ends unread answers, or the connections that hold most, until all together are within ``HTTPLimits/heldBytesMax``.
    func boundHeldBytes() {
        guard sharedLimits.heldBytes > limits.heldBytesMax else { return }
        endUnreadAnswers()
        while sharedLimits.heldBytes > limits.heldBytesMax {
            let heldBytes = sharedLimits.heldBytes
            connections.max { $0.heldBytes < $1.heldBytes }?.endForHeldBytes()
            guard sharedLimits.heldBytes < heldBytes else { return }
        }
    }

    /// Flushes the connection at the end of this turn.
    func setNeedsFlush(_ connection: HTTPServerConnection) {
        dirty.append(connection)
        guard dirty.count == 1 else { return }
        eventLoop.assumeIsolated().execute { self.flush() }
    }

    /// Writes and flushes every connection with waiting bytes once, and bounds the bytes that are left.
    ///
    /// Do not call it while a connection hands over a request.
    public func flush() {
        while let connection = dirty.popLast() { connection.flush() }
        boundHeldBytes()
    }

    /// Whether there is time left in this turn to process received bytes: one millisecond for all connections, or half of it for those that
    /// continue.
    func mayWork(at now: NIODeadline) -> Bool {
        if let end = times.turnEnd { return now < end }
        times.turnEnd = now + .milliseconds(1)
        eventLoop.assumeIsolated().execute { self.times.turnEnd = nil }
        return true
    }

    /// The cost (``DecodedHeads/cost``) of the header lists that a connection with many requests may decode in one turn: some 0.3 ms.
    static let decodedBytesPerTurn = 512 << 10
    /// The time that these bytes count as, so that decoding takes a third of the loop's time.
    private static let decodingTurn = TimeAmount.milliseconds(1)

    /// Whether HTTP/2 header lists have not used up their share of the loop's time.
    func mayDecode(at now: NIODeadline) -> Bool { times.decodingUsedUntil <= now + Self.decodingTurn }

    /// Counts the header lists that were decoded since the last call. Returns them.
    func countDecoded(at now: NIODeadline) -> DecodedHeads {
        let decoded = DecodedHeads(count: sharedLimits.decodedCount, bytes: sharedLimits.decodedBytes)
        (sharedLimits.decodedCount, sharedLimits.decodedBytes) = (0, 0)
        let time = TimeAmount.nanoseconds(Self.decodingTurn.nanoseconds * Int64(decoded.cost) / Int64(Self.decodedBytesPerTurn))
        times.decodingUsedUntil = max(times.decodingUsedUntil, now) + time
        return decoded
    }

    /// Reserves a connection's turn to decode ``decodedBytesPerTurn``. Returns the time until then.
    func reserveDecodingTurn(at now: NIODeadline) -> TimeAmount {
        times.decodingUsedUntil = max(times.decodingUsedUntil, now) + Self.decodingTurn
        return times.decodingUsedUntil - now
    }

    /// Begins a reserved turn. The header lists decoded in it count instead of the reserved time.
    func beginDecodingTurn() { times.decodingUsedUntil = times.decodingUsedUntil - Self.decodingTurn }

    /// Continues work after the connections have had their turn.
    ///
    /// All work that continues shares one chain of turns. Two chains would find each other's next turn due, and the loop would never read.
    public func continueLater(_ work: any ContinuedWork) {
        continuing.append(work)
        guard continuing.count == 1 else { return }
        // The delay begins behind the reads of this turn. They may take longer than it, and the others' reads would have to wait.
        eventLoop.assumeIsolated().execute { self.scheduleContinuation() }
    }

    /// The most connections that continue in one turn. Each may read again, which takes as long as the processing.
    private static let continuedAtOnceMax = 16

    /// Continues the work that waits longest for half a millisecond, and schedules the rest.
    ///
    /// An event loop runs its tasks until none is due, and only then reads. A short delay therefore puts the next task behind the reads.
    private func scheduleContinuation() {
        eventLoop.assumeIsolated().scheduleTask(in: .microseconds(200)) {
            // Work that must wait again is appended meanwhile.
            let countMax = min(self.continuing.count, Self.continuedAtOnceMax)
            let end = NIODeadline.now() + .microseconds(500)
            self.times.turnEnd = end
            var count = 0
            while count < countMax, .now() < end {
                self.continuing[count].work()
                count += 1
            }
            self.times.turnEnd = nil
            self.flush()
            self.continuing.removeFirst(count)
            if !self.continuing.isEmpty { self.scheduleContinuation() }
        }
    }

    /// The most connections that one turn of a sweep visits.
    private static let visitsMax = 256
    /// The time of such a turn, which is shorter if many connections end in it, and the pause behind it, in which the others are served.
    private static let (sweepTurn, sweepPause) = (TimeAmount.microseconds(500), TimeAmount.milliseconds(1))

    /// Sweeps all connections once a second, while there are any.
    private func scheduleSweep() {
        guard !isSweeping, !connections.isEmpty || !undecided.elements.isEmpty else { return }
        isSweeping = true
        eventLoop.assumeIsolated().scheduleTask(in: .seconds(1)) {
            self.date.refresh(at: .now())
            self.beginSweep(at: .now())
            self.continueSweep()
        }
    }

    /// Sweeps in turns. To close a connection takes some 30 µs, and thousands that were opened together are late together.
    private func continueSweep() {
        let now = NIODeadline.now()
        guard sweepSome(at: now, visitsMax: Self.visitsMax, until: now + Self.sweepTurn) else {
            isSweeping = false
            return scheduleSweep()
        }
        eventLoop.assumeIsolated().scheduleTask(in: Self.sweepPause) { self.continueSweep() }
    }

    /// Ends connections and streams whose time is over.
    func sweep(at now: NIODeadline) {
        beginSweep(at: now)
        while sweepSome(at: now, visitsMax: .max, until: .distantFuture) {}
    }

    /// Begins a sweep, which ``sweepSome(at:visitsMax:until:)`` carries out.
    func beginSweep(at now: NIODeadline) {
        unswept = (undecided.elements.count, connections.count)
        pacedAddresses.sweep(at: now)
    }

    /// Visits the next connections of a sweep, from the last one down. Returns whether more are left.
    ///
    /// A removed element is replaced by the last one, which has had its turn, so that none is left out.
    func sweepSome(at now: NIODeadline, visitsMax: Int, until end: NIODeadline) -> Bool {
        var visitsCount = 0
        while visitsCount < visitsMax, visitsCount % 8 != 7 || .now() < end {
            visitsCount += 1
            unswept = (min(unswept.detectors, undecided.elements.count), min(unswept.connections, connections.count))
            if unswept.detectors > 0 {
                unswept.detectors -= 1
                undecided.elements[unswept.detectors].sweep(at: now)
            } else if unswept.connections > 0 {
                unswept.connections -= 1
                let connection = connections[unswept.connections]
                connection.sweep(at: now)
                connection.readMuchAgain(at: now)
            } else {
                boundHeldBytes()
                return false
            }
        }
        return true
    }

    /// Ends every connection once nothing is open there, also connections that are accepted later. See ``HTTPServerConnection/leave()``.
    public func leave() {
        isLeaving = true
        for connection in connections { connection.leave() }
    }

    /// Ends every connection, those without open streams at once. See ``HTTPServerConnection/goAway()``.
    public func goAway() {
        isLeaving = true
        for connection in connections { connection.goAway() }
    }

    /// Closes every connection at once.
    public func closeAll() {
        for connection in connections { connection.cutOff() }
        for detector in undecided.elements { detector.context?.close(promise: nil) }
    }
}
