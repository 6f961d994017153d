import Foundation
import HTTP2
import PresenceCore
import PresenceWire

/// The values of `/metrics`, read once from each loop.
struct MetricsSnapshot {
    let node: NodeStatistics
    let gateways: [GatewayLoop.Counters]
    let store: StoreStatistics
    let salvage: StoreSalvage?
    let isStoreIncomplete: Bool
    let hasStoreProblem: Bool
    /// Counts of answers of the ops port, by operation and code.
    let operatorsAnswered: [String: [Int: UInt64]]
    let exports: Exports.Counts
    /// Numbers of links to other nodes: up, and down but wanted; and of addresses without an answer while none is up.
    let links: (up: Int, down: Int, unanswered: Int)
    let clusterRejections: [ClusterListener.Rejection: UInt64]
    let connections: ConnectionPorts
    let loginsRefused: [LoginRates.Reason: UInt64]
    let spans: SpanExporter.Counts

    /// The text in Prometheus' exposition format.
    var text: String {
        var metrics = MetricsText()
        metrics.gauge(
            "rollcall_build_info", "Always 1; the labels are the version and the commit of the node.",
            [(labels: [("version", Release.version), ("commit", Release.commit)], value: 1)])
        describeUsers(&metrics)
        describeConnections(&metrics)
        describeOperations(&metrics)
        describeAdmission(&metrics)
        describePushes(&metrics)
        describeCluster(&metrics)
        describeRelationships(&metrics)
        describeLinks(&metrics)
        describeStore(&metrics)
        ProcessMetrics.describe(&metrics)
        return metrics.text
    }

    private func sum(_ value: (GatewayLoop.Counters) -> UInt64) -> UInt64 { gateways.reduce(0) { $0 + value($1) } }

    private func describeUsers(_ metrics: inout MetricsText) {
        metrics.gauge("rollcall_sessions", "Open sessions on this node.", Double(gateways.reduce(0) { $0 + $1.sessions }))
        metrics.gauge(
            "rollcall_listeners", "Open streams on this node that hear without being seen (presence=none). They are no sessions.",
            Double(gateways.reduce(0) { $0 + $1.listeners }))
        metrics.gauge("rollcall_connections", "Open client connections.", Double(gateways.reduce(0) { $0 + $1.connections }))
        metrics.gauge(
            "rollcall_verified_tokens_bytes",
            "Bytes of the tokens that this node has checked and keeps; at most 10 MiB for each event loop.",
            Double(gateways.reduce(0) { $0 + $1.verifiedTokensBytes }))
        metrics.gauge("rollcall_users_online", "Users that this node owns and that are ONLINE.", Double(node.usersOnline))
        metrics.gauge("rollcall_users_owned", "Users that this node owns and keeps a record of.", Double(node.usersOwned))
        metrics.gauge("rollcall_users_watched", "Users that a session on this node follows.", Double(node.views.count))
        metrics.counter("rollcall_logins_total", "Sessions opened on this node.", node.logins)
        metrics.counter(
            "rollcall_logins_rate_limited_total", "Logins that this node refused with 7008, by the limit that was reached.",
            LoginRates.Reason.allCases.map { (labels: [("reason", $0.rawValue)], value: Double(loginsRefused[$0] ?? 0)) })
        metrics.counter("rollcall_logouts_total", "Sessions ended by logout, counted by the owner.", node.owner.logouts)
        metrics.counter(
            "rollcall_sessions_disconnected_total",
            "Sessions that ended without a logout, because the connection ended, counted by the owner.", node.owner.sessionsDisconnected)
        metrics.counter("rollcall_sessions_kicked_total", "Sessions ended by a kick, counted by the owner.", node.owner.sessionsKicked)
        metrics.counter(
            "rollcall_sessions_evicted_total", "Sessions ended to make room for newer ones of the same user, counted by the owner.",
            node.owner.sessionsEvicted)
        metrics.counter(
            "rollcall_sessions_silent_total", "Sessions ended because the client sent nothing within the heartbeat timeout.",
            sum(\.silentSessions))
        metrics.counter(
            "rollcall_subscriptions_evicted_total", "Subscriptions removed to make room for newer ones of the same user.",
            node.owner.evictions)
        metrics.counter(
            "rollcall_subscription_tombstones_collected_total",
            "Tombstones of ended subscriptions that were deleted, counted by each replica of the user.",
            node.owner.tombstonesForgotten)
        metrics.counter(
            "rollcall_users_removed_total",
            "Users deleted after users.forgetAfter, counted by each replica of the user.", node.owner.usersRemoved)
    }

    private func describeConnections(_ metrics: inout MetricsText) {
        let ports = connections.byName
        metrics.gauge(
            "rollcall_connections_max", "Most connections that a port accepts at a time; follows from the process's limit of descriptors.",
            ports.map { (labels: [("port", $0.name)], value: Double($0.limits.connectionsMax)) })
        metrics.gauge(
            "rollcall_connections_held_bytes",
            "Bytes of requests and unread answers of client connections; at most 16 MiB for each event loop, 64 MiB for up to 16 loops.",
            Double(gateways.reduce(0) { $0 + $1.heldBytes }))
        let refused = ports.flatMap { port in
            let counts = port.limits.refusedCounts
            return ConnectionLimits.Refusal.allCases.map { reason in
                (labels: [("port", port.name), ("reason", reason.rawValue)], value: Double(counts[reason] ?? 0))
            }
        }
        metrics.counter("rollcall_connections_refused_total", "Connections that were refused, by port and reason.", refused)
    }

    private func describeOperations(_ metrics: inout MetricsText) {
        var totals: [API.Operation: [Int: UInt64]] = [:]
        for gateway in gateways {
            for (operation, codes) in gateway.refusals { totals[operation, default: [:]].merge(codes, uniquingKeysWith: +) }
            for operation in API.Operation.allCases where gateway.successes[operation.rawValue] > 0 {
                totals[operation, default: [:]][0, default: 0] += gateway.successes[operation.rawValue]
            }
        }
        let answered =
            API.Operation.allCases.map { ($0.name, (totals[$0] ?? [:]).merging(operatorsAnswered[$0.name] ?? [:], uniquingKeysWith: +)) }
            + AdminAPI.Operation.allCases.map { ($0.rawValue, operatorsAnswered[$0.rawValue] ?? [:]) }
        let samples = answered.flatMap { name, codes in
            codes.sorted { $0.key < $1.key }.map { code, count in
                (labels: [("operation", name), ("code", String(code))], value: Double(count))
            }
        }
        metrics.counter("rollcall_operations_total", "Operations answered, by name and code; 0 is success.", samples)
        var seconds = LatencyHistogram()
        for gateway in gateways { seconds.add(gateway.operationSeconds) }
        metrics.histogram("rollcall_operation_seconds", "Time from the request of an operation to its answer.", seconds)
        metrics.gauge("rollcall_operations_waiting", "Operations that wait for the answer of an owner.", Double(node.callsWaiting))
        metrics.gauge("rollcall_exports", "Running exports of the ops port; at most 4 for each app, and 64.", Double(exports.running))
        metrics.counter(
            "rollcall_exports_ended_total", "Exports that have ended, by reason; unread if the client left them unread for a minute.",
            Exports.End.allCases.map { (labels: [("reason", $0.rawValue)], value: Double(exports.ended[$0] ?? 0)) })
        let rejections = PolicyRule.allCases.map { rule in
            (labels: [("rule", rule.rawValue)], value: Double(sum { $0.rejections[rule] }))
        }
        metrics.counter(
            "rollcall_policy_rejections_total", "Calls, and users named in calls, that a rule of the app's policy refused.", rejections)
        let violations = HTTPViolation.allCases.map { violation in
            (labels: [("reason", violation.rawValue)], value: Double(sum { $0.violations[violation] ?? 0 }))
        }
        metrics.counter(
            "rollcall_http_violations_total", "HTTP limits that clients exceeded; the node ended or refused the stream or connection.",
            violations)
    }

    private func describeAdmission(_ metrics: inout MetricsText) {
        let samples = { (value: (Admission.Gauges) -> Double) in
            Admission.Kind.allCases.map { kind in
                (labels: [("kind", "\(kind)")], value: gateways.reduce(0) { $0 + value($1.admission[kind.rawValue]) })
            }
        }
        metrics.counter(
            "rollcall_admission_refused_total",
            "Logins, operations and resumed streams refused with 50002 before any work was done for them.",
            samples { Double($0.refused) })
        metrics.gauge(
            "rollcall_admission_in_progress", "Logins, operations and resumed streams that were accepted and are not finished.",
            samples { Double($0.inProgress) })
        metrics.gauge(
            "rollcall_admission_limit", "Limit of rollcall_admission_in_progress; adapts to how long requests take.", samples(\.limit))
        let delay = gateways.map(\.delay).max() ?? .zero
        metrics.gauge(
            "rollcall_loop_delay_seconds", "Longest delay of an event loop within the last second in which requests arrived.",
            delay.inSeconds)
        var seconds = LatencyHistogram()
        for gateway in gateways { seconds.add(gateway.loginSeconds) }
        metrics.histogram("rollcall_login_seconds", "Time from the request of an event stream to its owner's answer.", seconds)
    }

    private func describePushes(_ metrics: inout MetricsText) {
        metrics.counter("rollcall_pushes_total", "Records written to event streams.", sum(\.gateway.recordsPushed))
        metrics.counter("rollcall_events_total", "Events written to event streams.", sum(\.gateway.eventsPushed))
        metrics.counter(
            "rollcall_pushes_coalesced_total", "Records replaced by newer ones while a stream's buffer was full.",
            sum(\.gateway.recordsCoalesced))
        metrics.counter(
            "rollcall_pushes_paced_total", "Records replaced by newer ones while they waited because their user changes often.",
            node.views.replaced)
        metrics.gauge(
            "rollcall_pushes_waiting", "Users whose newest record waits because they change more often than rate.changes.",
            Double(node.views.waiting))
        metrics.counter(
            "rollcall_sessions_token_expired_total", "Sessions ended because their tokens had ended.", sum(\.gateway.expiredSessions))
        metrics.counter("rollcall_slow_readers_total", "Sessions ended because the client did not read.", sum(\.gateway.slowReaders))
        var latency = LatencyHistogram()
        for gateway in gateways { latency.add(gateway.pushSeconds) }
        metrics.histogram("rollcall_push_latency_seconds", "Time from the change at the owner to the push, by the owner's clock.", latency)
    }

    private func describeWebhooks(_ metrics: inout MetricsText) {
        let webhooks = node.webhooks
        metrics.counter("rollcall_webhook_events_total", "Webhook events that receivers have accepted.", webhooks.events)
        metrics.counter(
            "rollcall_webhook_deliveries_total", "Attempts to deliver webhook events, by their end; failed ones are repeated.",
            [
                (labels: [("result", "accepted")], value: Double(webhooks.accepted)),
                (labels: [("result", "failed")], value: Double(webhooks.failed)),
            ])
        metrics.counter(
            "rollcall_webhook_dead_letters_total",
            "Webhook events that will not be delivered: too old, or too many of a user, of an app or of the node waited.",
            [
                (labels: [("reason", "expired")], value: Double(node.owner.webhookEventsExpired)),
                (labels: [("reason", "full")], value: Double(node.owner.webhookEventsDropped)),
                (labels: [("reason", "backlog")], value: Double(node.owner.webhookEventsBeyondBacklog)),
            ])
        metrics.gauge(
            "rollcall_webhook_users_waiting", "Users with webhook events that the receiver has not accepted.",
            Double(webhooks.usersWaiting))
        metrics.gauge(
            "rollcall_webhook_waiting_bytes", "Bytes of webhook events that receivers have not accepted.", Double(webhooks.bytesWaiting))
        metrics.gauge(
            "rollcall_webhook_circuits_open", "Apps whose webhook receivers failed repeatedly; one delivery at a time is tried.",
            Double(webhooks.circuitsOpen))
    }

    private func describeCluster(_ metrics: inout MetricsText) {
        let states = ClusterStatus.MemberState.allCases.map { state in
            let isOwn = state == (node.condition.isDraining ? .draining : .alive)
            return (labels: [("state", state.rawValue)], value: Double(node.peers.count { $0.state == state } + (isOwn ? 1 : 0)))
        }
        metrics.gauge("rollcall_members", "Members of the cluster as this node sees them, by state.", states)
        metrics.gauge(
            "rollcall_links", "Links to the cluster ports of other nodes; a link that is down is retried.",
            [(labels: [("state", "up")], value: Double(links.up)), (labels: [("state", "down")], value: Double(links.down))])
        metrics.gauge(
            "rollcall_links_unanswered", "Addresses at which this node looks for others, while it is linked to none of them.",
            Double(links.unanswered))
        metrics.gauge("rollcall_slots_owned", "Slots of the ring that this node owns.", Double(node.slotsOwned))
        metrics.gauge(
            "rollcall_slots_unsure", "Slots of users whose records this node marks as isUnsure: it hears no majority, or not their owner.",
            Double(node.condition.slotsUnsure))
        metrics.counter(
            "rollcall_calls_rate_limited_total", "Calls refused with 7008, because a user exceeded a rate of the app's policy.",
            node.calls.rateLimited)
        metrics.gauge(
            "rollcall_hides_waiting", "Calls of setVisibility that wait until a lost user would be OFFLINE.",
            Double(node.calls.hidesWaiting))
        metrics.counter(
            "rollcall_hides_at_once_total", "Calls of setVisibility that hid their users at once, because too many waited.",
            node.calls.hidesBeyondMax)
        metrics.gauge("rollcall_kicks", "Users who were kicked and whose older tokens are refused.", Double(node.shared.kicks))
        metrics.gauge("rollcall_policies", "Apps with a policy of their own.", Double(node.shared.policies))
        metrics.gauge(
            "rollcall_slots_acquiring", "Owned slots that wait for the rows that other nodes hold of them.", Double(node.slotsAcquiring))
        metrics.gauge(
            "rollcall_handoff_seconds", "Duration of the handoff in progress; without one, the duration of the last handoff.",
            node.handoffDuration.inSeconds)
        metrics.counter(
            "rollcall_handoff_bytes_total", "Bytes of rows that this node received in handoffs.",
            node.handoffBytes)
        metrics.gauge(
            "rollcall_replica_lag_seconds", "Age of the oldest change that waits for a replica; 0 when none waits.",
            node.replicaLag.inSeconds)
        metrics.gauge(
            "rollcall_users_replicated", "Users whose rows this node keeps as a replica for another owner.", Double(node.usersReplicated))
        metrics.gauge("rollcall_writes_waiting", "Changes whose answers wait for a disk.", Double(node.writesWaiting))
        metrics.counter(
            "rollcall_replica_digest_differences_total", "Range digests of another replica that differed from this node's.",
            node.repair.differences)
        metrics.counter(
            "rollcall_replica_repair_rows_total", "Rows sent to another replica because they were missing or older there.",
            node.repair.rowsSent)
        metrics.counter(
            "rollcall_replica_lost_rows_total",
            "Rows that the disk had before the start and has lost, or has older ones of; the other nodes have sent them again.",
            node.repair.rowsLost)
        metrics.counter(
            "rollcall_view_digests_sent_total", "Digests of the users that other nodes watch and host, sent to those nodes.",
            node.viewDigestsSent)
        metrics.counter(
            "rollcall_view_digest_differences_total", "Ranges of such digests, received from another node, that differed from this node's.",
            node.viewDigestDifferences)
        metrics.counter(
            "rollcall_relays_sent_total", "Records sent with a list of nodes to relay them to.", node.relays.sent)
        metrics.counter("rollcall_relays_passed_on_total", "Records relayed for another node.", node.relays.forwarded)
        metrics.counter("rollcall_relays_dropped_total", "Nodes that a record could not be relayed to.", node.relays.dropped)
        metrics.counter(
            "rollcall_relays_fetched_total", "Records fetched from their owner because no relay delivered them.", node.relays.fetched)
        metrics.counter(
            "rollcall_rows_refused_total", "Batches of rows from another node that could not be decoded.", node.repair.rowsRefused)
    }

    private func describeRelationships(_ metrics: inout MetricsText) {
        metrics.gauge(
            "rollcall_chain_decisions_open", "Decisions about friends, requests and blocks that another user's owner has not answered.",
            Double(node.chain.openCount))
        metrics.gauge(
            "rollcall_chain_oldest_decision_seconds", "Age of the oldest open decision; 0 for none.", node.chain.oldest.inSeconds)
        metrics.counter(
            "rollcall_chain_decisions_expired_total", "Decisions that ended after a day without an answer.", node.chain.expired)
        metrics.counter(
            "rollcall_chain_calls_refused_total", "Calls refused with 50002, because too many decisions were open.", node.chain.refused)
        metrics.gauge(
            "rollcall_lists_bytes",
            "Memory of the friends, requests, blocklists, groups, profiles and kept answers of users owned here or replicated.",
            Double(node.chain.lists.bytes))
        metrics.gauge("rollcall_lists_rows", "Rows of these lists, those of removed entries included.", Double(node.chain.lists.rows))
        describeWebhooks(&metrics)
    }

    private func describeLinks(_ metrics: inout MetricsText) {
        let peers = node.peers.sorted { $0.id < $1.id }
        let samples = { (value: (NodeStatistics.PeerStatistics) -> Double) in
            peers.map { (labels: [("peer", $0.id.rawValue)], value: value($0)) }
        }
        metrics.counter("rollcall_deltas_sent_total", "Records sent to another node.", samples { Double($0.link.deltasSent) })
        metrics.counter(
            "rollcall_deltas_coalesced_total", "Records replaced by newer ones before they were sent.",
            samples { Double($0.link.deltasCoalesced) })
        metrics.counter("rollcall_deltas_received_total", "Records received from another node.", samples { Double($0.deltasReceived) })
        metrics.counter("rollcall_link_batches_total", "Batches sent to another node.", samples { Double($0.link.batchesSent) })
        metrics.counter("rollcall_link_bytes_total", "Bytes of batches sent to another node.", samples { Double($0.link.bytesSent) })
        metrics.counter(
            "rollcall_link_overflows_total", "Times a link's queue was full and dropped; the peer then receives the full state again.",
            samples { Double($0.link.overflows) })
        metrics.counter(
            "rollcall_link_visibilities_total",
            "Visibilities of users sent to another node with all their names; each connection carries an unchanged one once.",
            samples { Double($0.rulesSent) })
        metrics.gauge(
            "rollcall_link_queue_depth", "Messages and records that wait to be sent to another node.", samples { Double($0.queueDepth) })
        metrics.gauge(
            "rollcall_messages_postponed", "Messages of other nodes that wait until this node has activated the slots of their users.",
            Double(node.messagesPostponed))
        metrics.counter("rollcall_misrouted_total", "Messages for users that this node does not own.", node.misrouted)
        metrics.counter(
            "rollcall_clocks_refused_total", "Versions refused because their time is too far in the future.", node.owner.clocksRefused)
        let condition = node.condition
        metrics.gauge(
            "rollcall_clock_wrong", "1 while this node gives its slots away because its clock is wrong.", condition.isClockWrong ? 1 : 0)
        metrics.gauge(
            "rollcall_clock_error_seconds", "How far the clock is ahead, if it is wrong; 0 for a right clock.",
            Double(condition.clockError) / 1_000)
        let rejections = ClusterListener.Rejection.allCases.map { reason in
            (labels: [("reason", reason.rawValue)], value: Double(clusterRejections[reason] ?? 0))
        }
        metrics.counter("rollcall_spans_exported_total", "Spans that the collector (otlpEndpoint) has taken.", spans.exported)
        metrics.counter(
            "rollcall_spans_dropped_total", "Spans that were dropped: too many waited, or the collector did not take their batch.",
            [(labels: [("reason", "full")], value: Double(spans.full)), (labels: [("reason", "failed")], value: Double(spans.failed))])
        metrics.counter("rollcall_cluster_streams_rejected_total", "Streams rejected on the cluster port, by reason.", rejections)
    }

    private func describeStore(_ metrics: inout MetricsText) {
        metrics.counter("rollcall_store_commits_total", "Transactions of the store.", store.commits)
        metrics.counter("rollcall_store_rows_total", "Rows written.", store.rows)
        metrics.counter("rollcall_store_failures_total", "Transactions that failed.", store.failures)
        metrics.gauge("rollcall_store_rows_waiting", "Rows that wait to be written to disk.", Double(store.rowsWaiting))
        metrics.gauge(
            "rollcall_store_bulk_rows_waiting",
            "Rows of rollcall_store_rows_waiting that no caller waits for; urgent rows are written first.",
            Double(store.rowsInBulkWaiting))
        metrics.gauge("rollcall_store_rows_unwritten", "Rows of failed writes, kept in memory and retried.", Double(store.rowsUnwritten))
        metrics.gauge(
            "rollcall_store_slots_discarding", "Slots that moved to other nodes and whose rows are still to be deleted from disk.",
            Double(store.slotsDiscarding))
        metrics.counter(
            "rollcall_store_damaged_files_total", "Damaged databases that were moved aside at the start.", salvage == nil ? 0 : 1)
        metrics.counter(
            "rollcall_store_damaged_rows_total", "Rows, and pages of rows, of a damaged database that could not be read.",
            UInt64(salvage?.rowsDamaged ?? 0))
        metrics.counter("rollcall_store_scrubs_total", "Passes over all rows and pages of the database that have ended.", store.scrubs)
        metrics.counter(
            "rollcall_store_scrub_damage_total",
            "Damage that was found in the database while the node runs; damaged rows are written again.",
            [
                (labels: [("kind", "row")], value: Double(store.scrubbedRowsDamaged)),
                (labels: [("kind", "page")], value: Double(store.scrubbedPagesDamaged)),
            ])
        metrics.gauge(
            "rollcall_store_incomplete", "1 while rows of a damaged database may be missing here that other nodes have.",
            isStoreIncomplete ? 1 : 0)
        metrics.gauge(
            "rollcall_store_files_missing", "1 while the database or its log is deleted or replaced although the node has it open.",
            hasStoreProblem ? 1 : 0)
        metrics.histogram("rollcall_store_commit_seconds", "Duration of a transaction.", store.commitSeconds)
    }
}

/// Metrics of the process, with the names that Prometheus' client libraries use.
enum ProcessMetrics {
    static func describe(_ metrics: inout MetricsText) {
        metrics.gauge("process_resident_memory_bytes", "Resident memory.", Double(residentBytes))
        metrics.counter("process_cpu_seconds_total", "User and system time.", [([], cpuSeconds)])
        metrics.gauge("process_open_fds", "Open file descriptors.", Double(openFiles))
        metrics.gauge("process_start_time_seconds", "Start time of the process, in seconds since 1970.", [([], startTime)])
    }

    /// The start of the process, which the kernel counts from the start of the machine in hundredths of a second.
    private static let startTime: Double = {
        let fields = read("/proc/self/stat").split(separator: ")").last?.split(separator: " ") ?? []
        let bootTime = read("/proc/stat").split(separator: "\n").first { $0.hasPrefix("btime ") }
        guard fields.count > 19, let ticks = Double(fields[19]), let boot = bootTime.flatMap({ Double($0.dropFirst(6)) }) else { return 0 }
        return boot + ticks / 100
    }()

    private static var residentBytes: Int {
        let fields = read("/proc/self/statm").split(separator: " ")
        return fields.count > 1 ? (Int(fields[1]) ?? 0) * 4_096 : 0
    }

    private static var cpuSeconds: Double {
        let fields = read("/proc/self/stat").split(separator: ")").last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) else { return 0 }
        return (user + system) / 100
    }

    private static var openFiles: Int {
        do { return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count } catch { return 0 }  // Not on Linux.
    }

    private static func read(_ path: String) -> String {
        do { return try String(contentsOfFile: path, encoding: .utf8) } catch { return "" }  // Not on Linux.
    }
}
