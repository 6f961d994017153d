import PresenceWire

/// The release that a node runs and its start, as operators read them in `clusterStatus`.
///
/// A node asks for it once on each link, by a request of its own. A node of an earlier release answers 404 and stays in the cluster, so the
/// protocol between nodes keeps its version.
struct NodeRelease: Equatable, Sendable {
    /// The semantic version, see ``Release/version``.
    let version: String
    /// The start of the node in milliseconds since 1970, by its own clock.
    let startTime: Milliseconds
    /// Whether the node reads requests with traces (``PresenceWire/Message/traced(_:_:)``).
    let takesTraces: Bool

    init(version: String, startTime: Milliseconds, takesTraces: Bool = true) {
        (self.version, self.startTime, self.takesTraces) = (version, startTime, takesTraces)
    }
}

extension NodeRelease {
    /// Most bytes of a version.
    static let versionBytesMax = 64
    /// Most bytes of an answer. A later release may append fields.
    static let answerBytesMax = 1_024

    /// The answer to another node.
    var bytes: [UInt8] {
        var writer = WireWriter()
        writer.text(version)
        writer.signed(startTime)
        writer.tag(takesTraces ? 1 : 0)
        return writer.bytes
    }

    /// Decodes the answer of another node. Fields of a later release may follow, and are ignored.
    init(_ bytes: [UInt8]) throws(DecodeError) {
        let result: Result<NodeRelease, DecodeError> = bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return Result { () throws(DecodeError) in
                let version = try reader.text(bytesMax: Self.versionBytesMax)
                guard Limits.isValidName(version), !PrintableText.needsEscape(version) else { throw .badName }
                return NodeRelease(version: version, startTime: try reader.time(), takesTraces: try reader.tag() & 1 == 1)
            }
        }
        self = try result.get()
    }
}

/// The releases of the nodes at the other ends of this node's links, by the address of the link. A link has one.
struct PeerReleases {
    /// The release that this node tells the others.
    let own: NodeRelease
    private var answers: [String: Answer] = [:]

    /// The answer of a process, complete or not.
    private struct Answer {
        let process: Peer
        var status = 0
        var bytes: [UInt8] = []
        var release: NodeRelease?
    }

    init(own: NodeRelease) { self.own = own }

    /// The release of a process; nil if it has not told it.
    func release(of process: Peer) -> NodeRelease? {
        // order does not matter: a process has one release, on whichever link it told it.
        answers.values.lazy.filter { $0.process.id == process.id && $0.process.generation == process.generation }
            .compactMap(\.release).first
    }

    /// Begins to wait for the answer of a process. Returns false if the process has told its release already.
    mutating func ask(_ process: Peer, at address: String) -> Bool {
        guard release(of: process) == nil else { return false }
        answers[address] = Answer(process: process)
        return true
    }

    /// The head of an answer has arrived.
    mutating func begins(at address: String, status: Int) { answers[address]?.status = status }

    /// A part of an answer has arrived. The part that would make the answer too long is dropped, and the answer is then not read.
    mutating func continues(at address: String, _ bytes: UnsafeRawBufferPointer) {
        guard let answer = answers[address], answer.bytes.count + bytes.count <= NodeRelease.answerBytesMax else {
            answers[address] = nil
            return
        }
        answers[address]?.bytes.append(contentsOf: bytes)
    }

    /// An answer is complete. A node of an earlier release answers 404, and has none.
    mutating func ends(at address: String) throws(DecodeError) {
        guard let answer = answers[address], answer.status == 200 else { return }
        answers[address]?.release = try NodeRelease(answer.bytes)
    }

    /// Forgets what was told on a link that is given up.
    mutating func remove(_ address: String) { answers[address] = nil }
}
