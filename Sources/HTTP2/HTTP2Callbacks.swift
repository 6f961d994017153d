import CNGHTTP2

/// The nghttp2 callbacks that all sessions share.
///
/// Each callback only records an event in its session.
final class HTTP2Callbacks: @unchecked Sendable {
    static let shared = HTTP2Callbacks()
    /// nghttp2's object. It does not change after `init`.
    let raw: OpaquePointer

    private init() {
        var callbacks: OpaquePointer?
        precondition(nghttp2_session_callbacks_new(&callbacks) == 0, "no memory for nghttp2's callbacks")
        raw = callbacks!
        nghttp2_session_callbacks_set_on_begin_headers_callback(raw) { _, frame, user in
            if cnghttp2_is_request(frame) != 0 { HTTP2Callbacks.record(user) { $0.beganHeaders(cnghttp2_stream_id(frame)) } }
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(raw) { _, frame, name, nameCount, value, valueCount, _, user in
            let isTrailer = cnghttp2_is_request(frame) == 0
            let name = UnsafeBufferPointer(start: name, count: nameCount)
            let value = UnsafeBufferPointer(start: value, count: valueCount)
            let goesOn = HTTP2Callbacks.record(user) {
                $0.header(cnghttp2_stream_id(frame!), name: name, value: value, isTrailer: isTrailer)
            }
            return goesOn ? 0 : Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(raw) { _, frame, user in
            HTTP2Callbacks.record(user) { $0.received(frame!) }
            return 0
        }
        nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(raw) { _, frame, status, user in
            if status == NGHTTP2_ERR_REFUSED_STREAM.rawValue {
                HTTP2Callbacks.record(user) { $0.countUseless(headBytes: cnghttp2_payload_bytes(frame)) }
            }
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(raw) { _, _, number, bytes, count, user in
            HTTP2Callbacks.record(user) { $0.received(UnsafeRawBufferPointer(start: bytes, count: count), on: number) }
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(raw) { _, number, error, user in
            HTTP2Callbacks.record(user) { $0.closed(number, error: error) }
            return 0
        }
        nghttp2_session_callbacks_set_send_data_callback(raw) { _, _, header, count, source, user in
            let header = UnsafeRawBufferPointer(start: header, count: 9)
            let goesOn = HTTP2Callbacks.record(user) { $0.sendData(Int(cnghttp2_slot(source)), header: header, bytesCount: count) }
            return goesOn ? 0 : Int32(NGHTTP2_ERR_PAUSE.rawValue)
        }
    }

    /// Gives nghttp2 the number of queued bytes for the next DATA frame of a stream.
    static let read: nghttp2_data_source_read_callback = { _, _, _, count, flags, source, user in
        HTTP2Callbacks.record(user) { $0.read(Int(cnghttp2_slot(source)), bytesMax: count, flags!) }
    }

    @inline(__always)
    private static func record<Result>(_ user: UnsafeMutableRawPointer?, _ body: (HTTP2Session) -> Result) -> Result {
        Unmanaged<HTTP2Session>.fromOpaque(user!)._withUnsafeGuaranteedRef(body)
    }
}
