// needs: redis@6.3.1
// node-redis: everything asked in one turn of the event loop goes out at once; transactions, scripts, pub/sub, blocking.
const { createClient, defineScript } = require('redis')
const { run, times, version } = require('./driver')

run(async port => {
  const twice = defineScript({
    SCRIPT: 'return redis.call("GET", KEYS[1])', NUMBER_OF_KEYS: 1, parseCommand (parser, key) { parser.pushKey(key) },
    transformReply: reply => reply
  })
  const db = createClient({ url: 'redis://127.0.0.1:' + port, scripts: { twice } })
  db.on('error', error => { throw error })
  await db.connect()
  await db.flushDb()
  await db.scriptFlush()
  await Promise.all(times(100, id => db.set('key:' + id, 'v'.repeat(id), { expiration: { type: 'EX', value: 100 } })))
  for (let id = 0; id < 20; id++) await db.get('key:' + id)
  const [, n] = await db.multi().incr('n').incr('n').exec()
  if (n !== 2) throw new Error('the transaction')
  for (let time = 0; time < 3; time++) if (await db.twice('key:3') !== 'vvv') throw new Error('the script')
  await db.hSet('hash', { one: '1', two: '2' })
  if ((await db.hGetAll('hash')).two !== '2') throw new Error('the hash')
  await db.set('large', 'x'.repeat(2500000))
  if ((await db.get('large')).length !== 2500000) throw new Error('the large value')
  await db.lPush('n', '1').then(() => { throw new Error('no error') }, () => {})
  await db.sAdd('set', ['a', 'b', 'c'])
  await db.sMembers('set')
  await db.zAdd('scores', [{ score: 1.5, value: 'one' }])
  await db.zRangeWithScores('scores', 0, -1)
  const other = db.duplicate()
  await other.connect()
  const popped = other.blPop('list', 5)
  await db.rPush('list', 'element')
  if ((await popped).element !== 'element') throw new Error('the list')
  const heard = new Promise(resolve => other.subscribe(['one', 'two'], resolve).then(() => db.publish('two', 'text')))
  await heard
  await other.pSubscribe('p*', () => {})
  await other.unsubscribe()
  await other.pUnsubscribe()
  await other.ping()
  const asked = {
    FLUSHDB: 1, 'SCRIPT FLUSH': 1, SET: 101, GET: 21, MULTI: 1, INCR: 2, EXEC: 1, EVALSHA: 3, EVAL: 1, HSET: 1, HGETALL: 1, LPUSH: 1, SADD: 1, SMEMBERS: 1,
    ZADD: 1, ZRANGE: 1, BLPOP: 1, RPUSH: 1, SUBSCRIBE: 1, PUBLISH: 1, PSUBSCRIBE: 1, UNSUBSCRIBE: 1, PUNSUBSCRIBE: 1, PING: 1
  }
  // The script calls GET three times within the server, which does not know one command that the driver tries.
  const server = { get: 3, 'client|maint_notifications': -2 }
  return { driver: version('redis'), asked, errors: { EVALSHA: 1, LPUSH: 1 }, server, close: () => Promise.all([db.close(), other.close()]) }
})
