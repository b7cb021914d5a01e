// needs: ioredis@6.0.0
// ioredis: asks INFO before it is ready, pipelines by itself (enableAutoPipelining), scripts, transactions, pub/sub, streams.
const Redis = require('ioredis')
const { run, times, version } = require('./driver')

run(async port => {
  const db = new Redis(port)
  const auto = new Redis(port, { enableAutoPipelining: true })
  await db.flushdb()
  await db.script('FLUSH')
  for (let id = 0; id < 20; id++) await db.set('key:' + id, 'é'.repeat(id))
  const values = await Promise.all(times(100, id => auto.get('key:' + id % 20)))
  if (values[19] !== 'é'.repeat(19)) throw new Error('a value')
  const pipeline = db.pipeline()
  for (let id = 0; id < 50; id++) pipeline.hset('hash', 'f' + id, id)
  await pipeline.exec()
  await db.multi().incr('n').get('n').exec()
  db.defineCommand('echo2', { numberOfKeys: 1, lua: 'return {KEYS[1], ARGV[1]}' })
  for (let time = 0; time < 3; time++) await db.echo2('key', 'argument') // EVAL, then twice EVALSHA
  await db.set('large', Buffer.alloc(2000000, 'x'))
  if ((await db.getBuffer('large')).length !== 2000000) throw new Error('the large value')
  await db.lpush('n', 1).then(() => { throw new Error('no error') }, () => {})
  await db.zadd('scores', 1.5, 'one', 2, 'two')
  await db.zrange('scores', 0, -1, 'WITHSCORES')
  await db.mget('key:1', 'nothing', 'key:2')
  const sub = db.duplicate()
  const heard = new Promise(resolve => sub.on('pmessage', (...message) => resolve(message)))
  await sub.subscribe('one', 'two')
  await sub.psubscribe('o*')
  await db.publish('one', 'text')
  await heard
  await sub.unsubscribe('one', 'two') // without names this driver waits for ever, where patterns are left
  await sub.punsubscribe('o*', 'never')
  await sub.get('key:1') // an ordinary connection again
  await db.hgetall('hash')
  const asked = {
    FLUSHDB: 1, 'SCRIPT FLUSH': 1, SET: 21, GET: 100 + 1 + 1 + 1, HSET: 50, MULTI: 1, INCR: 1, EXEC: 1, EVALSHA: 2, EVAL: 1, LPUSH: 1, ZADD: 1, ZRANGE: 1,
    MGET: 1, SUBSCRIBE: 1, PSUBSCRIBE: 1, PUBLISH: 1, UNSUBSCRIBE: 1, PUNSUBSCRIBE: 1, HGETALL: 1
  }
  const close = () => [db, auto, sub].forEach(connection => connection.disconnect())
  return { driver: version('ioredis'), asked, errors: { LPUSH: 1 }, close }
})
