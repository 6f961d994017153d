extension HTTP2Stream {
    /// The meaning of the bytes of a request. It is read by itself, because a copy of the slot retains five objects.
    struct RequestLayout {
        let fields: HeadFields
        let sender: Sender

        /// The request, over bytes that ``takeHead()`` and ``takeBody()`` returned.
        func request(
            _ id: StreamID, _ head: UnsafeBufferPointer<UInt8>, _ body: UnsafeBufferPointer<UInt8>, refused: Int?
        ) -> HTTPRequest {
            var request = HTTPRequest(
                stream: id, method: sender.method.public, target: fields.target.value(in: head),
                authorization: fields.authorization.value(in: head), lastEventID: fields.lastEventID.value(in: head),
                idempotencyKey: fields.idempotencyKey.end == 0 ? nil : fields.idempotencyKey.value(in: head), body: body,
                origin: sender.origin.public, refusedStatus: refused)
            if fields.traceparent.end > 0 { request.traceparent = fields.traceparent.value(in: head) }
            return request
        }
    }
}
