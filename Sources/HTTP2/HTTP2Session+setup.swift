import CNGHTTP2

/// The beginning of a session: the options of nghttp2, and the first settings for the peer.
extension HTTP2Session {
    /// Takes a new client's preface out of the frame buffer at once, because the next session uses the same buffer.
    func takePreface() {
        var bytes: UnsafePointer<UInt8>?
        let count = nghttp2_session_mem_send(raw, &bytes)
        preface = Array(UnsafeBufferPointer(start: bytes, count: max(count, 0)))
    }

    static func withOptions<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        var options: OpaquePointer?
        nghttp2_option_new(&options)
        defer { nghttp2_option_del(options) }
        nghttp2_option_set_no_closed_streams(options, 1)
        nghttp2_option_set_max_deflate_dynamic_table_size(options, 0)
        nghttp2_option_set_max_outbound_ack(options, 1_000)
        // `HTTPLimits.resetsMax` is the limit. nghttp2's own limit is lower, and gives no reason when it ends a connection.
        nghttp2_option_set_stream_reset_rate_limit(options, 1 << 40, 1 << 20)
        return body(options!)
    }

    func submitSettings() {
        let entry = { (id: nghttp2_settings_id, value: Int) in nghttp2_settings_entry(settings_id: Int32(id.rawValue), value: UInt32(value))
        }
        var settings: [nghttp2_settings_entry]
        switch role {
        case .server:
            settings = [
                entry(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits.streamsMax),
                entry(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits.headerBytesMax),
            ]
            nghttp2_session_set_local_window_size(raw, 0, 0, 1 << 20)
        case .client:
            settings = [entry(NGHTTP2_SETTINGS_ENABLE_PUSH, 0), entry(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 256 << 10)]
        }
        nghttp2_submit_settings(raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), &settings, settings.count)
        if role == .client { nghttp2_session_set_local_window_size(raw, 0, 0, 16 << 20) }
    }
}
