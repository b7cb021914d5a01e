// needs: undici@7.30.2
// undici: requests written before earlier ones are answered, thousands of keys in a target, bodies in chunks; and Node's own client with
// an upload that waits for 100 Continue.
const http = require('http')
const { Client, Agent, fetch } = require('undici')
const { run, times, version } = require('./driver')

run(async port => {
  const base = 'http://127.0.0.1:' + port
  const db = new Client(base, { pipelining: 10 })
  const ask = async (method, path, body) => {
    const { statusCode, body: answer } = await db.request({ method, path, body })
    return { status: statusCode, length: (await answer.arrayBuffer()).byteLength }
  }
  for (let id = 0; id < 20; id++) await ask('PUT', '/set?key=k' + id, 'v'.repeat(id * 50))
  const found = await Promise.all(times(100, id => ask('GET', '/get?key=k' + id)))
  if (found.some(({ status, length }, id) => status !== (id < 20 ? 200 : 404) || (id < 20 && length !== id * 50))) throw new Error('the values')
  const many = '/mget?' + times(2000, id => 'key=k' + id).join('&')
  if ((await ask('GET', many)).status !== 200) throw new Error('many')
  const agent = new Agent()
  const pieces = async function * () { for (let piece = 0; piece < 50; piece++) yield Buffer.alloc(1000, 'p') }
  const stored = await fetch(base + '/set?key=pieces', { method: 'PUT', body: pieces(), duplex: 'half', dispatcher: agent })
  if (stored.status !== 204) throw new Error('the pieces')
  if ((await (await fetch(base + '/get?key=pieces', { dispatcher: agent })).text()).length !== 50000) throw new Error('the pieces')
  await new Promise((resolve, reject) => {
    const upload = http.request(base + '/set?key=waits', { method: 'PUT', headers: { Expect: '100-continue', 'Content-Length': 70000 } }, resolve)
    upload.on('continue', () => upload.end('w'.repeat(70000))).on('error', reject).flushHeaders()
  }).then(answer => answer.resume())
  const asked = { 'PUT /set': 22, 'GET /get': 101, 'GET /mget': 1 }
  const close = async () => { await db.close(); await agent.close(); process.exit(0) }
  return { driver: version('undici'), asked, errors: { 'GET /get': 80 }, close }
})
