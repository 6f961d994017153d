import PresenceWire

/// The records that two sides hold of one user, put together: of each part the newer one.
///
/// The custom status, the events and the rule of who may see the user have versions of their own.
struct RecordMerge {
    /// The newer record as it is kept, but for the parts of ``other``.
    private let base: Record
    /// The older record.
    let other: Record
    /// The record that came is newer than the one that was here.
    let isNewer: Bool
    /// One of the two was written without knowing the rule of the other.
    private let isUnaware: Bool
    private let oldPrivacyVersion: Version
    /// Anything that came is newer than what was here.
    let hasNews: Bool
    /// The newest version of all that came.
    let newestVersion: Version

    /// - Parameters:
    ///   - record: what came.
    ///   - old: what is here.
    init(of record: Record, into old: Record) {
        isNewer = record.version > old.version
        let isCustomNewer = record.customStatusVersion > old.customStatusVersion
        let isPrivacyNewer = record.privacy.map { $0.isNewer(than: old.privacy) } ?? false
        // One of them was written without the other's rule. A viewer may have been shown it who is shown something older by that rule.
        isUnaware =
            isNewer && isPrivacyNewer
            ? record.isBehind(old) : old.privacy?.isUnknown(to: record) ?? false || record.privacy?.isUnknown(to: old) ?? false
        let isRegistration = record.isRegistered && !old.isRegistered
        let hasNewerEvents = record.hasPublished && old.events.isBehind(record.events)
        hasNews = isNewer || isCustomNewer || hasNewerEvents || isPrivacyNewer || isUnaware || isRegistration
        newestVersion = max(record.version, record.customStatusVersion, record.privacy?.version ?? .zero)
        (base, other) = isNewer ? (record, old) : (old, record)
        oldPrivacyVersion = old.privacy?.version ?? .zero
    }

    /// The record that is kept.
    ///
    /// - Parameter nextVersion: draws a version: for a record that neither side has written.
    func result(_ nextVersion: () -> Version) -> Record {
        var kept = base
        let takesCustomStatus = other.customStatusVersion > kept.customStatusVersion
        let takesPrivacy = other.privacy.map { $0.isNewer(than: kept.privacy) } ?? false
        if takesCustomStatus { kept.takeCustomStatus(of: other) }
        let takesEvents = other.hasPublished && kept.events.isBehind(other.events)
        if takesEvents { kept.events.merge(other.events) }
        if takesPrivacy { kept.privacy = other.privacy }
        // The newer rule may be in an older row. The record that was shown without it would then be newer than the one that is shown by it.
        let raisesPrivacy = takesPrivacy || isUnaware || kept.privacy?.version ?? .zero < oldPrivacyVersion
        if takesCustomStatus || takesEvents || raisesPrivacy {
            let version = nextVersion()
            kept.version = version
            if raisesPrivacy { kept.privacy?.raise(to: version) }
        }
        if other.isRegistered, !kept.isRegistered { (kept.isRegistered, kept.version) = (true, nextVersion()) }
        return kept
    }
}
