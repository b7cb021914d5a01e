"""Captures that are made to cost whoever reads them as much as they can, each at any size: what lab/test/doubling.py measures.

A generator takes a number of bytes and gives the capture in pieces of about so many altogether, which count as its input. The same bytes each time.
"""

import itertools
import random
import struct
import zlib

SYN, FIN, RST, PUSH, ACK = 2, 1, 4, 8, 16
CLIENT, SERVER = 0, 1
HEADERS = 16 + 14 + 20 + 20
GENERATORS = {}


def generator(function):
    """Puts the function among the generators, by its name."""
    GENERATORS[function.__name__.replace("_", "-")] = function
    return function


def frames(port):
    """The same for a function of a connection and a size that gives the frames after the opening."""
    def register(function):
        def generate(size):
            link = Connection(port)
            yield pcap_header() + b"".join(link.opening)
            yield from function(link, size)
        GENERATORS[function.__name__.replace("_", "-")] = generate
    return register


def talk(name, port, ask, answer=b"", **opening):
    """The same for a conversation whose turns are bytes, or functions of their number."""
    GENERATORS[name] = lambda size: conversation(port, size, each(ask), each(answer), **opening)


def each(turn):
    return turn if callable(turn) else lambda _: turn


def first(turn, then=b""):
    return lambda number: then if number else turn


def behind_a_hole(name, port, unit):
    """Connections with up to four megabytes of messages that all become readable with the one byte before them."""
    def generate(size):
        clock, length = Clock(), min(size, 4_000_000)
        yield pcap_header()
        for number in range(max(1, size // length)):
            link = Connection(port, number, clock)
            start = link.next[CLIENT]
            link.next[CLIENT] += 1
            rest = (unit * (length // len(unit)))[1:]
            opening = b"".join(link.opening) + link.frame(SERVER)
            yield opening + link.say(CLIENT, rest, 65_000) + link.frame(CLIENT, unit[:1], seq=start) + link.frame(SERVER)
    GENERATORS[name] = generate


def until(size, make, length=len):
    """Pieces that are made of their numbers, of so many bytes altogether."""
    written = 0
    for number in itertools.takewhile(lambda _: written < size, itertools.count()):
        piece = make(number)
        written += length(piece)
        yield piece


def pcap_header():
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)


class Clock:
    def __init__(self):
        self.us = 1_700_000_000_000_000

    def tick(self):
        self.us += 10
        return divmod(self.us, 1_000_000)


class Connection:
    """One TCP connection; sequence numbers go on by themselves unless they are given."""

    def __init__(self, port, number=0, clock=None, begins=True):
        self.clock = clock or Clock()
        client = struct.pack(">BBBBH", 10, 1 + (number >> 22), number >> 14 & 255, number >> 6 & 255, 1024 + (number & 63))
        server = struct.pack(">BBBBH", 10, 0, 0, 1, port)
        self.ends = (client, server)
        self.next = [1000, 5000]
        self.opening = [self.frame(CLIENT, flags=SYN), self.frame(SERVER, flags=SYN | ACK), self.frame(CLIENT)] if begins else []

    def frame(self, side, payload=b"", flags=ACK, seq=None, ack=None, window=0xFFFF):
        if seq is None:
            seq = self.next[side]
            self.next[side] = (seq + len(payload) + (1 if flags & (SYN | FIN) else 0)) & 0xFFFFFFFF
        ack = self.next[1 - side] if ack is None else ack
        source, target = self.ends[side], self.ends[1 - side]
        packet = b"\2" * 12 + struct.pack(
            ">HBBHHHBBH4s4s2s2sIIBBHI", 0x0800, 0x45, 0, 40 + len(payload), 0, 0x4000, 64, 6, 0, source[:4], target[:4],
            source[4:], target[4:], seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, window, 0) + payload
        return struct.pack("<IIII", *self.clock.tick(), len(packet), len(packet)) + packet

    def say(self, side, data, segment=1400):
        """Sends these bytes in full segments."""
        return b"".join(self.frame(side, data[at:at + segment], ACK | PUSH) for at in range(0, len(data), segment))

    def handshake(self):
        return self.frame(CLIENT, flags=SYN) + self.frame(SERVER, flags=SYN | ACK)


def conversation(port, size, turns, answers, hello=b"", welcome=b"", batch=1 << 15):
    """One connection on which `turns(number)` is sent again and again, and answered."""
    link = Connection(port)
    yield pcap_header() + b"".join(link.opening)
    yield link.say(CLIENT, hello) + link.say(SERVER, welcome)
    written, number = 0, 0
    while written < size:
        asked, answered = [], []
        length = 0
        while length < batch and written + length < size:
            asked.append(turns(number))
            answered.append(answers(number))
            length += len(asked[-1]) + len(answered[-1]) + 1
            number += 1
        written += length
        yield link.say(CLIENT, b"".join(asked)) + link.say(SERVER, b"".join(answered))


def segments(size, order, begins=True, answer=None, port=6379, length=1):
    """One-way segments at these distances from the first byte; `answer` has the acknowledgment that follows each."""
    link = Connection(port, begins=begins)
    yield pcap_header() + b"".join(link.opening)
    base = link.next[CLIENT]
    payload = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n" * (length // 20 + 2)
    for at in order:
        one = link.frame(CLIENT, payload[at % 22:at % 22 + length], seq=base + at)
        yield one if answer is None else one + link.frame(SERVER, ack=base + answer(at))


def count(size, each=1, frames=1):
    return size // (frames * HEADERS + each)


# Segments in other orders.

@generator
def segments_holes_filled_backwards(size):
    half = count(size) // 2
    return segments(size, itertools.chain(range(1, 2 * half, 2), range(2 * half, 0, -2)))


def shuffled(order):
    order = list(order)
    random.Random(1).shuffle(order)
    return order


@frames(6379)
def segments_spanning_holes(link, size):
    """Every second byte first, and then segments that hold a thousand of these and of the holes between."""
    base = link.next[CLIENT]
    for start in range(0, 2 * count(size // 2), 16_000):
        for at in range(start + 1, start + 16_000, 2):
            yield link.frame(CLIENT, b"*", seq=base + at)
        for at in range(start + 1, start + 16_000, 8_000):
            yield link.frame(CLIENT, b"*" * 8_000, seq=base + at)


@frames(6379)
def acknowledgments_before_their_bytes(link, size):
    base = link.next[CLIENT]
    for at in range(count(size, 0, 2)):
        yield link.frame(CLIENT, b"x", seq=base + 2 * at + 1) + link.frame(SERVER, ack=base + 2 * at + 2)


@frames(6379)
def repeats_of_what_is_not_decoded(link, size):
    """A value of 100 MB of which each segment comes twice."""
    yield link.frame(CLIENT, b"*2\r\n$3\r\nGET\r\n$100000000\r\n")
    for _ in range(count(size, 1, 3)):
        seq = link.next[CLIENT]
        yield link.frame(CLIENT, b"x") + link.frame(CLIENT, b"x", seq=seq) + link.frame(SERVER)


@frames(6379)
def probes_of_closed_windows(link, size):
    for _ in range(count(size, 1, 3)):
        shut = link.frame(SERVER, window=0)
        yield shut + link.frame(CLIENT, b"*", seq=link.next[CLIENT]) + link.frame(SERVER)


GENERATORS |= {
    "segments-shuffled": lambda size: segments(size, shuffled(range(count(size)))),
    "segments-shuffled-midway": lambda size: segments(size, shuffled(range(0, 2 * count(size), 2)), begins=False),
    "segments-reversed": lambda size: segments(size, range(2 * count(size), 0, -2)),
    "segments-reversed-midway": lambda size: segments(size, range(2 * count(size), 0, -2), begins=False),
    "segments-reversed-acknowledged": lambda size: segments(size, range(2 * count(size, 1, 2), 0, -2), answer=lambda at: 0),
    "segments-with-holes": lambda size: segments(size, range(1, 2 * count(size), 2)),
    "segments-with-holes-acknowledged": lambda size: segments(size, range(1, 2 * count(size, 1, 2), 2), answer=lambda at: at + 1),
    "segments-acknowledged-ahead": lambda size: segments(size, range(1, 2 * count(size, 1, 2), 2), answer=lambda at: 1 << 20),
    "segments-overlapping": lambda size: segments(size, range(count(size, 1000)), length=1000),
    "segments-overlapping-early": lambda size: segments(size, range(10, count(size, 1000)), length=1000),
    "segments-overlapping-backwards": lambda size: segments(size, range(count(size, 1000), 0, -1), length=1000),
    "segments-repeated": lambda size: segments(size, (at // 3 for at in range(count(size, 22))), length=22),
    "segments-outside-the-window": lambda size: segments(size, ((at * 0x9E3779B1 | 1 << 30) & 0xFFFFFFFF for at in range(count(size)))),
}


# Connections.

def connections(size, frames, port=6379):
    clock = Clock()
    yield pcap_header()
    yield from until(size, lambda number: frames(Connection(port, number, clock, begins=False)))


@generator
def connections_of_one_address(size):
    """One pair of ends, opened again and again."""
    clock = Clock()
    yield pcap_header()
    for number in range(count(size, 7, 4)):
        link = Connection(6379, 1, clock, begins=False)
        link.next = [number * 7919, number * 104_729]
        yield link.handshake() + link.frame(CLIENT, b"*1\r\n$4\r\nPING\r\n") + link.frame(CLIENT, flags=RST)


def much_held(link):
    """A thousand pieces behind a hole, and a request that is not complete."""
    start = link.frame(CLIENT, flags=SYN) + link.frame(CLIENT, b"*2\r\n$3\r\nGET\r\n$3000000\r\n" + b"x" * 30_000)
    base = link.next[CLIENT]
    return start + b"".join(link.frame(CLIENT, b"*", seq=base + at) for at in range(1, 2000, 2))


GENERATORS |= {
    "connections-of-one-request": lambda size: connections(size, lambda link: link.handshake()
        + link.frame(CLIENT, b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n") + link.frame(SERVER, b"$1\r\nv\r\n")),
    "connections-that-close": lambda size: connections(size, lambda link: link.handshake() + link.frame(CLIENT, b"*1\r\n$4\r\nPING\r\n")
        + link.frame(SERVER, b"+PONG\r\n") + link.frame(CLIENT, flags=FIN | ACK) + link.frame(SERVER, flags=FIN | ACK)),
    "connections-with-much-held": lambda size: connections(size, much_held),
    "connections-half-open": lambda size: connections(size, lambda link: link.frame(CLIENT, flags=SYN)),
    "connections-of-unknown-content": lambda size:
        connections(size, lambda link: link.frame(CLIENT, b"\x01\x02\x03 hello") + link.frame(SERVER, b"\xfe\xfd what"), port=9999),
}


# Bytes that repeat, as compressed as they can be.

def zlib_of(unit, times):
    return zlib.compress(unit * times, 9)


def lz4_of(unit, times, start=b"", end=b""):
    """A block of LZ4: what precedes the unit, the unit, a copy of it that goes on over itself, and the literals that must be last."""
    literal, last, more = start + unit, (unit * 12)[-12:] + end, len(unit) * (times - 1) - 12
    token = bytes([min(len(literal), 15) << 4 | 15]) + (b"" if len(literal) < 15 else bytes([len(literal) - 15]))
    copies = struct.pack("<H", len(unit)) + b"\xff" * ((more - 19) // 255) + bytes([(more - 19) % 255])
    return token + literal + copies + bytes([min(len(last), 15) << 4]) + (b"" if len(last) < 15 else bytes([len(last) - 15])) + last


def snappy_of(unit, times, start=b""):
    """Snappy: the start and the unit as they are, and copies of at most 64 bytes."""
    literal, more = start + unit, len(unit) * (times - 1)
    varint = bytes([len(literal) + more >> shift & 127 | (128 if shift < 21 else 0) for shift in (0, 7, 14, 21)])
    copies = [64] * (more // 64) + [more % 64] * (more % 64 > 0)
    return (varint + struct.pack("<BH", 61 << 2, len(literal) - 1) + literal
            + b"".join(struct.pack("<BH", length - 1 << 2 | 2, len(unit)) for length in copies))


# RESP.

def key_of(number):
    """A key whose pattern no other has."""
    word = word_of(number).decode()
    return f"{word}:{number}:x{word[::-1]}".encode()


def word_of(number):
    return bytes(ord("a") + number // 26 ** place % 26 for place in range(5))


def resp(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


LONG_KEY = b":".join(b"%d" % at for at in range(20_000))
PONG = b"+PONG\r\n"
talk("resp-long-keys", 6379, resp(b"GET", LONG_KEY), b"$1\r\nv\r\n")
talk("resp-huge-array", 6379, first(resp(b"PING")), first(b"*%d\r\n" % (1 << 29), b":1\r\n"))
# Distinct scripts, transactions and subscriptions.
talk("resp-scripts", 6379, lambda n: resp(b"MULTI") + resp(b"EVAL", key_of(n), b"0") + resp(b"SUBSCRIBE", key_of(n)),
     b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")
talk("resp-pipelined-without-answer", 6379, resp(b"PING"), first(PONG))
talk("resp-pipelined", 6379, resp(b"PING"), PONG)
talk("resp-of-one-direction", 6379, lambda n: resp(b"GET", b"k%08d" % n))
talk("resp-keys", 6379, lambda n: resp(b"GET", key_of(n)), b"$1\r\nv\r\n")
talk("resp-commands", 6379, lambda n: resp(word_of(n)), b"-ERR\r\n")
talk("resp-nested", 6379, resp(b"PING"), b"*1\r\n" * 120 + b":1\r\n")
talk("resp-many-arguments", 6379, first(b"*%d\r\n$4\r\nMGET\r\n$1\r\nk\r\n" % (1 << 20), b"$1\r\nk\r\n"))
# Requests and answers of as few bytes as there are.
talk("resp-empty-lines", 6379, b"\r\n")
talk("resp-empty-commands", 6379, b"*0\r\n")
talk("resp-nulls", 6379, resp(b"PING"), b"_\r\n$-1\r\n*-1\r\n" * 20)
behind_a_hole("resp-behind-a-hole", 6379, resp(b"PING"))
talk("resp-pushes", 6379, first(resp(b"HELLO", b"3")),
     first(b"%1\r\n$5\r\nproto\r\n:3\r\n", b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"))


# memcached.

@frames(11211)
def memcache_mn_answered_in_the_end(link, size):
    """Everything is asked before anything is answered."""
    for side, text in ((CLIENT, b"mn\r\n"), (SERVER, b"MN\r\n")):
        for _ in range(size // 1400 // 2):
            yield link.say(side, text * 350)


def binary(kind, code, number, key=b"", body=b"", extras=b""):
    return struct.pack(">BBHBBHIIQ", kind, code, len(key), len(extras), 0, 0, len(key + body + extras), number, 0) + extras + key + body


@frames(11211)
def memcache_opaques_unanswered(link, size):
    """Distinct opaques; the answers come in the opposite order."""
    many = size // 60
    yield link.say(CLIENT, b"".join(binary(0x80, 0, n, b"k") for n in range(many)))
    yield link.say(SERVER, b"".join(struct.pack(">BBHBBHIIQ", 0x81, 0, 0, 0, 0, 1, 0, n, 0) for n in range(many - 1, -1, -1)))


def quiet_get(number):
    return binary(0x80, 9, number, b"%04d" % (number % 10_000))


@frames(11211)
def memcache_quiet_answered(link, size):
    """One batch of quiet gets, each of which hits."""
    yield link.say(CLIENT, b"".join(map(quiet_get, range(size // 64))))
    yield link.say(SERVER, b"".join(binary(0x81, 9, n, body=b"data", extras=bytes(4)) for n in range(size // 64)))


talk("memcache-multiget", 11211, b"get " + b" ".join(b"k%d" % at for at in range(9_000)) + b"\r\n",
     b"".join(b"VALUE k%d 0 1\r\nx\r\n" % at for at in range(9_000)) + b"END\r\n")
talk("memcache-mn", 11211, b"mn\r\n")
talk("memcache-mn-answered", 11211, b"mn\r\n", b"MN\r\n")
talk("memcache-quiet", 11211, lambda n: b"mg k%d q\r\n" % n, first(b"EN\r\n"))
talk("memcache-binary-quiet", 11211, quiet_get)
talk("memcache-answers-alone", 11211, first(b"version\r\n"), b"END\r\nEN\r\nHD\r\n")
talk("memcache-empty-lines", 11211, b"\r\n", b"\r\n")
behind_a_hole("memcache-mn-behind-a-hole", 11211, b"mn\r\n")
talk("memcache-keys", 11211, lambda n: b"get " + key_of(n) + b"\r\n", b"END\r\n")


# PostgreSQL.

def pg(kind, body=b""):
    return kind + struct.pack(">I", len(body) + 4) + body


def query(text):
    return pg(b"Q", text + b"\0")


def pg_talk(name, ask, answer=b""):
    talk(name, 5432, ask, answer, hello=struct.pack(">II", 8 + 9, 196_608) + b"user\0me\0\0", welcome=pg(b"R", bytes(4)) + pg(b"Z", b"I"))


DONE = pg(b"C", b"SELECT 1\0") + pg(b"Z", b"I")
COLUMNS = pg(b"T", struct.pack(">H", 1600) + (b"c\0" + bytes(18)) * 1600) + pg(b"D", struct.pack(">H", 1600) + (struct.pack(">I", 1) + b"x") * 1600)
pg_talk("pg-statement-of-parentheses", query(b"SELECT " + b"(" * 3_000_000), DONE)
pg_talk("pg-statement-of-lists", query(b"SELECT " + b"IN (1,2),(?,?)," * 200_000), DONE)
# Comments, quotes and dollar quotes that start and do not end.
pg_talk("pg-statement-of-open-ends", query(b"SELECT " + b"".join(b"/* $a%d$ ' \" /* -- $" % at for at in range(100_000))), DONE)
pg_talk("pg-statement-of-dollars", query(b"SELECT " + b"".join(b"$a%d$" % at for at in range(300_000))), DONE)
pg_talk("pg-columns", query(b"SELECT 1"), COLUMNS + DONE)
pg_talk("pg-prepared", lambda n: pg(b"P", b"s%d\0SELECT %d, $1\0\0\1\0\0\0\x17" % (n, n)) + pg(b"B", b"\0s%d\0\0\0\0\0\0\0" % n)
        + pg(b"E", bytes(5)) + pg(b"S"), pg(b"1") + pg(b"2") + DONE)
pg_talk("pg-prepared-without-sync", lambda n: pg(b"P", b"s%d\0SELECT %s\0\0\0" % (n, word_of(n))) + pg(b"B", b"p%d\0s%d\0\0\0\0\0\0\0" % (n, n)))
pg_talk("pg-statements", lambda n: query(b"SELECT %s FROM t WHERE a = %d" % (word_of(n), n)), DONE)
pg_talk("pg-pipelined", query(b";"))
pg_talk("pg-empty-queries", query(b""), pg(b"I") + pg(b"Z", b"I"))
pg_talk("pg-syncs", pg(b"S"))
pg_talk("pg-flushes", pg(b"H"))
pg_talk("pg-ready-alone", b"", pg(b"Z", b"I"))
pg_talk("pg-answers-alone", b"", pg(b"I") + pg(b"n") + pg(b"1") + pg(b"s"))
pg_talk("pg-rows", first(query(b"SELECT 1")), pg(b"D", b"\0\1\xff\xff\xff\xff"))
pg_talk("pg-notices", b"", lambda n: pg(b"N", b"SERROR\0M%d\0\0" % n) + pg(b"S", b"n%d\0v\0" % n))
pg_talk("pg-copy", first(query(b"COPY t FROM STDIN"), pg(b"d", b"1")), first(pg(b"G", bytes(3))))


# MySQL.

def my(number, body):
    return struct.pack("<I", len(body))[:3] + bytes([number & 255]) + body


MY_FLAGS = 0x0000_AA8D | 1 << 19
MY_WELCOME = my(0, b"\x0a8.0.1\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", 0xFFFF) + b"\x21\2\0"
                + struct.pack("<H", 0xC1FF) + b"\x15" + b"\0" * 10 + b"123456789012\0mysql_native_password\0")
MY_OK = b"\0\0\0\2\0\0\0"


def my_conversation(size, turns, answers, flags=MY_FLAGS):
    link = Connection(3306)
    hello = my(1, struct.pack("<IIB23x", flags, 1 << 24, 33) + b"me\0\0mysql_native_password\0")
    yield pcap_header() + b"".join(link.opening) + link.say(SERVER, MY_WELCOME) + link.say(CLIENT, hello) + link.say(SERVER, my(2, MY_OK))
    pairs = until(size, lambda number: (turns(number), answers(number)), lambda pair: sum(map(len, pair)) + HEADERS)
    for asked, answered in pairs:
        yield link.say(CLIENT, asked) + link.say(SERVER, answered)


def my_talk(name, ask, answer=b""):
    GENERATORS[name] = lambda size: my_conversation(size, each(ask), each(answer))


def my_packed(plain, level=9, number=0):
    packed = zlib.compress(plain, level)
    return struct.pack("<I", len(packed))[:3] + bytes([number]) + struct.pack("<I", len(plain))[:3] + packed


MY_COLUMN = b"\3def\0\0\0\1c\1c\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0"
my_talk("mysql-columns", my(0, b"\3SELECT 1"), my(1, b"\xfc" + struct.pack("<H", 4000)) + b"".join(my(2 + at, MY_COLUMN) for at in range(4000))
        + my(0, b"\xfe\0\0\2\0"))
my_talk("mysql-prepared", lambda n: my(0, b"\x16SELECT %s, ?" % word_of(n)), lambda n: my(1, b"\0" + struct.pack("<IHHBH", n + 1, 0, 0, 0, 0)))
my_talk("mysql-prepared-pipelined", lambda n: my(0, b"\x16SELECT %s, ?" % word_of(n)) * 20)
my_talk("mysql-statements", lambda n: my(0, b"\3SELECT %s, %d" % (word_of(n), n)), my(1, MY_OK))
my_talk("mysql-empty-packets", b"".join(my(at, b"") for at in range(300)))
my_talk("mysql-answers-alone", b"", my(1, MY_OK) * 100)
my_talk("mysql-closes", my(0, b"\x19\1\0\0\0") * 100)
behind_a_hole("mysql-behind-a-hole", 3306, my(0, b"\x0e"))


def my_packed_talk(name, ask=None, answer=None, units=1, level=9):
    """Packets that are compressed as far as they can be: of a unit and how often it repeats, the whole so often in a turn."""
    def generate(size):
        turns = [my_packed(b"".join(unit * times for unit, times in of), level, number) * units if of else b""
                 for number, of in enumerate((ask, answer))]
        return my_conversation(size, *map(each, turns), MY_FLAGS | 32)
    GENERATORS[name] = generate


PINGS, ANSWERS = (my(0, b"\x0e"), 1_000_000), (my(1, MY_OK), 1_000_000)
EMPTY_ROWS = [(my(1, b"\1") + my(2, MY_COLUMN) + my(3, b"\xfe\0\0\2\0"), 1), (my(4, b"\0"), 3_000_000), (my(5, b"\xfe\0\0\2\0"), 1)]
my_packed_talk("mysql-compressed", [(my(0, b"\3" + bytes(0xF00000)), 1)])
my_packed_talk("mysql-compressed-small", [(my(0, b"\x0e"), 16)], units=10, level=-1)
my_packed_talk("mysql-compressed-answers", answer=[(my(1, MY_OK), 1_400_000)])
my_packed_talk("mysql-compressed-answers-small", answer=[(my(1, MY_OK), 2_000)], units=10)
my_packed_talk("mysql-compressed-pings", [(my(0, b"\x0e"), 3_000_000)])
my_packed_talk("mysql-compressed-pings-answered", [PINGS], [ANSWERS])
my_packed_talk("mysql-compressed-closes", [(my(0, b"\x19\1\0\0\0"), 1_600_000)])
my_packed_talk("mysql-compressed-prepares", [(my(0, b"\x16SELECT ?"), 1_200_000)])
my_packed_talk("mysql-compressed-empty", [(my(0, b""), 4_000_000)])
my_packed_talk("mysql-compressed-rows", [(my(0, b"\3SELECT 1"), 1)], EMPTY_ROWS)


# CQL.

def cql(opcode, body, stream=0, answer=False, flags=0):
    return struct.pack(">BBHBI", 0x84 if answer else 4, flags, stream & 0x7FFF, opcode, len(body)) + body


def cql_query(text):
    return struct.pack(">I", len(text)) + text + struct.pack(">HB", 1, 0)


def cql_talk(name, opcode, ask, answer=None, option=b"\0\1\0\x0bCQL_VERSION\0\x053.0.0", flags=0):
    """The request's stream is the turn's number, and so is that of an answer in bytes, a RESULT."""
    answers = answer if callable(answer) else lambda n: b"" if answer is None else cql(8, answer, n, True)
    asks = each(ask)
    talk(name, 9042, lambda n: cql(opcode, asks(n), n, flags=flags) if opcode else b"", answers, hello=cql(1, option), welcome=cql(2, b"", 0, True))


def crc24(data):
    crc = 0x875060
    for byte in data:
        crc ^= byte << 16
        for _ in range(8):
            crc <<= 1
            crc ^= 0x1974F0B if crc & 0x1000000 else 0
    return struct.pack("<I", crc)[:3]


def cql_segment(unit, times):
    """A compressed segment of version 5 that holds so many messages."""
    packed = lz4_of(unit, times)
    header = struct.pack("<Q", len(packed) | len(unit) * times << 17 | 1 << 34)[:5]
    return header + crc24(header) + packed + struct.pack("<I", zlib.crc32(b"\xfa\x2d\x55\xca" + packed))


def cql_segments(name, ask=b"", answer=b""):
    option = b"\0\2\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION\0\3lz4"
    talk(name, 9042, ask, answer, hello=b"\5" + cql(1, option)[1:], welcome=b"\x85" + cql(2, b"", 0, True)[1:])


VOID = b"\0\0\0\1"
SELECT = cql_query(b"SELECT a")
# The type of a column is a list of lists, as deep as is read.
NESTED = struct.pack(">III", 2, 1, 500) + b"\0\1k\0\1t" + (b"\0\1c" + b"\0\x20" * 120 + b"\0\x09") * 500 + struct.pack(">I", 0)
cql_talk("cql-batches", 13, b"\0" + struct.pack(">H", 60_000) + (b"\0" + struct.pack(">I", 8) + b"UPDATE a" + b"\0\0") * 60_000 + b"\0\1\0", VOID)
cql_talk("cql-rows", 7, SELECT, struct.pack(">III", 2, 4, 1) + struct.pack(">I", 100_000) + b"\0\0\0\0" * 100_000)
cql_talk("cql-nested-types", 7, SELECT, NESTED)
LZ4, SNAPPY = (b"\0\2\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION" + name for name in (b"\0\3lz4", b"\0\6snappy"))
cql_talk("cql-compressed", 7, struct.pack(">I", 16 << 20) + lz4_of(b"x", 16 << 20), option=LZ4, flags=1)
EMPTY_BATCH = lz4_of(bytes(7), 65_535, b"\0\xff\xff", b"\0\1\0")
cql_talk("cql-compressed-batches", 13, struct.pack(">I", 7 * 65_535 + 6) + EMPTY_BATCH, option=LZ4, flags=1)
# 100,000 rows of an empty cell.
TINY_ROWS = snappy_of(bytes(4), 100_000, struct.pack(">IIII", 2, 4, 1, 100_000))
cql_talk("cql-compressed-rows", 7, snappy_of(SELECT, 1), lambda n: cql(8, TINY_ROWS, n, True, 1), option=SNAPPY, flags=1)
cql_segments("cql-segments-of-options", cql_segment(b"\5\0\0\1\5\0\0\0\0", 14_000))
cql_segments("cql-segments-of-answers", answer=cql_segment(b"\x85\0\0\1\x08\0\0\0\4\0\0\0\1", 10_000))
cql_segments("cql-segments-of-events", answer=cql_segment(b"\x85\0\xff\xff\x0c\0\0\0\0", 14_000))
cql_talk("cql-options", 5, b"")
cql_talk("cql-answers-alone", None, b"", each(cql(8, VOID, 1, True)))
cql_talk("cql-streams-outstanding", 7, SELECT)
cql_talk("cql-streams-answered-backwards", 7, SELECT, lambda n: cql(8, VOID, -1 - n, True))
cql_talk("cql-prepared", 9, lambda n: struct.pack(">I", 20) + b"SELECT %013d" % n,
         lambda n: cql(8, struct.pack(">IH", 4, 16) + b"%016d" % n + struct.pack(">IIIII", 0, 0, 0, 4, 0), n, True))
cql_talk("cql-statements", 7, lambda n: cql_query(b"SELECT %s FROM t" % word_of(n)), VOID)
cql_talk("cql-events", None, b"", each(cql(12, b"\0\x0dSTATUS_CHANGE\0\2UP\4\x7f\0\0\1" + struct.pack(">I", 9042), 0xFFFF, True)))


# MongoDB.

def bson(fields):
    return struct.pack("<I", len(fields) + 5) + fields + b"\0"


def mongo(body, request, to=0, opcode=2013):
    return struct.pack("<IIII", len(body) + 16, request & 0x7FFFFFFF, to & 0x7FFFFFFF, opcode) + body


DB = b"\2$db\0\2\0\0\0a\0"
PING = bson(b"\x10ping\0\1\0\0\0" + DB)
FINE = bson(b"\1ok\0\0\0\0\0\0\0\xf0\x3f")
INSERT = bson(b"\2insert\0\2\0\0\0t\0" + DB)


def message(document, request, to=0, flags=0):
    return mongo(struct.pack("<I", flags) + b"\0" + document, request, to)


def fine(number):
    return message(FINE, number, number)


def find(fields):
    return bson(b"\2find\0\2\0\0\0t\0\3filter\0" + bson(fields) + DB)


def sequence(documents):
    return b"\1" + struct.pack("<I", 14 + len(documents)) + b"documents\0" + documents


def nested(depth):
    inner = b""
    for _ in range(depth):
        inner = b"\3a\0" + bson(inner)
    return inner


def mongo_talk(name, document, answer=fine, more=b""):
    documents = each(document)
    talk(name, 27017, lambda n: message(documents(n) + more, n), answer)


def compressed_messages(document, unit=b"", times=0, codec=2):
    """The same message, compressed by zlib or Snappy: a document, and a sequence of units."""
    body = bytes(5) + document() + (sequence(unit * times) if unit else b"")
    packed = zlib.compress(body, 9) if codec == 2 else snappy_of(unit, times, body[:-len(unit) * times])
    return lambda n: mongo(struct.pack("<IIB", 2013, len(body), codec) + packed, n, opcode=2012)


@frames(27017)
def mongo_answered_backwards(link, size):
    many = size // 2 // 60
    yield link.say(CLIENT, b"".join(message(PING, n) for n in range(1, many)))
    yield link.say(SERVER, b"".join(message(FINE, many + n, n) for n in range(many - 1, 0, -1)))


mongo_talk("mongo-tiny-documents", INSERT, more=sequence(b"\5\0\0\0\0" * 200_000))
mongo_talk("mongo-tiny-sections", PING, more=(b"\1" + struct.pack("<I", 6) + b"a\0") * 100_000)
mongo_talk("mongo-nested", find(nested(100) * 300))
mongo_talk("mongo-many-fields", find(b"".join(b"\x0af%d\0" % at for at in range(100_000))))
mongo_talk("mongo-shapes", lambda n: find(b"\x0a" + word_of(n) + b"\0"))
mongo_talk("mongo-outstanding", PING, b"")
talk("mongo-more-to-come", 27017, first(message(PING, 1)), lambda n: message(FINE, n + 2, n + 1, 2))
talk("mongo-headers", 27017, lambda n: mongo(b"", n), lambda n: mongo(b"", n, n))
talk("mongo-answers-alone", 27017, b"", fine)
GENERATORS |= {  # 48 MB of zeros, and documents of nothing
    "mongo-compressed": lambda size: conversation(27017, size, compressed_messages(
        lambda: bson(b"\2insert\0\2\0\0\0t\0\5x\0" + struct.pack("<I", 47 << 20) + b"\0" + bytes(47 << 20) + DB)), fine),
    "mongo-compressed-documents": lambda size:
        conversation(27017, size, compressed_messages(lambda: INSERT, b"\5\0\0\0\0", 9_000_000), fine),
    "mongo-compressed-snappy": lambda size:
        conversation(27017, size, compressed_messages(lambda: INSERT, b"\5\0\0\0\0", 9_000_000, 1), fine),
}


# HTTP and SSDB.

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
GET = b"GET /a HTTP/1.1\r\nHost: a\r\n"
talk("http-headers", 80, GET + b"".join(b"h%d: v\r\n" % at for at in range(4_000)) + b"\r\n", OK)
talk("http-chunks", 80, first(GET + b"\r\n"), first(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"))
talk("http-endless-head", 80, first(b"GET /a HTTP/1.1\r\n", b"a: b\r\n"))
talk("http-pipelined", 80, b"GET / HTTP/1.1\r\n\r\n")
talk("http-paths", 80, lambda n: b"GET /%s/%s HTTP/1.1\r\nHost: a\r\n\r\n" % (word_of(n), word_of(n * 7)), OK)
talk("http-continued", 80, first(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
talk("http-answers-alone", 80, b"", OK)
talk("http-empty-lines", 80, b"\r\n", b"\r\n")
behind_a_hole("http-behind-a-hole", 80, b"GET / HTTP/1.1\r\n\r\n")
talk("ssdb-empty", 8888, b"\n", b"\n")
talk("ssdb-empty-blocks", 8888, b"0\n\n\n", b"0\n\n\n")
behind_a_hole("ssdb-behind-a-hole", 8888, b"1\na\n\n")
talk("ssdb-blocks", 8888, first(b"3\nget\n", b"1\nk\n"))
talk("ssdb-pipelined", 8888, lambda n: b"3\nget\n5\n%s\n\n" % word_of(n), lambda n: b"2\nok\n1\nv\n\n" if n % 2 else b"")


# TLS, IP and files.

@frames(6379)
def tls_tiny_records(link, size):
    yield link.say(CLIENT, b"\x16\3\1\0\x2d\1\0\0\x29\3\3" + bytes(32) + b"\0\0\2\x13\1\1\0")
    for _ in range(count(size, 1400)):
        yield link.say(CLIENT, b"\x17\3\3\0\1x" * 233)


@frames(6379)
def tls_tiny_hello(link, size):
    return (link.say(CLIENT, b"\x16\3\1\0\1\1" * 233) for _ in range(count(size, 1400)))


def packets(size, length, made):
    """IP packets of one length each; `made` gives identity, what follows it in the header up to the protocol, source and payload."""
    clock = Clock()
    yield pcap_header()
    for number in range(size // length):
        identity, offset, protocol, source, payload = made(number)
        packet = b"\2" * 12 + struct.pack(">HBBHHHBBH4s4s", 0x0800, 0x45, 0, 20 + len(payload), identity & 0xFFFF, offset, 64, protocol, 0,
                                          source, b"\x0a\0\0\1") + payload
        yield struct.pack("<IIII", *clock.tick(), len(packet), len(packet)) + packet


def fragments(place):
    """Fragments with more to come, of a packet and at an offset that `place` tells."""
    def made(number):
        identity, offset = place(number)
        return identity, 0x2000 | offset, 6, bytes([10, 0, identity >> 24 & 255, identity >> 16 & 255]), b"12345678"
    return lambda size: packets(size, 58, made)


def datagram(number):
    return 0, 0, 17, bytes([10, 1, number >> 16 & 255, 1]), struct.pack(">HHHH", number & 0xFFFF, 6379, 16, 0) + b"12345678"


GENERATORS |= {
    "fragments-of-many-packets": fragments(lambda number: (number, 1)),
    "fragments-of-few-packets": fragments(lambda number: (number % 900, 2 * (number // 900) % 8000 + 1)),
    "fragments-repeated": fragments(lambda number: (1, 8000 - 2 * number % 8000)),
    "udp-of-many-ports": lambda size: packets(size, 66, datagram),
}


@generator
def copies_on_any(size):
    """Frames without payload, and those that look like earlier ones."""
    link = Connection(6379)
    yield pcap_header()
    for number in range(count(size, 10)):
        yield link.frame(CLIENT, b"*1\r\n$4\r\nPI", seq=number % 300)


def block(kind, body):
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
INTERFACE = block(1, struct.pack("<HHI", 1, 0, 0))


def ping_block(link, interface=0):
    frame = link.frame(CLIENT, resp(b"PING"))[16:]
    return block(6, struct.pack("<IIIII", interface, 0, 1, len(frame), len(frame)) + frame + bytes(-len(frame) % 4))


@generator
def pcapng_interfaces(size):
    link = Connection(6379)
    many = min(60_000, size // 200)
    yield SECTION + INTERFACE * many
    for number in range((size - many * 20) // 110):
        yield ping_block(link, number % many)


@generator
def pcapng_sections(size):
    link = Connection(6379)
    for _ in range(min(size // 160, 65_000)):
        yield SECTION + INTERFACE + ping_block(link)


@generator
def pcapng_empty_blocks(size):
    yield SECTION + INTERFACE
    for _ in range(size // 12_000):
        yield block(0x0BAD, b"") * 1_000


@generator
def pcapng_secrets(size):
    yield SECTION + INTERFACE
    for number in range(size // 220):
        line = b"CLIENT_RANDOM %064x %096x\n" % (number, number)
        yield block(10, struct.pack("<II", 0x544C534B, len(line)) + line + bytes(-len(line) % 4))


# What takes the most memory: many of the above at once.

def opened(port, connections):
    """So many connections, and what opens them."""
    clock = Clock()
    links = [Connection(port, number, clock) for number in range(connections)]
    return links, pcap_header() + b"".join(itertools.chain.from_iterable(link.opening for link in links))


def open_at_once(connections):
    """Redis connections that are all open before each has its GET, and that before the first answer."""
    links, opening = opened(6379, connections)
    yield opening
    for side, data in ((CLIENT, resp(b"GET", b"key:1")), (SERVER, b"$5\r\nvalue\r\n")):
        yield b"".join(link.frame(side, data, ACK | PUSH) for link in links)


def several(name, port, connections, turn):
    """Many connections that send the same, in turns."""
    def generate(size):
        links, opening = opened(port, connections)
        yield opening
        yield from until(size, lambda number: b"".join(link.say(CLIENT, each(turn)(number)) for link in links))
    GENERATORS[name] = generate


@generator
def several_with_holes(size):
    links, opening = opened(6379, 200)
    yield opening
    for at in range(size // 200 // 600):
        yield b"".join(link.frame(CLIENT, b"x" * 500, seq=1002 + 501 * at) for link in links)


several("several-memcache-mn", 11211, 16, b"mn\r\n" * 350)
several("many-memcache-mn", 11211, 1_000, b"mn\r\n" * 350)
several("several-pg-pipelined", 5432, 16, query(b";") * 200)
several("several-with-long-messages", 6379, 500, first(b"*2\r\n$3\r\nGET\r\n$3900000\r\n" + b"x" * 1400, b"x" * 1400))
