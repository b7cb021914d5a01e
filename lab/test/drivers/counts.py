"""Messages of a capture by type: as overhead counts them, as tshark does, and for RESP3, which tshark cannot read, by the
lengths of the specification."""

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OVERHEAD = os.environ.get("OVERHEAD", ROOT / "target/debug/overhead")
COUNT_MESSAGES = os.environ.get("COUNT_MESSAGES", ROOT / "target/debug/examples/count_messages")

# What tshark calls the types of PostgreSQL's messages, by sender and type byte.
FRONTEND = {
    "B": "Bind", "C": "Close", "D": "Describe", "E": "Execute", "F": "Function call", "H": "Flush", "P": "Parse",
    "Q": "Simple query", "S": "Sync", "X": "Termination", "c": "Copy completion", "d": "Copy data",
    "f": "Copy failure",
}
BACKEND = {
    "1": "Parse completion", "2": "Bind completion", "3": "Close completion", "A": "Notification",
    "C": "Command completion", "D": "Data row", "E": "Error", "G": "CopyIn response", "H": "CopyOut response",
    "I": "Empty query", "K": "Backend key data", "N": "Notice", "R": "Authentication request", "S": "Parameter status",
    "T": "Row description", "V": "Function call response", "Z": "Ready for query", "c": "Copy completion",
    "d": "Copy data", "n": "No data", "s": "Portal suspended", "t": "Parameter description",
}
# Messages without a type byte, by the field that stands for one.
REQUESTS = "SSL, GSS or cancel request"
UNTYPED = {"protocol version": "Startup message", "request code": REQUESTS}
# RESP: the fields that start an element, and the elements that tshark decodes (RESP2).
ELEMENTS = {"argument count", "argument length", "count", "length", "null", "type"}
RESP = {"*": "resp.array", "$": "resp.bulk_string", "+": "resp.string", "-": "resp.error", ":": "resp.integer"}
UNFINISHED = "resp.reassembled_in_next_frame"
# CQL's opcodes, as the specification names them.
CQL = {
    0: "ERROR", 1: "STARTUP", 2: "READY", 3: "AUTHENTICATE", 5: "OPTIONS", 6: "SUPPORTED", 7: "QUERY", 8: "RESULT",
    9: "PREPARE", 10: "EXECUTE", 11: "REGISTER", 12: "EVENT", 13: "BATCH", 14: "AUTH_CHALLENGE", 15: "AUTH_RESPONSE",
    16: "AUTH_SUCCESS",
}
# MongoDB's, of which the lowest byte tells them apart.
MONGO = {1: "OP_REPLY", 2001: "OP_UPDATE", 2002: "OP_INSERT", 2004: "OP_QUERY", 2005: "OP_GET_MORE", 2006: "OP_DELETE",
         2007: "OP_KILL_CURSORS", 2012: "OP_COMPRESSED", 2013: "OP_MSG"}
DISSECTORS = {"redis": "resp", "postgres": "pgsql", "cassandra": "cql", "mongodb": "mongo", "http": "http", "mysql": "mysql",
              "memcached": "memcache"}
# MySQL: the fields of a server's messages whose number is counted, in overhead's words and tshark's.
MYSQL = {"server version": "mysql.version", "affected rows": "mysql.affected_rows", "error": "mysql.error_code",
         "original name": "mysql.field.org_name"}
# HTTP: the fields that are counted by their first character, and those whose number is counted, in overhead's words and tshark's.
HTTP_KINDS = {"method": "http.request.method", "status code": "http.response.code"}
HTTP_PARTS = {"header name": ("http.request.line", "http.response.line"), "chunk size": ("http.chunk_size",)}


class Incomplete(Exception):
    """A capture lacks bytes."""


def ours(protocol, port, capture):
    """Counts by (side, field, first byte)."""
    command = [COUNT_MESSAGES, protocol, str(port), capture]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        side, field, first, count = line.split("\t")
        yield side, field, int(first), int(count)


def our_messages(protocol, port, capture):
    """What overhead's decoders met, by type of message, for RESP by type of element."""
    counts = Counter()
    for side, field, first, count in ours(protocol, port, capture):
        if name := named(protocol, side, field, first):
            counts[name] += count
    return counts + memcached_words(port, capture) if protocol == "memcached" else counts


def named(protocol, side, field, first):
    """What a field is counted as, by its first byte; None where it is not."""
    sender = f"of the {'client' if side == 'request' else 'server'}"
    match protocol, field, side:
        case "redis", _, _ if field in ELEMENTS:
            return RESP.get(chr(first), f"RESP3 {chr(first)}")
        case "postgres", "message type", _:
            return (FRONTEND if side == "request" else BACKEND).get(chr(first), f"{side} {chr(first)}")
        case "postgres", _, _:
            return UNTYPED.get(field)
        case "cassandra", "opcode", _:
            return CQL.get(first, f"opcode {first}")
        case "http", _, _:
            return f"{field} {chr(first)}…" if field in HTTP_KINDS else field if field in HTTP_PARTS else None
        case "mysql", "command", "request":
            return f"command {first}"
        case "mysql", "message", "response" if first == 255:
            return "error"
        case "mysql", _, "response" if field in MYSQL:
            return field
        case "memcached", "opcode", _:
            return f"{MEMCACHED[first]} {sender}"
        case "mongodb", "opcode", _:
            return f"{next((name for opcode, name in MONGO.items() if opcode & 255 == first), first)} {sender}"


def memcached_words(port, capture):
    """Requests of memcached's text protocol by their first word, as the record has them: only their first byte is a field's."""
    command = [OVERHEAD, "analyze", "--db", "memcached", "--port", str(port), "--format", "json", capture]
    record = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    rows = (row for row in record["operations"] if row["via"] == "text" and row["name"] != "CONNECT")
    return Counter({row["name"]: row["count"] + row["unsolicited"] for row in rows})


def tshark_messages(protocol, port, capture, options=()):
    """Counts of what tshark dissects, packets that it has seen before left out as overhead leaves them out."""
    dissector = DISSECTORS[protocol]
    command = ["tshark", "-r", capture, *options, "-o", "tcp.reassemble_out_of_order:TRUE", "-d",
               f"tcp.port=={port},{dissector}", "-Y", dissector]
    if protocol == "cassandra":
        return Counter({CQL[int(opcode, 0)]: count for opcode, count in fields_of(command, {"cql.opcode": "{}"}).items()})
    if protocol == "mongodb":
        return opcodes(port, command, dissector, MONGO)
    if protocol == "mysql":
        return fields_of(command, {"mysql.command": "command {}", **{theirs: name for name, theirs in MYSQL.items()}})
    if protocol == "memcached":
        asked = fields_of([*command, "-Y", f"memcache && tcp.dstport=={port}"], {"memcache.command": "{}"})
        return asked + opcodes(port, command, dissector, MEMCACHED)
    tree = ElementTree.fromstring(subprocess.run([*command, "-T", "pdml"], check=True, capture_output=True).stdout)
    counts = Counter()
    # What tshark shows of an element that goes on in the next frame it shows there once more.
    parts = [part for part in tree.iter("proto") if not any(field.get("name") == UNFINISHED for field in part.iter("field"))]
    for field in (field for part in parts for field in part.iter("field")):
        name = field.get("name")
        if protocol == "redis" and name in RESP.values():
            counts[name] += 1
        elif protocol == "http" and name in HTTP_KINDS.values():
            kind = next(kind for kind, theirs in HTTP_KINDS.items() if theirs == name)
            counts[f"{kind} {field.get('show')[0]}…"] += 1
        elif protocol == "http" and any(name in theirs for theirs in HTTP_PARTS.values()):
            counts[next(part for part, theirs in HTTP_PARTS.items() if name in theirs)] += 1
        elif protocol == "postgres" and name == "pgsql.type":
            name = field.get("show").strip()
            counts[REQUESTS if name in ("SSL request", "GSS encrypt request", "Cancel request") else name] += 1
    return counts


def fields_of(command, names):
    """tshark's counts of fields, by what `names` makes of each value of theirs."""
    counts = Counter()
    for field, name in names.items():
        lines = subprocess.run([*command, "-T", "fields", "-e", field], check=True, capture_output=True, text=True).stdout
        counts.update(name.format(value) for value in lines.replace(",", "\n").split("\n") if value)
    return counts


def opcodes(port, command, dissector, names):
    """tshark's counts of opcodes by their name and who sent them."""
    counts = Counter()
    for sender, end in (("client", "dst"), ("server", "src")):
        found = fields_of([*command, "-Y", f"{dissector} && tcp.{end}port=={port}"], {f"{dissector}.opcode": "{}"})
        counts.update({f"{names[int(opcode)]} of the {sender}": count for opcode, count in found.items()})
    return counts


def streams(port, capture):
    """The bytes of each connection and direction in order, put together from tshark's TCP fields: {((stream, the client's
    port), side): bytes}. A byte that came twice is in it once. Ends the check where bytes are missing."""
    command = ["tshark", "-r", capture, "-o", "tcp.relative_sequence_numbers:FALSE", "-d", f"tcp.port=={port},data",
               "-Y", f"tcp.port=={port}", "-T", "fields"]
    for field in ("tcp.stream", "tcp.srcport", "tcp.dstport", "tcp.flags.syn", "tcp.seq_raw", "tcp.payload"):
        command += ["-e", field]
    segments, starts = defaultdict(list), {}
    for line in subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        stream, of, to, syn, seq, payload = line.split("\t")
        key = ((int(stream), int(of)), "request") if int(to) == port else ((int(stream), int(to)), "response")
        if syn in ("1", "True"):
            starts[key] = (int(seq) + 1) & 0xffffffff
        if payload:
            segments[key].append((int(seq), bytes.fromhex(payload.replace(":", ""))))
    return {key: join(starts[key], parts) for key, parts in segments.items()}


def join(start, parts):
    """One direction's segments in order."""
    whole = bytearray()
    for at, payload in sorted(((seq - start) & 0xffffffff, payload) for seq, payload in parts):
        if at == 0xffffffff and len(payload) == 1:
            continue  # a keep-alive before the first byte
        if at > len(whole):
            raise Incomplete(f"the capture lacks {at - len(whole)} bytes")
        whole += payload[len(whole) - at:]
    return bytes(whole)


# memcached's opcodes, by the names of their commands.
MEMCACHED = ("get set add replace delete incr decr quit flush_all getq noop version getk getkq append prepend stats setq addq "
             "replaceq deleteq incrq decrq quitq flush_allq appendq prependq verbosity touch gat gatq (31) "
             "sasl_list sasl_auth sasl_step gatk gatkq").split()


def resp_elements(streams_):
    """Elements of RESP2 and RESP3 by their type byte. Inline commands are not elements; no driver sends any."""
    counts = Counter()
    for stream in streams_.values():
        at = 0
        while at < len(stream):
            kind, end = chr(stream[at]), stream.index(b"\r\n", at)
            counts[RESP.get(kind, f"RESP3 {kind}")] += 1
            size, at = stream[at + 1:end], end + 2
            if kind in "$=!" and not size.startswith(b"-"):
                at += int(size) + 2
    return counts
