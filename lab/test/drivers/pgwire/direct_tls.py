"""Ends TLS for a PostgreSQL server without it: libpq's `sslnegotiation=direct` begins with TLS, without SSLRequest.

Usage: direct_tls.py LISTEN_PORT SERVER_PORT CERTIFICATE KEY KEYLOG. Serves until it is ended.
"""

import socket
import ssl
import sys
import threading


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        try:
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def serve(raw, context, port):
    try:
        client = context.wrap_socket(raw, server_side=True)
    except OSError as error:
        print(error, file=sys.stderr)
        return
    server = socket.create_connection(("127.0.0.1", port))
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    pump(client, server)


def main(listen, server, certificate, key, keylog):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["postgresql"])
    context.keylog_filename = keylog
    with socket.create_server(("127.0.0.1", int(listen))) as listener:
        while True:
            raw, _ = listener.accept()
            threading.Thread(target=serve, args=(raw, context, int(server)), daemon=True).start()


main(*sys.argv[1:])
