-- What did this cost us last week, and which query? Questions to the archive of `overhead agent`, for DuckDB:
--
--     (cd /var/lib/overhead && duckdb) < fleet/agent.sql
--
-- Costs are in the unit of the agents' prices. If agents run at both ends of a connection, the server's counts.

CREATE OR REPLACE TEMP TABLE asked(since TIMESTAMP);
INSERT INTO asked VALUES ((now() AT TIME ZONE 'UTC') - INTERVAL 7 DAY);

CREATE OR REPLACE TEMP VIEW all_flows AS SELECT * FROM read_parquet('agent_flows/**/*.parquet', hive_partitioning = true);
CREATE OR REPLACE TEMP VIEW flows AS
SELECT *, request_wire_bytes + response_wire_bytes AS wire_bytes, cost_nano / 1e9 AS cost FROM all_flows, asked
WHERE make_timestamp_ns(end_ns) > since AND (seen_at = 'server' OR server NOT IN (SELECT server FROM all_flows WHERE seen_at = 'server'));
CREATE OR REPLACE TEMP VIEW statements AS
SELECT *, request_wire_bytes + response_wire_bytes AS wire_bytes, cost_nano / 1e9 AS cost
FROM read_parquet('agent_statements/**/*.parquet', hive_partitioning = true), asked
WHERE make_timestamp_ns(end_ns) > since AND (seen_at = 'server' OR server NOT IN (SELECT server FROM all_flows WHERE seen_at = 'server'));

-- question 1: What is the bill, by pair of zones? Exact.
SELECT client_zone, server_zone, sum(request_wire_bytes) AS request_bytes, sum(response_wire_bytes) AS response_bytes, sum(cost) AS cost
FROM flows GROUP BY ALL ORDER BY cost DESC NULLS LAST, request_bytes + response_bytes DESC;

-- question 2: Which statements is it for? Estimated, and `within` is half of the 95% interval, if all rows have one.
SELECT system, name, left(text, 60) AS text, client_zone, server_zone, sum(operations)::BIGINT AS operations, sum(wire_bytes)::BIGINT AS bytes,
       CASE WHEN count(wire_bytes_interval) = count(*) THEN sqrt(sum(wire_bytes_interval::DOUBLE ** 2))::BIGINT END AS within, sum(cost) AS cost
FROM statements GROUP BY ALL ORDER BY cost DESC NULLS LAST, bytes DESC LIMIT 20;

-- question 3: Which clients send most?
SELECT server, client, client_container, sum(wire_bytes)::BIGINT AS bytes, sum(connections_opened)::BIGINT AS connections, sum(cost) AS cost
FROM flows GROUP BY ALL ORDER BY bytes DESC LIMIT 20;

-- question 4: When?
SELECT date_trunc('hour', make_timestamp_ns(end_ns)) AS hour, system, sum(wire_bytes)::BIGINT AS bytes, sum(cost) AS cost
FROM flows GROUP BY ALL ORDER BY hour, system;
