// needs: pg@8.23.1 pg-copy-streams@7.0.0 pg-cursor@2.22.0
// node-postgres: a pool, simple, unnamed and named statements, all in text format, cursors, COPY both ways, errors.
const { Pool } = require('pg')
const Cursor = require('pg-cursor')
const { from, to } = require('pg-copy-streams')
const { pipeline } = require('node:stream/promises')
const { Readable, Writable } = require('node:stream')
const { run, times, version } = require('./driver')

run(async port => {
  const pool = new Pool({ host: '127.0.0.1', port, user: 'postgres', database: 'bench', max: 4 })
  await pool.query('DROP TABLE IF EXISTS driver_node')
  await pool.query('CREATE TABLE driver_node (id int PRIMARY KEY, name text, doc jsonb, tags text[])')
  const insert = 'INSERT INTO driver_node VALUES ($1, $2, $3, $4)'
  for (let id = 0; id < 20; id++) await pool.query(insert, [id, 'name ' + id, { id }, ['a "quoted"', null]])
  // 100 at once over 4 connections, each of which prepares its own.
  await Promise.all(times(100, id =>
    pool.query({ name: 'by-id', text: 'SELECT * FROM driver_node WHERE id = $1', values: [id % 20] })))
  const client = await pool.connect()
  await client.query('BEGIN')
  const cursor = client.query(new Cursor('SELECT * FROM generate_series(1, 100)'))
  for (const due of [40, 40, 20]) if ((await cursor.read(40)).length !== due) throw new Error('the cursor')
  await cursor.close()
  await client.query('COMMIT')
  const lines = times(1000, id => `${1000 + id}\tna\\tme\t{"a": 1}\t{x,y}\n`)
  await pipeline(Readable.from(lines), client.query(from('COPY driver_node FROM STDIN')))
  let size = 0
  await pipeline(client.query(to('COPY driver_node TO STDOUT (FORMAT csv)')),
    new Writable({ write (chunk, _, done) { size += chunk.length; done() } }))
  if (size < 10000) throw new Error(`${size} B`)
  const big = await client.query('SELECT $1::text AS big', ['é'.repeat(300000)])
  if (big.rows[0].big.length !== 300000) throw new Error('the large value')
  for (const [text, values] of [['SELECT * FROM nothing_here', []], ['SELECT 1 / $1::int', [0]], ['SELEC', []]]) {
    await client.query(text, values).then(() => { throw new Error(text) }, error => { if (!error.code) throw error })
  }
  const heard = new Promise(resolve => client.once('notification', resolve))
  await client.query('LISTEN here')
  await client.query("NOTIFY here, 'payload'")
  await heard
  await client.query('') // an empty query
  client.release()
  const asked = { DROP: 1, CREATE: 1, INSERT: 20, SELECT: 100 + 3 + 1 + 2, COPY: 2, BEGIN: 1, COMMIT: 1, LISTEN: 1, NOTIFY: 1, EMPTY: 1, SELEC: 1 }
  // The cursor is one call to the server, and three Executes.
  return { driver: version('pg'), asked, errors: { SELECT: 2, SELEC: 1 }, server: { SELECT: -2 }, close: () => pool.end() }
})
