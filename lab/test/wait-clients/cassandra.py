# needs: cassandra-driver==3.30.1
"""Cassandra's driver HOST PORT EXECUTIONS: a statement that is prepared, and executed so often. Of the two connections, one is for control."""

import sys

from cassandra.cluster import Cluster

host, port, executions = sys.argv[1:]
cluster = Cluster([host], port=int(port), protocol_version=4, compression=False, schema_metadata_enabled=False, token_metadata_enabled=False)
session = cluster.connect()
statement = session.prepare("SELECT release_version FROM system.local WHERE key = ?")
for _ in range(int(executions)):
    assert session.execute(statement, ["local"]).one()
cluster.shutdown()
