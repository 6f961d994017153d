"""Event streams and calls of many users over plain sockets, in one loop, for scripts that must know what a node had sent when it answered.

On loopback what a node has sent is in the reader's socket at once. So when an answer has been read, a look at every stream's socket finds
all that had been sent to it before that answer; what comes later was sent later. `Loop.mark` takes that look and begins a new phase; every
event knows the phase in which its first byte was read."""
import collections, heapq, itertools, json, selectors, socket, time


class Loop:
    def __init__(self):
        self.selector, self.streams, self.phase = selectors.DefaultSelector(), [], 0
        self.timers, self.order = [], itertools.count()

    def at(self, when, action):
        heapq.heappush(self.timers, (when, next(self.order), action))

    def turn(self, seconds=0.05):
        wait = min(seconds, max(self.timers[0][0] - time.monotonic(), 0)) if self.timers else seconds
        for key, _ in self.selector.select(wait):
            key.data()
        while self.timers and self.timers[0][0] <= time.monotonic():
            heapq.heappop(self.timers)[2]()

    def until(self, what, condition, seconds=60):
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > seconds:
                raise SystemExit(f"not within {seconds} s: {what}")
            self.turn()
        return time.monotonic() - start

    def mark(self):
        """Reads what has been sent up to now, and begins a new phase."""
        for stream in self.streams:
            stream.read()
        self.phase += 1


class Connection:
    def __init__(self, loop, port, host="127.0.0.1"):
        self.loop, self.port, self.host, self.socket = loop, port, host, None
        self.connect()

    def connect(self):
        if self.socket:
            self.loop.selector.unregister(self.socket)
            self.socket.close()
        self.buffer, self.socket = b"", socket.create_connection((self.host, self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.loop.selector.register(self.socket, selectors.EVENT_READ, self.read)

    def receive(self):
        """All that is there."""
        pieces = []
        try:
            while piece := self.socket.recv(1 << 18):
                pieces.append(piece)
        except BlockingIOError:
            return b"".join(pieces)
        self.closed()
        return b""

    def closed(self):
        raise SystemExit(f"a node closed a stream: {self.buffer[-300:]!r}")


class Stream(Connection):
    """The event stream of a user. `told` is called with each status, and the phase in which its event began. `heard` is called with the name
    and the data of each other event."""

    def __init__(self, loop, port, user, token, told, host="127.0.0.1", options="", heard=lambda name, data: None):
        super().__init__(loop, port, host)
        self.user, self.told, self.heard, self.is_synced, self.began, self.hints = user, told, heard, False, 0, 0
        self.text, self.has_head = b"", False
        self.request = f"GET /v1/events?platform=ios{options} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n".encode()
        self.socket.sendall(self.request)
        loop.streams.append(self)

    def ask_again(self):
        self.connect()
        self.socket.sendall(self.request)

    def read(self):
        piece = self.receive()
        if not piece:
            return
        if not self.buffer and not self.text:
            self.began = self.loop.phase
        self.buffer += piece
        self.dechunk()
        *events, self.text = self.text.split(b"\n\n")
        for event in events:
            phase, self.began = self.began, self.loop.phase
            name = data = None
            for line in event.split(b"\n"):
                if line.startswith(b"event: "):
                    name = line[7:]
                elif line.startswith(b"data: "):
                    data = line[6:]
            if name == b"onUserStatusChanged":
                for status in json.loads(data)["userStatusList"]:
                    self.told(self, status, phase)
            elif name is not None:
                self.heard(name.decode(), data.decode())
            if name == b"onSubscriptionSyncCompleted":
                self.is_synced = True
            elif name == b"onReconnectHint":
                self.hints += 1

    def dechunk(self):
        if not self.has_head:
            head, end, rest = self.buffer.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 503 " in head.split(b"\r\n")[0]:  # It has too much to do, and says when to come again.
                self.buffer = b""
                return self.loop.at(time.monotonic() + 1, self.ask_again)
            if b" 200 " not in head.split(b"\r\n")[0] or b"chunked" not in head.lower():
                raise SystemExit(f"no stream: {self.buffer[:500]!r}")
            self.has_head, self.buffer = True, rest
        place = 0
        while (line := self.buffer.find(b"\r\n", place)) >= 0:
            size = int(self.buffer[place:line], 16)
            if len(self.buffer) < line + size + 4:
                break
            self.text += self.buffer[line + 2:line + 2 + size]
            place = line + size + 4
        self.buffer = self.buffer[place:]


class Caller(Connection):
    """Calls, one after the other, on one connection. `answered` is called with the code (0 for success), the JSON, and when it was sent."""

    def __init__(self, loop, port, token, prefix="/v1/", host="127.0.0.1"):
        super().__init__(loop, port, host)
        self.token, self.prefix, self.waiting, self.sent = token, prefix, collections.deque(), None

    @property
    def is_idle(self):
        return self.sent is None and not self.waiting

    def call(self, operation, body, answered=lambda code, answer, sent: None):
        self.waiting.append((operation, json.dumps(body).encode(), answered))
        self.send()

    def send(self):
        if self.sent is not None or not self.waiting:
            return
        operation, body, self.answered = self.waiting.popleft()
        self.sent = time.monotonic()
        self.request = (f"POST {self.prefix}{operation} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.token}\r\n"
                        f"content-length: {len(body)}\r\n\r\n").encode() + body
        self.socket.sendall(self.request)

    def closed(self):
        """A node closes what was idle for long; a call that it did not read any more is made again: all are the same when made twice."""
        self.connect()
        if self.sent is not None:
            self.socket.sendall(self.request)

    def read(self):
        self.buffer += self.receive()
        head, end, rest = self.buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")).split(b":")[1])
        if len(rest) < length:
            return
        self.buffer = rest[length:]
        answer, sent, self.sent = json.loads(rest[:length]), self.sent, None
        self.answered(0 if b" 200 " in head.split(b"\r\n")[0] else answer["code"], answer, sent)
        self.send()
