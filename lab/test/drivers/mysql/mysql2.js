// needs: mysql2@3.24.6
// mysql2: text and prepared statements, several statements at once, a file of the client's, another user, a row of 20 MB, errors in the
// midst of rows; with `compress` in compressed packets.
const { Readable } = require('stream')
const mysql = require('mysql2/promise')
const { run, times, version } = require('./driver')

run(async (port, how) => {
  const db = await mysql.createConnection({
    host: '127.0.0.1', port, user: 'root', database: 'bench', multipleStatements: true,
    compress: how === 'compress'
  })
  const fails = async (text) => { try { await db.query(text) } catch (error) { return } throw new Error('no error: ' + text) }
  await db.query('DROP TABLE IF EXISTS driver_mysql2')
  await db.query('CREATE TABLE driver_mysql2 (id INT PRIMARY KEY, name LONGTEXT, doc JSON, at DATETIME(3), big BIGINT UNSIGNED)')
  for (let id = 0; id < 20; id++) {
    await db.execute('INSERT INTO driver_mysql2 VALUES (?, ?, ?, ?, ?)', [id, 'name ' + id, { id }, new Date(1.7e12 + id), '18446744073709551615'])
  }
  // The driver keeps statements, and writes several requests before it reads.
  const rows = await Promise.all(times(20, id => db.execute('SELECT * FROM driver_mysql2 WHERE id = ?', [id])))
  if (rows.some(([[row]], id) => row.name !== 'name ' + id)) throw new Error('another row')
  await db.query('INSERT INTO driver_mysql2 (id, name) VALUES ?', [times(300, id => [1000 + id, 'x'.repeat(id)])])
  const [all] = await db.query({ sql: 'SELECT id, name FROM driver_mysql2', rowsAsArray: true })
  if (all.length !== 320) throw new Error(all.length + ' rows')
  await db.beginTransaction()
  await db.query('UPDATE driver_mysql2 SET name = ? WHERE id < 5', [null])
  await db.rollback()
  const [sets] = await db.query('SELECT 1; SELECT 2, 3; DO 1')
  if (sets.length !== 3) throw new Error(sets.length + ' results')
  const infileStreamFactory = () => Readable.from([Buffer.from('200\ta\n'), Buffer.from('201\tb\n')])
  await db.query({ sql: "LOAD DATA LOCAL INFILE 'rows' INTO TABLE driver_mysql2 (id, name)", infileStreamFactory })
  await db.query('INSERT INTO driver_mysql2 (id, name) VALUES (?, ?)', [100, 'large'.repeat(2000000)])
  const [[large]] = await db.query('SELECT name, name AS other FROM driver_mysql2 WHERE id = 100') // longer than a packet can be
  if (large.name.length + large.other.length !== 20000000) throw new Error('the large row')
  // Two rows, and an error in place of the third.
  await fails('SELECT IF(id < 2, id, (SELECT 1 UNION SELECT 2)) FROM driver_mysql2 WHERE id < 4 ORDER BY id')
  await fails('SELEC 1')
  await db.ping()
  await db.changeUser({ database: 'bench' })
  const statement = await db.prepare('SELECT ? + 1 AS n')
  for (let n = 0; n < 3; n++) if (+(await statement.execute([n]))[0][0].n !== n + 1) throw new Error('the sum')
  await statement.close()
  await db.reset()
  return {
    driver: version('mysql2'),
    asked: { DROP: 1, CREATE: 1, INSERT: 22, SELECT: 27, START: 1, UPDATE: 1, ROLLBACK: 1, LOAD: 1, SELEC: 1, PING: 1 },
    errors: { SELECT: 1, SELEC: 1 },
    // The second of the statements in one text; and those that another user has closed already are closed once more, which does not count.
    server: { Com_select: 1, Com_stmt_close: -3 },
    close: () => db.end()
  }
})
