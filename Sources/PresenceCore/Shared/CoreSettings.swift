import PresenceWire

/// What the deciding parts of a node can be told; durations run on the node's monotonic clock.
public struct CoreSettings: Sendable, Equatable {
    /// Who is taken for alive, and how soon somebody is not.
    public var membership = Membership.Settings()
    /// The policy of apps about which nothing was said. Default: the preset `rollcall`.
    public var policy = Policy()
    /// What the configuration says of single apps.
    public var policies: [String: AppPolicy] = [:]
    /// How long a session lost on a node that drains may be missed at least: its client was asked to open one elsewhere before it dropped
    /// this one, but the two are heard of by different ways. Default 2 s.
    public var movingGrace: Duration = .seconds(2)
    /// How long the sessions of a node that is gone, and an ONLINE that nobody has vouched for yet, are believed. Default 10 s (design §5).
    public var reconnectGrace: Duration = .seconds(10)
    /// How long a user nobody on the node watches any more stays registered, so that a reconnect costs nothing. Default 60 s.
    public var watchLinger: Duration = .seconds(60)
    /// How long an operation may wait for owners before it is answered 50001. Default 5 s.
    public var callTimeout: Duration = .seconds(5)
    /// How long after a wrong or missing owner a registration or request is tried again. Default 100 ms.
    public var retryInterval: Duration = .milliseconds(100)
    /// After a change of the members, how long a node waits at most for what the others hold before it decides about users that are new
    /// to it. Default 3 s: by then a node that does not answer is known to be gone.
    public var takeoverTimeout: Duration = .seconds(3)
    /// How long the ring that holds waits, when a node joins or drains, until all have what they are to keep by the next one. Default 10 s; with
    /// 0 it does not wait.
    public var preparationTimeout: Duration = .seconds(10)
    /// How long a change may wait for a replica's disk before it is answered 50001. Default 2 s.
    public var replicationTimeout: Duration = .seconds(2)
    /// How often a disk that takes nothing is tried again. Default 500 ms.
    public var diskRetryInterval: Duration = .milliseconds(500)
    /// How often this node compares digests with one other node, and how long it takes to compare all that others watch. Default 30 s: a
    /// comparison walks all users.
    public var digestInterval: Duration = .seconds(30)
    /// How long the blank record of a removed user is kept (`users.forgetAfter`): a node that was away for less does not bring the user back.
    /// Default 7 days, as for ended subscriptions.
    public var blankHorizon: Duration = .milliseconds(CoreSettings.tombstoneHorizon)
    /// How long the owner takes to look once at all its users for those that may be removed. Default 1 h: a user is away for days.
    public var removalInterval: Duration = .seconds(3_600)
    /// A record that more other nodes watch than this is sent to so many of them, each of which passes it on to its share. Default 32.
    public var relayAbove = 32
    /// How many other nodes get a beat at a time, and what is compared with it; more take turns. Default 256: with four beats a second
    /// some thousand batches a second at most when nothing happens.
    public var beatPeersMax = 256
    /// How long a session may keep a full queue before it is cut off. Default 60 s.
    public var slowReaderTimeout: Duration = .seconds(60)
    /// Operations waiting for owners on one node; one more is answered 50002. Default 100,000.
    public var callsMax = 100_000
    /// Control messages waiting for one peer; beyond it the queue is dropped and the peer is told everything anew. Default 200,000.
    public var linkMessagesMax = 200_000

    /// How long the tombstone of an ended subscription is kept: a node that was away for less does not revive the subscription. 7 days.
    public static let tombstoneHorizon: Milliseconds = 7 * 86_400_000

    public init() {}
}

extension CoreSettings {
    /// See ``PresenceWire/Policy/offlineGrace``, of apps about whose grace nothing was said.
    public var offlineGrace: Duration {
        get { policy.offlineGrace }
        set { policy.offlineGrace = newValue }
    }

    /// See ``PresenceWire/Policy/livenessTimeout``, of apps about whose liveness nothing was said.
    public var heartbeatTimeout: Duration {
        get { policy.livenessTimeout }
        set { policy.livenessTimeout = newValue }
    }

    /// See ``PresenceWire/Policy/subscriptionsMax``, of apps about which nothing was said.
    public var subscriptionsMax: Int {
        get { Int(policy.subscriptionsMax) }
        set { policy.subscriptionsMax = Int64(newValue) }
    }
}
