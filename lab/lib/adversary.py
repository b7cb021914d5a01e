"""Captures that are made to cost whoever reads them as much as they can, each at any size: what lab/test/doubling measures.

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


def conversation(port, size, turns, answers=lambda _: b"", hello=b"", welcome=b"", batch=1 << 15):
    """One connection on which `turns(number)` is sent again and again, and answered."""
    link = Connection(port)
    yield pcap_header() + b"".join(link.opening)
    if hello:
        yield link.say(CLIENT, hello)
    if welcome:
        yield link.say(SERVER, welcome)
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


@generator
def segments_shuffled(size):
    order = list(range(count(size)))
    random.Random(1).shuffle(order)
    return segments(size, order)


@generator
def segments_shuffled_midway(size):
    order = list(range(0, 2 * count(size), 2))
    random.Random(1).shuffle(order)
    return segments(size, order, begins=False)


@generator
def segments_spanning_holes(size):
    """Every second byte first, and then segments that hold a thousand of these and of the holes between."""
    half = size // 2
    few = [range(at + 1, at + 16_000, 2) for at in range(0, 2 * count(half), 16_000)]
    link = Connection(6379)
    yield pcap_header() + b"".join(link.opening)
    base = link.next[CLIENT]
    for order in few:
        for at in order:
            yield link.frame(CLIENT, b"*", seq=base + at)
        for at in range(order.start, order.stop, 8_000):
            yield link.frame(CLIENT, b"*" * 8_000, seq=base + at)


@generator
def acknowledgments_before_their_bytes(size):
    link = Connection(6379)
    yield pcap_header() + b"".join(link.opening)
    base = link.next[CLIENT]
    for at in range(count(size, 0, 2)):
        yield link.frame(CLIENT, b"x", seq=base + 2 * at + 1) + link.frame(SERVER, ack=base + 2 * at + 2)


@generator
def repeats_of_what_is_not_decoded(size):
    """A value of 100 MB of which each segment comes twice."""
    link = Connection(6379)
    yield pcap_header() + b"".join(link.opening) + link.frame(CLIENT, b"*2\r\n$3\r\nGET\r\n$100000000\r\n")
    for _ in range(count(size, 1, 3)):
        seq = link.next[CLIENT]
        yield link.frame(CLIENT, b"x") + link.frame(CLIENT, b"x", seq=seq) + link.frame(SERVER)


@generator
def probes_of_closed_windows(size):
    link = Connection(6379)
    yield pcap_header() + b"".join(link.opening)
    for _ in range(count(size, 1, 3)):
        shut = link.frame(SERVER, window=0)
        probe = link.frame(CLIENT, b"*", seq=link.next[CLIENT])
        yield shut + probe + link.frame(SERVER)


GENERATORS |= {
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
    written = number = 0
    while written < size:
        piece = frames(Connection(port, number, clock, begins=False))
        written += len(piece)
        number += 1
        yield piece


@generator
def connections_of_one_request(size):
    ask = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
    return connections(size, lambda link: link.frame(CLIENT, flags=SYN) + link.frame(SERVER, flags=SYN | ACK)
                       + link.frame(CLIENT, ask) + link.frame(SERVER, b"$1\r\nv\r\n"))


@generator
def connections_that_close(size):
    ask = b"*1\r\n$4\r\nPING\r\n"
    return connections(size, lambda link: link.frame(CLIENT, flags=SYN) + link.frame(SERVER, flags=SYN | ACK) + link.frame(CLIENT, ask)
                       + link.frame(SERVER, b"+PONG\r\n") + link.frame(CLIENT, flags=FIN | ACK) + link.frame(SERVER, flags=FIN | ACK))


@generator
def connections_of_one_address(size):
    """One pair of ends, opened again and again."""
    clock = Clock()
    yield pcap_header()
    for number in range(count(size, 7, 4)):
        link = Connection(6379, 1, clock, begins=False)
        link.next = [number * 7919, number * 104_729]
        yield (link.frame(CLIENT, flags=SYN) + link.frame(SERVER, flags=SYN | ACK) + link.frame(CLIENT, b"*1\r\n$4\r\nPING\r\n")
               + link.frame(CLIENT, flags=RST))


@generator
def connections_with_much_held(size):
    """Each has a thousand pieces behind a hole, and a request that is not complete."""
    def frames(link):
        start = link.frame(CLIENT, flags=SYN) + link.frame(CLIENT, b"*2\r\n$3\r\nGET\r\n$3000000\r\n" + b"x" * 30_000)
        base = link.next[CLIENT]
        return start + b"".join(link.frame(CLIENT, b"*", seq=base + at) for at in range(1, 2000, 2))
    return connections(size, frames)


GENERATORS |= {
    "connections-half-open": lambda size: connections(size, lambda link: link.frame(CLIENT, flags=SYN)),
    "connections-of-unknown-content": lambda size:
        connections(size, lambda link: link.frame(CLIENT, b"\x01\x02\x03 hello") + link.frame(SERVER, b"\xfe\xfd what"), port=9999),
}


# RESP.

def key_of(number):
    """A key whose pattern no other has."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    word = "".join(letters[number // 26 ** place % 26] for place in range(5))
    return f"{word}:{number}:x{word[::-1]}".encode()


@generator
def resp_long_keys(size):
    key = b":".join(b"%d" % at for at in range(20_000))
    return conversation(6379, size, lambda n: b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key), key), lambda _: b"$1\r\nv\r\n")


@generator
def resp_huge_array(size):
    head = b"*%d\r\n" % (1 << 29)
    return conversation(6379, size, lambda n: b"*1\r\n$4\r\nPING\r\n" if n == 0 else b"", lambda n: head if n == 0 else b":1\r\n")


@generator
def resp_scripts(size):
    """Distinct scripts, transactions and subscriptions."""
    def ask(n):
        word = key_of(n)
        return (b"*1\r\n$5\r\nMULTI\r\n*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n"
                % (len(word), word, len(word), word))
    return conversation(6379, size, ask, lambda _: b"+OK\r\n+QUEUED\r\n+QUEUED\r\n")


GENERATORS |= {
    "resp-pipelined-without-answer": lambda size:
        conversation(6379, size, lambda _: b"*1\r\n$4\r\nPING\r\n", lambda number: b"+PONG\r\n" if number == 0 else b""),
    "resp-pipelined": lambda size: conversation(6379, size, lambda _: b"*1\r\n$4\r\nPING\r\n", lambda _: b"+PONG\r\n"),
    "resp-of-one-direction": lambda size: conversation(6379, size, lambda number: b"*2\r\n$3\r\nGET\r\n$9\r\nk%08d\r\n" % number),
    "resp-keys": lambda size:
        conversation(6379, size, lambda n: b"*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n" % (len(key := key_of(n)), key), lambda _: b"$1\r\nv\r\n"),
    "resp-commands": lambda size:
        conversation(6379, size, lambda n: b"*1\r\n$%d\r\n%s\r\n" % (len(key := key_of(n)[:5]), key), lambda _: b"-ERR\r\n"),
    "resp-nested": lambda size: conversation(6379, size, lambda _: b"*1\r\n$4\r\nPING\r\n", lambda _: b"*1\r\n" * 120 + b":1\r\n"),
    "resp-many-arguments": lambda size:
        conversation(6379, size, lambda n: (b"*%d\r\n$4\r\nMGET\r\n" % (1 << 20) if n == 0 else b"") + b"$1\r\nk\r\n"),
    "resp-pushes": lambda size: conversation(6379, size, lambda n: b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" if n == 0 else b"",
        lambda n: b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n" if n else b"%1\r\n$5\r\nproto\r\n:3\r\n"),
}


# memcached.

@generator
def memcache_mn_answered_in_the_end(size):
    """Everything is asked before anything is answered."""
    link = Connection(11211)
    yield pcap_header() + b"".join(link.opening)
    for _ in range(size // 1400 // 2):
        yield link.say(CLIENT, b"mn\r\n" * 350)
    for _ in range(size // 1400 // 2):
        yield link.say(SERVER, b"MN\r\n" * 350)


@generator
def memcache_multiget(size):
    keys = b" ".join(b"k%d" % at for at in range(9_000))
    values = b"".join(b"VALUE k%d 0 1\r\nx\r\n" % at for at in range(9_000)) + b"END\r\n"
    return conversation(11211, size, lambda _: b"get " + keys + b"\r\n", lambda _: values)


@generator
def memcache_opaques_unanswered(size):
    """Distinct opaques; the answers come in the opposite order."""
    link = Connection(11211)
    yield pcap_header() + b"".join(link.opening)
    many = size // 60
    ask = b"".join(struct.pack(">BBHBBHIIQ", 0x80, 0, 1, 0, 0, 0, 1, n, 0) + b"k" for n in range(many))
    answer = b"".join(struct.pack(">BBHBBHIIQ", 0x81, 0, 0, 0, 0, 1, 0, n, 0) for n in range(many - 1, -1, -1))
    yield link.say(CLIENT, ask) + link.say(SERVER, answer)


def memcache_quiet_answered(size):
    """One batch of quiet gets, each of which hits."""
    link = Connection(11211)
    yield pcap_header() + b"".join(link.opening)
    many = size // 64
    ask = b"".join(struct.pack(">BBHBBHIIQ", 0x80, 9, 4, 0, 0, 0, 4, n, 0) + b"%04d" % (n % 10_000) for n in range(many))
    answer = b"".join(struct.pack(">BBHBBHIIQ", 0x81, 9, 0, 4, 0, 0, 8, n, 0) + b"\0\0\0\0data" for n in range(many))
    yield link.say(CLIENT, ask) + link.say(SERVER, answer)


GENERATORS |= {
    "memcache-quiet-answered": memcache_quiet_answered,
    "memcache-mn": lambda size: conversation(11211, size, lambda _: b"mn\r\n"),
    "memcache-mn-answered": lambda size: conversation(11211, size, lambda _: b"mn\r\n", lambda _: b"MN\r\n"),
    "memcache-quiet": lambda size: conversation(11211, size, lambda n: b"mg k%d q\r\n" % n, lambda n: b"EN\r\n" if n == 0 else b""),
    "memcache-binary-quiet": lambda size:
        conversation(11211, size, lambda n: struct.pack(">BBHBBHIIQ", 0x80, 9, 4, 0, 0, 0, 4, n, 0) + b"%04d" % (n % 10_000)),
    "memcache-keys": lambda size: conversation(11211, size, lambda n: b"get " + key_of(n) + b"\r\n", lambda _: b"END\r\n"),
}


# PostgreSQL.

PG_WELCOME = b"R" + struct.pack(">II", 8, 0) + b"Z" + struct.pack(">I", 5) + b"I"


def pg(kind, body):
    return kind + struct.pack(">I", len(body) + 4) + body


def pg_conversation(size, turns, answers=lambda _: b""):
    hello = struct.pack(">II", 8 + 9, 196_608) + b"user\0me\0\0"
    return conversation(5432, size, turns, answers, hello, PG_WELCOME)


PG_DONE = pg(b"C", b"SELECT 1\0") + pg(b"Z", b"I")


@generator
def pg_statement_of_parentheses(size):
    text = b"SELECT " + b"(" * 3_000_000 + b"\0"
    return pg_conversation(size, lambda _: pg(b"Q", text), lambda _: PG_DONE)


@generator
def pg_statement_of_lists(size):
    text = b"SELECT " + b"IN (1,2),(?,?)," * 200_000 + b"\0"
    return pg_conversation(size, lambda _: pg(b"Q", text), lambda _: PG_DONE)


@generator
def pg_statement_of_open_ends(size):
    """Comments, quotes and dollar quotes that begin and do not end."""
    text = b"SELECT " + b"".join(b"/* $a%d$ ' \" /* -- $" % at for at in range(100_000)) + b"\0"
    return pg_conversation(size, lambda _: pg(b"Q", text), lambda _: PG_DONE)


@generator
def pg_statement_of_dollars(size):
    text = b"SELECT " + b"".join(b"$a%d$" % at for at in range(300_000)) + b"\0"
    return pg_conversation(size, lambda _: pg(b"Q", text), lambda _: PG_DONE)


@generator
def pg_columns(size):
    field = b"c\0" + b"\0" * 18
    row = pg(b"D", struct.pack(">H", 1600) + (struct.pack(">I", 1) + b"x") * 1600)
    return pg_conversation(size, lambda _: pg(b"Q", b"SELECT 1\0"), lambda _: pg(b"T", struct.pack(">H", 1600) + field * 1600) + row + PG_DONE)


GENERATORS |= {
    "pg-prepared": lambda size: pg_conversation(
        size, lambda n: pg(b"P", b"s%d\0SELECT %d, $1\0\0\1\0\0\0\x17" % (n, n)) + pg(b"B", b"\0s%d\0\0\0\0\0\0\0" % n)
        + pg(b"E", b"\0\0\0\0\0") + pg(b"S", b""), lambda _: pg(b"1", b"") + pg(b"2", b"") + PG_DONE),
    "pg-prepared-without-sync": lambda size:
        pg_conversation(size, lambda n: pg(b"P", b"s%d\0SELECT %s\0\0\0" % (n, key_of(n)[:5])) + pg(b"B", b"p%d\0s%d\0\0\0\0\0\0\0" % (n, n))),
    "pg-statements": lambda size:
        pg_conversation(size, lambda n: pg(b"Q", b"SELECT %s FROM t WHERE a = %d\0" % (key_of(n)[:5], n)), lambda _: PG_DONE),
    "pg-pipelined": lambda size: pg_conversation(size, lambda n: pg(b"Q", b";\0"), lambda n: b""),
    "pg-rows": lambda size: pg_conversation(size, lambda n: pg(b"Q", b"SELECT 1\0") if n == 0 else b"", lambda n: pg(b"D", b"\0\1\xff\xff\xff\xff")),
    "pg-notices": lambda size: pg_conversation(size, lambda n: b"", lambda n: pg(b"N", b"SERROR\0M%d\0\0" % n) + pg(b"S", b"n%d\0v\0" % n)),
    "pg-copy": lambda size: pg_conversation(size, lambda n: pg(b"d", b"1") if n else pg(b"Q", b"COPY t FROM STDIN\0"),
        lambda n: b"" if n else pg(b"G", b"\0\0\0")),
}


# MySQL.

def my(number, body):
    return struct.pack("<I", len(body))[:3] + bytes([number]) + body


MY_FLAGS = 0x0000_AA8D | 1 << 19
MY_WELCOME = my(0, b"\x0a8.0.1\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", 0xFFFF) + b"\x21\2\0"
                + struct.pack("<H", 0xC1FF) + b"\x15" + b"\0" * 10 + b"123456789012\0mysql_native_password\0")
MY_OK = b"\0\0\0\2\0\0\0"


def my_conversation(size, turns, answers=lambda _: b"", flags=MY_FLAGS):
    link = Connection(3306)
    hello = my(1, struct.pack("<IIB23x", flags, 1 << 24, 33) + b"me\0\0mysql_native_password\0")
    yield pcap_header() + b"".join(link.opening) + link.say(SERVER, MY_WELCOME) + link.say(CLIENT, hello) + link.say(SERVER, my(2, MY_OK))
    written = number = 0
    while written < size:
        asked, answered = turns(number), answers(number)
        written += len(asked) + len(answered) + HEADERS
        number += 1
        yield link.say(CLIENT, asked) + link.say(SERVER, answered)


@generator
def mysql_columns(size):
    column = b"\3def\0\0\0\1c\1c\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0"
    def answer(_):
        parts = [my(1, b"\xfc" + struct.pack("<H", 4000))] + [my((2 + at) & 255, column) for at in range(4000)]
        return b"".join(parts) + my(0, b"\xfe\0\0\2\0")
    return my_conversation(size, lambda _: my(0, b"\3SELECT 1"), answer)


@generator
def mysql_compressed(size):
    """Packets of zeros that are compressed as far as they can be."""
    body = my(0, b"\3" + b"\0" * 0xF00000)
    packed = zlib.compress(body, 9)
    whole = struct.pack("<I", len(packed))[:3] + b"\0" + struct.pack("<I", len(body))[:3] + packed
    return my_conversation(size, lambda _: whole, flags=MY_FLAGS | 32)


@generator
def mysql_compressed_small(size):
    body = my(0, b"\x0e") * 16
    packed = zlib.compress(body)
    whole = struct.pack("<I", len(packed))[:3] + b"\0" + struct.pack("<I", len(body))[:3] + packed
    return my_conversation(size, lambda _: whole * 10, flags=MY_FLAGS | 32)


GENERATORS |= {
    "mysql-prepared": lambda size: my_conversation(size, lambda n: my(0, b"\x16SELECT %s, ?" % key_of(n)[:5]),
        lambda n: my(1, b"\0" + struct.pack("<IHHBH", n + 1, 0, 0, 0, 0))),
    "mysql-prepared-pipelined": lambda size: my_conversation(size, lambda n: my(0, b"\x16SELECT %s, ?" % key_of(n)[:5]) * 20),
    "mysql-statements": lambda size: my_conversation(size, lambda n: my(0, b"\3SELECT %s, %d" % (key_of(n)[:5], n)), lambda _: my(1, MY_OK)),
    "mysql-empty-packets": lambda size: my_conversation(size, lambda n: b"".join(my(at & 255, b"") for at in range(300))),
}


# CQL.

def cql(opcode, body, stream=0, answer=False, flags=0):
    return struct.pack(">BBHBI", 0x84 if answer else 4, flags, stream & 0x7FFF, opcode, len(body)) + body


def cql_query(text):
    return struct.pack(">I", len(text)) + text + struct.pack(">HB", 1, 0)


def cql_conversation(size, turns, answers=lambda _: b"", option=b"\0\1\0\x0bCQL_VERSION\0\x053.0.0"):
    return conversation(9042, size, turns, answers, cql(1, option), cql(2, b"", 0, True))


@generator
def cql_batches(size):
    one = b"\0" + struct.pack(">I", 8) + b"UPDATE a" + b"\0\0"
    return cql_conversation(size, lambda n: cql(13, b"\0" + struct.pack(">H", 60_000) + one * 60_000 + b"\0\1\0", n), lambda n: cql(8, b"\0\0\0\1", n, True))


@generator
def cql_rows(size):
    rows = struct.pack(">III", 2, 4, 1) + struct.pack(">I", 100_000) + b"\0\0\0\0" * 100_000
    return cql_conversation(size, lambda n: cql(7, cql_query(b"SELECT a"), n), lambda n: cql(8, rows, n, True))


@generator
def cql_nested_types(size):
    """A column whose type is a list of lists, as deep as is read."""
    kind = b"\0\x20" * 120 + b"\0\x09"
    rows = struct.pack(">III", 2, 1, 500) + b"\0\1k\0\1t" + (b"\0\1c" + kind) * 500 + struct.pack(">I", 0)
    return cql_conversation(size, lambda n: cql(7, cql_query(b"SELECT a"), n), lambda n: cql(8, rows, n, True))


@generator
def cql_compressed(size):
    """LZ4 of bytes that are all the same: a literal, and a copy of it."""
    length = 16 << 20
    copies = length - 1 - 12
    block = b"\x1fx\1\0" + b"\xff" * ((copies - 19) // 255) + bytes([(copies - 19) % 255]) + b"\xc0" + b"x" * 12
    body = struct.pack(">I", length) + block
    return cql_conversation(size, lambda n: cql(7, body, n, flags=1), option=b"\0\2\0\x0bCQL_VERSION\0\x053.0.0\0\x0bCOMPRESSION\0\3lz4")


GENERATORS |= {
    "cql-streams-outstanding": lambda size: cql_conversation(size, lambda n: cql(7, cql_query(b"SELECT a"), n)),
    "cql-streams-answered-backwards": lambda size:
        cql_conversation(size, lambda n: cql(7, cql_query(b"SELECT a"), n), lambda n: cql(8, b"\0\0\0\1", -1 - n, True)),
    "cql-prepared": lambda size: cql_conversation(size, lambda n: cql(9, struct.pack(">I", 20) + b"SELECT %013d" % n, n),
        lambda n: cql(8, struct.pack(">IH", 4, 16) + b"%016d" % n + struct.pack(">IIIII", 0, 0, 0, 4, 0), n, True)),
    "cql-statements": lambda size:
        cql_conversation(size, lambda n: cql(7, cql_query(b"SELECT %s FROM t" % key_of(n)[:5]), n), lambda n: cql(8, b"\0\0\0\1", n, True)),
    "cql-events": lambda size:
        cql_conversation(size, lambda n: b"", lambda n: cql(12, b"\0\x0dSTATUS_CHANGE\0\2UP\4\x7f\0\0\1" + struct.pack(">I", 9042), 0xFFFF, True)),
}


# MongoDB.

def bson(fields):
    return struct.pack("<I", len(fields) + 5) + fields + b"\0"


def mongo(body, request, to=0, opcode=2013):
    return struct.pack("<IIII", len(body) + 16, request & 0x7FFFFFFF, to & 0x7FFFFFFF, opcode) + body


PING = bson(b"\x10ping\0\1\0\0\0\2$db\0\2\0\0\0a\0")
FINE = bson(b"\1ok\0\0\0\0\0\0\0\xf0\x3f")


def message(document, request, to=0, flags=0):
    return mongo(struct.pack("<I", flags) + b"\0" + document, request, to)


@generator
def mongo_answered_backwards(size):
    link = Connection(27017)
    yield pcap_header() + b"".join(link.opening)
    many = size // 2 // 60
    yield link.say(CLIENT, b"".join(message(PING, n) for n in range(1, many)))
    yield link.say(SERVER, b"".join(message(FINE, many + n, n) for n in range(many - 1, 0, -1)))


@generator
def mongo_tiny_documents(size):
    insert = bson(b"\2insert\0\2\0\0\0t\0\2$db\0\2\0\0\0a\0")
    documents = b"\5\0\0\0\0" * 200_000
    section = b"\1" + struct.pack("<I", 14 + len(documents)) + b"documents\0" + documents
    return conversation(27017, size, lambda n: mongo(struct.pack("<I", 0) + b"\0" + insert + section, n), lambda n: message(FINE, n, n))


@generator
def mongo_tiny_sections(size):
    section = b"\1" + struct.pack("<I", 6) + b"a\0"
    return conversation(27017, size, lambda n: mongo(struct.pack("<I", 0) + b"\0" + PING + section * 100_000, n), lambda n: message(FINE, n, n))


@generator
def mongo_nested(size):
    inner = b""
    for _ in range(100):
        inner = b"\3a\0" + bson(inner)
    query = bson(b"\2find\0\2\0\0\0t\0\3filter\0" + bson(inner * 300) + b"\2$db\0\2\0\0\0a\0")
    return conversation(27017, size, lambda n: message(query, n), lambda n: message(FINE, n, n))


@generator
def mongo_many_fields(size):
    fields = b"".join(b"\x0af%d\0" % at for at in range(100_000))
    query = bson(b"\2find\0\2\0\0\0t\0\3filter\0" + bson(fields) + b"\2$db\0\2\0\0\0a\0")
    return conversation(27017, size, lambda n: message(query, n), lambda n: message(FINE, n, n))


@generator
def mongo_shapes(size):
    def query(n):
        field = b"\x0a" + key_of(n)[:5] + b"\0"
        return message(bson(b"\2find\0\2\0\0\0t\0\3filter\0" + bson(field) + b"\2$db\0\2\0\0\0a\0"), n)
    return conversation(27017, size, query, lambda n: message(FINE, n, n))


@generator
def mongo_compressed(size):
    """Messages of 48 MB of zeros, compressed by zlib."""
    insert = bson(b"\2insert\0\2\0\0\0t\0\5x\0" + struct.pack("<I", 47 << 20) + b"\0" + bytes(47 << 20) + b"\2$db\0\2\0\0\0a\0")
    body = struct.pack("<I", 0) + b"\0" + insert
    packed = zlib.compress(body, 9)
    return conversation(27017, size, lambda n: mongo(struct.pack("<IIB", 2013, len(body), 2) + packed, n, opcode=2012),
                        lambda n: message(FINE, n, n))


@generator
def mongo_compressed_documents(size):
    insert = bson(b"\2insert\0\2\0\0\0t\0\2$db\0\2\0\0\0a\0")
    documents = b"\5\0\0\0\0" * 400_000
    body = struct.pack("<I", 0) + b"\0" + insert + b"\1" + struct.pack("<I", 14 + len(documents)) + b"documents\0" + documents
    packed = zlib.compress(body, 9)
    return conversation(27017, size, lambda n: mongo(struct.pack("<IIB", 2013, len(body), 2) + packed, n, opcode=2012),
                        lambda n: message(FINE, n, n))


GENERATORS |= {
    "mongo-outstanding": lambda size: conversation(27017, size, lambda n: message(PING, n)),
    "mongo-more-to-come": lambda size:
        conversation(27017, size, lambda n: message(PING, 1) if n == 0 else b"", lambda n: message(FINE, n + 2, n + 1, 2)),
}


# HTTP and SSDB.

@generator
def http_headers(size):
    head = b"".join(b"h%d: v\r\n" % at for at in range(4_000))
    return conversation(80, size, lambda n: b"GET /a HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n", lambda n: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


@generator
def http_chunks(size):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return conversation(80, size, lambda n: b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" if n == 0 else b"", lambda n: b"1\r\nx\r\n" if n else head)


GENERATORS |= {
    "http-endless-head": lambda size: conversation(80, size, lambda n: b"GET /a HTTP/1.1\r\n" if n == 0 else b"a: b\r\n"),
    "http-pipelined": lambda size: conversation(80, size, lambda n: b"GET / HTTP/1.1\r\n\r\n", lambda n: b""),
    "http-paths": lambda size: conversation(80, size, lambda n: b"GET /%s/%s HTTP/1.1\r\nHost: a\r\n\r\n" % (key_of(n)[:5], key_of(n * 7)[:5]),
        lambda n: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "http-continued": lambda size:
        conversation(80, size, lambda n: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" if n == 0 else b"", lambda n: b"HTTP/1.1 100 Continue\r\n\r\n"),
    "ssdb-blocks": lambda size: conversation(8888, size, lambda n: b"3\nget\n" if n == 0 else b"1\nk\n"),
    "ssdb-pipelined": lambda size:
        conversation(8888, size, lambda n: b"3\nget\n5\n%s\n\n" % key_of(n)[:5], lambda n: b"2\nok\n1\nv\n\n" if n % 2 else b""),
}


# TLS, IP and files.

@generator
def tls_tiny_records(size):
    link = Connection(6379)
    hello = b"\x16\3\1\0\x2d\1\0\0\x29\3\3" + bytes(32) + b"\0\0\2\x13\1\1\0"
    yield pcap_header() + b"".join(link.opening) + link.say(CLIENT, hello)
    for _ in range(count(size, 1400)):
        yield link.say(CLIENT, b"\x17\3\3\0\1x" * 233)


@generator
def tls_tiny_hello(size):
    link = Connection(6379)
    yield pcap_header() + b"".join(link.opening)
    for _ in range(count(size, 1400)):
        yield link.say(CLIENT, b"\x16\3\1\0\1\1" * 233)


def fragment(clock, identity, offset, payload, more, last=b""):
    packet = b"\2" * 12 + struct.pack(">HBBHHHBBH4s4s", 0x0800, 0x45, 0, 20 + len(payload), identity & 0xFFFF, (0x2000 if more else 0) | offset,
                                      64, 6, 0, bytes([10, 0, identity >> 24 & 255, identity >> 16 & 255]), b"\x0a\0\0\1") + payload
    return struct.pack("<IIII", *clock.tick(), len(packet), len(packet)) + packet


@generator
def fragments_of_many_packets(size):
    clock = Clock()
    yield pcap_header()
    for number in range(size // 58):
        yield fragment(clock, number, 1, b"12345678", True)


@generator
def fragments_of_few_packets(size):
    clock = Clock()
    yield pcap_header()
    for number in range(size // 58):
        yield fragment(clock, number % 900, 2 * (number // 900) % 8000 + 1, b"12345678", True)


@generator
def fragments_repeated(size):
    clock = Clock()
    yield pcap_header()
    for number in range(size // 58):
        yield fragment(clock, 1, 8000 - 2 * number % 8000, b"12345678", True)


@generator
def udp_of_many_ports(size):
    clock = Clock()
    yield pcap_header()
    for number in range(size // 66):
        payload = struct.pack(">HHHH", number & 0xFFFF, 6379, 16, 0) + b"12345678"
        packet = b"\2" * 12 + struct.pack(">HBBHHHBBH4s4s", 0x0800, 0x45, 0, 36, 0, 0, 64, 17, 0, bytes([10, 1, number >> 16 & 255, 1]), b"\x0a\0\0\1") + payload
        yield struct.pack("<IIII", *clock.tick(), len(packet), len(packet)) + packet


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


def packet_block(interface, record):
    frame = record[16:]
    return block(6, struct.pack("<IIIII", interface, 0, 1, len(frame), len(frame)) + frame + bytes(-len(frame) % 4))


@generator
def pcapng_interfaces(size):
    link = Connection(6379)
    many = min(60_000, size // 200)
    yield SECTION + INTERFACE * many
    for number in range((size - many * 20) // 110):
        yield packet_block(number % many, link.frame(CLIENT, b"*1\r\n$4\r\nPING\r\n"))


@generator
def pcapng_sections(size):
    link = Connection(6379)
    for _ in range(min(size // 160, 65_000)):
        yield SECTION + INTERFACE + packet_block(0, link.frame(CLIENT, b"*1\r\n$4\r\nPING\r\n"))


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

def several(port, size, connections, turns):
    """Many connections that say the same, in turns."""
    clock = Clock()
    links = [Connection(port, number, clock) for number in range(connections)]
    yield pcap_header() + b"".join(itertools.chain.from_iterable(link.opening for link in links))
    number = written = 0
    while written < size:
        piece = b"".join(link.say(CLIENT, turns(number)) for link in links)
        written += len(piece)
        number += 1
        yield piece


@generator
def several_with_holes(size):
    clock = Clock()
    links = [Connection(6379, number, clock) for number in range(200)]
    yield pcap_header() + b"".join(itertools.chain.from_iterable(link.opening for link in links))
    for at in range(size // 200 // 600):
        for link in links:
            yield link.frame(CLIENT, b"x" * 500, seq=1002 + 501 * at)


GENERATORS |= {
    "several-memcache-mn": lambda size: several(11211, size, 16, lambda _: b"mn\r\n" * 350),
    "many-memcache-mn": lambda size: several(11211, size, 1_000, lambda _: b"mn\r\n" * 350),
    "several-pg-pipelined": lambda size: several(5432, size, 16, lambda _: pg(b"Q", b";\0") * 200),
    "several-with-long-messages": lambda size:
        several(6379, size, 500, lambda n: (b"*2\r\n$3\r\nGET\r\n$3900000\r\n" if n == 0 else b"") + b"x" * 1400),
}
