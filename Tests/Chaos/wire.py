"""A network between namespaces whose faults are set while it runs. Kernels without netem cannot delay or lose packets, so they pass through
this process: each namespace has a TUN device, and what comes out of one goes, if and when the faults let it, into that of its address."""
import fcntl, heapq, json, os, random, select, signal, struct, subprocess, time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


class Wire:
    """10.78.0.1, 10.78.0.2 and so on, each in the namespace of its place, on a device `cluster`."""

    def __init__(self, spaces):
        ends = []
        for index, space in enumerate(spaces, 1):
            end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", f"rctun{index}".encode(), IFF_TUN | IFF_NO_PI))
            for command in (f"link set rctun{index} netns {space}", f"-n {space} link set rctun{index} name cluster txqueuelen 10000",
                            f"-n {space} addr add 10.78.0.{index}/24 dev cluster", f"-n {space} link set cluster up"):
                subprocess.run(["ip", *command.split()], check=True)
            ends.append(end)
        reader, self.control = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(self.control)
            try:
                carry(ends, reader)
            finally:
                os._exit(0)
        os.close(reader)
        for end in ends:
            os.close(end)

    def set(self, drop=(), loss=0.0, delay=0.0):
        """`drop`: pairs of places, from and to, between which nothing passes; `loss`: the share of packets that are lost; `delay`: seconds
        that each takes. What is on its way arrives."""
        os.write(self.control, (json.dumps({"drop": list(drop), "loss": loss, "delay": delay}) + "\n").encode())

    def close(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def carry(ends, control):
    faults = {"drop": [], "loss": 0.0, "delay": 0.0}
    dropped, waiting, order = set(), [], 0
    draw = random.Random(1)
    while True:
        timeout = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        ready = select.select([*ends, control], [], [], timeout)[0]
        if control in ready:
            text = os.read(control, 65_536)
            if not text:
                return
            faults = json.loads(text.splitlines()[-1])
            dropped = {tuple(pair) for pair in faults["drop"]}
        now = time.monotonic()
        for place, end in enumerate(ends, 1):
            if end not in ready:
                continue
            for _ in range(200):
                try:
                    packet = os.read(end, 65_536)
                except BlockingIOError:
                    break
                # IPv4 to 10.78.0.x only; the kernel sends router solicitations too.
                if packet[0] >> 4 != 4 or packet[16:19] != b"\x0a\x4e\x00" or not 1 <= packet[19] <= len(ends):
                    continue
                if (place, packet[19]) in dropped or draw.random() < faults["loss"]:
                    continue
                order += 1
                heapq.heappush(waiting, (now + faults["delay"], order, packet[19], packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, place, packet = heapq.heappop(waiting)
            try:
                os.write(ends[place - 1], packet)
            except OSError:
                pass  # A queue that is full loses packets, as any does.
