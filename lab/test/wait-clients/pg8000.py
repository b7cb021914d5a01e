# needs: pg8000==1.31.6
"""pg8000 HOST PORT: five reads."""

import sys

import pg8000.native

connection = pg8000.native.Connection("postgres", host=sys.argv[1], port=int(sys.argv[2]), ssl_context=False)
for key in range(5):
    connection.run("SELECT :a::int", a=key)
connection.close()
