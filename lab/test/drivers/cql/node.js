// needs: cassandra-driver@4.10.0
// Apache Cassandra's Node.js driver: simple and prepared statements, streams of pages, batches, errors.
const cassandra = require('cassandra-driver')
const { run, times, version } = require('./driver')

run(async port => {
  const client = new cassandra.Client({
    contactPoints: ['127.0.0.1'], localDataCenter: 'datacenter1', protocolOptions: { port }
  })
  const ask = (text, values, options) => client.execute(text, values, options)
  await client.connect()
  await ask('DROP KEYSPACE IF EXISTS driver_node')
  await ask("CREATE KEYSPACE driver_node WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
  await ask('USE driver_node') // and the driver says so once more on each connection
  await ask('CREATE TABLE things (part int, id int, name text, tags set<text>, pair tuple<int, text>, n varint, PRIMARY KEY (part, id))')

  // The driver guesses the types of values that were not prepared: numbers are doubles.
  for (let id = 0; id < 5; id++) {
    await ask(`INSERT INTO things (part, id, name) VALUES (0, ${id}, ?)`, ['é'.repeat(id)])
  }
  const insert = 'INSERT INTO things (part, id, name, tags, pair, n) VALUES (?, ?, ?, ?, ?, ?)'
  for (let id = 0; id < 20; id++) {
    const pair = new cassandra.types.Tuple(id, null)
    await ask(insert, [1, id, null, ['a', 'b'], pair, cassandra.types.Integer.fromNumber(-id)], { prepare: true })
  }
  await Promise.all(times(100, id => ask(insert, [2, id, 'n' + id, null, undefined, null], { prepare: true })))
  await ask(insert, [3, 0, 'x'.repeat(300000), null, null, null], { prepare: true })
  const big = await ask('SELECT name FROM things WHERE part = ? AND id = ?', [3, 0], { prepare: true })
  if (big.first().name.length !== 300000) throw new Error('the large value')
  let rows = 0
  await new Promise((resolve, reject) => client.eachRow('SELECT * FROM things WHERE part = ?', [2],
    { prepare: true, fetchSize: 30, autoPage: true }, () => rows++, error => error ? reject(error) : resolve()))
  if (rows !== 100) throw new Error(`${rows} rows`) // 4 pages
  const queries = times(8, id => ({ query: insert, params: [4, id, 'b', null, null, null] }))
  await client.batch(queries, { prepare: true })
  await client.batch(["DELETE FROM things WHERE part = 0 AND id = 1", "UPDATE things SET name = 'u' WHERE part = 0 AND id = 2"])
  for (const text of ['SELECT * FROM nothing_here', 'SELEC', "INSERT INTO things (part, id) VALUES (0, 'text')"]) {
    await ask(text).then(() => { throw new Error(text) }, error => { if (error.code === undefined) throw error })
  }
  const asked = { DROP: 1, CREATE: 2, INSERT: 5 + 20 + 100 + 1 + 1, SELECT: 1 + 4 + 1, BATCH: 2, QUERY: 1, USE: 2 }
  const errors = { SELECT: 1, QUERY: 1, INSERT: 1 }
  return { driver: version('cassandra-driver'), asked, errors, close: () => client.shutdown() }
})
