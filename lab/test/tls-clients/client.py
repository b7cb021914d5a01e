"""client.py PORT: waits for a line on standard input, and then sets and gets values by TLS of the version $TLS, with the OpenSSL that
the package `cryptography` brings."""
import os
import socket
import sys

from OpenSSL import SSL

context = SSL.Context(SSL.SSLv23_METHOD)
version = {"1.2": 0x303, "1.3": 0x304}[os.environ["TLS"]]
context.set_min_proto_version(version)
context.set_max_proto_version(version)
print("ready", flush=True)
sys.stdin.readline()
connection = SSL.Connection(context, socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
connection.set_connect_state()
connection.do_handshake()
for length in (1, 100, 20_000):
    connection.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" % (length, b"v" * length))
    left = len(b"+OK\r\n$%d\r\n\r\n" % length) + length
    while left:
        left -= len(connection.recv(left))
connection.shutdown()
connection.close()
