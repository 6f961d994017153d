import CNGHTTP2

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Memory for nghttp2 that lends all the sessions of one thread the same frame buffer, and the same table of an HPACK encoder.
///
/// A session keeps a 16 KB chunk for the frame that it is just writing, and it is empty whenever ``HTTP2Session`` is not
/// inside `mem_send`. Lent to one session after the other it costs an idle connection nothing (design §7: "pool it").
/// The chunk lives as long as its thread's sessions; a session's second chunk, needed for a header block beyond 16 KB, is its own.
///
/// The encoder of a session has a table of 1 KiB, which it never writes: its dynamic table has size 0
/// (`nghttp2_option_set_max_deflate_dynamic_table_size`), and no peer can raise that. All sessions share one.
final class FrameChunk {
    /// `NGHTTP2_FRAMEBUF_CHUNKLEN` of libnghttp2 1.52 is 16 KiB payload, a frame header and a pad length; other versions simply do not match.
    private static let sizes = 16_384...16_640
    /// A pointer for each of the 128 entries that the default table size of 4,096 bytes holds (RFC 7541 §4.1).
    private static let tableBytes = 128 * MemoryLayout<UnsafeRawPointer>.size
    /// libnghttp2 1.52 takes a session's first block of ``tableBytes`` for its encoder, and the second for its decoder. Another version may not.
    private static let sharesTable = (nghttp2_version(0)?.pointee.version_num ?? 0) >> 8 == 0x0134
    /// The frame buffer, then the table.
    fileprivate let chunk = UnsafeMutableRawPointer.allocate(byteCount: sizes.upperBound + tableBytes, alignment: 16)

    init() { table.initializeMemory(as: UInt8.self, repeating: 0, count: Self.tableBytes) }

    deinit {
        assert(isTableUntouched, "an encoder has entered something into its table of size 0")
        chunk.deallocate()
    }

    private var table: UnsafeMutableRawPointer { chunk + Self.sizes.upperBound }

    /// Whether no session has written to the table that they share.
    var isTableUntouched: Bool { UnsafeRawBufferPointer(start: table, count: Self.tableBytes).allSatisfy { $0 == 0 } }

    /// One session's view of the chunk. Its state lies in plain memory, because nghttp2 asks for it several times a request.
    final class Loan {
        fileprivate struct State {
            let chunk: UnsafeMutableRawPointer
            var isLent = false
            /// The session has its encoder's table.
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

        /// The allocator for `nghttp2_session_*_new3`; valid while this object lives.
        func memory() -> nghttp2_mem {
            nghttp2_mem(
                mem_user_data: UnsafeMutableRawPointer(state),
                malloc: { size, loan in FrameChunk.allocate(size, loan) },
                free: { pointer, loan in FrameChunk.release(pointer, loan) },
                calloc: { count, size, _ in calloc(count, size) },
                realloc: { pointer, size, loan in
                    guard let pointer else { return FrameChunk.allocate(size, loan) }
                    if FrameChunk.isShared(pointer, loan) { return FrameChunk.move(pointer, to: size, loan) }
                    return realloc(pointer, size)
                })
        }
    }

    @inline(__always)
    private static func state(_ loan: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<Loan.State> {
        loan.unsafelyUnwrapped.assumingMemoryBound(to: Loan.State.self)
    }

    /// Whether a block is the frame buffer or the table.
    @inline(__always)
    private static func isShared(_ pointer: UnsafeMutableRawPointer, _ loan: UnsafeMutableRawPointer?) -> Bool {
        UInt(bitPattern: pointer) &- UInt(bitPattern: state(loan).pointee.chunk) <= UInt(sizes.upperBound)
    }

    @inline(__always)
    private static func allocate(_ size: Int, _ loan: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        if size == tableBytes, !state(loan).pointee.hasTable {
            state(loan).pointee.hasTable = true
            return state(loan).pointee.chunk + sizes.upperBound
        }
        guard size >= sizes.lowerBound, size <= sizes.upperBound, !state(loan).pointee.isLent else { return malloc(size) }
        state(loan).pointee.isLent = true
        return state(loan).pointee.chunk
    }

    @inline(__always)
    private static func release(_ pointer: UnsafeMutableRawPointer?, _ loan: UnsafeMutableRawPointer?) {
        guard let pointer, isShared(pointer, loan) else { return free(pointer) }
        if pointer == state(loan).pointee.chunk { state(loan).pointee.isLent = false }
    }

    private static func move(
        _ pointer: UnsafeMutableRawPointer, to size: Int, _ loan: UnsafeMutableRawPointer?
    ) -> UnsafeMutableRawPointer? {
        precondition(pointer == state(loan).pointee.chunk, "nghttp2 resizes the table of an encoder, which has size 0")
        guard size > sizes.upperBound else { return pointer }
        guard let moved = malloc(size) else { return nil }
        moved.copyMemory(from: pointer, byteCount: sizes.upperBound)
        state(loan).pointee.isLent = false
        return moved
    }
}
