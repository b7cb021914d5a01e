"""tls-client.py PORT sync|asyncio|old: waits for a line on standard input, and then asks tls-server by TLS of the version $TLS.

`sync` connects again with the first session; `old` connects before it waits. Secrets go to $SSLKEYLOGFILE.
"""
import asyncio
import os
import socket
import ssl
import sys

SIZES = (1, 100, 4000, 70000, 500000)
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.minimum_version = context.maximum_version = ssl.TLSVersion["TLSv" + os.environ["TLS"].replace(".", "_")]
end = ("127.0.0.1", int(sys.argv[1]))


def wait():
    print("ready", flush=True)
    sys.stdin.readline()


def ask(connection):
    answers = connection.makefile("rb")
    for n in SIZES:
        connection.sendall(b"PING\r\nGET %d\r\n" % n)
        assert answers.readline() == b"+PONG\r\n" and answers.readline() == b"$%d\r\n" % n
        assert len(answers.read(n + 2)) == n + 2


def talk(session=None):
    with context.wrap_socket(socket.create_connection(end), session=session) as connection:
        ask(connection)
        return connection.session


async def talk_by_memory():
    reader, writer = await asyncio.open_connection(*end, ssl=context)
    for n in SIZES:
        writer.write(b"PING\r\nGET %d\r\n" % n)
        await writer.drain()
        assert await reader.readline() == b"+PONG\r\n" and await reader.readline() == b"$%d\r\n" % n
        assert len(await reader.readexactly(n + 2)) == n + 2
    writer.close()


if sys.argv[2] == "old":
    with context.wrap_socket(socket.create_connection(end)) as early:
        ask(early)
        wait()
        ask(early)
else:
    wait()
    asyncio.run(talk_by_memory()) if sys.argv[2] == "asyncio" else talk(talk())
