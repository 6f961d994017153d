import PresenceWire

/// The time and the place for outputs, for a function that needs nothing else of its node.
struct Turn {
    let now: Now
    var outbox: Outbox
}

extension Outbox {
    /// This outbox with the time. A call that receives the turn as `inout` appends its outputs here.
    subscript(at now: Now) -> Turn {
        get { Turn(now: now, outbox: self) }
        _modify {
            // An exchange, because a copy would share the memory of all lists.
            var turn = Turn(now: now, outbox: Outbox())
            swap(&turn.outbox, &self)
            defer { swap(&turn.outbox, &self) }
            yield &turn
        }
    }
}
