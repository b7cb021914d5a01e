#!/usr/bin/env python3
"""Writes the command table of a running Redis as Rust source, from its COMMAND and COMMAND DOCS.

usage: resp-commands.py HOST:PORT > ../src/resp/commands.rs

Nothing in the table is typed by hand. A newer server gives a longer table; regenerate with the newest stable one.
"""
import socket
import sys

host, port = sys.argv[1].rsplit(":", 1)
stream = socket.create_connection((host, int(port))).makefile("rwb")


def reply():
    line = stream.readline()
    kind, text = line[:1], line[1:-2]
    if kind in b"+-":
        return text.decode()
    if kind == b":":
        return int(text)
    if kind == b"$":
        if text == b"-1":
            return None
        value = stream.read(int(text))
        stream.read(2)
        return value.decode()
    return [reply() for _ in range(int(text))]


def ask(*words):
    stream.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
    stream.flush()
    return reply()


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def values_after(argument):
    """How many arguments follow the token itself; None for an open number."""
    if argument["type"] == "pure-token":
        return 0
    flags = argument.get("flags", [])
    if "multiple" in flags and "multiple_token" not in flags:
        return None
    if argument["type"] in ("block", "oneof"):
        inner = [values_after(a) if "token" not in a else None for a in map(pairs, argument["arguments"])]
        if argument["type"] == "oneof":
            return 1 if all(n == 1 for n in inner) else 0
        # Options nested behind the values are tokens of their own.
        fixed = [n for n, a in zip(inner, map(pairs, argument["arguments"])) if "optional" not in a.get("flags", [])]
        optional = len(fixed) < len(inner)
        if optional and argument["arguments"] and "optional" in pairs(argument["arguments"][0]).get("flags", []):
            return 0
        return None if None in fixed else sum(fixed)
    return 1


def tokens(arguments):
    found = []
    for argument in map(pairs, arguments):
        if argument.get("token"):
            found.append((argument["token"].upper(), values_after(argument)))
        if "arguments" in argument:
            found += tokens(argument["arguments"])
    return found


def has_token(argument):
    return bool(argument.get("token")) or any(has_token(pairs(a)) for a in argument.get("arguments", []))


def leading(arguments):
    """Positional arguments before the first that is, or may hold, a token."""
    count = 0
    for argument in map(pairs, arguments):
        flags = argument.get("flags", [])
        if has_token(argument) or "optional" in flags or "multiple" in flags:
            return count
        count += len(argument["arguments"]) if argument["type"] == "block" else 1
    return count


def positional_after(arguments):
    seen = False
    for argument in map(pairs, arguments):
        if has_token(argument):
            seen = True
        elif seen and "optional" not in argument.get("flags", []):
            return True
    return False


SCRIPTS = {"script", "function-code"}


def is_script(arguments):
    """Whether the first argument that is no option is the text of a script."""
    first = next((a for a in map(pairs, arguments) if not has_token(a)), {})
    return first.get("name") in SCRIPTS and first.get("type") == "string"


commands = {}


def collect(infos):
    for info in infos:
        name, flags, first_key, last_key, step = info[0], info[2], info[3], info[4], info[5]
        commands[name.upper()] = {"write": "write" in flags, "keys": (first_key, last_key, step), "container": bool(info[9])}
        collect(info[9])


collect(ask("COMMAND"))
docs = {}


def collect_docs(flat):
    for name, doc in pairs(flat).items():
        doc = pairs(doc)
        docs[name.upper()] = doc.get("arguments", [])
        collect_docs(doc.get("subcommands", []))


collect_docs(ask("COMMAND", "DOCS"))
version = next(line.split(":")[1] for line in ask("INFO", "server").splitlines() if line.startswith("redis_version"))

print(f"//! The command table of Redis {version}, written by `tools/resp-commands.py`. Do not edit.\n")
print("use super::wire::Command;\n")
print("/// All commands and subcommands (`CLIENT|LIST`), sorted by name.")
print("#[rustfmt::skip]\npub(super) static COMMANDS: &[Command] = &[")
for name in sorted(commands):
    c, a = commands[name], docs.get(name, [])
    toks = sorted(dict(reversed(tokens(a))).items())
    toks = ", ".join(f'("{t}", {255 if n is None else n})' for t, n in toks if t)
    first, last, step = c["keys"]
    print(f'    Command {{ name: "{name}", write: {str(c["write"]).lower()}, container: {str(c["container"]).lower()}, keys: ({first}, {last}, {step}), leading: {leading(a)}, '
          f'positional_after: {str(positional_after(a)).lower()}, script: {str(is_script(a)).lower()}, tokens: &[{toks}] }},')
print("];")
