import Foundation
import HTTP2
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import NIOSSL
import PresenceCore
import PresenceWire

/// A node in a process: it listens, joins, serves, and stops in order.
public final class RollcallNode: @unchecked Sendable {
    /// The ports on which the node listens, also if 0 was configured.
    public struct Ports: Sendable {
        public let client: Int
        public let cluster: Int
        public let ops: Int
    }

    public let configuration: NodeConfiguration
    public let ports: Ports
    private let group: MultiThreadedEventLoopGroup
    private let shell: Shell
    private let gateways: [GatewayLoop]
    private let store: any Store
    private let clusterListener: ClusterListener
    private let clusterHTTP: HTTPLoop
    private let admin: AdminAPI
    private let opsListener: OpsListener
    private let opsHTTP: HTTPLoop
    private let servers: [HTTPServer]
    private let state: NodeState
    private let certificates: Certificates
    private let webhooks: WebhookSender
    private let keys: TokenKeys
    private let connectionLimits: ConnectionPorts
    private let logger: Logger
    /// The one stop of this node, once it has begun.
    private let stopping = NIOLockedValueBox<Task<Void, any Error>?>(nil)

    /// Opens the store, binds the ports and joins the cluster. Throws a ``StoreError``, a ``JoinError``, or a ``ListenError``.
    public static func start(_ configuration: NodeConfiguration, logger: Logger) async throws -> RollcallNode {
        Jemalloc()?.giveBackInBackground()
        DescriptorBudget.makeTable()
        let store = try SQLiteStore(
            directory: configuration.dataDirectory, nodeID: configuration.nodeID, cluster: configuration.cluster,
            canBeCompleted: !configuration.join.isEmpty, report: { logger.report($0) })
        if let salvage = store.salvage {
            logger.error(
                "the database is damaged; it was moved aside, and a new database receives the missing rows from the other nodes",
                metadata: [
                    "problem": "\(salvage.problem)", "damaged": "\(salvage.damagedFile)", "rowsKept": "\(salvage.rowsKept)",
                    "rowsDamaged": "\(salvage.rowsDamaged)",
                ])
        }
        let node: RollcallNode
        do {
            node = try await RollcallNode(configuration, store: store, logger: logger)
        } catch {
            store.close()
            // The stored name of a wrong cluster would block the right one.
            if error is JoinError { try store.removeNew() }
            throw error
        }
        do {
            try await node.join()
        } catch {
            try await node.stop()
            throw error
        }
        return node
    }

    private init(_ configuration: NodeConfiguration, store: any Store, logger: Logger) async throws {
        self.configuration = configuration
        self.store = store
        self.logger = logger
        certificates = try Certificates(configuration)
        group = MultiThreadedEventLoopGroup(numberOfThreads: configuration.loopsCount + 1)
        var loops = Array(group.makeIterator())
        let opsLoop = loops.removeLast()
        let core = loops[0]
        let budget = DescriptorBudget(loopsCount: loops.count + 1)
        connectionLimits = ConnectionPorts(budget, perAddressMax: configuration.clientPort.connectionsPerAddressMax, logger: logger)
        let parts: (server: HTTPServer, http: HTTPLoop)
        do {
            keys = try await TokenKeys(configuration, on: opsLoop, logger: logger)
            parts = try await Self.listen(configuration, core: core, tls: certificates.cluster?.listener, limits: connectionLimits.nodes)
        } catch {
            try await group.shutdownGracefully()
            throw error
        }
        let peer = Self.peer(configuration, port: parts.server.port, after: store.lastGeneration)
        webhooks = WebhookSender(rules: configuration.webhookRules, loop: opsLoop, logger: logger)
        shell = Shell(
            peer: peer, cluster: configuration.cluster, joins: !configuration.join.isEmpty,
            secret: ClusterSecret(configuration.clusterSecret), tls: certificates.cluster?.caller,
            gatewaysCount: loops.count,
            settings: configuration.core, eventLoop: core,
            store: store, webhooks: webhooks, spans: SpanExporter(configuration, loop: opsLoop, logger: logger), logger: logger)
        let logins = LoginRates(perUserMax: configuration.logins.perUserMax, perAddressMax: configuration.logins.perAddressMax)
        let gateways = Self.gateways(configuration, on: loops, authenticator: keys.authenticator, logins: logins, shell: shell)
        self.gateways = gateways
        state = NodeState()
        clusterListener = ClusterListener(shell: shell)
        clusterHTTP = parts.http
        clusterHTTP.delegate = clusterListener
        admin = Self.adminAPI(configuration, store: store, keys: keys, shell: shell, gateways: gateways, state: state)
        let metrics = { [shell, store, admin, clusterListener, connectionLimits] in
            Self.metrics(
                shell: shell, gateways: gateways, store: store, admin: admin, cluster: clusterListener, connectionLimits, logins,
                on: opsLoop)
        }
        opsListener = OpsListener(
            admin: admin, eventLoop: opsLoop, metrics: metrics,
            life: { [shell] in shell.eventLoop.submit {}.hop(to: opsLoop) },
            notReady: { [shell, state] in state.notReady(beside: shell.faults.clockProblem ?? store.problem) },
            checks: { [shell, state] in state.checks(clock: shell.faults.clockProblem, disk: store.problem) },
            unanswered: { [addresses = shell.links.unanswered] in addresses.withLockedValue { $0 } })
        opsHTTP = HTTPLoop(eventLoop: opsLoop, limits: OpsListener.limits, delegate: opsListener)
        Self.watchRefusals(of: shell, state: state, clusterListener: clusterListener)
        do {
            await Self.fetchKeySets(keys, for: gateways)
            try await Self.askContacts(configuration.join, shell)
            Self.keepGeneration(of: peer, in: store, logger)
            try await core.submit { [shell] in try shell.start(gateways) }.get()
            Self.scrub(store, of: shell, logger)
            let opened = try await Self.open(
                configuration, gateways: gateways, ops: opsHTTP, tls: certificates.clients, limits: connectionLimits)
            servers = [opened.client, parts.server, opened.ops]
            ports = Ports(client: opened.client.port, cluster: parts.server.port, ops: opened.ops.port)
            sampleLoad()
            exportSpans()
            keys.refresh(on: opsLoop) { [opsListener] in opsListener.isStopped }
        } catch {
            await parts.server.stopListening()
            try await Self.abandon(shell, group)
            if let error = error as? RowError {
                throw StoreError.unusable(path: configuration.dataDirectory, problem: error.description)
            }
            throw error
        }
    }

    /// Looks for damage on the disk as long as the node runs, and writes damaged rows again.
    private static func scrub(_ store: any Store, of shell: Shell, _ logger: Logger) {
        store.scrub { damage in
            logger.error(
                "the disk has changed the database; damaged rows are written again from memory, check the disk",
                metadata: ["problem": "\(damage.problem)"])
            guard let slots = damage.slots else { return }
            shell.eventLoop.execute { store.repair(damage, with: shell.node.rows(of: slots)) }
        }
    }

    // MARK: Parts

    private static func peer(_ configuration: NodeConfiguration, port: Int, after lastGeneration: UInt64) -> Peer {
        let address = configuration.advertise ?? HostPort(host: configuration.clusterListen.host, port: port)
        return Peer(
            id: NodeID(configuration.nodeID), generation: generation(after: lastGeneration, at: Clock.now().wall),
            address: address.description)
    }

    /// A gateway for each loop of clients.
    private static func gateways(
        _ configuration: NodeConfiguration, on loops: [any EventLoop], authenticator: Authenticator, logins: LoginRates, shell: Shell
    ) -> [GatewayLoop] {
        var limits = HTTPLimits()
        limits.streamsMax = configuration.streamsPerConnectionMax
        limits.heldBytesMax = heldBytesMax(ofLoops: loops.count, upTo: limits.heldBytesMax)
        // Most of the work for such an answer is that of the core, which all loops share.
        limits.largeAnswerBytesPerSecond /= loops.count
        let refusedOrigins = RefusedOrigins()
        return loops.enumerated().map { index, loop in
            GatewayLoop(
                index: index, eventLoop: loop, limits: limits, origins: configuration.allowedOrigins, settings: configuration.gateway,
                refusedOrigins: refusedOrigins, authenticator: authenticator, logins: logins, shell: shell)
        }
    }

    /// The share of an event loop in the bytes that all client connections may hold together: 64 MiB.
    ///
    /// A share is never below 4 MiB, because a single answer may have a third of that.
    static func heldBytesMax(ofLoops loopsCount: Int, upTo loopMax: Int) -> Int { max(min(loopMax, (64 << 20) / loopsCount), 4 << 20) }

    /// The operations of operators. A drain asks the clients to leave over half of the available time.
    private static func adminAPI(
        _ configuration: NodeConfiguration, store: any Store, keys: TokenKeys, shell: Shell, gateways: [GatewayLoop], state: NodeState
    ) -> AdminAPI {
        let spread = configuration.drainTimeout / 2
        return AdminAPI(
            shell: shell, store: store, keys: keys, webhookRules: configuration.webhookRules, backupRule: BackupRule(configuration),
            drain: {
                guard shell.update({ node, now in node.cluster.isLeaving || node.cluster.othersStay && node.drain(at: now) }) else {
                    return false
                }
                state.advance(to: .draining)
                for gateway in gateways { gateway.eventLoop.execute { gateway.askToLeave(spread: spread) } }
                return true
            })
    }

    /// Ends the part of this process in the cluster once another process has its node ID.
    private static func watchRefusals(of shell: Shell, state: NodeState, clusterListener: ClusterListener) {
        shell.links.refusalNoticed = { [logger = shell.logger] refusal in
            guard state.refused(refusal, at: .now()) else { return }
            clusterListener.supersede()
            logger.critical(
                "superseded: another process has this node's ID; this process ends", metadata: ["reason": "\(refusal?.reason ?? "")"])
        }
    }

    /// Ends what a failed start has begun.
    private static func abandon(_ shell: Shell, _ group: MultiThreadedEventLoopGroup) async throws {
        try await shell.eventLoop.submit {
            shell.stop()
            shell.links.closeAll()
        }.get()
        shell.end()
        try await group.shutdownGracefully()
    }

    // MARK: Start

    /// Fetches the key sets of the apps, and has each loop drop the tokens that replaced keys have verified.
    ///
    /// A key set that cannot be fetched does not keep the node from its start. Calls of its app are answered 503 until it can.
    private static func fetchKeySets(_ keys: TokenKeys, for gateways: [GatewayLoop]) async {
        keys.authenticator.whenChanged { version in
            for gateway in gateways {
                // A loop that has ended serves nobody.
                do { try await gateway.eventLoop.submit { gateway.keysChanged(to: version) }.get() } catch { continue }
            }
        }
        await keys.authenticator.fetchKeySets()
    }

    private static func keepGeneration(of peer: Peer, in store: any Store, _ logger: Logger) {
        do {
            try store.keep(generation: peer.generation)
        } catch {
            logger.warning(
                "the generation of this process could not be written to disk; if the clock is set back, the cluster may refuse the next start",
                metadata: ["error": "\(error)"])
        }
    }

    /// Opens the ports for operators and clients, once the node can answer.
    private static func open(
        _ configuration: NodeConfiguration, gateways: [GatewayLoop], ops: HTTPLoop, tls: NIOSSLContext?, limits: ConnectionPorts
    ) async throws -> (client: HTTPServer, ops: HTTPServer) {
        Assets.makeTexts()
        let opsServer = try await listen("ops-listen", configuration.opsListen, [ops], limits: limits.operators)
        do {
            let loops = gateways.map { $0.http! }
            let server = try await listen(
                "listen", configuration.listen, loops, tls: tls, limits: limits.clients,
                addresses: configuration.clientPort.isBehindProxy ? .ofProxyHeaders : .ofConnections)
            return (server, opsServer)
        } catch {
            await opsServer.stopListening()
            throw error
        }
    }

    private static func listen(
        _ setting: String, _ address: HostPort, _ loops: [HTTPLoop], tls: NIOSSLContext? = nil, retransmission: Retransmission = .usual,
        limits: ConnectionLimits, addresses: ClientAddresses = .ofConnections
    ) async throws -> HTTPServer {
        do {
            return try await HTTPServer.bind(
                host: address.host, port: address.port, loops: loops, tls: tls, retransmission: retransmission, limits: limits,
                addresses: addresses)
        } catch { throw ListenError(error, setting: setting, address: address) ?? error }
    }

    /// A generation for this start: its time, and later than the generation before, even if the clock went back.
    ///
    /// The others would consider an older generation a process that is gone. A generation that was more than an hour ahead does not count,
    /// because its clock was wrong.
    static func generation(after last: UInt64, at wall: Milliseconds) -> UInt64 {
        let now = UInt64(max(wall, 1))
        return last < now || last - now > 3_600_000 ? now : last + 1_000
    }

    /// Binds the cluster port first, because the node's address contains it.
    private static func listen(
        _ configuration: NodeConfiguration, core: any EventLoop, tls: NIOSSLContext?, limits: ConnectionLimits
    ) async throws -> (server: HTTPServer, http: HTTPLoop) {
        let http = HTTPLoop(eventLoop: core, limits: ClusterListener.strangersLimits, delegate: nil)
        let server = try await listen(
            "cluster-listen", configuration.clusterListen, [http], tls: tls, retransmission: .quick, limits: limits)
        return (server, http)
    }

    /// Asks the contact points whether they accept this node, before the node reads or writes its rows.
    ///
    /// A refused node would serve users that the cluster serves too. A clock that is far off would leave its versions on the disk.
    private static func askContacts(_ contacts: [HostPort], _ shell: Shell) async throws {
        guard !contacts.isEmpty else { return }
        var first: NIODeadline?
        while let refusal = try await ask(contacts, shell) {
            if first == nil { shell.logger.notice("the cluster refuses this node", metadata: ["reason": "\(refusal.reason)"]) }
            let since = first ?? .now()
            first = since
            guard let patience = refusal.kind.patience, NIODeadline.now() < since + patience else {
                throw JoinError(reason: refusal.reason)
            }
            try await Task.sleep(for: askInterval)
        }
    }

    /// The pause before a node asks contact points that have refused it again.
    private static let askInterval = Duration.milliseconds(500)

    /// The reason why all contact points that answer refuse this node; nil if one accepts it or none answers.
    private static func ask(_ contacts: [HostPort], _ shell: Shell) async throws -> LinkRefusal? {
        try await shell.eventLoop.flatSubmit {
            nonisolated(unsafe) let trial = OutgoingLinks(shell: shell, isTrial: true)
            trial.join(contacts)
            return shell.eventLoop.when({ trial.hasTriedAll }, until: .now() + .seconds(3)).map {
                defer { trial.closeAll() }
                return trial.refusal
            }
        }.get()
    }

    /// Links to the contact points and takes over the node's slots.
    ///
    /// A node that reaches no other serves alone and keeps trying. A node whose peers all refuse it ends. A node with an incomplete
    /// database is not ready before it has met another member.
    private func join() async throws {
        try await shell.eventLoop.flatSubmit { [self] in
            shell.links.join(configuration.join)
            if store.isIncomplete { completeStore() }
            return shell.eventLoop.when({ self.isJoinDecided }, until: .now() + .seconds(5))
                .flatMapThrowing {
                    if let reason = self.supersededReason ?? self.shell.links.refusal?.reason { throw JoinError(reason: reason) }
                    if !self.store.isIncomplete || self.hasMetMember { self.state.advance(to: .serving) }
                }
        }.get()
    }

    /// Whether the start need not wait any longer, because the node decides about its slots or is refused for good.
    private var isJoinDecided: Bool {
        if supersededReason != nil { return true }
        return shell.links.hasTriedAll && shell.node.cluster.isWarm && shell.links.refusal?.kind.patience == nil
    }

    private var hasMetMember: Bool { shell.node.statistics.peers.contains { $0.state == .alive } }

    /// Marks the database as complete after two rounds of digests. The members compare digests when they meet, and then in turn.
    private func completeStore() {
        state.advance(to: .incomplete)
        let settleDuration = TimeAmount.nanoseconds((configuration.core.digestInterval * 2).wholeNanoseconds)
        shell.eventLoop.when({ self.hasMetMember || self.state.life != .incomplete }, until: .distantFuture).whenSuccess {
            guard self.state.advance(to: .serving) else { return }
            self.shell.eventLoop.assumeIsolated().scheduleTask(in: settleDuration) { self.store.complete() }
        }
    }

    /// Reads the numbers of each loop, and builds the text on the ops port's loop.
    private static func metrics(
        shell: Shell, gateways: [GatewayLoop], store: any Store, admin: AdminAPI, cluster: ClusterListener, _ ports: ConnectionPorts,
        _ logins: LoginRates, on eventLoop: any EventLoop
    ) -> EventLoopFuture<String> {
        let snapshots = gateways.map { gateway in gateway.eventLoop.submit { gateway.snapshot } }
        nonisolated(unsafe) let (admin, cluster) = (admin, cluster)
        let core = shell.eventLoop.submit {
            let links = (shell.links.upCount, shell.links.downCount, shell.links.unanswered.withLockedValue(\.count))
            return (node: shell.node.statistics, links: links, rejections: cluster.rejections)
        }
        return EventLoopFuture.whenAllSucceed(snapshots, on: eventLoop).and(core).map { counters, core in
            MetricsSnapshot(
                node: core.node, gateways: counters, store: store.statistics,
                salvage: store.salvage, isStoreIncomplete: store.isIncomplete, hasStoreProblem: store.problem != nil,
                operatorsAnswered: admin.answered, exports: admin.exportCounts, links: core.links, clusterRejections: core.rejections,
                connections: ports,
                loginsRefused: logins.refusedCounts, spans: shell.tracer.exporter?.counts ?? SpanExporter.Counts()
            ).text
        }
    }

    /// Reads the load of this node each second, for the console, as long as its operators are served.
    ///
    /// A reading that began later would find loops that have ended.
    private func sampleLoad() {
        let (shell, gateways, eventLoop) = (shell, gateways, opsHTTP.eventLoop)
        nonisolated(unsafe) let (admin, opsListener) = (admin, opsListener)
        eventLoop.scheduleRepeatedAsyncTask(initialDelay: .zero, delay: RecentLoad.interval) { task in
            if opsListener.isStopped {
                task.cancel()
                return eventLoop.makeSucceededVoidFuture()
            }
            let snapshots = gateways.map { gateway in gateway.eventLoop.submit { gateway.snapshot } }
            let node = shell.eventLoop.submit { shell.node.statistics }
            return EventLoopFuture.whenAllSucceed(snapshots, on: eventLoop).and(node).map { counters, node in
                admin.add(LoadReading(node, counters), at: Clock.now().wall)
            }
        }
    }

    /// Has the spans sent every few seconds, as long as the node's operators are served.
    private func exportSpans() {
        guard let exporter = shell.tracer.exporter else { return }
        nonisolated(unsafe) let opsListener = opsListener
        opsHTTP.eventLoop.scheduleRepeatedTask(initialDelay: SpanExporter.interval, delay: SpanExporter.interval) { task in
            if opsListener.isStopped { task.cancel() } else { exporter.exportSoon() }
        }
    }

    /// The text of `/metrics`.
    public func metricsText() async throws -> String {
        try await opsHTTP.eventLoop.flatSubmit { [self] in opsListener.metricsText() }.get()
    }

    /// Reads the files of certificates again and logs the result. New connections use the new ones. Invalid files change nothing.
    public func reloadCertificates() { certificates.reload(logger) }

    /// Reads the keys of the apps again, fetches their key sets, and logs the result. Throws for invalid settings, which change nothing.
    ///
    /// When the call returns, a removed key is refused. Open streams stay.
    public func reloadKeys() async throws(ConfigurationError) { try await keys.reload() }

    /// The end of this node's membership, with its reason: another process has this node's ID.
    ///
    /// The devices of its users look disconnected to all others. The host calls ``stop()`` and exits with ``ExitCode/unavailable``. The
    /// sequence ends when the node stops.
    public var supersessions: AsyncStream<String> { state.supersessions }

    /// Why the cluster accepts this process no more; nil if it does. It does not change once ``stop()`` was called.
    public var supersededReason: String? { state.supersededReason }

    /// Stops the node. It gives its slots and its clients to other nodes, if there are any. Then it accepts no connections, finishes the
    /// work in progress, leaves the cluster, and writes the waiting rows.
    ///
    /// A superseded node asks its clients to leave in any case, within two seconds. Further calls wait for the end of the first one.
    public func stop() async throws {
        state.advance(to: .stopping)
        let task = stopping.withLockedValue { task in
            let running = task ?? Task { try await self.end() }
            task = running
            return running
        }
        try await task.value
    }

    /// Time for the clients of a superseded node to open other streams.
    private static let supersededTimeout = Duration.seconds(2)

    private func end() async throws {
        let isSuperseded = supersededReason != nil
        let timeout = isSuperseded ? min(Self.supersededTimeout, configuration.drainTimeout) : configuration.drainTimeout
        let othersStay = try await shell.eventLoop.submit { [shell] in shell.update { $0.drain(at: $1) } }.get()
        let deadline = NIODeadline.now() + .nanoseconds(timeout.wholeNanoseconds)
        // The port stays open meanwhile, because a load balancer may still send clients here. They are served, and asked to leave at once.
        // A superseded node may see no other node. Its clients reach the others by other ways.
        if othersStay || isSuperseded { try await leaveClients(over: timeout / 2, until: deadline) }
        for server in servers.prefix(1) { await server.stopListening() }
        for gateway in gateways { try await gateway.eventLoop.submit { gateway.drain() }.get() }
        for gateway in gateways { try await gateway.whenIdle(until: deadline).get() }
        try await shell.eventLoop.flatSubmit { [shell] in shell.eventLoop.when({ shell.node.cluster.isHandedOver }, until: deadline) }.get()
        try await shell.eventLoop.flatSubmit { [self] in
            shell.update { $0.leave(at: $1) }
            return shell.links.whenSent(until: .now() + .milliseconds(500))
        }.get()
        try await shell.eventLoop.submit { [self] in
            shell.stop()
            shell.links.closeAll()
            clusterHTTP.closeAll()
        }.get()
        try await opsHTTP.eventLoop.submit { [self] in
            opsListener.stop()
            opsHTTP.closeAll()
        }.get()
        let allIsRead = NIODeadline.now() + Self.roundTrip
        for gateway in gateways { try await gateway.whenClosed(until: allIsRead).get() }
        for gateway in gateways { try await gateway.eventLoop.submit { gateway.http.closeAll() }.get() }
        for server in servers.dropFirst() { await server.stopListening() }
        await webhooks.stop()
        await keys.stop()
        await shell.tracer.exporter?.stop()
        store.close()
        shell.end()
        try await group.shutdownGracefully()
    }

    /// The time for requests that crossed the hint to arrive, and for the client to read the last answers.
    private static let roundTrip = TimeAmount.milliseconds(500)

    /// Asks the clients to leave, over half of the available time. Waits for them, and for the calls in progress.
    private func leaveClients(over spread: Duration, until deadline: NIODeadline) async throws {
        let allIsHere = min(NIODeadline.now() + Self.roundTrip, deadline)
        for gateway in gateways { try await gateway.eventLoop.submit { gateway.askToLeave(spread: spread) }.get() }
        for gateway in gateways { try await gateway.whenEmpty(until: deadline).get() }
        try await shell.eventLoop.flatSubmit { [shell] in shell.eventLoop.when({ false }, until: allIsHere) }.get()
    }
}

extension Logger {
    fileprivate func report(_ wipe: StoreWipe.Report) {
        switch wipe {
        case .begins: notice("users were deleted: all pages of the database are written anew before the node serves")
        case .done(let seconds): notice("all pages of the database are written anew", metadata: ["seconds": "\(seconds)"])
        case .failed(let error):
            warning(
                "copies of deleted rows may be left in the database; the next start tries again",
                metadata: ["reason": "\(SQLiteInspection.explain(error))"])
        }
    }
}
