/// Counts for the metrics. A session that ends is counted once: as logged out, disconnected, kicked or evicted.
public struct OwnerCounters: Equatable, Sendable {
    public internal(set) var logouts: UInt64 = 0
    public internal(set) var sessionsDisconnected: UInt64 = 0
    public internal(set) var sessionsKicked: UInt64 = 0
    /// Sessions that ended to make room for a newer one of the same user.
    public internal(set) var sessionsEvicted: UInt64 = 0
    public internal(set) var evictions: UInt64 = 0
    /// Expired tombstones of lists, of users owned here or kept for others.
    public internal(set) var tombstonesForgotten: UInt64 = 0
    /// Users whose blank records have expired, owned here or kept for others.
    public internal(set) var usersRemoved: UInt64 = 0
    public internal(set) var clocksRefused: UInt64 = 0
    /// Webhook events that the receiver did not accept within ``WebhookLog/keptFor``.
    public internal(set) var webhookEventsExpired: UInt64 = 0
    /// Webhook events that were removed because too many of their user waited.
    public internal(set) var webhookEventsDropped: UInt64 = 0
    /// Webhook events that were removed because too many of their app or of this node waited.
    public internal(set) var webhookEventsBeyondBacklog: UInt64 = 0
}
