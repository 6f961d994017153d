"""Users who change their statuses as fast as the nodes answer, while nodes and the receiver are killed."""
import asyncio
import json
import random
import time

USERS = 300
# A user's log of events has room for 100 that wait. A user with so many changes that were not received makes no further one.
WAITING_MAX = 60
ANSWER_SECONDS = 10
CHANGE_SECONDS = 120  # A change that no node has acknowledged after this time ends the test.


class Connection:
    """Calls on one connection to a node, one after the other."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def call(self, token, operation, body):
        """The status and the answer. Raises OSError or TimeoutError if there is none."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self.writer is None:
                    self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                text = json.dumps(body).encode()
                self.writer.write(
                    f"POST /v1/{operation} HTTP/1.1\r\nHost: rollcall\r\nAuthorization: Bearer {token}\r\n"
                    f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
                head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0])
                return int(head.split(b" ")[1]), json.loads(await self.reader.readexactly(length))
        except asyncio.IncompleteReadError as error:
            self.close()
            raise ConnectionResetError("the node closed the connection") from error
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None


class Load:
    """CHANGES calls of setSelfStatus by USERS users over all nodes, at most `rate` a second."""

    def __init__(self, nodes, token, ledger, changes, rate, seed):
        self.nodes, self.token, self.ledger, self.changes, self.rate = nodes, token, ledger, changes, rate
        self.draw = random.Random(seed)
        self.begun = self.done = self.repeated = self.waits = 0
        self.received = asyncio.Event()  # Set and replaced whenever the receiver has recorded something.
        self.started = time.monotonic()

    def note_receipts(self):
        self.received.set()
        self.received = asyncio.Event()

    async def run(self):
        async with asyncio.TaskGroup() as group:
            for number in range(USERS):
                group.create_task(self.user(f"user{number}", number))

    async def user(self, name, number):
        connections = [Connection(node.client) for node in self.nodes]
        place = number % len(connections)
        try:
            while self.begun < self.changes:
                self.begun += 1
                due = self.started + self.begun / self.rate
                text = f"change {self.begun}"
                await asyncio.sleep(max(0, due - time.monotonic()))
                self.waits += self.ledger.pending[name] >= WAITING_MAX
                while self.ledger.pending[name] >= WAITING_MAX:
                    await self.received.wait()
                place = await self.change(connections, place, name, text)
                if self.draw.random() < 0.1:
                    place = (place + 1) % len(connections)
        finally:
            for connection in connections:
                connection.close()

    async def change(self, connections, place, name, text):
        """Makes a change until a node acknowledges it. Returns the place of that node."""
        deadline = time.monotonic() + CHANGE_SECONDS
        self.ledger.send(name, text)
        while True:
            try:
                status, answer = await connections[place].call(self.token, "setSelfStatus", {"asUser": name, "customStatus": text})
            except (OSError, TimeoutError) as error:
                status, answer = 0, error
            if status == 200:
                self.ledger.acknowledge(text, answer["userStatus"]["version"])
                self.done += 1
                return place
            if status not in (0, 503):
                raise RuntimeError(f"setSelfStatus of {name}: {status} {answer}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"no node acknowledged \"{text}\" within {CHANGE_SECONDS} s; the last answer: {status} {answer}")
            self.repeated += 1
            place = (place + 1) % len(connections)
            await asyncio.sleep(0.05 + 0.1 * self.draw.random())  # A client that retries at once would keep the nodes from recovering.
