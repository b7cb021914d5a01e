// needs: undici@7.30.2
// undici: requests written before earlier ones are answered, thousands of keys in a target, bodies in chunks; and Node's own client with
// an upload that waits for 100 Continue.
'use strict'
const http = require('http')
const { Client, Agent, fetch } = require('undici')

const base = 'http://127.0.0.1:' + process.argv[2]

async function main () {
  const db = new Client(base, { pipelining: 10 })
  const ask = async (method, path, body) => {
    const { statusCode, body: answer } = await db.request({ method, path, body })
    return { status: statusCode, length: (await answer.arrayBuffer()).byteLength }
  }
  for (let id = 0; id < 20; id++) await ask('PUT', '/set?key=k' + id, 'v'.repeat(id * 50))
  const found = await Promise.all(Array.from({ length: 100 }, (_, id) => ask('GET', '/get?key=k' + id)))
  if (found.some(({ status, length }, id) => status !== (id < 20 ? 200 : 404) || (id < 20 && length !== id * 50))) throw new Error('the values')
  const many = '/mget?' + Array.from({ length: 2000 }, (_, id) => 'key=k' + id).join('&')
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
  console.log(JSON.stringify({
    driver: 'undici ' + require('undici/package.json').version,
    asked: { 'PUT /set': 22, 'GET /get': 101, 'GET /mget': 1 },
    errors: { 'GET /get': 80 }
  }))
  process.stdin.resume()
  process.stdin.on('end', async () => { await db.close(); await agent.close(); process.exit(0) })
}

main().catch(error => { console.error(error); process.exit(1) })
