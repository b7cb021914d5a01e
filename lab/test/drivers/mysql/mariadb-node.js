// needs: mariadb@3.5.4
// MariaDB's driver for Node.js: batches in one bulk request, a file of the client's, a stream of rows, a procedure with two results, columns
// that are not described again, errors; with `compress` in compressed packets, with `pipelining` written before earlier ones are answered.
const fs = require('fs')
const os = require('os')
const path = require('path')
const mariadb = require('mariadb')
const { run, times } = require('./driver')

run(async (port, how) => {
  const db = await mariadb.createConnection({
    host: '127.0.0.1', port, user: 'root', database: 'bench', pipelining: how === 'pipelining', permitLocalInfile: how !== 'pipelining',
    compress: how === 'compress', allowPublicKeyRetrieval: true, bulk: true
  })
  await db.query('DROP TABLE IF EXISTS driver_mariadb')
  await db.query('CREATE TABLE driver_mariadb (id INT PRIMARY KEY, name LONGTEXT, at DATETIME(6))')
  for (let id = 0; id < 10; id++) await db.execute('INSERT INTO driver_mariadb VALUES (?, ?, ?)', [id, 'name ' + id, new Date(1.7e12 + id)])
  const rows = await Promise.all(times(20, id => db.execute('SELECT * FROM driver_mariadb WHERE id = ?', [id % 10])))
  if (rows.some(([row], id) => row.name !== 'name ' + id % 10)) throw new Error('another row')
  const texts = await Promise.all(times(20, id => db.query('SELECT name FROM driver_mariadb WHERE id = ?', [id % 10])))
  if (texts.some(([row], id) => row.name !== 'name ' + id % 10)) throw new Error('another row')
  await db.batch('INSERT INTO driver_mariadb VALUES (?, ?, NULL)', times(500, id => [1000 + id, 'y'.repeat(id)]))
  const file = path.join(os.tmpdir(), 'overhead-driver-' + process.pid)
  fs.writeFileSync(file, '200\ta\n201\tb\n')
  // The driver does not pipeline where files may be sent.
  if (how === 'pipelining') await db.query("INSERT INTO driver_mariadb VALUES (200, 'a', NULL), (201, 'b', NULL)")
  else await db.query(`LOAD DATA LOCAL INFILE '${file}' INTO TABLE driver_mariadb (id, name)`)
  fs.unlinkSync(file)
  let streamed = 0
  for await (const row of db.queryStream('SELECT * FROM driver_mariadb')) streamed += row.id >= 0
  if (streamed !== 512) throw new Error(streamed + ' rows')
  await db.query('DROP PROCEDURE IF EXISTS driver_three')
  await db.query('CREATE PROCEDURE driver_three() BEGIN SELECT 1; SELECT 2; END')
  if ((await db.query('CALL driver_three()')).length !== 3) throw new Error('the results')
  const failed = await Promise.allSettled(['SELECT * FROM nothing_here', 'INSERT INTO driver_mariadb (id) VALUES (1)', 'SELECT 1'].map(text => db.query(text)))
  if (failed.map(({ status }) => status).join() !== 'rejected,rejected,fulfilled') throw new Error('the errors')
  await db.beginTransaction()
  await db.query('DELETE FROM driver_mariadb WHERE id > 1')
  await db.rollback()
  await db.ping()
  await db.reset()
  return {
    driver: 'MariaDB Connector/Node.js',
    asked: {
      DROP: 2, CREATE: 2, SELECT: 43, CALL: 1, START: 1, DELETE: 1, ROLLBACK: 1, PING: 1, ...how === 'pipelining' ? { INSERT: 13 } : { INSERT: 12, LOAD: 1 }
    },
    errors: { SELECT: 1, INSERT: 1 },
    pipelines: how === 'pipelining',
    // Of the procedure; and those that the reset has closed already are closed once more, which does not count.
    server: { Com_select: 2, Com_stmt_close: -3 },
    close: () => db.end()
  }
})
