import PresenceWire

/// The users whose owner has refused a stream ticket, each until the next one succeeds.
///
/// The gateway refuses their further requests itself. A user who repeats them therefore costs the owner nothing, whose loop serves many.
struct RefusedTickets {
    /// Most users. One more removes all, so that their owners are asked again.
    static let countMax = 1_000

    private var ends: [UserID: Instant] = [:]

    /// Keeps a refusal of the owner.
    mutating func add(_ user: UserID, for seconds: Int, at now: Instant) {
        if ends.count >= Self.countMax { ends = [:] }
        ends[user] = now + .seconds(seconds)
    }

    /// The whole seconds until the owner is asked again; nil if it may be asked now.
    mutating func delay(of user: UserID, at now: Instant) -> Int? {
        guard let end = ends[user] else { return nil }
        guard end > now else {
            ends[user] = nil
            return nil
        }
        return Int(((end - now).wholeMilliseconds + 999) / 1_000)
    }
}
