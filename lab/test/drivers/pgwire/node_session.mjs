// node-postgres: text parameters, named statements, arrays, JSON, cursors, COPY by pg-copy-streams, a pipeline of queries.
//
// Usage: node node_session.mjs PORT [ROWS], with pg, pg-cursor and pg-copy-streams installed. Prints what was done as JSON.
import { createRequire } from 'node:module';
import { pipeline } from 'node:stream/promises';
import { Readable, Writable } from 'node:stream';
const require = createRequire(process.cwd() + '/');
const pg = require('pg');
const Cursor = require('pg-cursor');
const copy = require('pg-copy-streams');

const rows = Number(process.argv[3] ?? 1000);
const db = new pg.Client({ host: '127.0.0.1', port: Number(process.argv[2]), user: 'postgres', database: 'postgres' });
await db.connect();
await db.query('drop table if exists node; create table node (id int, name text, tags int[], doc jsonb)');
for (let i = 0; i < 20; i++) {
  await db.query('insert into node values ($1, $2, $3, $4)', [i, `name ${i}`, [i, i + 1], { a: i }]);
  await db.query({ name: 'by id', text: 'select * from node where id = $1', values: [i] });
}
// Sent together: node-postgres queues them, one after the other.
await Promise.all([1, 2, 3, 4].map((i) => db.query('select tags from node where id = $1', [i])));
const text = Array.from({ length: rows }, (_, i) => `${i}\tline\\t${i}\t{${i}}\t\\N\n`);
await pipeline(Readable.from(text), db.query(copy.from('copy node from stdin')));
const csv = Array.from({ length: rows }, (_, i) => `${i}|'it''s ${i}'|{${i}}|\n`);
await pipeline(Readable.from(csv), db.query(copy.from("copy node from stdin with (format csv, delimiter '|', quote '''')")));
let failed = '';
await pipeline(Readable.from(['x\n'.repeat(70000), '1\n']), db.query(copy.from('copy node (id) from stdin'))).catch((e) => { failed = e.code; });
let bytes = 0;
const sink = new Writable({ write(chunk, _, done) { bytes += chunk.length; done(); } });
await pipeline(db.query(copy.to('copy node to stdout csv header')), sink);
const cursor = db.query(new Cursor('select id from node where id > $1 limit 35', [0]));
let read = 0;
for (let got; (got = await cursor.read(10)).length > 0; ) read += got.length;
await cursor.close();
await db.query('select 1 / $1::int', [0]).catch(() => {});
const { rows: [{ n }] } = await db.query('select count(*)::int as n from node');
await db.end();
console.log(JSON.stringify({ n, failed, bytes, read }));
