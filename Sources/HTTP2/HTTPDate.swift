import NIOCore

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// The value of the `Date` field of a loop's answers (RFC 9110 §6.6.1), formatted once a second.
///
/// Its bytes keep their address, and nghttp2 reads them without a copy when it encodes an answer. Used on one event loop only.
final class HTTPDate {
    static let bytesCount = 29

    let bytes = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytesCount)
    /// The beginning of the next second of the wall clock.
    private var validUntil = NIODeadline.distantPast

    init() { refresh(at: .now()) }

    deinit { bytes.deallocate() }

    /// Formats the time again when the second is over. `now` is a time of the monotonic clock.
    func refresh(at now: NIODeadline) {
        guard now >= validUntil else { return }
        var wall = timespec()
        clock_gettime(CLOCK_REALTIME, &wall)
        validUntil = now + .nanoseconds(1_000_000_000 - Int64(wall.tv_nsec))
        Self.format(wall.tv_sec, into: bytes)
    }

    /// Writes the IMF-fixdate (RFC 9110 §5.6.7) of seconds since 1970, such as "Sun, 06 Nov 1994 08:49:37 GMT".
    static func format(_ seconds: Int, into bytes: UnsafeMutableBufferPointer<UInt8>) {
        var seconds = seconds
        var time = tm()
        gmtime_r(&seconds, &time)
        let day = names(days, Int(time.tm_wday)), month = names(months, Int(time.tm_mon))
        let year = Int(time.tm_year) + 1_900
        let text: [UInt8] =
            day + Array(", ".utf8) + digits(Int(time.tm_mday)) + [space] + month + [space] + digits(year / 100) + digits(year % 100) + [
                space
            ]
            + digits(Int(time.tm_hour)) + [colon] + digits(Int(time.tm_min)) + [colon] + digits(Int(time.tm_sec)) + Array(" GMT".utf8)
        _ = bytes.update(fromContentsOf: text)
    }

    private static let space = UInt8(ascii: " "), colon = UInt8(ascii: ":")
    private static let days = Array("SunMonTueWedThuFriSat".utf8)
    private static let months = Array("JanFebMarAprMayJunJulAugSepOctNovDec".utf8)

    private static func names(_ all: [UInt8], _ index: Int) -> [UInt8] { Array(all[3 * index..<3 * index + 3]) }

    private static func digits(_ value: Int) -> [UInt8] { [48 + UInt8(value / 10 % 10), 48 + UInt8(value % 10)] }
}
