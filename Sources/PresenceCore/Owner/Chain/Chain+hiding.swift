import PresenceWire

/// Blocks and ends of friendships that hide their user later, so that the user looks lost: see ``HidingTime``.
///
/// They take effect for the lists at once. The call is answered when no live node shows the user to these viewers any more.
extension Chain {
    /// Has a call wait for the hiding of its user, if viewers from whom it hides the user still see the user.
    ///
    /// - Parameter position: that of a result on two disks; nil for a call that begins.
    mutating func awaitHiding(of call: UInt64, resultAt position: Int?, _ owner: borrowing Owner) {
        if calls[call]?.awaitHiding(ofResultAt: position, by: owner) ?? false { hiding.insert(call) }
    }

    /// Goes on with the calls whose users have hidden meanwhile. Called after users were reviewed.
    mutating func goOnAfterHiding(_ owner: inout Owner, in turn: inout Turn) {
        for id in hiding.sorted() {
            guard let call = calls[id], let user = owner.index(ofKnown: call.request.user) else {
                hiding.remove(id)
                continue
            }
            // The next owner of a user who has moved is asked again.
            guard !owner.users[user].isReplica, !call.awaitsHiding(by: owner) else { continue }
            hiding.remove(id)
            calls[id]?.hide()
            // The user may have hidden in an earlier write.
            if !turn.outbox.needsBarrier { ChainVisibility(user: user).hideAgain(by: owner, into: &turn.outbox) }
            if let answer = call.answerToKeep {
                AnsweredCalls(request: call.request, peer: 0, now: turn.now).keep(answer, of: &owner, into: &turn.outbox)
            }
            turn.outbox.stepWhenStored(.hidden(call: id))
        }
    }

    /// Ends the wait of a call. Returns the steps of the decisions that have ended meanwhile.
    mutating func endHiding(of call: UInt64, _ isDurable: Bool) -> [ChainStep] {
        (calls[call]?.endHiding(isDurable: isDurable) ?? []).map { .decided(call: call, position: $0.position, $0.code) }
    }
}
