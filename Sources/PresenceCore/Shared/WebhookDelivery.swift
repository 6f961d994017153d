/// A request to the receiver of an app's webhooks, without its signature.
public struct WebhookDelivery: Sendable, Equatable {
    /// The delivery's ID, which each attempt repeats.
    public let id: String
    public let app: String
    /// The queue of the delivery, for the answer.
    public let queue: Int
    public let url: String
    public let secret: String
    /// The body: JSON, UTF-8.
    public let body: [UInt8]
}

/// The end of an attempt to deliver.
public struct WebhookAnswer: Sendable, Equatable {
    public let deliveryID: String
    public let app: String
    public let queue: Int
    /// Whether the receiver has answered 2xx. Otherwise the delivery is repeated.
    public let isAccepted: Bool

    public init(to delivery: WebhookDelivery, isAccepted: Bool) {
        (deliveryID, app, queue) = (delivery.id, delivery.app, delivery.queue)
        self.isAccepted = isAccepted
    }
}
