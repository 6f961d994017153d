import DequeModule
import PresenceWire

/// The deliveries of webhook events of the users that this node owns (<doc:Webhooks>).
///
/// A user's events are in its ``WebhookLog``. This machine knows which users have events that wait, groups them into deliveries, and marks
/// them as delivered when the receiver has accepted them. Each app has ``queuesCount`` delivery queues. A user belongs to one queue, and a
/// queue has one delivery at a time, so the events of a user arrive in order.
///
/// After a failure the same delivery is repeated, with pauses that double. After ``failuresMax`` failures in a row the circuit of the app
/// is open: one queue tries, and the others wait until it succeeds.
struct Webhooks {
    /// Deliveries of one app that are on their way from this node at a time.
    static let queuesCount = 4
    /// Most events of a delivery.
    static let eventsMax = 100
    /// The bytes of events after which a delivery takes no further user.
    static let bytesTarget = 128 << 10
    /// The time from one delivery of a queue to the next, unless ``eventsMax`` users wait. The first after a quiet time goes at once.
    /// Otherwise each change of a busy app would be a delivery, and a row that marks it, of its own.
    static let spacing = Duration.milliseconds(500)
    /// Failures in a row that open the circuit.
    static let failuresMax = 5
    /// The pause after the first failure. It doubles with each further one.
    static let pauseMin = Duration.seconds(1)
    /// The longest pause.
    static let pauseMax = Duration.seconds(60)

    private struct Delivery {
        let id: String
        let events: [UInt8]
        let eventsCount: Int
        /// The users, each with the versions of its events.
        let users: [(user: UserID, versions: [Version])]
        /// The time of the oldest event.
        let oldest: Milliseconds
        var isSent = false
    }

    private struct DeliveryQueue {
        var waiting: Deque<UserID> = []
        var delivery: Delivery?
        /// The time from which the next delivery may begin.
        var openAt = Instant(nanoseconds: 0)

        func mayBegin(at now: Instant) -> Bool { !waiting.isEmpty && (now >= openAt || waiting.count >= Webhooks.eventsMax) }
    }

    /// The state of an app's receiver, as this node knows it.
    private struct Receiver {
        var url = ""
        var queues = Array(repeating: DeliveryQueue(), count: Webhooks.queuesCount)
        /// Failures since the last success. Those of one round count once.
        var failures = 0
        var retryAt = Instant(nanoseconds: 0)

        var isOpen: Bool { failures >= Webhooks.failuresMax }
        /// Tries a new URL at once. The failures were those of another one.
        mutating func follow(_ url: String, at now: Instant) {
            guard url != self.url else { return }
            (self.url, failures, retryAt) = (url, 0, now)
        }

        var hasWork: Bool { queues.contains { $0.delivery != nil || !$0.waiting.isEmpty } }
    }

    private var receivers: [String: Receiver] = [:]
    /// The users in ``DeliveryQueue/waiting``.
    private var waiting: Set<UserID> = []
    /// The next index of the search for logs that nobody needs any more.
    private var searched: UserStore.Index = 0
    private(set) var counters = Counters()

    /// Counts since the start.
    struct Counters: Equatable {
        var accepted: UInt64 = 0
        var failed: UInt64 = 0
        var events: UInt64 = 0
    }

    /// Apps whose receivers have failed often.
    var openCount: Int { receivers.keys.sorted().count { receivers[$0]?.isOpen ?? false } }

    /// The rounds of deliveries to the present URL of an app that have failed since the last success, and whether its circuit is open.
    func failures(of app: String, at url: String) -> (count: Int, isOpen: Bool) {
        guard let receiver = receivers[app], receiver.url == url else { return (0, false) }
        return (receiver.failures, receiver.isOpen)
    }

    // MARK: Inputs

    /// Looks at the logs of all users whom this node owns, because it owns other users than before.
    mutating func reopen(_ owner: borrowing Owner) {
        for user in owner.users.allIndices where owner.users.isLive(user) && !owner.users[user].isReplica {
            if owner.users[user].list(.webhookLog).liveCount > 0 { enqueue(owner.users.user(at: user), owner) }
        }
    }

    /// Takes users with new events, and begins the deliveries that are due. Called at every tick.
    mutating func tick(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        for user in cluster.outbox.webhookUsers.takeAll() { enqueue(user, owner) }
        for app in receivers.keys.sorted() { advance(app, &owner, &cluster, at: now) }
        removeQuietLogs(&owner, &cluster, at: now)
    }

    /// Adds a user, unless its app has no receiver: ``Owner/policyChanged(of:from:in:)`` adds all users of an app that gets one.
    private mutating func enqueue(_ user: UserID, _ owner: borrowing Owner) {
        guard owner.policies.policy(of: user).hasWebhook, waiting.insert(user).inserted else { return }
        receivers[String(user.app), default: Receiver()].queues[Self.queue(of: user)].waiting.append(user)
    }

    private static func queue(of user: UserID) -> Int { Int(user.slot) % queuesCount }

    /// Handles the receiver's answer to a delivery.
    mutating func answered(_ answer: WebhookAnswer, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        guard var receiver = receivers[answer.app], answer.queue < Self.queuesCount, let delivery = receiver.queues[answer.queue].delivery,
            delivery.id == answer.deliveryID, delivery.isSent
        else { return }
        guard answer.isAccepted else {
            counters.failed += 1
            if now.instant >= receiver.retryAt {
                receiver.failures += 1
                receiver.retryAt = now.instant + Self.pause(after: receiver.failures, of: delivery.id)
            }
            receiver.queues[answer.queue].delivery?.isSent = false
            receivers[answer.app] = receiver
            return
        }
        counters.accepted += 1
        counters.events += UInt64(delivery.eventsCount)
        (receiver.failures, receiver.retryAt) = (0, now.instant)
        receiver.queues[answer.queue].delivery = nil
        receivers[answer.app] = receiver
        end(delivery, &owner, &cluster, at: now)
        advance(answer.app, &owner, &cluster, at: now)
    }

    /// Has delivered events of an app since a time delivered once more. Returns how many, and whether all of them are kept.
    mutating func replay(
        _ app: String, since: Milliseconds, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) -> (count: Int, isComplete: Bool) {
        var total = (count: 0, isComplete: true)
        for user in owner.users.allIndices where owner.users.isLive(user) && !owner.users[user].isReplica {
            let id = owner.users.user(at: user)
            guard id.app == app, owner.users[user].list(.webhookLog).liveCount > 0, cluster.decides(id) else { continue }
            var log = OwnedWebhookLog(user: user).log(in: owner)
            let replayed = log.replay(since: since)
            total.isComplete = total.isComplete && replayed.isComplete
            guard replayed.count > 0 else { continue }
            total.count += replayed.count
            OwnedWebhookLog(user: user).write(log, by: &owner, in: &cluster.outbox[at: now])
            enqueue(id, owner)
        }
        return total
    }

    // MARK: Deliveries

    private mutating func advance(_ app: String, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        giveUp(app, &owner, &cluster, at: now)
        guard var receiver = receivers[app], receiver.hasWork else { return }
        let policy = owner.policies.policy(of: .policyUser(of: app))
        guard policy.hasWebhook else { return }
        receiver.follow(policy.webhook.url, at: now.instant)
        guard now.instant >= receiver.retryAt else { return }
        for queue in receiver.queues.indices {
            if receiver.queues[queue].delivery == nil { fill(&receiver.queues[queue], &owner, cluster, at: now) }
        }
        // With an open circuit one queue tries: the first with a delivery.
        for queue in receiver.queues.indices {
            guard let delivery = receiver.queues[queue].delivery else { continue }
            if !delivery.isSent {
                receiver.queues[queue].delivery?.isSent = true
                let (url, secret) = (policy.webhook.url, policy.webhook.secret)
                cluster.outbox.effects.append(
                    .deliver(
                        WebhookDelivery(
                            id: delivery.id, app: app, queue: queue, url: url, secret: secret, body: Self.body(of: delivery, app: app))))
            }
            if receiver.isOpen { break }
        }
        receivers[app] = receiver
    }

    /// Builds the next delivery of a queue from the users that wait.
    private mutating func fill(_ queue: inout DeliveryQueue, _ owner: inout Owner, _ cluster: borrowing Cluster, at now: Now) {
        guard queue.mayBegin(at: now.instant) else { return }
        var users: [(user: UserID, versions: [Version])] = []
        var json = JSONWriter(reserving: 4_096)
        var count = 0
        var oldest = Milliseconds.max
        json.array { json in
            while count < Self.eventsMax, json.bytes.count < Self.bytesTarget, let id = queue.waiting.popFirst() {
                waiting.remove(id)
                guard let user = owner.index(ofKnown: id), cluster.decides(id) else { continue }
                var versions: [Version] = []
                for event in OwnedWebhookLog(user: user).log(in: owner).waiting {
                    guard count < Self.eventsMax, versions.isEmpty || json.bytes.count < Self.bytesTarget else { break }
                    json.value(event.json)
                    count += 1
                    versions.append(event.version)
                    oldest = min(oldest, event.version.milliseconds)
                }
                if !versions.isEmpty { users.append((id, versions)) }
            }
        }
        guard !users.isEmpty else { return }
        queue.openAt = now.instant + Self.spacing
        let id = owner.nextVersion(at: now).text
        queue.delivery = Delivery(id: id, events: json.bytes, eventsCount: count, users: users, oldest: oldest)
    }

    private static func body(of delivery: Delivery, app: String) -> [UInt8] {
        var json = JSONWriter(reserving: delivery.events.count + 128)
        json.object { json in
            json.member("deliveryID", delivery.id)
            json.member("app", app)
            json.member("events", json: delivery.events)
        }
        return json.bytes
    }

    /// Marks the events of an accepted delivery. If another node owns a user by now, that node receives the marks.
    private mutating func end(_ delivery: Delivery, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        for (id, versions) in delivery.users {
            guard let user = owner.index(ofKnown: id) else { continue }
            var log = OwnedWebhookLog(user: user).log(in: owner)
            log.markDelivered(versions)
            guard cluster.decides(id) else {
                let row = Row(user: id, kind: .webhookLog, key: "", version: owner.nextVersion(at: now), value: log.text)
                cluster.outbox.rowsForOwners.append(row)
                continue
            }
            _ = log.trim(at: now.wall)
            cluster.outbox.writeInBulk { OwnedWebhookLog(user: user).write(log, by: &owner, in: &$0[at: now]) }
            if log.hasWaiting { enqueue(id, owner) }
        }
    }

    /// Ends the deliveries of an app whose oldest event has expired. Expired events become dead letters. The later ones wait for another
    /// delivery.
    private mutating func giveUp(_ app: String, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        for queue in 0..<Self.queuesCount {
            guard let delivery = receivers[app]?.queues[queue].delivery, !delivery.isSent else { continue }
            guard delivery.oldest + WebhookLog.keptFor <= now.wall else { continue }
            receivers[app]?.queues[queue].delivery = nil
            for (id, _) in delivery.users {
                guard let user = owner.index(ofKnown: id), cluster.decides(id) else { continue }
                trim(user, &owner, in: &cluster.outbox[at: now])
            }
        }
    }

    private mutating func trim(_ user: Owner.Index, _ owner: inout Owner, in turn: inout Turn) {
        var log = OwnedWebhookLog(user: user).log(in: owner)
        let held = log
        let dead = log.trim(at: turn.now.wall)
        owner.count { $0.webhookEventsExpired += UInt64(dead.expired) }
        owner.count { $0.webhookEventsDropped += UInt64(dead.full) }
        if log != held || (log.isEmpty && log.removed.isEmpty) {
            turn.outbox.writeInBulk { [now = turn.now] in OwnedWebhookLog(user: user).write(log, by: &owner, in: &$0[at: now]) }
        }
        if log.hasWaiting { enqueue(owner.users.user(at: user), owner) }
    }

    /// The pause after so many failures, longer or shorter by up to a fifth, so that nodes do not retry together.
    private static func pause(after failures: Int, of delivery: String) -> Duration {
        let pause = min(pauseMin * (1 << min(failures - 1, 10)), pauseMax)
        let hash = StableHash.hash64(Array("\(delivery)#\(failures)".utf8))
        return pause * (0.8 + 0.4 * Double(hash % 1_000) / 1_000)
    }

    // MARK: Old logs

    /// Ticks of 20 ms in which all users are searched once: about an hour.
    private static let searchTicks = 180_000

    /// Trims a few logs at a time. A log without sessions and events leaves a tombstone.
    private mutating func removeQuietLogs(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        let indices = owner.users.allIndices
        for _ in 0..<min(indices.count, indices.count / Self.searchTicks + 1) {
            if searched >= indices.endIndex { searched = 0 }
            let user = searched
            searched += 1
            guard owner.users.isLive(user), !owner.users[user].isReplica, owner.users[user].list(.webhookLog).liveCount > 0 else {
                continue
            }
            guard owner.users[user].list(.webhookLog).version.milliseconds + WebhookLog.keptFor <= now.wall else { continue }
            guard cluster.decides(owner.users.user(at: user)), !waiting.contains(owner.users.user(at: user)) else { continue }
            guard owner.users[user].sessions.isEmpty else { continue }
            trim(user, &owner, in: &cluster.outbox[at: now])
        }
    }
}
