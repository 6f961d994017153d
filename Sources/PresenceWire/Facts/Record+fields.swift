extension Record {
    /// A field of the record. The cases are the stored properties, each once.
    ///
    /// The list states where a field is found outside the record. Each switch over it is exhaustive, so a field that the list has and a
    /// switch has not does not compile. The coders are written by hand, because every push runs them: `RecordFieldsTests` compares them
    /// with the list, field by field.
    ///
    /// The order is that of the members of a `UserStatus`. The fields that viewers never see are last.
    public enum Field: String, CaseIterable, Sendable {
        case user, statusType, customStatus, onlinePlatforms, events
        case lastUpdateTime, lastOnlineStatusUpdateTime, lastCustomStatusUpdateTime, lastSeenTime, version
        case customStatusExpiresAt, customStatusHasOwnEnd, customStatusVersion, profileVersion, pushDevices, isRegistered, knownSince
        case privacy
    }

    /// Whether both records have the same value of a field.
    public func has(_ field: Field, as other: Record) -> Bool {
        switch field {
        case .user: user == other.user
        case .version: version == other.version
        case .statusType: statusType == other.statusType
        case .customStatus: customStatus == other.customStatus
        case .customStatusExpiresAt: customStatusExpiresAt == other.customStatusExpiresAt
        case .customStatusHasOwnEnd: customStatusHasOwnEnd == other.customStatusHasOwnEnd
        case .customStatusVersion: customStatusVersion == other.customStatusVersion
        case .profileVersion: profileVersion == other.profileVersion
        case .pushDevices: pushDevices == other.pushDevices
        case .isRegistered: isRegistered == other.isRegistered
        case .onlinePlatforms: onlinePlatforms == other.onlinePlatforms
        case .lastUpdateTime: lastUpdateTime == other.lastUpdateTime
        case .lastOnlineStatusUpdateTime: lastOnlineStatusUpdateTime == other.lastOnlineStatusUpdateTime
        case .lastCustomStatusUpdateTime: lastCustomStatusUpdateTime == other.lastCustomStatusUpdateTime
        case .lastSeenTime: lastSeenTime == other.lastSeenTime
        case .knownSince: knownSince == other.knownSince
        case .privacy: privacy == other.privacy
        case .events: events == other.events
        }
    }
}

extension Record.Field {
    /// The forms of a field outside the record. On the wire every field follows the one before it.
    public struct Form: Sendable {
        public let sight: Sight
        public let row: Place
        public let hiddenView: HiddenForm
        public let merge: Part
        /// Whether a record with this field alone is not blank (``Record/isBlank``).
        public let isOfValue: Bool
    }

    /// The members of a `UserStatus` that a viewer sees of a field.
    public enum Sight: Sendable {
        case never
        /// The member names the record. Viewers see no change if nothing else differs.
        case name(String)
        /// A change of the members is a change for viewers.
        case members([String])
        /// The same, unless the policy of the app hides the platforms.
        case unlessPlatformsAreHidden(String)
    }

    /// The place of a field on disk.
    public enum Place: Sendable {
        /// A column of the row.
        case column
        /// Members of the row's JSON.
        case members([String])
        /// A row of its own, which a member of this one names.
        case ownRow(namedBy: String)
        case nowhere
    }

    /// The value of a field in the hidden view of a user who hides while ONLINE.
    public enum HiddenForm: Sendable {
        /// The value at the time of hiding, in a content that several views may share.
        case content
        /// The value at the time of hiding, or that of going OFFLINE, in the viewer's own view.
        case view
        /// The value of a blank record.
        case blank
        /// The value now. It is not part of what the user hides.
        case current
    }

    /// The version that decides which of two values a merge of records keeps.
    public enum Part: Sendable {
        /// Both records have the same value.
        case key
        /// The merge draws a version of its own for a result that neither side has written.
        case version
        /// The version of the record.
        case record
        /// The version of the custom status.
        case customStatus
        /// The IDs of the events.
        case events
        /// The start of the call that wrote the visibility.
        case visibility
        /// None: the value stays true.
        case registration
    }

    /// See ``Form``.
    public var form: Form {
        switch self {
        case .user: Form(sight: .name("userID"), row: .column, hiddenView: .content, merge: .key, isOfValue: false)
        case .version: Form(sight: .name("version"), row: .column, hiddenView: .view, merge: .version, isOfValue: false)
        case .statusType: shown(isOfValue: true)
        case .customStatus: shown(merge: .customStatus, isOfValue: true)
        case .onlinePlatforms:
            Form(
                sight: .unlessPlatformsAreHidden(rawValue), row: .members([rawValue]), hiddenView: .blank, merge: .record, isOfValue: false)
        case .events:
            Form(
                sight: .members(["event", "loginEvent"]),
                row: .members(["newestEventID", "newestLoginEventID", "event", "loginEvent"]), hiddenView: .content, merge: .events,
                isOfValue: true)
        case .lastUpdateTime, .lastSeenTime: shown(hiddenView: .view, isOfValue: true)
        case .lastOnlineStatusUpdateTime: shown(hiddenView: .view, isOfValue: false)
        case .lastCustomStatusUpdateTime: shown(hiddenView: .view, merge: .customStatus, isOfValue: false)
        case .customStatusExpiresAt, .customStatusHasOwnEnd:
            Form(sight: .never, row: .members([rawValue]), hiddenView: .content, merge: .customStatus, isOfValue: false)
        case .customStatusVersion:
            Form(sight: .never, row: .members([rawValue]), hiddenView: .blank, merge: .customStatus, isOfValue: false)
        case .profileVersion: Form(sight: .never, row: .members([rawValue]), hiddenView: .current, merge: .record, isOfValue: true)
        case .pushDevices: Form(sight: .never, row: .members([rawValue]), hiddenView: .blank, merge: .record, isOfValue: true)
        case .isRegistered: Form(sight: .never, row: .members([rawValue]), hiddenView: .content, merge: .registration, isOfValue: true)
        case .knownSince: Form(sight: .never, row: .nowhere, hiddenView: .current, merge: .record, isOfValue: false)
        case .privacy: Form(sight: .never, row: .ownRow(namedBy: "rule"), hiddenView: .blank, merge: .visibility, isOfValue: true)
        }
    }

    /// The form of a field with one name in a `UserStatus` and in a row.
    private func shown(hiddenView: HiddenForm = .content, merge: Part = .record, isOfValue: Bool) -> Form {
        Form(sight: .members([rawValue]), row: .members([rawValue]), hiddenView: hiddenView, merge: merge, isOfValue: isOfValue)
    }

    /// The names of the members of a `UserStatus` that show the field; empty if viewers never see it.
    public var statusMembers: [String] {
        switch form.sight {
        case .never: []
        case .name(let name), .unlessPlatformsAreHidden(let name): [name]
        case .members(let names): names
        }
    }
}
