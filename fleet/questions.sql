-- Ten questions to a data set of `overhead export --format parquet`, for DuckDB, from within its folder:
--
--     cd data && duckdb < questions.sql
--
-- Three tables say what no capture knows; fill in your own. A client or server belongs to the longest prefix that its address
-- begins with. Sums are of what was captured: of runs in windows (--sample), each stands for sample_span_ns / sample_covered_ns as much.

CREATE OR REPLACE TEMP TABLE zones(prefix VARCHAR, zone VARCHAR);
INSERT INTO zones VALUES ('127.', 'a'), ('10.0.1.', 'a'), ('10.0.2.', 'b'), ('10.0.3.', 'c'), ('[', 'a'), ('', 'elsewhere');

CREATE OR REPLACE TEMP TABLE tenants(prefix VARCHAR, tenant VARCHAR);
INSERT INTO tenants VALUES ('127.0.0.', 'local'), ('10.0.1.', 'shop'), ('10.0.2.', 'search'), ('', 'others');

-- When the release came, Unix time in nanoseconds; without one, half-way through the operations. And what a GB costs across zones.
CREATE OR REPLACE TEMP TABLE given(release_ns BIGINT, dollars_per_gb DOUBLE);
INSERT INTO given VALUES (NULL, 0.01);

CREATE OR REPLACE TEMP VIEW operations AS
SELECT *, request_wire_bytes + response_wire_bytes AS wire_bytes, outcome NOT IN ('late', 'unsolicited') AS counts
FROM read_parquet('operations/**/*.parquet', hive_partitioning = true);
CREATE OR REPLACE TEMP VIEW statements AS
SELECT statement_id, any_value(protocol) AS protocol, any_value(name) AS name, any_value(text) AS text
FROM read_parquet('statements/**/*.parquet', hive_partitioning = true) GROUP BY statement_id;
CREATE OR REPLACE TEMP VIEW connections AS SELECT * FROM read_parquet('connections/**/*.parquet', hive_partitioning = true);
CREATE OR REPLACE TEMP VIEW runs AS SELECT * FROM read_parquet('runs/**/*.parquet', hive_partitioning = true);

CREATE OR REPLACE TEMP MACRO zone_of(address) AS
    (SELECT arg_max(zone, length(prefix)) FROM zones WHERE starts_with(address, prefix));
CREATE OR REPLACE TEMP MACRO tenant_of(address) AS
    (SELECT arg_max(tenant, length(prefix)) FROM tenants WHERE starts_with(address, prefix));
CREATE OR REPLACE TEMP VIEW released AS
SELECT coalesce((SELECT release_ns FROM given), (SELECT approx_quantile(start_ns, 0.5) FROM operations)) AS release_ns;

-- question 1: Which statements take the most bytes?
SELECT protocol, name, left(text, 60) AS text, count(*) FILTER (WHERE counts) AS operations, sum(wire_bytes) AS bytes,
       round(100 * sum(wire_bytes) / sum(sum(wire_bytes)) OVER (), 2) AS percent
FROM operations JOIN statements USING (statement_id, protocol, name)
GROUP BY ALL ORDER BY bytes DESC, text LIMIT 20;

-- question 2: How many bytes does each tenant move, and how many per operation?
SELECT tenant_of(client) AS tenant, count(*) FILTER (WHERE counts) AS operations, sum(wire_bytes) AS bytes,
       round(avg(wire_bytes) FILTER (WHERE counts AND outcome <> 'cut'), 1) AS bytes_per_operation
FROM operations GROUP BY tenant ORDER BY bytes DESC;

-- question 3: What did this release change, statement by statement?
SELECT name, left(text, 60) AS text,
       count(*) FILTER (WHERE start_ns < release_ns) AS operations_before,
       count(*) FILTER (WHERE start_ns >= release_ns) AS operations_after,
       round(avg(wire_bytes) FILTER (WHERE start_ns < release_ns), 2) AS bytes_before,
       round(avg(wire_bytes) FILTER (WHERE start_ns >= release_ns), 2) AS bytes_after,
       quantile_disc(latency_ns, 0.5) FILTER (WHERE start_ns < release_ns) AS median_ns_before,
       quantile_disc(latency_ns, 0.5) FILTER (WHERE start_ns >= release_ns) AS median_ns_after
FROM operations JOIN statements USING (statement_id, protocol, name), released
WHERE counts AND class = 'workload' AND outcome <> 'cut'
GROUP BY ALL ORDER BY abs(coalesce(bytes_after - bytes_before, 0)) DESC, text LIMIT 20;

-- question 4: What do bytes across zones cost, by statement?
SELECT name, left(text, 60) AS text, zone_of(client) AS client_zone, zone_of(server) AS server_zone,
       sum(wire_bytes) AS bytes, sum(wire_bytes) / 1e9 * any_value(dollars_per_gb) AS dollars
FROM operations JOIN statements USING (statement_id, protocol, name), given
WHERE zone_of(client) <> zone_of(server)
GROUP BY ALL ORDER BY bytes DESC, text LIMIT 20;

-- question 5: Which share of the bytes is the users' own data, by operation?
SELECT protocol, name, via, sum(request_data_bytes + response_data_bytes) AS data_bytes, sum(wire_bytes) AS bytes,
       round(100 * sum(request_data_bytes + response_data_bytes) / sum(wire_bytes), 2) AS percent_data
FROM operations WHERE class = 'workload' GROUP BY ALL ORDER BY bytes DESC, name;

-- question 6: Which statements are slow, and how often?
SELECT name, left(text, 60) AS text, count(latency_ns) AS answered, quantile_disc(latency_ns, 0.5) AS p50_ns,
       quantile_disc(latency_ns, 0.99) AS p99_ns, max(latency_ns) AS max_ns
FROM operations JOIN statements USING (statement_id, protocol, name)
WHERE class = 'workload' GROUP BY ALL HAVING answered > 0 ORDER BY p99_ns DESC, text LIMIT 20;

-- question 7: What fails, and what do failures cost?
SELECT protocol, name, outcome, count(*) AS operations, sum(wire_bytes) AS bytes
FROM operations WHERE outcome IN ('error', 'unanswered') GROUP BY ALL ORDER BY operations DESC, name;

-- question 8: Between whom is traffic repeated?
SELECT regexp_replace(client, ':[0-9]+$', '') AS client, server,
       sum(request_retransmission_bytes + response_retransmission_bytes) AS repeated_bytes,
       round(100 * sum(request_retransmission_bytes + response_retransmission_bytes) / sum(wire_bytes), 3) AS percent
FROM operations GROUP BY ALL HAVING repeated_bytes > 0 ORDER BY repeated_bytes DESC, client LIMIT 20;

-- question 9: Who connects anew for a few operations, and what does connecting take of the bytes?
SELECT coalesce(client_software, '(unnamed)') AS software, count(*) AS connections,
       quantile_disc(c.operations, 0.5) AS operations_of_each, sum(c.wire_bytes) AS bytes, sum(o.setup_bytes) AS setup_bytes
FROM connections c JOIN (
    SELECT host, run, connection_id, sum(wire_bytes) FILTER (WHERE class = 'setup') AS setup_bytes
    FROM operations GROUP BY ALL
) o USING (host, run, connection_id)
GROUP BY software ORDER BY connections DESC;

-- question 10: Can all of this be believed?
SELECT host, run, wire_bytes, other_bytes, balanced, difference, gap_bytes, exit_status, warnings FROM runs
ORDER BY exit_status DESC, host, run;
