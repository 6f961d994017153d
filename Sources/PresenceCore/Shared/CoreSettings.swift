import PresenceWire

/// The settings of a node's core. Durations run on the node's monotonic clock.
public struct CoreSettings: Sendable, Equatable {
    /// The settings of the membership.
    public var membership = Membership.Settings()
    /// The policy of apps without one of their own. Default: the preset `rollcall`.
    public var policy = Policy()
    /// The policies of single apps in the configuration.
    public var policies: [String: AppPolicy] = [:]
    /// The minimum grace of a session lost on a draining node. Default 2 s.
    ///
    /// Its client was asked to open another session before it dropped this one, but the owner learns of the two by different paths.
    public var movingGrace: Duration = .seconds(2)
    /// The grace of sessions of a dead node, and of an unconfirmed ONLINE. Default 10 s (<doc:Architecture>).
    public var reconnectGrace: Duration = .seconds(10)
    /// The time that a user without a subscription on the node stays registered, so that a reconnect costs nothing. Default 60 s.
    public var watchLinger: Duration = .seconds(60)
    /// The time that an operation waits for owners before it is answered 50001. Default 5 s.
    public var callTimeout: Duration = .seconds(5)
    /// The interval of retries after a wrong or missing owner. Default 100 ms.
    public var retryInterval: Duration = .milliseconds(100)
    /// The longest wait for the rows of the other nodes after a change of the members, before a node decides about new users. Default 3 s:
    /// by then a node that does not answer is known to be dead.
    public var takeoverTimeout: Duration = .seconds(3)
    /// The time that the present ring holds when a node joins or drains, until all nodes have their rows by the next one. Default 10 s; 0
    /// for no wait.
    public var preparationTimeout: Duration = .seconds(10)
    /// The time that a change waits for a replica's disk before it is answered 50001. Default 2 s.
    public var replicationTimeout: Duration = .seconds(2)
    /// The interval of retries of a failing disk. Default 500 ms.
    public var diskRetryInterval: Duration = .milliseconds(500)
    /// The interval of comparing digests with one other node, and of comparing all views. Default 30 s, because a comparison walks all
    /// users.
    public var digestInterval: Duration = .seconds(30)
    /// The time that the blank record of a removed user is kept (`users.forgetAfter`). Default 7 days, as for ended subscriptions.
    ///
    /// A node that was away for less does not bring the user back.
    public var blankHorizon: Duration = .milliseconds(CoreSettings.tombstoneHorizon)
    /// The time in which the owner checks all its users for removal once. Default 1 h, because users are away for days.
    public var removalInterval: Duration = .seconds(3_600)
    /// The number of watching nodes above which relays forward a record. The owner then sends it to this many nodes, and each forwards it
    /// to its share. Default 32.
    public var relayAbove = 32
    /// The number of nodes that receive a beat and its digests at a time. More nodes take turns. Default 256.
    ///
    /// With four beats a second that is about a thousand batches a second when nothing happens.
    public var beatPeersMax = 256
    /// Most operations of one node that wait for owners. One more is answered 50002. Default 100,000.
    public var callsMax = 100_000
    /// Most calls of `setVisibility` of one node that wait until a lost user would be OFFLINE: 4,000 by default. One more hides its user at
    /// once.
    public var waitingHidesMax: Int { callsMax / 25 }
    /// Most control messages that wait for one peer. Beyond it the queue is dropped, and the peer receives everything again. Default
    /// 200,000.
    public var linkMessagesMax = 200_000

    /// The time that the tombstone of an ended subscription is kept: 7 days. A node that was away for less does not revive the
    /// subscription.
    public static let tombstoneHorizon: Milliseconds = 7 * 86_400_000

    public init() {}
}
