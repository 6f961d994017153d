"""A receiver of webhooks that records every delivery and fails on demand; `run` starts it in a process of its own.

    receiver.py PORT RECORDS SECRET PAGE

RECORDS is the file to which the receiver appends each attempt, before it answers: JSON about the attempt, a tab, the body, a line break. PAGE is
the folder with `page.py`, the receiver of Webhooks.md, whose code checks signatures. The receiver reads modes from its standard input, one
JSON object on a line, and prints a line when the mode holds:

    {"status": 500}                 answers with this status
    {"status": 204, "delay": 2}     answers after so many seconds
    {"status": 500, "times": 2}     answers so for the next 2 attempts only, and with 204 from then on
    {"status": 200, "body": "endless"}   answers with a body that does not end, at full speed, until the node closes the connection
    {"status": 200, "body": "open"}      answers with the first byte of a body, and no more

The receiver listens at 127.0.0.1 to 127.0.0.100, so that a node takes it for as many receivers.
"""
import asyncio
import hashlib
import json
import os
import sys
import time

BODY_MAX = 4 << 20
GOOD = {"status": 204}
REASONS = {200: "OK", 204: "No Content", 401: "Unauthorized", 500: "Internal Server Error", 302: "Found"}


class Receiver:
    def __init__(self, port, records, secret, page):
        self.port, self.mode, self.attempts = port, GOOD, 0
        sys.path.insert(0, page)
        os.chdir(page)
        import page as code
        code.SECRET = secret.encode()
        self.is_signed = code.is_signed
        # A process that was killed within a write leaves half a line. The attempt was not answered.
        self.file = os.open(records, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        end = os.lseek(self.file, 0, os.SEEK_END)
        if end and os.pread(self.file, 1, end - 1) != b"\n":
            os.write(self.file, b"\n")

    async def serve(self):
        loop = asyncio.get_running_loop()
        commands = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        await asyncio.start_server(self.connected, [f"127.0.0.{number}" for number in range(1, 101)], self.port, reuse_address=True, limit=1 << 16)
        print("listening", flush=True)
        while line := await commands.readline():
            self.mode = json.loads(line)
            print("changed", flush=True)

    async def connected(self, reader, writer):
        try:
            while await self.answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The node closed the connection: there is nobody to answer.
        finally:
            writer.close()

    async def answer(self, reader, writer):
        """Answers one attempt. Returns whether the connection stays open."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        length = int(fields["content-length"])
        if length > BODY_MAX:
            raise ConnectionError("the body is too long")
        body = await reader.readexactly(length)
        self.attempts += 1
        mode, began = self.mode, time.time()
        if "times" in mode:
            self.mode = {**mode, "times": mode["times"] - 1} if mode["times"] > 1 else GOOD
        attempt_of = lambda status, **more: json.dumps({
            "at": began, "method": method, "path": path, "status": status, "contentType": fields.get("content-type"),
            "agent": fields.get("user-agent"), "signature": fields.get("rollcall-signature"), "hash": hashlib.sha256(body).hexdigest(),
            **more}).encode() + b"\t" + body.replace(b"\n", b" ") + b"\n"
        if mode.get("body"):
            written = await self.write_body(reader, writer, mode)
            os.write(self.file, attempt_of(mode["status"], bytes=written, seconds=time.time() - began))
            return False
        status = mode["status"] if self.is_signed(fields.get("rollcall-signature", ""), body) else 401
        if mode.get("delay"):
            await asyncio.sleep(mode["delay"])
        # A sender that has died meanwhile gets no answer, so it was not told that the delivery is accepted.
        if reader.at_eof() or writer.transport.is_closing():
            status = 0
        os.write(self.file, attempt_of(status))
        if status == 0:
            return False
        location = f"Location: http://127.0.0.1:{self.port}/moved\r\n" if status == 302 else ""
        content = "" if status == 204 else "Content-Length: 0\r\n"
        writer.write(f"HTTP/1.1 {status} {REASONS[status]}\r\n{location}{content}\r\n".encode())
        await writer.drain()
        return True


    async def write_body(self, reader, writer, mode):
        """Answers with a body that does not end, until the node closes the connection. Returns the bytes that the node has taken."""
        writer.write(f"HTTP/1.1 {mode['status']} OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n".encode())
        written, chunk = 1, b"10000\r\n" + b"x" * 65_536 + b"\r\n"
        try:
            await writer.drain()
            if mode["body"] == "open":
                await reader.read()
            while mode["body"] == "endless":
                writer.write(chunk)
                await writer.drain()
                written += 65_536
        except ConnectionError:
            pass  # The node has closed the connection.
        return written


port, records, secret, page = sys.argv[1:]
asyncio.run(Receiver(int(port), records, secret, page).serve())
