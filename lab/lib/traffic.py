"""Capture files made for measuring: copies of a capture as further connections, and many connections at once.

The copies are of Ethernet, IPv4 and TCP, as tcpdump writes them on loopback. Checksums are left as they are: nobody checks
them in captures made before the network card fills them in.
"""

import random
import struct
from pathlib import Path

HEADER = struct.Struct("<IHHiIII")
RECORD = struct.Struct("<IIII")
ETHERNET = bytes(12) + b"\x08\x00"


def packets(path):
    """The frames of a pcap file in this machine's byte order: time in units of the file, bytes, length on the wire."""
    data = Path(path).read_bytes()
    at = HEADER.size
    while at + RECORD.size <= len(data):
        seconds, fraction, captured, wire = RECORD.unpack_from(data, at)
        at += RECORD.size
        yield seconds, fraction, data[at:at + captured], wire
        at += captured


def copies(source, target, server_port, size):
    """Writes the capture again and again, each time between other client ports and later, up to `size` bytes.

    Gives the number of frames.
    """
    template = Path(source).read_bytes()[:HEADER.size]
    body, clients, times = bytearray(), [], []
    first = None
    for seconds, fraction, frame, wire in packets(source):
        first = seconds if first is None else first
        times.append((len(body), seconds))
        body += RECORD.pack(seconds, fraction, len(frame), wire)
        if frame[12:14] == b"\x08\x00" and frame[23] == 6:
            tcp = 14 + 4 * (frame[14] & 15)
            ports = struct.unpack_from(">HH", frame, tcp)
            for offset, port in zip((tcp, tcp + 2), ports):
                if port != server_port:
                    clients.append((len(body) + offset, port))
        body += frame
    length = times[-1][1] - first + 1
    frames, written = 0, 0
    with open(target, "wb") as out:
        out.write(template)
        while written < size or not frames:
            out.write(body)
            written += len(body)
            frames += len(times)
            for at, seconds in times:
                struct.pack_into("<I", body, at, seconds + length * (frames // len(times)))
            # Prime to the number of ports, so that a port comes again after all the others.
            for index, (at, port) in enumerate(clients):
                port = 1024 + (port - 1024 + 997) % 64000
                port += port == server_port
                clients[index] = (at, port)
                struct.pack_into(">H", body, at, port)
    return frames


def bursts(source, target, server_port, conversations, seed=7):
    """Writes the capture again and again, as conversations of half a second or so, each slower or faster than the others, by another client.

    They follow one another closely for a while, and then with pauses. Gives the number of frames.
    """
    chance = random.Random(seed)
    frames = [(seconds, fraction, bytearray(data), wire) for seconds, fraction, data, wire in packets(source)]
    # Units of the file's fractions in a second, by its first bytes.
    unit = 1_000_000_000 if Path(source).read_bytes()[:4] == b"\x4d\x3c\xb2\xa1" else 1_000_000
    times = [seconds * unit + fraction for seconds, fraction, _, _ in frames]
    length, start, written = times[-1] - times[0] + 1, 1_700_000_000 * unit, 0
    with open(target, "wb") as out:
        out.write(Path(source).read_bytes()[: HEADER.size])
        for conversation in range(conversations):
            stretch = chance.uniform(0.2, 0.8) * unit / length
            for (_, _, data, wire), time in zip(frames, times):
                tcp = 14 + 4 * (data[14] & 15)
                for at in (tcp, tcp + 2):
                    (port,) = struct.unpack_from(">H", data, at)
                    if port != server_port:
                        struct.pack_into(">H", data, at, 1024 + (port - 1024 + 997) % 64000)
                seconds, fraction = divmod(start + int((time - times[0]) * stretch), unit)
                out.write(RECORD.pack(seconds, fraction, len(data), wire) + data)
                written += 1
            start += int(length * stretch) + int(chance.expovariate(10 if conversation % 40 < 25 else 1) * unit)
    return written
