// needs: cassandra-driver@4.10.0
// Apache Cassandra's Node.js driver: simple and prepared statements, streams of pages, batches, errors.
'use strict'
const cassandra = require('cassandra-driver')

async function main () {
  const client = new cassandra.Client({
    contactPoints: ['127.0.0.1'], localDataCenter: 'datacenter1', protocolOptions: { port: Number(process.argv[2]) }
  })
  const run = (text, values, options) => client.execute(text, values, options)
  await client.connect()
  await run('DROP KEYSPACE IF EXISTS driver_node')
  await run("CREATE KEYSPACE driver_node WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
  await run('USE driver_node') // and the driver says so once more on each connection
  await run('CREATE TABLE things (part int, id int, name text, tags set<text>, pair tuple<int, text>, n varint, PRIMARY KEY (part, id))')

  // The driver guesses the types of values that were not prepared: numbers are doubles.
  for (let id = 0; id < 5; id++) {
    await run(`INSERT INTO things (part, id, name) VALUES (0, ${id}, ?)`, ['é'.repeat(id)])
  }
  const insert = 'INSERT INTO things (part, id, name, tags, pair, n) VALUES (?, ?, ?, ?, ?, ?)'
  for (let id = 0; id < 20; id++) {
    const pair = new cassandra.types.Tuple(id, null)
    await run(insert, [1, id, null, ['a', 'b'], pair, cassandra.types.Integer.fromNumber(-id)], { prepare: true })
  }
  await Promise.all(Array.from({ length: 100 }, (_, id) => run(insert, [2, id, 'n' + id, null, undefined, null], { prepare: true })))
  await run(insert, [3, 0, 'x'.repeat(300000), null, null, null], { prepare: true })
  const big = await run('SELECT name FROM things WHERE part = ? AND id = ?', [3, 0], { prepare: true })
  if (big.first().name.length !== 300000) throw new Error('the large value')
  let rows = 0
  await new Promise((resolve, reject) => client.eachRow('SELECT * FROM things WHERE part = ?', [2],
    { prepare: true, fetchSize: 30, autoPage: true }, () => rows++, error => error ? reject(error) : resolve()))
  if (rows !== 100) throw new Error(`${rows} rows`) // 4 pages
  const queries = Array.from({ length: 8 }, (_, id) => ({ query: insert, params: [4, id, 'b', null, null, null] }))
  await client.batch(queries, { prepare: true })
  await client.batch(["DELETE FROM things WHERE part = 0 AND id = 1", "UPDATE things SET name = 'u' WHERE part = 0 AND id = 2"])
  for (const text of ['SELECT * FROM nothing_here', 'SELEC', "INSERT INTO things (part, id) VALUES (0, 'text')"]) {
    await run(text).then(() => { throw new Error(text) }, error => { if (error.code === undefined) throw error })
  }
  const asked = { DROP: 1, CREATE: 2, INSERT: 5 + 20 + 100 + 1 + 1, SELECT: 1 + 4 + 1, BATCH: 2, QUERY: 1, USE: 2 }
  const driver = `cassandra-driver ${require('cassandra-driver/package.json').version}`
  console.log(JSON.stringify({ driver, asked, errors: { SELECT: 1, QUERY: 1, INSERT: 1 } }))
  process.stdin.resume().on('end', () => client.shutdown())
}
main().catch(error => { console.error(error); process.exit(1) })
