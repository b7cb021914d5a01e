// needs: postgres@3.4.9
// postgres.js HOST PORT OPTIONS: five reads with these options, a JSON object; `unsafe` in it sends the text without parameters.
const [, , host, port, options] = process.argv
const postgres = require('postgres')

async function main () {
  const { unsafe, ...rest } = JSON.parse(options)
  const sql = postgres({ host, port: +port, user: 'postgres', database: 'postgres', ssl: false, max: 1, ...rest })
  for (let key = 0; key < 5; key++) {
    const [row] = unsafe ? await sql.unsafe(`SELECT ${key}::int AS n`) : await sql`SELECT ${key}::int AS n`
    if (row.n !== key) throw new Error('another row')
  }
  await sql.end()
}

main().catch(error => { console.error(error); process.exit(1) })
