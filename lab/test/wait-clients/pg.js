// needs: pg@8.23.1
// node-postgres HOST PORT [NAME]: five reads, of a statement with this name if there is one.
const { Client } = require('pg')
const [, , host, port, name] = process.argv

async function main () {
  const client = new Client({ host, port: +port, user: 'postgres', database: 'postgres', ssl: false })
  await client.connect()
  for (let key = 0; key < 5; key++) {
    const { rows } = await client.query({ name, text: 'SELECT $1::int AS n', values: [key] })
    if (rows[0].n !== key) throw new Error('another row')
  }
  await client.end()
}

main().catch(error => { console.error(error); process.exit(1) })
