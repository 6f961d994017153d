"""The search for secrets in logs, of `silent-logs` and `secrets-in-logs`."""
import re

PIECE = 8  # Characters of a signature or a ticket. That many are in a log by chance once in 10⁵ runs.
# What a secret looks like, by kind, with a sample that the search must find.
SHAPES = {
    "JSON Web Token": (r"eyJ[\w-]{8,}", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"),
    "ticket": (r"\b[\w-]+\.[\w-]+\.\d{1,14}\.\d{1,14}\.[0-9a-z]+-[0-9a-z]+", "ZGVmYXVsdA.YW5u.0.1790000086400.1a2b3c4d5e6f7-7f6e5d4c3b2a1"),
    # Two random numbers of 64 bits to the base 36.
    "random part of a ticket": (r"\b(?=[a-z]*\d)[0-9a-z]{11,13}-(?=[a-z]*\d)[0-9a-z]{11,13}\b", "1a2b3c4d5e6f7-7f6e5d4c3b2a1"),
    "credentials of a header": (r"(?i:\b(?:bearer|ticket) +|authorization\W{1,4})[\w.~+/-]{12,}", "Authorization: c2VjcmV0IHRleHQ"),
    "value of a secret setting": (r"(?i:secret|hs256)\"?(?:=|: ?)\"?(?!\(set\))[^\s\",\])]{8,}", '"webhook.secret":"0123456789abcdef"'),
    "private key": (r"-----BEGIN [A-Z ]*PRIVATE KEY", "-----BEGIN EC PRIVATE KEY-----"),
    # An HS256 signature and a key of 32 bytes have 43 characters in Base64url, and 64 as hexadecimal digits. The folder of a test has a UUID.
    "signature or key": (r"(?<![\w-])(?!rollcall-[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}(?![\w-]))"
                         r"(?=[\w-]*\d)(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{43,}(?![\w-])", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
    "hexadecimal signature or key": (r"(?<![\w-])[0-9a-f]{64,}(?![\w-])", "0123456789abcdef" * 4),
}


class Secrets:
    """What no log may have: secrets of a known shape, known texts, and pieces of random texts."""

    def __init__(self, words):
        self.words = set(words)
        self.random_texts = set()  # Signatures and tickets.

    def searcher(self):
        """A function from a line to the kinds of the secrets in it. It knows the texts as they are now."""
        pieces = {text[place:place + PIECE]: text for text in self.random_texts for place in range(len(text) - PIECE + 1)}
        runs = re.compile(rf"[\w-]{{{PIECE},}}")
        words = re.compile("|".join(map(re.escape, sorted(self.words))) or r"(?!)")
        shapes = [(kind, re.compile(pattern)) for kind, (pattern, _) in SHAPES.items()]

        def found(line):
            kinds = [kind for kind, shape in shapes if shape.search(line)]
            kinds += [f"known text: {word}" for word in words.findall(line)]
            if pieces:
                kinds += [f"part of {pieces[piece]}" for run in runs.findall(line) for place in range(len(run) - PIECE + 1)
                          if (piece := run[place:place + PIECE]) in pieces]
            return kinds

        return found

    def found(self, log):
        """The kinds of the secrets in a log, each with its line."""
        search = self.searcher()
        return [(kind, line) for line in log.splitlines() for kind in search(line)]

    def samples(self):
        """A text of each kind that the search must find."""
        return [*(sample for _, sample in SHAPES.values()), *self.words, *(text[5:5 + PIECE] for text in self.random_texts)]

    def prove(self):
        """Plants each sample in a line of both forms, and finds it: otherwise a search that finds nothing proves nothing."""
        search = self.searcher()
        missed = [sample for sample in self.samples() for line in (f"info: something [a=1 b={sample}, c=2]", f'{{"a":"1","b":"{sample}"}}')
                  if not search(line)]
        missed += [kind for kind, (_, sample) in SHAPES.items() if kind not in search(f"info: something [a=1 b={sample}, c=2]")]
        innocent = "2026-01-01T00:00:00+0000 info rollcall: the node is ready [folder=/tmp/rollcall-5220141B-9AF8-4891-BCCD-C85988A2EB81/n1 " \
            "generation=1790000000000000 node=n1 webhook.secret=(set)]"
        if missed or search(innocent):
            raise SystemExit(f"the search is wrong: it does not find {missed}, or finds {search(innocent)} in a line without a secret")
