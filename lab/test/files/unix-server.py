#!/usr/bin/env python3
"""unix-server.py HOW PATH: serves one connection after the other on the UNIX socket PATH, and answers each line "GET N" with N bytes, as Redis
answers (`$N`). HOW is the pair of calls that it reads and writes by: `vectors` (readv, writev), `messages` (recvmsg, sendmsg), `many`
(recvmmsg, sendmmsg), `file` (read, sendfile), `splice` (read, splice out of a pipe), or io_uring's requests: `ring` (recv, send), and with
the same recv `ring-write`, `ring-writev`, `ring-sendmsg`, `ring-splice`.
"""

import ctypes
import mmap
import os
import socket
import struct
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
SETUP, ENTER = 425, 426
WRITEV, SENDMSG, WRITE, SEND, RECV, SPLICE = 2, 9, 23, 26, 27, 30


class Part(ctypes.Structure):
    """struct iovec"""
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Message(ctypes.Structure):
    """struct mmsghdr, which starts with a struct msghdr"""
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32), ("parts", ctypes.POINTER(Part)), ("count", ctypes.c_size_t),
                ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t), ("flags", ctypes.c_size_t), ("moved", ctypes.c_uint32)]


def done(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def parts_of(*buffers):
    return (Part * len(buffers))(*(Part(ctypes.addressof(buffer), len(buffer)) for buffer in buffers))


class Ring:
    """An io_uring of one request at a time."""

    def __init__(self):
        params = ctypes.create_string_buffer(120)
        self.fd = done(LIBC.syscall(SETUP, 8, params))
        offsets = struct.unpack_from("20I", params, 40)
        self.tail, self.mask, self.array = offsets[1], offsets[2], offsets[6]
        self.done_head, self.done_mask, self.results = offsets[10], offsets[12], offsets[15]
        self.memory = mmap.mmap(self.fd, 1 << 16)
        self.requests = mmap.mmap(self.fd, 8 * 64, offset=0x10000000)

    def number(self, at):
        return struct.unpack_from("I", self.memory, at)[0]

    def ask(self, opcode, fd, address, length, source=0):
        """Returns what the request has moved."""
        tail, head = self.number(self.tail), self.number(self.done_head)
        index, offset = tail & self.number(self.mask), (1 << 64) - 1 if opcode == SPLICE else 0
        struct.pack_into("BBHiQQIIQHHiQQ", self.requests, index * 64, opcode, 0, 0, fd, offset, address or offset, length, 0, 0, 0, 0, source, 0, 0)
        struct.pack_into("I", self.memory, self.array + 4 * index, index)
        struct.pack_into("I", self.memory, self.tail, tail + 1)
        done(LIBC.syscall(ENTER, self.fd, 1, 1, 1, None, 0))
        moved = struct.unpack_from("i", self.memory, self.results + 16 * (head & self.number(self.done_mask)) + 8)[0]
        struct.pack_into("I", self.memory, self.done_head, head + 1)
        if moved < 0:
            raise OSError(-moved, os.strerror(-moved))
        return moved


def take(how, connection):
    """Returns what is there to read, at most 4,000 bytes."""
    halves = [bytearray(2000), bytearray(2000)]
    if how in ("file", "splice"):
        return os.read(connection.fileno(), 4000)
    if how == "messages":
        moved = connection.recvmsg_into(halves)[0]
    elif how == "vectors":
        moved = os.readv(connection.fileno(), halves)
    else:
        halves = [ctypes.create_string_buffer(2000) for _ in halves]
        if how == "many":
            message = Message(parts=parts_of(*halves), count=2)
            moved = message.moved if done(LIBC.recvmmsg(connection.fileno(), ctypes.byref(message), 1, 0, None)) else 0
        else:
            moved = RING.ask(RECV, connection.fileno(), ctypes.addressof(halves[0]), 2000)
    return b"".join(bytes(half) for half in halves)[:moved]


def give(how, fd, head, body):
    """Writes all of both."""
    both, at = head + body, 0
    buffer = ctypes.create_string_buffer(both, len(both))
    address = ctypes.addressof(buffer)
    if how == "vectors":
        assert os.writev(fd, [head, body]) == len(both)
    elif how == "many":
        buffers = [ctypes.create_string_buffer(part, len(part)) for part in (head, body)]
        lists = [parts_of(buffer) for buffer in buffers]
        messages = (Message * 2)(*(Message(parts=parts, count=1) for parts in lists))
        assert done(LIBC.sendmmsg(fd, messages, 2, 0)) == 2
    elif how == "messages":
        with socket.socket(fileno=os.dup(fd)) as connection:
            assert connection.sendmsg([head]) + connection.sendmsg([body]) == len(both)
    elif how == "file":
        with tempfile.TemporaryFile() as file:
            file.write(both)
            file.flush()
            while at < len(both):
                at += os.sendfile(fd, file.fileno(), at, len(both) - at)
    elif "splice" in how:
        ends = os.pipe()
        while at < len(both):
            held = os.write(ends[1], both[at:at + 4096])
            at += held
            while held:
                held -= os.splice(ends[0], fd, held) if how == "splice" else RING.ask(SPLICE, fd, 0, held, ends[0])
        os.close(ends[0])
        os.close(ends[1])
    while at < len(both) and how.startswith("ring"):
        # The rest in two parts, of which the second may be empty.
        split = max(at, len(head))
        parts = (Part * 2)(Part(address + at, split - at), Part(address + split, len(both) - split))
        message = Message(parts=parts, count=2)
        at += {"ring-writev": lambda: RING.ask(WRITEV, fd, ctypes.addressof(parts), 2),
               "ring-sendmsg": lambda: RING.ask(SENDMSG, fd, ctypes.addressof(message), 1),
               "ring-write": lambda: RING.ask(WRITE, fd, address + at, len(both) - at),
               "ring": lambda: RING.ask(SEND, fd, address + at, len(both) - at)}[how]()


HOW, PATH = sys.argv[1:]
listener = socket.socket(socket.AF_UNIX)
listener.bind(PATH)
listener.listen()
try:
    RING = Ring() if HOW.startswith("ring") else None
except OSError as error:
    sys.exit(f"io_uring_setup: {error.strerror}")
while True:
    with listener.accept()[0] as connection:
        asked = b""
        while more := take(HOW, connection):
            *lines, asked = (asked + more).split(b"\n")
            for line in lines:
                size = int(line.split()[-1])
                give(HOW, connection.fileno(), b"$%d\r\n" % size, b"v" * size + b"\r\n")
