"""What the receiver has recorded, and the verdict on it."""
import collections
import json


class Ledger:
    """Compares the statuses that nodes have acknowledged with the events that the receiver has accepted."""

    def __init__(self):
        self.sent, self.acknowledged = {}, {}  # A text's user; a text's version, as the answer has it.
        self.texts, self.newest, self.seen = set(), {}, set()
        self.receipts = self.repeated = self.phantom = 0
        self.late = []  # User, version, version of the status, and the newest version before it.
        self.pending = collections.Counter()  # Texts that were sent and not received yet, by user.

    def send(self, user, text):
        self.sent[text] = user
        self.pending[user] += 1

    def acknowledge(self, text, version):
        self.acknowledged[text] = version

    def receive(self, event):
        self.receipts += 1
        user, version = event["userID"], event["version"]
        if (user, version) in self.seen:
            self.repeated += 1
            return
        self.seen.add((user, version))
        if version < self.newest.get(user, ""):
            self.late.append((user, version, event["userStatus"]["version"], self.newest[user]))
        self.newest[user] = max(version, self.newest.get(user, ""))
        text = event["userStatus"]["customStatus"]
        if self.sent.get(text) != user:
            self.phantom += 1
        elif text not in self.texts:
            self.texts.add(text)
            self.pending[user] -= 1

    @property
    def lost(self):
        return self.acknowledged.keys() - self.texts

    @property
    def swapped(self):
        """The events of acknowledged changes that arrived after a later one of their user.

        A change that was not acknowledged may have been made at a node that was no longer the owner. The owner learns of it afterwards.
        """
        acknowledged = set(self.acknowledged.values())
        return [one for one in self.late if one[2] in acknowledged]


def planted_faults():
    """The faults of a planted history that the ledger does not find; none if it works."""
    event = lambda version, text, user="u": {"userID": user, "version": version, "userStatus": {"customStatus": text, "version": version}}

    def ledger(*events):
        ledger = Ledger()
        for version, text in (("01", "one"), ("02", "two"), ("03", "three")):
            ledger.send("u", text)
            ledger.acknowledge(text, version)
        for one in events:
            ledger.receive(one)
        return len(ledger.lost), len(ledger.swapped), len(ledger.late), ledger.repeated, ledger.phantom

    one, two, three = event("01", "one"), event("02", "two"), event("03", "three")
    planted = {
        "nothing": ((one, two, three), (0, 0, 0, 0, 0)), "a loss": ((one, three), (1, 0, 0, 0, 0)),
        "a swap": ((one, three, two), (0, 1, 1, 0, 0)), "a repetition": ((one, two, one, two, three), (0, 0, 0, 2, 0)),
        "a swap of what was not acknowledged": ((two, event("011", "one"), one, three), (0, 1, 2, 0, 0)),
        "a text of nobody": ((one, two, three, event("04", "four")), (0, 0, 0, 0, 1)),
        "a text of another user": ((one, two, three, event("01", "one", "v")), (0, 0, 0, 0, 1))}
    return [name for name, (events, expected) in planted.items() if ledger(*events) != expected]


class Attempt:
    """One attempt of a delivery, as the receiver has recorded it."""

    def __init__(self, line):
        head, _, self.body = line.partition(b"\t")
        for name, value in json.loads(head).items():
            setattr(self, name, value)
        self.delivery = json.loads(self.body)
        self.events = self.delivery["events"]


class Records:
    """Reads the receiver's file as it grows. `take` is called with each attempt."""

    def __init__(self, path, take):
        self.file, self.rest, self.take, self.torn = open(path, "rb"), b"", take, 0

    def read(self):
        """Reads what is new. Returns the number of attempts."""
        *lines, self.rest = (self.rest + self.file.read()).split(b"\n")
        taken = 0
        for line in lines:
            try:
                attempt = Attempt(line)
            except ValueError:
                # A kill cuts a write off. A receiver writes before it answers, so this attempt was not accepted.
                self.torn += 1
                continue
            self.take(attempt)
            taken += 1
        return taken
