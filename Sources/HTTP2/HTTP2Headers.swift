import CNGHTTP2

/// Header fields for nghttp2 over static bytes.
///
/// nghttp2 neither copies nor allocates for such a field.
enum HTTP2Headers {
    /// A field of two literals.
    static func field(_ name: StaticString, _ value: StaticString) -> nghttp2_nv {
        nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start), value: UnsafeMutablePointer(mutating: value.utf8Start),
            namelen: name.utf8CodeUnitCount, valuelen: value.utf8CodeUnitCount,
            flags: UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue))
    }

    /// A field whose value nghttp2 copies during the call that submits it.
    static func field(_ name: StaticString, copying value: UnsafeBufferPointer<UInt8>) -> nghttp2_nv {
        nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start), value: UnsafeMutablePointer(mutating: value.baseAddress),
            namelen: name.utf8CodeUnitCount, valuelen: value.count, flags: UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue))
    }

    /// The `request-id` field. Each value is used once, so the field takes no place in the peer's table (RFC 7541 §6.2.3).
    static func field(_ id: UnsafeBufferPointer<UInt8>) -> nghttp2_nv {
        var field = field("request-id", copying: id)
        field.flags |= UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
        return field
    }

    /// The `:status` field.
    static func status(_ status: Int) -> nghttp2_nv {
        switch status {
        case 200: field(":status", "200")
        case 204: field(":status", "204")
        case 307: field(":status", "307")
        case 400: field(":status", "400")
        case 401: field(":status", "401")
        case 403: field(":status", "403")
        case 404: field(":status", "404")
        case 405: field(":status", "405")
        case 408: field(":status", "408")
        case 409: field(":status", "409")
        case 410: field(":status", "410")
        case 412: field(":status", "412")
        case 413: field(":status", "413")
        case 423: field(":status", "423")
        case 429: field(":status", "429")
        case 431: field(":status", "431")
        case 503: field(":status", "503")
        default: field(":status", "500")
        }
    }
}
