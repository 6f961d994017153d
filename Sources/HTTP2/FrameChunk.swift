import CNGHTTP2

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// Memory for nghttp2 that lends all the sessions of one thread the same frame buffer.
///
/// A session keeps a 16 KB chunk for the frame that it is just writing, and it is empty whenever ``HTTP2Session`` is not
/// inside `mem_send`. Lent to one session after the other it costs an idle connection nothing (design §7: "pool it").
/// The chunk lives as long as its thread's sessions; a session's second chunk, needed for a header block beyond 16 KB, is its own.
final class FrameChunk {
    /// `NGHTTP2_FRAMEBUF_CHUNKLEN` of libnghttp2 1.52 is 16 KiB payload, a frame header and a pad length; other versions simply do not match.
    private static let sizes = 16_384...16_640
    fileprivate let chunk = UnsafeMutableRawPointer.allocate(byteCount: FrameChunk.sizes.upperBound, alignment: 16)

    deinit { chunk.deallocate() }

    /// One session's view of the chunk. Its state lies in plain memory, because nghttp2 asks for it several times a request.
    final class Loan {
        fileprivate struct State {
            let chunk: UnsafeMutableRawPointer
            var isLent = false
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
                    if FrameChunk.isLent(pointer, loan) { return FrameChunk.move(pointer, to: size, loan) }
                    return realloc(pointer, size)
                })
        }
    }

    @inline(__always)
    private static func state(_ loan: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<Loan.State> {
        loan.unsafelyUnwrapped.assumingMemoryBound(to: Loan.State.self)
    }

    @inline(__always)
    private static func isLent(_ pointer: UnsafeMutableRawPointer, _ loan: UnsafeMutableRawPointer?) -> Bool {
        state(loan).pointee.chunk == pointer
    }

    @inline(__always)
    private static func allocate(_ size: Int, _ loan: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        guard size >= sizes.lowerBound, size <= sizes.upperBound, !state(loan).pointee.isLent else { return malloc(size) }
        state(loan).pointee.isLent = true
        return state(loan).pointee.chunk
    }

    @inline(__always)
    private static func release(_ pointer: UnsafeMutableRawPointer?, _ loan: UnsafeMutableRawPointer?) {
        guard let pointer, isLent(pointer, loan) else { return free(pointer) }
        state(loan).pointee.isLent = false
    }

    private static func move(
        _ pointer: UnsafeMutableRawPointer, to size: Int, _ loan: UnsafeMutableRawPointer?
    ) -> UnsafeMutableRawPointer? {
        guard size > sizes.upperBound else { return pointer }
        guard let moved = malloc(size) else { return nil }
        moved.copyMemory(from: pointer, byteCount: sizes.upperBound)
        state(loan).pointee.isLent = false
        return moved
    }
}
