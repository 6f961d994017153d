import PresenceCore
import PresenceWire

/// The links between all nodes, and the attempts to open them.
///
/// A step that has given a node an input returns the node. The caller carries out its effects.
struct Network {
    private var links: [SimulatedLink]
    private let hostsCount: Int

    /// - Parameter seeds: the generator from which that of each link is split.
    init(hostsCount: Int, _ seeds: SplitMix64) {
        self.hostsCount = hostsCount
        links = (0..<hostsCount * hostsCount).map { index in
            SimulatedLink(from: index / hostsCount, to: index % hostsCount, random: seeds.split(UInt64(index)))
        }
    }

    subscript(index: Int) -> SimulatedLink {
        _read { yield links[index] }
        _modify { yield &links[index] }
    }

    /// The index of the link from one node to another.
    func link(_ from: Int, _ to: Int) -> Int { from * hostsCount + to }

    // MARK: Faults

    /// Blocks all links from and to a node.
    mutating func isolate(_ node: Int, until end: Nanoseconds) {
        for other in 0..<hostsCount where other != node {
            for link in [link(node, other), link(other, node)] { links[link].block(until: end) }
        }
    }

    mutating func heal(at now: Nanoseconds) { for index in links.indices { links[index].heal(at: now) } }

    /// Breaks the connection of a link at once. Its caller learns of it a moment later.
    mutating func breakLink(_ index: Int, _ stage: inout Stage) {
        guard links[index].state != .idle else { return }
        stage.counts[.resets] += 1
        stage.plan(.broken(link: index, attempt: links[index].attempt), after: links[index].latency(at: stage.time))
    }

    /// Ends the links of a process that has died.
    mutating func processEnded(_ node: Int, _ stage: inout Stage) {
        for other in 0..<hostsCount where other != node {
            links[link(node, other)].drop()
            breakLink(link(other, node), &stage)
        }
    }

    // MARK: Connecting

    /// Tries to connect, if the link is idle.
    mutating func attempt(_ index: Int, _ stage: inout Stage) {
        guard links[index].begin(at: stage.time) else { return }
        let attempt = links[index].attempt
        stage.plan(.connect(link: index, attempt: attempt), after: 3 * links[index].latency(at: stage.time))
        stage.plan(.silent(link: index, attempt: attempt), after: SimulatedLink.connectTimeout)
    }

    private func isReachable(_ index: Int, _ nodes: [SimulatedNode], at now: Nanoseconds) -> Bool {
        let back = link(links[index].to, links[index].from)
        let isStill = nodes[links[index].to].isUp && now < nodes[links[index].to].pausedUntil
        return !isStill && !links[index].isBlocked(at: now) && !links[back].isBlocked(at: now)
    }

    /// Exchanges the hellos of both nodes. Returns the node that was greeted.
    mutating func connect(_ index: Int, _ attempt: Int, _ nodes: [SimulatedNode], _ stage: inout Stage) -> Int? {
        let (from, to, time) = (links[index].from, links[index].to, stage.time)
        guard links[index].attempt == attempt, nodes[from].isUp, isReachable(index, nodes, at: time) else { return nil }  // It times out.
        links[index].refusal = nil
        guard nodes[to].isUp else { return refuse(index, &stage) }
        let (here, there) = (nodes[from].now(time), nodes[to].now(time))
        let hello = nodes[from].look { $0.greeting(at: here) }
        let answer = nodes[to].look { $0.cluster.hello(at: there) }
        stage.journal.note(.hello, from, to) { $0.hello(hello) }
        stage.journal.note(.hello, to, from) { $0.hello(answer) }
        links[index].refusal = nodes[to].look { $0.refusal(of: hello, at: there) } ?? nodes[from].look { $0.refusal(of: answer, at: here) }
        if links[index].refusal != nil { return refuse(index, &stage) }
        links[index].lastArrival = time
        links[index].lastAnswer = time
        links[index].connection = hello.connection
        nodes[to].node.greeted(by: hello, at: nodes[to].now(time))
        stage.journal.note(5, from, to, "\(nodes[from].id) greets \(nodes[to].id)")
        stage.plan(.linked(link: index, attempt: attempt, hello: answer), after: links[index].latency(at: time))
        return to
    }

    private mutating func refuse(_ index: Int, _ stage: inout Stage) -> Int? {
        stage.plan(.refused(link: index, attempt: links[index].attempt), after: links[index].latency(at: stage.time))
        return nil
    }

    /// Opens a link that the other node has accepted. Returns the node that has called.
    mutating func linked(_ index: Int, _ attempt: Int, _ hello: Hello, _ nodes: [SimulatedNode], _ stage: inout Stage) -> Int? {
        let (from, to) = (links[index].from, links[index].to)
        guard links[index].attempt == attempt, links[index].state == .connecting, nodes[from].isUp else { return nil }
        links[index].open(to: hello.sender)
        nodes[from].twin?.isSpare = false
        stage.journal.note(6, from, to, "\(nodes[from].id) is linked to \(nodes[to].id)")
        nodes[from].node.linked(to: hello, at: nodes[from].now(stage.time))
        return from
    }

    /// Looks at a link after some silence. Returns whether the link has failed.
    mutating func isDead(_ index: Int, _ attempt: Int, _ stage: inout Stage) -> Bool {
        guard links[index].attempt == attempt else { return false }
        if links[index].state == .connecting { return true }
        guard links[index].state == .live, links[index].inFlightCount > 0 else {
            links[index].watched = nil
            return false
        }
        let deadline = links[index].lastSignOfLifeAt + SimulatedLink.silenceMax
        guard stage.time < deadline else { return true }
        stage.plan(.silent(link: index, attempt: attempt), at: deadline)
        return false
    }

    /// The end of a connection or of an attempt.
    struct Loss {
        let wasLive: Bool
        /// Whether the calling node was told.
        let isTold: Bool
    }

    /// Ends a connection or an attempt. Returns nil if it has ended already.
    mutating func fail(_ index: Int, _ attempt: Int, _ why: Membership.LinkLoss, _ nodes: [SimulatedNode], _ stage: inout Stage) -> Loss? {
        let (from, to) = (links[index].from, links[index].to)
        guard links[index].attempt == attempt, links[index].state != .idle, nodes[from].isUp else { return nil }
        let wasLive = links[index].state == .live
        links[index].state = .idle
        links[index].attempt += 1
        stage.journal.note(7, from, to, "the link from \(nodes[from].id) to \(nodes[to].id) is \(why)")
        let now = nodes[from].now(stage.time)
        if links[index].isPeer {
            links[index].isPeer = wasLive
            nodes[from].node.unlinked(from: nodes[to].id, evidence: why, at: now)
        } else if case .refused = why, let tried = links[index].tried {
            nodes[from].node.refused(by: tried, at: now)
        } else {
            return Loss(wasLive: wasLive, isTold: false)
        }
        return Loss(wasLive: wasLive, isTold: true)
    }

    /// Waits before the next attempt, the longer the more have failed.
    mutating func retryLater(_ index: Int, _ stage: inout Stage) {
        let ceiling = min(100 << min(links[index].failuresCount, 5), 1_000)
        stage.plan(.retry(link: index, attempt: links[index].attempt), after: .milliseconds(stage.random.number(in: 20...ceiling)))
    }

    // MARK: Batches

    /// Sends a batch over a live link to the present process of the other node.
    mutating func send(_ batch: [UInt8], over index: Int, toRun run: Int, _ stage: inout Stage) {
        stage.journal.note(.batch, links[index].from, links[index].to, batch)
        if links[index].inFlightCount == 0 {
            links[index].lastSignOfLifeAt = stage.time
            if links[index].watched != links[index].attempt {
                links[index].watched = links[index].attempt
                stage.plan(.silent(link: index, attempt: links[index].attempt), after: SimulatedLink.silenceMax)
            }
        }
        links[index].inFlightCount += 1
        let arrival = links[index].arrival(at: stage.time)
        let (attempt, connection) = (links[index].attempt, links[index].connection)
        stage.plan(.arrive(link: index, attempt: attempt, run: run, connection: connection, batch: batch), at: arrival)
    }

    /// Answers a batch that has arrived.
    mutating func answer(_ index: Int, _ stage: inout Stage) {
        let back = link(links[index].to, links[index].from)
        let answerAt = links[index].answer(at: stage.time, blockedUntil: links[back].blockedUntil)
        stage.plan(.acknowledge(link: index, attempt: links[index].attempt), at: answerAt)
    }

    /// Receives the answer to a batch. Returns the node that has sent the batch.
    mutating func acknowledge(_ index: Int, _ attempt: Int, _ nodes: [SimulatedNode], at time: Nanoseconds) -> Int? {
        let (from, to) = (links[index].from, links[index].to)
        guard links[index].attempt == attempt, links[index].state == .live, nodes[from].isUp else { return nil }
        links[index].inFlightCount -= 1
        links[index].lastSignOfLifeAt = time
        let now = nodes[from].now(time)
        if let peer = nodes[from].peerIndex(nodes[to].id) { nodes[from].node.acknowledged(by: peer, at: now) }
        return from
    }
}
