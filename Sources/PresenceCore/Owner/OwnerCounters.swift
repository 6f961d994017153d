/// Counts for the metrics. A session that ends is counted once: as logged out, disconnected, kicked or evicted.
struct OwnerCounters: Equatable, Sendable {
    var logouts: UInt64 = 0
    var sessionsDisconnected: UInt64 = 0
    var sessionsKicked: UInt64 = 0
    /// Sessions that ended to make room for a newer one of the same user.
    var sessionsEvicted: UInt64 = 0
    var evictions: UInt64 = 0
    var tombstonesForgotten: UInt64 = 0
    var usersRemoved: UInt64 = 0
    var clocksRefused: UInt64 = 0
    /// Webhook events that the receiver did not accept within ``WebhookLog/keptFor``.
    var webhookEventsExpired: UInt64 = 0
    /// Webhook events that were removed because too many of their user waited.
    var webhookEventsDropped: UInt64 = 0
    /// Webhook events that were removed because too many of their app or of this node waited.
    var webhookEventsBeyondBacklog: UInt64 = 0
}
