#!/usr/bin/env -S python3 -B
"""lab/test/wire.py [BINARY]: the agent's totals against tcpdump on the server's interface, in thirty shapes of traffic.

Servers and clients are sockets of this test in two network namespaces, with a router between them that loses, repeats and reorders. Payload is
the same to the byte, and so are the bytes on the wire, but for the options that docs/agent.md names. Takes root's rights; a minute. Ends with a
line like that of cargo test.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, check, finish, must, network, report, require_root, wait_for

LISTEN = "127.0.0.1:29485"
ADDRESSES = {"server": "10.62.1.2", "client": "10.61.1.2"}
SERVER_6 = "fd62:1::2"
EARLIER_PORT, FIRST_PORT = 21000, 21001
IPPROTO_MPTCP = 262
SACK, MULTIPATH, FAST_OPEN = 5, 30, 34
libc = ctypes.CDLL(None, use_errno=True)
kept = []


def inside(name, *words):
    return must("ip", "netns", "exec", name, *words)


@contextlib.contextmanager
def within(name):
    """Sockets that are made within belong to this namespace."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{name}", os.O_RDONLY)
    for number, last in ((other, False), (own, True)):
        if libc.setns(number, 0):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(number)
        if not last:
            yield


def listen(port, family=socket.AF_INET, protocol=0, queue=0, name="server"):
    with within(name):
        listener = socket.socket(family, socket.SOCK_STREAM, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if queue:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, queue)
    listener.bind((ADDRESSES[name] if family == socket.AF_INET else SERVER_6, port))
    listener.listen(200)
    return listener


def client(family=socket.AF_INET, protocol=0):
    with within("client"):
        made = socket.socket(family, socket.SOCK_STREAM, protocol)
    made.settimeout(20)
    return made


def pair(listener, **options):
    """The two ends of a new connection, the client's first."""
    one = client(**options)
    one.connect(listener.getsockname()[:2])
    other = listener.accept()[0]
    other.settimeout(20)
    return one, other


def take(end, count):
    while count:
        count -= len(end.recv(min(count, 1 << 16))) or sys.exit("wire: a connection ended early")


def send(start, end, count):
    sending = threading.Thread(target=start.sendall, args=(bytes(count),))
    sending.start()
    take(end, count)
    sending.join()


def exchange(one, other, request=100, response=200, times=1):
    for _ in range(times):
        send(one, other, request)
        send(other, one, response)


def close(*ends):
    """Closes the ends one after the other, each once it has seen that the one before did."""
    for number, end in enumerate(ends):
        if number:
            take_end(end)
        end.close()


def take_end(end):
    while end.recv(1 << 16):
        pass


def abort(end):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def settle():
    time.sleep(0.3)


def settle_short():
    time.sleep(0.01)


@contextlib.contextmanager
def disturbed(side, percent, verdict="drop"):
    """The router loses this part of what it sends to this side, or repeats it."""
    rule = f"ip daddr {ADDRESSES[side]} numgen random mod 100 < {percent} {verdict}"
    must("nft", f"add table ip {side}; add chain ip {side} c {{ type filter hook forward priority 0; }}; add rule ip {side} c {rule}")
    yield
    settle()
    must("nft", f"delete table ip {side}")


def repeated(side, percent):
    return disturbed(side, percent, f"dup to {ADDRESSES[side]} device veth-{side}")


@contextlib.contextmanager
def firewall(name, hook, *rule):
    inside(name, "nft", f"add table inet test; add chain inet test c {{ type filter hook {hook} priority 0; }}; add rule inet test c {' '.join(rule)}")
    yield
    inside(name, "nft", "delete table inet test")


@contextlib.contextmanager
def without(name, *settings):
    for setting in settings:
        inside(name, "sysctl", "-q", "-w", f"net.ipv4.{setting}=0")
    yield
    for setting in settings:
        inside(name, "sysctl", "-q", "-w", f"net.ipv4.{setting}=1")


# Shapes of traffic: each gets a listener of its own.

def small_exchanges(listener):
    one, other = pair(listener)
    exchange(one, other, times=300)
    close(one, other)


def large_response(listener):
    one, other = pair(listener)
    exchange(one, other, response=3_000_000)
    close(one, other)


def large_request(listener):
    one, other = pair(listener)
    exchange(one, other, request=3_000_000)
    close(other, one)


def short_connections_the_client_closes(listener, times=200):
    for _ in range(times):
        one, other = pair(listener)
        exchange(one, other)
        close(one, other)


def short_connections_the_server_closes(listener):
    for _ in range(200):
        one, other = pair(listener)
        exchange(one, other)
        close(other, one)


def both_close_at_once(listener):
    for _ in range(50):
        one, other = pair(listener)
        exchange(one, other)
        one.shutdown(socket.SHUT_WR)
        other.shutdown(socket.SHUT_WR)
        close(one)
        other.close()


def half_closed(listener):
    for _ in range(50):
        one, other = pair(listener)
        send(one, other, 500)
        one.shutdown(socket.SHUT_WR)
        send(other, one, 5_000)
        close(other, one)


def many_at_once(listener):
    ends = [pair(listener) for _ in range(100)]
    for one, other in ends:
        exchange(one, other, times=5)
    for one, other in ends:
        close(one, other)


def slow_reader(listener):
    one, other = pair(listener)
    sending = threading.Thread(target=other.sendall, args=(bytes(4_000_000),))
    sending.start()
    time.sleep(1)
    take(one, 4_000_000)
    sending.join()
    close(one, other)


def keepalives(listener):
    one, other = pair(listener)
    for end in (one, other):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    time.sleep(2.5)
    close(one, other)


def lost_responses(listener):
    one, other = pair(listener)
    with disturbed("client", 3):
        exchange(one, other, response=1_000_000)
    close(one, other)


def lost_requests(listener):
    one, other = pair(listener)
    with disturbed("server", 3):
        exchange(one, other, request=1_000_000)
    close(one, other)


def lost_acknowledgments(listener):
    """The client repeats what has arrived."""
    one, other = pair(listener)
    with disturbed("client", 30):
        exchange(one, other, request=1_000, times=30)
    close(one, other)


def late_exchange(one, other):
    """The server reads once all has arrived, so each segment reaches TCP by itself."""
    for _ in range(8):
        one.sendall(bytes(50_000))
        time.sleep(0.05)
        take(other, 50_000)


def repeated_requests(listener):
    one, other = pair(listener)
    with repeated("server", 20):
        late_exchange(one, other)
    close(one, other)


def repeated_requests_to_a_busy_server(listener):
    one, other = pair(listener)
    with repeated("server", 20):
        exchange(one, other, request=1_000_000)
    close(one, other)


def repeated_responses(listener):
    one, other = pair(listener)
    with repeated("client", 20):
        exchange(one, other, response=1_000_000)
    close(one, other)


def lost_acknowledgments_of_repeated_requests(listener):
    one, other = pair(listener)
    with disturbed("client", 10), repeated("server", 10):
        late_exchange(one, other)
    close(one, other)


def the_server_aborts(listener):
    for _ in range(50):
        one, other = pair(listener)
        exchange(one, other)
        one.sendall(bytes(10))
        settle_short()
        # It has unread data.
        other.close()
        settle_short()
        one.close()


def the_client_aborts(listener):
    for _ in range(50):
        one, other = pair(listener)
        exchange(one, other)
        abort(one)
        settle_short()
        other.close()


def responses_after_the_client_closed(listener):
    """Its RST has no timestamps."""
    for _ in range(50):
        one, other = pair(listener)
        exchange(one, other)
        one.close()
        settle_short()
        other.sendall(bytes(300))
        settle_short()
        other.close()


def requests_after_the_server_closed(listener):
    for _ in range(50):
        one, other = pair(listener)
        exchange(one, other)
        other.close()
        settle_short()
        one.sendall(bytes(700))
        settle_short()
        one.close()


def the_client_never_closes(listener):
    for _ in range(50):
        one, other = pair(listener)
        exchange(one, other)
        other.close()
        kept.append(one)


def dropped_on_the_way_out(listener):
    one, other = pair(listener)
    with firewall("server", "output", "tcp sport", str(listener.getsockname()[1]), "numgen random mod 20 == 0 drop"):
        exchange(one, other, response=300_000)
        exchange(one, other, times=50)
    close(one, other)


def dropped_on_the_way_in(listener):
    one, other = pair(listener)
    with firewall("server", "input", "tcp dport", str(listener.getsockname()[1]), "numgen random mod 20 == 0 drop"):
        exchange(one, other, request=300_000)
        exchange(one, other, times=50)
    close(one, other)


def a_client_without(*settings):
    def traffic(listener):
        with without("client", *settings):
            short_connections_the_client_closes(listener, 50)
    return traffic


def a_server_without(*settings):
    def traffic(listener):
        with without("server", *settings):
            short_connections_the_client_closes(listener, 50)
    return traffic


def opened_fast(listener):
    """A connection with 100 bytes in its SYN, unless it is the client's first."""
    one = client()
    one.settimeout(None)
    one.sendto(bytes(100), socket.MSG_FASTOPEN, listener.getsockname())
    return one


def fast_open(listener):
    for _ in range(50):
        one = opened_fast(listener)
        other = listener.accept()[0]
        take(other, 100)
        send(other, one, 200)
        close(one, other)


def fast_open_without_last_acknowledgment(listener):
    rule = ("tcp dport", str(listener.getsockname()[1]), "tcp flags & (syn|ack) == ack drop")
    with firewall("client", "output", *rule):
        for _ in range(20):
            one = opened_fast(listener)
            other = listener.accept()[0]
            take(other, 100)
            other.sendall(bytes(200))
            settle_short()
            abort(other)
            settle_short()
            one.close()


def version_6(listener):
    for _ in range(50):
        one, other = pair(listener, family=socket.AF_INET6)
        exchange(one, other)
        close(other, one)


def multipath(listener):
    one, other = pair(listener, protocol=IPPROTO_MPTCP)
    exchange(one, other, response=500_000)
    exchange(one, other, times=100)
    close(one, other)


# Those whose payload is not exact: what waits for a socket that is in use is joined before TCP sees that a part has arrived before.
BUSY = "repeated requests to a busy server"
LOST = "lost requests"
SHAPES = {
    "small exchanges": small_exchanges,
    "a large response": large_response,
    "a large request": large_request,
    "short connections, the client closes": short_connections_the_client_closes,
    "short connections, the server closes": short_connections_the_server_closes,
    "both close at once": both_close_at_once,
    "half closed": half_closed,
    "many connections at once": many_at_once,
    "a slow reader": slow_reader,
    "keepalives": keepalives,
    "lost responses": lost_responses,
    LOST: lost_requests,
    "lost acknowledgments": lost_acknowledgments,
    "repeated requests": repeated_requests,
    BUSY: repeated_requests_to_a_busy_server,
    "repeated responses": repeated_responses,
    "lost acknowledgments of repeated requests": lost_acknowledgments_of_repeated_requests,
    "the server aborts": the_server_aborts,
    "the client aborts": the_client_aborts,
    "responses after the client closed": responses_after_the_client_closed,
    "requests after the server closed": requests_after_the_server_closed,
    "the client never closes": the_client_never_closes,
    "the firewall drops on the way out": dropped_on_the_way_out,
    "the firewall drops on the way in": dropped_on_the_way_in,
    "a client without window scaling": a_client_without("tcp_window_scaling"),
    "a client without SACK": a_client_without("tcp_sack"),
    "a client without timestamps": a_client_without("tcp_timestamps"),
    "a client without options": a_client_without("tcp_window_scaling", "tcp_sack", "tcp_timestamps"),
    "a server without window scaling": a_server_without("tcp_window_scaling"),
    "a server without timestamps": a_server_without("tcp_timestamps"),
    "Fast Open": fast_open,
    "Fast Open without the last acknowledgment": fast_open_without_last_acknowledgment,
    "IP version 6": version_6,
    "Multipath TCP": multipath,
}


class Seen:
    """What tcpdump has seen of a server, to it and from it."""

    def __init__(self):
        self.payload, self.wire, self.named = [0, 0], [0, 0], [0, 0]


def option_bytes(options, kinds):
    """Bytes of options of these kinds, with the padding before them, and after the last."""
    found = padding = last = 0
    while options:
        length = 1 if options[0] < 2 else options[1]
        if options[0] >= 2:
            last = options[0]
        if options[0] in kinds:
            found += length + padding
        padding = padding + 1 if options[0] < 2 else 0
        options = options[max(length, 1):]
    return found + (padding if last in kinds else 0)


def named_bytes(flags, options):
    """Bytes of the options that docs/agent.md names: a client's first request for a cookie of Fast Open, and the answer, are among them."""
    is_first = flags & 2 and (flags & 16 or bytes((FAST_OPEN, 2)) in options)
    return option_bytes(options, (MULTIPATH, FAST_OPEN) if is_first else (MULTIPATH,) if flags & 2 else (MULTIPATH, SACK))


def read(capture):
    """What the capture has, by port of the server."""
    found = {}
    data = capture.read_bytes()
    place = 24
    while place < len(data):
        kept_bytes, length = struct.unpack_from("<II", data, place + 8)
        frame = data[place + 16:place + 16 + kept_bytes]
        place += 16 + kept_bytes
        kind = struct.unpack_from(">H", frame, 12)[0]
        if kind == 0x0800:
            header = (frame[14] & 15) * 4
            total = struct.unpack_from(">H", frame, 16)[0]
        elif kind == 0x86dd:
            header, total = 40, struct.unpack_from(">H", frame, 18)[0] + 40
        else:
            continue
        tcp = frame[14 + header:]
        source, destination = struct.unpack_from(">HH", tcp)
        words = (tcp[12] >> 4) * 4
        way = 0 if destination >= FIRST_PORT and destination < FIRST_PORT + len(SHAPES) else 1
        seen = found.setdefault((destination, source)[way], Seen())
        if length > 1514:
            sys.exit(f"wire: a frame has {length} bytes: segments are joined before they are captured")
        seen.payload[way] += total - header - words
        seen.wire[way] += length
        seen.named[way] += named_bytes(tcp[13], tcp[20:words])
    return found


def totals(name):
    """The agent's sums by port of the server and side."""
    text = urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=10).read().decode()
    found = {}
    for labels, value in re.findall(rf"^overhead_agent_{name}_total{{(.*)}} (\S+)$", text, re.MULTILINE):
        port = int(re.search(r'server="[^"]*:(\d+)"', labels)[1])
        side = re.search(r'side="(\w+)"', labels)
        if 'seen_at="server"' in labels:
            ends = found.setdefault(port, [0, 0])
            ends[1 if side and side[1] == "response" else 0] += int(float(value))
    return found


def is_ready():
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        return urllib.request.urlopen(f"http://{LISTEN}/metrics", timeout=10).read()


def prepare():
    must("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    for name, net, number in (("client", "10.61.1", 61), ("server", "10.62.1", 62)):
        network(name, f"veth-{name}", net)
        must("ip", "address", "add", f"fd{number}:1::1/64", "dev", f"veth-{name}", "nodad")
        must("ip", "-n", name, "address", "add", f"fd{number}:1::2/64", "dev", "eth0", "nodad")
        must("ip", "-n", name, "route", "add", "default", "via", f"fd{number}:1::1")
        # Segments are cut by TCP, as the wire has them.
        must("ip", "-n", name, "link", "set", "eth0", "gso_max_segs", "1")
        inside(name, "sysctl", "-q", "-w", "net.ipv4.tcp_fastopen=3", "net.ipv4.tcp_fin_timeout=2")


def main(folder):
    prepare()
    ports = list(range(FIRST_PORT, FIRST_PORT + len(SHAPES)))
    (folder / "agent.toml").write_text(f'listen = "{LISTEN}"\ninterval = "1s"\nports = {[EARLIER_PORT, *ports]}\n[windows]\nlength = "10ms"\nevery = "1h"\n')
    # No process is in this namespace.
    earlier = listen(EARLIER_PORT, name="client")
    before = pair(earlier)
    exchange(*before)
    log = open(folder / "log", "w+")
    agent = subprocess.Popen([OVERHEAD, "agent", "--config", folder / "agent.toml"], stdout=log, stderr=log)
    capture = folder / "capture.pcap"
    words = ["ip", "netns", "exec", "server", "tcpdump", "-i", "eth0", "-s", "160", "-B", "65536", "-U", "-w", capture, "tcp"]
    dump = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        wait_for(is_ready, "the agent's metrics")
        wait_for(lambda: capture.exists() and capture.stat().st_size, "tcpdump")
        exchange(*before, request=3_000, response=4_000)
        for port, (name, traffic) in zip(ports, SHAPES.items()):
            family = socket.AF_INET6 if traffic is version_6 else socket.AF_INET
            listener = listen(port, family, IPPROTO_MPTCP if traffic is multipath else 0, 100 if "Fast Open" in name else 0)
            try:
                traffic(listener)
            except OSError as error:
                report("failed", f"{name}: the traffic", str(error))
            kept.append(listener)
        # Sockets in FIN-WAIT-2 time out, and the agent reads all.
        time.sleep(6)
        payload, wire = totals("payload_bytes"), totals("wire_bytes")
        refused, multipath_segments = totals("refused_payload_bytes"), totals("multipath_segments")
    finally:
        for process in (dump, agent):
            process.send_signal(signal.SIGINT)
            process.wait()
    check("open before the agent started, in a namespace without a process", payload.get(EARLIER_PORT), [3_000, 4_000])
    check_all(ports, read(capture), payload, wire, refused)
    check("Multipath TCP: its segments are counted", [port for port, count in multipath_segments.items() if count[0]], [ports[-1]])


def check_all(ports, seen, payload, wire, refused):
    for port, name in zip(ports, SHAPES):
        there = seen.get(port, Seen())
        found = payload.get(port, [0, 0])
        missing = 0
        if name in (BUSY, LOST):
            # Of data that arrives again while the server reads, the kernel joins some with new data. On a loaded machine, a client also
            # repeats what was not lost.
            again, missing = there.payload[0] - 1_000_000, there.payload[0] - found[0]
            most = again * 0.75 if name == BUSY else again
            check(f"{name}: only of what arrived again, some is missing ({missing:,} of {again:,} B)", 0 <= missing <= most)
            check(f"{name}: and shown", refused.get(port, [0, 0])[0] == found[0] - 1_000_000)
        if name == BUSY:
            continue
        check(f"{name}: payload ({sum(there.payload):,} B)", [found[0] + missing, found[1]], there.payload)
        difference = [counted - (all - named) for counted, all, named in zip(wire.get(port, [0, 0]), there.wire, there.named)]
        difference[0] += missing
        total = sum(there.wire)
        share = max(map(abs, difference)) / total
        check(f"{name}: wire ({total:,} B, {sum(there.named):,} B of named options; {difference} off)", share <= 0.001)


require_root("ip", "nft", "tcpdump", namespaces=("--net", "--mount"))
must("ip", "link", "set", "lo", "up")
must("mount", "-t", "tmpfs", "overhead-test", "/run")
pathlib.Path("/run/netns").mkdir(exist_ok=True)
with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
finish()
