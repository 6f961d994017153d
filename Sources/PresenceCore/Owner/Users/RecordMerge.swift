import PresenceWire

/// Merges the records that two sides hold of one user: the newer one of each part.
///
/// The custom status, the events and the visibility have their own versions.
struct RecordMerge {
    /// The newer record without the parts of ``other`` that win.
    private let base: Record
    /// The older record.
    let other: Record
    /// Whether the received record is newer than the one here.
    let isNewer: Bool
    /// Whether one of the two was written without knowledge of the other's visibility.
    private let isUnaware: Bool
    private let oldPrivacyVersion: Version
    /// Whether any received part is newer than the one here.
    let hasNews: Bool
    /// The newest version among the received parts.
    let newestVersion: Version

    /// - Parameters:
    ///   - record: the received record.
    ///   - old: the record here.
    init(of record: Record, into old: Record) {
        isNewer = record.version > old.version
        let isCustomNewer = record.customStatusVersion > old.customStatusVersion
        let isPrivacyNewer = record.privacy.map { $0.isNewer(than: old.privacy) } ?? false
        // One of them was written without the other's visibility. A viewer may have received it for whom that visibility has an older
        // hidden view.
        let isHeldOlder = isNewer ? record.hasPrivacy && record.versionHeld < old.versionHeld : !isPrivacyNewer && old.isBehind(record)
        isUnaware =
            isNewer && isPrivacyNewer
            ? record.isBehind(old)
            : isHeldOlder || old.privacy?.isUnknown(to: record) ?? false || record.privacy?.isUnknown(to: old) ?? false
        let isRegistration = record.isRegistered && !old.isRegistered
        let hasNewerEvents = record.hasPublished && old.events.isBehind(record.events)
        hasNews = isNewer || isCustomNewer || hasNewerEvents || isPrivacyNewer || isUnaware || isRegistration
        newestVersion = max(record.version, record.customStatusVersion, record.privacy?.version ?? .zero)
        (base, other) = isNewer ? (record, old) : (old, record)
        oldPrivacyVersion = old.privacy?.version ?? .zero
    }

    /// - Parameter user: the user here. A record that does not count only raises the version (``OwnedUser/isVoid(_:)-(Record)``).
    init(of record: Record, into user: borrowing OwnedUser) {
        if user.isVoid(record) {
            self.init(raising: user.record, above: record)
        } else {
            self.init(of: record, into: user.record)
        }
    }

    /// Nodes may have shown the other record.
    private init(raising old: Record, above record: Record) {
        (base, other, isNewer, isUnaware, hasNews) = (old, old, false, true, record.version > old.version)
        (newestVersion, oldPrivacyVersion) = (record.version, old.privacy?.version ?? .zero)
    }

    /// The record to keep.
    ///
    /// - Parameter nextVersion: draws a version, for a record that neither side has written.
    func result(_ nextVersion: () -> Version) -> Record {
        var kept = base
        let takesCustomStatus = other.customStatusVersion > kept.customStatusVersion
        let takesPrivacy = other.privacy.map { $0.isNewer(than: kept.privacy) } ?? false
        if takesCustomStatus { kept.takeCustomStatus(of: other) }
        let takesEvents = other.hasPublished && kept.events.isBehind(other.events)
        if takesEvents { kept.events.merge(other.events) }
        if takesPrivacy { kept.privacy = other.privacy }
        // The newer visibility may be in an older row. The record shown without it would then be newer than the one shown under it.
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
