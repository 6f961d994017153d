import PresenceWire

/// The visibility of a user. The owner decides it, the record carries it, and every path that shows a record applies it
/// (``PresenceWire/Record/shown(to:)-(UserID)``).
extension Record {
    /// Updates the hidden views of a changed record after a new visibility, and over time.
    ///
    /// - Parameters:
    ///   - hiddenView: the record with all changes except the visibility.
    ///   - heldVersion: the version that viewers hold of it; nil if they see another change than that of the visibility.
    mutating func changePrivacy(
        to change: StatusChange.Visibility?, hiddenView: Record, heldVersion: Version?, by policy: Policy, at now: Now
    ) {
        guard hasPrivacy || change != nil else { return }
        var privacy = privacy ?? Privacy()
        if let change {
            var hidden = hiddenView
            if let heldVersion { hidden.version = heldVersion }
            privacy = privacy.changed(
                to: change.visibility, writtenAt: change.writtenAt, hiddenView: hidden.hidden(at: version, now.wall, by: policy),
                heldVersion: heldVersion, at: version, wall: now.wall)
            privacy.updateNews(of: profileVersion, waitsWhileInvisible: policy.chain.profileNewsWaitWhileInvisible, at: version)
        }
        privacy.endReturns(before: lastOnlineStatusUpdateTime, version: version)
        privacy.expire(at: now.wall, heldVersion: heldVersion, version: version)
        self.privacy = privacy
    }

    /// The version of a change of the visibility: the first of its millisecond, if that is newer than the whole record.
    ///
    /// A block has written rows before, in the same millisecond. The counter of the version must not tell viewers so.
    func versionOfVisibility(insteadOf next: Version) -> Version {
        let first = Version(milliseconds: next.milliseconds, counter: 0, node: next.node)
        return first > max(version, customStatusVersion, privacy?.version ?? .zero) ? first : next
    }

    /// Whether a part of a hidden view has ended.
    func hasExpiredHiddenView(at wall: Milliseconds) -> Bool {
        guard let expiry = privacy?.nextExpiry else { return false }
        return expiry <= wall
    }

    /// Whether this record is the first with a new visibility, or with new hidden views.
    var changesPrivacy: Bool { hasPrivacy && privacy?.version == version }
}
