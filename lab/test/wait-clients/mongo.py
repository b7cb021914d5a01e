# needs: pymongo==4.20.0
"""pymongo HOST PORT [PLAIN]: five reads, after authentication if there is a further argument. A monitor has a connection of its own, and asks once."""

import sys

import pymongo

host, port, *mechanism = sys.argv[1:]
more = {"username": "postgres", "password": "secret", "authSource": "$external", "authMechanism": mechanism[0]} if mechanism else {}
with pymongo.MongoClient(host, int(port), directConnection=True, serverMonitoringMode="poll", **more) as client:
    for key in range(5):
        assert client.waits.things.find_one({"_id": key}) is None
