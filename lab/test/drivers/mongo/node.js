// needs: mongodb@7.9.0
// MongoDB's Node.js driver: connections that are made as requests need them, bulk writes, cursors, types, errors.
const { MongoClient, Long, Decimal128, ObjectId, Binary } = require('mongodb')
const { run, times, version } = require('./driver')

run(async port => {
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/`, { maxPoolSize: 4, serverSelectionTimeoutMS: 10000 })
  const db = client.db('driver_node')
  await db.dropDatabase()
  const things = db.collection('things')
  await things.insertOne({
    _id: 0, oid: new ObjectId('0123456789abcdef01234567'), long: Long.fromNumber(2 ** 50), bin: new Binary(Buffer.alloc(40)),
    date: new Date(0), regex: /a.*b/i, list: [{}, null, 'text'], float: 1.5
  })
  await things.insertMany(times(200, id => ({ _id: id + 1, name: 'name ' + id, tags: ['a', 'b'] })))
  // 40 at once over at most 4 connections.
  const found = await Promise.all(times(40, id => things.findOne({ _id: id })))
  if (found.includes(null)) throw new Error('not found')
  const all = await things.find({ name: { $exists: true } }, { batchSize: 60, projection: { name: 1 } }).toArray() // 3 getMore
  if (all.length !== 200) throw new Error(`${all.length} documents`)
  await things.updateOne({ _id: 1 }, { $set: { name: 'set' }, $unset: { tags: '' } })
  await things.updateOne({ _id: 900 }, { $set: { name: 'new' } }, { upsert: true })
  await things.replaceOne({ _id: 2 }, { name: 'replaced' })
  await things.findOneAndUpdate({ _id: 4 }, { $inc: { n: 1 } })
  await things.deleteMany({ _id: { $in: [5, 6, 7] } })
  await things.bulkWrite([{ insertOne: { document: { _id: 1000 } } }, { updateOne: { filter: { _id: 1 }, update: { $set: { a: 1 } } } },
    { deleteOne: { filter: { _id: 1000 } } }])
  await things.countDocuments({ _id: { $lt: 50 } })
  await things.aggregate([{ $match: { _id: { $lt: 20 } } }, { $group: { _id: '$name', count: { $sum: 1 } } }]).toArray()
  await things.insertOne({ _id: 2000, text: 'é'.repeat(500000) })
  const big = await things.findOne({ _id: 2000 })
  if (big.text.length !== 500000) throw new Error('the large value')
  await db.listCollections().toArray()
  await things.insertOne({ _id: 1 }).then(() => { throw new Error('inserted twice') }, error => { if (error.code !== 11000) throw error })
  await db.command({ noSuchCommand: 1 }).then(() => { throw new Error('known') }, error => { if (error.code !== 59) throw error })
  const cursor = things.find({}, { batchSize: 2 })
  await cursor.next()
  await cursor.close()
  const asked = {
    dropDatabase: 1, insert: 2 + 1 + 1 + 1, find: 40 + 1 + 1 + 1, getMore: 3, update: 3 + 1, findAndModify: 1, delete: 1 + 1,
    aggregate: 2, listCollections: 1, noSuchCommand: 1, killCursors: 1
  }
  // The driver ends its sessions with moreToCome, to which no answer is due. FerretDB answers all the same.
  return { driver: version('mongodb'), asked, errors: { insert: 1, noSuchCommand: 1 }, unmatched: 1, close: () => client.close() }
})
