extension RelationshipNotice {
    func write(into wire: inout WireWriter) {
        wire.tag(event)
        for version in [state.friends, state.received, state.sent, state.groups, state.blocked, state.read, state.profile] {
            wire.version(version)
        }
        wire.unsigned(UInt64(state.unreadCount))
        wire.text(String(decoding: data, as: UTF8.self))
    }
}

extension RelationshipNotice {
    init(from wire: inout WireReader) throws(DecodeError) {
        let event = try wire.tag(as: Event.self)
        var state = RelationshipState()
        state.friends = try wire.version()
        state.received = try wire.version()
        state.sent = try wire.version()
        state.groups = try wire.version()
        state.blocked = try wire.version()
        state.read = try wire.version()
        state.profile = try wire.version()
        let count = try wire.unsigned()
        guard let unreadCount = UInt32(exactly: count) else { throw .tooLong(count: Int(clamping: count), limit: Int(UInt32.max)) }
        state.unreadCount = unreadCount
        self.init(event, state, data: Array(try wire.text(bytesMax: Limits.batchBytesMax).utf8))
    }
}
