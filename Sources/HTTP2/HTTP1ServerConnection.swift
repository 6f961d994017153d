import NIOCore
import NIOHTTP1

/// An HTTP/1.1 connection, over NIO's codec; requests are served one after the other.
final class HTTP1ServerConnection: HTTPServerConnection, ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private var context: ChannelHandlerContext?
    private var head: HTTPRequestHead?
    private var body = ByteBuffer()
    private var refusedStatus: Int?
    private var number: Int32 = 0
    private var isAnswered = true
    private var startedAt = NIODeadline.distantPast
    /// The open event stream's token.
    private var token: UInt32?
    /// Bytes handed to the socket's queue that it has not taken.
    private var queuedBytes = 0
    private var isFull = false
    private var needsFlush = false
    /// The next answer is the last one.
    private var isLeaving = false

    override var isHTTP2: Bool { false }

    private var stream: StreamID { StreamID(slot: 0, number: number) }

    // MARK: The channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        server.add(self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        lastReceivedAt = .now()
        switch unwrapInboundIn(data) {
        case .head(let head): begin(head)
        case .body(let part): append(part)
        case .end: if !isAnswered { deliver() }
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        server.flush()
        context.fireChannelReadComplete()
    }

    func channelInactive(context: ChannelHandlerContext) {
        closeStream(.peerLeft)
        server.remove(self)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        server.delegate?.violated(.protocolError)
        context.close(promise: nil)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent, isAnswered { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    private func closeStream(_ reason: StreamEnd) {
        guard let token else { return }
        self.token = nil
        server.delegate?.eventStreamClosed(stream, token: token, on: self, reason: reason)
    }

    // MARK: Requests

    private func begin(_ head: HTTPRequestHead) {
        hasRequested = true
        self.head = head
        number += 1
        startedAt = .now()
        body.clear()
        isAnswered = false
        refusedStatus = nil
        let bytesCount = head.headers.reduce(head.uri.utf8.count) { $0 + $1.name.utf8.count + $1.value.utf8.count + 32 }
        if head.headers.count > server.limits.headersCountMax || bytesCount > server.limits.headerBytesMax {
            server.delegate?.violated(.headerListTooLarge)
            return refuse(431)
        }
        let length = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
        if length > server.limits.bodyBytesMax {
            server.delegate?.violated(.bodyTooLarge)
            return refuse(413)
        }
        if head.headers[canonicalForm: "expect"].contains(where: { $0.lowercased() == "100-continue" }) {
            context?.writeAndFlush(wrapOutboundOut(.head(HTTPResponseHead(version: head.version, status: .continue))), promise: nil)
        }
    }

    private func append(_ part: ByteBuffer) {
        guard !isAnswered else { return }
        guard body.readableBytes + part.readableBytes <= server.limits.bodyBytesMax else {
            server.delegate?.violated(.bodyTooLarge)
            return refuse(413)
        }
        body.writeImmutableBuffer(part)
    }

    /// Answers before the request is whole; what still comes of it is thrown away, and the connection ends.
    private func refuse(_ status: Int) {
        refusedStatus = status
        deliver()
    }

    private func deliver() {
        guard let head else { return }
        let target = Self.target(head.uri)
        let authorization = Array((head.headers.first(name: "authorization") ?? "").utf8)
        let lastEventID = Array((head.headers.first(name: "last-event-id") ?? "").utf8)
        let method: HTTPRequest.Method = head.method == .POST ? .post : head.method == .GET ? .get : .other
        target.withUnsafeBufferPointer { target in
            authorization.withUnsafeBufferPointer { authorization in
                lastEventID.withUnsafeBufferPointer { lastEventID in
                    body.withUnsafeReadableBytes { body in
                        let request = HTTPRequest(
                            stream: stream, method: method, target: target, authorization: authorization, lastEventID: lastEventID,
                            body: body.bindMemory(to: UInt8.self), refusedStatus: refusedStatus)
                        server.delegate?.requestReceived(request, on: self)
                    }
                }
            }
        }
    }

    /// Path and query, also of a request in the form that proxies get (RFC 9112 §3.2.2).
    private static func target(_ uri: String) -> [UInt8] {
        let target = Array(uri.utf8)
        guard target.first != UInt8(ascii: "/"), let scheme = uri.firstRange(of: "://") else { return target }
        let path = uri[scheme.upperBound...].utf8.drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        return path.first == UInt8(ascii: "/") ? Array(path) : Array("/".utf8) + path
    }

    // MARK: Answers

    override func isAwaitingAnswer(_ stream: StreamID) -> Bool {
        stream == self.stream && !isAnswered && context != nil && channel.isActive
    }

    override func respond(to stream: StreamID, _ response: HTTPResponse) {
        guard stream == self.stream, !isAnswered, let context, let head else { return }
        isAnswered = true
        var headers = HTTPHeaders()
        headers.add(name: "content-type", value: response.contentType.name.description)
        headers.add(name: "content-length", value: String(response.body.readableBytes))
        if let retryAfter = response.retryAfter { headers.add(name: "retry-after", value: String(retryAfter)) }
        if let allow = response.allow { headers.add(name: "allow", value: allow.description) }
        let isLast = refusedStatus != nil || !head.isKeepAlive || isLeaving
        if isLast { headers.add(name: "connection", value: "close") }
        write(.head(HTTPResponseHead(version: head.version, status: .init(statusCode: response.status), headers: headers)))
        if head.method != .HEAD { write(.body(.byteBuffer(response.body))) }
        if isLast {
            context.writeAndFlush(wrapOutboundOut(.end(nil))).assumeIsolated().whenComplete { _ in context.close(promise: nil) }
        } else {
            write(.end(nil))
            markDirty()
        }
    }

    override func openEventStream(_ stream: StreamID, token: UInt32) {
        guard stream == self.stream, !isAnswered, let head else { return }
        isAnswered = true
        self.token = token
        self.head = nil
        let headers: HTTPHeaders = ["content-type": "text/event-stream", "cache-control": "no-store"]
        write(.head(HTTPResponseHead(version: head.version, status: .ok, headers: headers)))
        markDirty()
    }

    override func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool {
        guard stream == self.stream, token != nil, let context else { return false }
        let count = payload.readableBytes
        queuedBytes += count
        context.write(wrapOutboundOut(.body(.byteBuffer(payload)))).assumeIsolated().whenComplete { [weak self] _ in self?.written(count) }
        markDirty()
        isFull = isFull || queuedBytes > server.limits.streamQueueBytesMax
        return isFull
    }

    private func written(_ count: Int) {
        queuedBytes -= count
        guard isFull, queuedBytes < server.limits.streamQueueBytesMax / 4, let token else { return }
        isFull = false
        server.delegate?.eventStreamDrained(stream, token: token, on: self)
    }

    override func finish(_ stream: StreamID) {
        guard stream == self.stream, token != nil, let context else { return }
        closeStream(.finished)
        context.writeAndFlush(wrapOutboundOut(.end(nil))).assumeIsolated().whenComplete { _ in context.close(promise: nil) }
    }

    override func reset(_ stream: StreamID) {
        if stream == self.stream { close() }
    }

    /// A comment of the event stream (contract §4).
    override func ping() {
        guard token != nil else { return }
        write(.body(.byteBuffer(ByteBuffer(string: ":\n\n"))))
        markDirty()
    }

    /// What the client is sending at this moment is answered (RFC 9112 §9.6).
    override func leave() { isLeaving = true }

    override func goAway() {
        isLeaving = true
        if isAnswered, token == nil { close() }
    }

    private func write(_ part: HTTPServerResponsePart) { context?.write(wrapOutboundOut(part), promise: nil) }

    private func markDirty() {
        guard !needsFlush else { return }
        needsFlush = true
        server.setNeedsFlush(self)
    }

    override func flush() {
        needsFlush = false
        context?.flush()
    }

    override func sweep(at now: NIODeadline) {
        if !isAnswered, now - startedAt > server.limits.bodyTimeout {
            server.delegate?.violated(.bodyTimeout)
            refuse(408)
        } else if !hasRequested, now - openedAt > server.limits.headerTimeout {
            server.delegate?.violated(.headerTimeout)
            close()
        } else if isAnswered, token == nil, now - lastReceivedAt > server.limits.idleTimeout {
            close()
        }
    }
}
