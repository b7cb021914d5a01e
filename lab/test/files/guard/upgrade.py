"""Reads the rows of reads.py by pg8000, of whichever version is on PYTHONPATH: 1.13 keeps the statements that it has prepared, later ones
prepare them anew for each execution."""

import os

import pg8000

WORDS = dict(word.split("=") for word in os.environ["DATABASE"].split())

connection = pg8000.connect(user=WORDS["user"], host=WORDS["host"], port=int(WORDS["port"]), database=WORDS["dbname"])
connection.autocommit = True
cursor = connection.cursor()
for key in range(1000, 1200):
    cursor.execute("select payload from reads where id = %s", (key,))
    assert len(cursor.fetchone()[0]) == 100, key
connection.close()
