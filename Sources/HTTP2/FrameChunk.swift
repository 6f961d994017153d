import CNGHTTP2

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// A memory allocator for nghttp2 whose sessions share one frame buffer and one HPACK encoder table per thread.
///
/// A session keeps a 16 KB buffer for the frame that it writes. The buffer is empty whenever ``HTTP2Session`` is not inside
/// `nghttp2_session_mem_send`. Because sessions lease it one after the other, an idle connection pays nothing for it.
/// The buffer lives as long as its thread's sessions. A header block beyond 16 KB needs a second buffer, which belongs to the session.
///
/// The encoder of a session has a table of 1 KiB, which it never writes. The size of its dynamic table is 0
/// (`nghttp2_option_set_max_deflate_dynamic_table_size`), and no peer can raise it. All sessions share one table.
final class FrameChunk {
    /// The sizes that are taken for the frame buffer.
    ///
    /// `NGHTTP2_FRAMEBUF_CHUNKLEN` of libnghttp2 1.52 is 16 KiB payload, a frame header and a pad length. With another size, sessions
    /// share nothing.
    private static let sizes = 16_384...16_640
    /// The size of an encoder table: a pointer for each of the 128 entries of the default 4,096 bytes (RFC 7541 §4.1).
    private static let tableBytes = 128 * MemoryLayout<UnsafeRawPointer>.size
    /// Whether sessions share the encoder table.
    ///
    /// libnghttp2 1.52 uses a session's first block of ``tableBytes`` for its encoder, and the second for its decoder. Others may not.
    private static let sharesTable = (nghttp2_version(0)?.pointee.version_num ?? 0) >> 8 == 0x0134
    /// The frame buffer, then the table.
    fileprivate let chunk = UnsafeMutableRawPointer.allocate(byteCount: sizes.upperBound + tableBytes, alignment: 16)

    init() { table.initializeMemory(as: UInt8.self, repeating: 0, count: Self.tableBytes) }

    deinit {
        assert(isTableUntouched, "an encoder has written an entry into its table of size 0")
        chunk.deallocate()
    }

    private var table: UnsafeMutableRawPointer { chunk + Self.sizes.upperBound }

    /// Whether no session has written to the table that they share.
    var isTableUntouched: Bool { UnsafeRawBufferPointer(start: table, count: Self.tableBytes).allSatisfy { $0 == 0 } }

    /// One session's right to use the shared memory.
    ///
    /// Its state is in plain memory, because nghttp2 asks for it several times a request.
    final class Lease {
        fileprivate struct State {
            let chunk: UnsafeMutableRawPointer
            /// The session uses the frame buffer.
            var isLeased = false
            /// The session has the table of its encoder.
            var hasTable = !FrameChunk.sharesTable
        }

        private let owner: FrameChunk
        private let state: UnsafeMutablePointer<State>

        init(_ owner: FrameChunk) {
            self.owner = owner
            state = .allocate(capacity: 1)
            state.initialize(to: State(chunk: owner.chunk))
        }

        deinit { state.deallocate() }

        /// The allocator for `nghttp2_session_*_new3`. Valid while this object lives.
        func memory() -> nghttp2_mem {
            nghttp2_mem(
                mem_user_data: UnsafeMutableRawPointer(state),
                malloc: { size, lease in FrameChunk.allocate(size, lease) },
                free: { pointer, lease in FrameChunk.release(pointer, lease) },
                calloc: { count, size, _ in calloc(count, size) },
                realloc: { pointer, size, lease in
                    guard let pointer else { return FrameChunk.allocate(size, lease) }
                    if FrameChunk.isShared(pointer, lease) { return FrameChunk.move(pointer, to: size, lease) }
                    return realloc(pointer, size)
                })
        }
    }

    @inline(__always)
    private static func state(_ lease: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<Lease.State> {
        lease.unsafelyUnwrapped.assumingMemoryBound(to: Lease.State.self)
    }

    /// Whether a block is the frame buffer or the table.
    @inline(__always)
    private static func isShared(_ pointer: UnsafeMutableRawPointer, _ lease: UnsafeMutableRawPointer?) -> Bool {
        UInt(bitPattern: pointer) &- UInt(bitPattern: state(lease).pointee.chunk) <= UInt(sizes.upperBound)
    }

    @inline(__always)
    private static func allocate(_ size: Int, _ lease: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        if size == tableBytes, !state(lease).pointee.hasTable {
            state(lease).pointee.hasTable = true
            return state(lease).pointee.chunk + sizes.upperBound
        }
        guard size >= sizes.lowerBound, size <= sizes.upperBound, !state(lease).pointee.isLeased else { return malloc(size) }
        state(lease).pointee.isLeased = true
        return state(lease).pointee.chunk
    }

    @inline(__always)
    private static func release(_ pointer: UnsafeMutableRawPointer?, _ lease: UnsafeMutableRawPointer?) {
        guard let pointer, isShared(pointer, lease) else { return free(pointer) }
        if pointer == state(lease).pointee.chunk { state(lease).pointee.isLeased = false }
    }

    private static func move(
        _ pointer: UnsafeMutableRawPointer, to size: Int, _ lease: UnsafeMutableRawPointer?
    ) -> UnsafeMutableRawPointer? {
        precondition(pointer == state(lease).pointee.chunk, "nghttp2 resizes the table of an encoder, which has size 0")
        guard size > sizes.upperBound else { return pointer }
        guard let moved = malloc(size) else { return nil }
        moved.copyMemory(from: pointer, byteCount: sizes.upperBound)
        state(lease).pointee.isLeased = false
        return moved
    }
}
