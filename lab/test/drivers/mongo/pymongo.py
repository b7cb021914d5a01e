# needs: pymongo==4.20.0
"""pymongo: monitors on connections of their own, bulk writes as document sequences, cursors in batches, errors."""

import contextlib

import pymongo
from bson import Binary, Int64, ObjectId
from driver import PORT, say
from pymongo.errors import BulkWriteError, OperationFailure

client = pymongo.MongoClient("127.0.0.1", PORT, serverSelectionTimeoutMS=10_000)
client.drop_database("driver_pymongo")
things = client.driver_pymongo.things
things.insert_one({"_id": 0, "oid": ObjectId(b"twelve bytes"), "bin": Binary(b"\0\1", 128), "long": Int64(1 << 40),
                   "list": [1, 2.5, None, True, {"deep": "value"}], "empty": {}})
things.insert_many([{"_id": id, "name": f"name {id}"} for id in range(1, 301)])
things.create_index("name")
for id in range(20):
    assert things.find_one({"_id": id})
assert len(list(things.find({"_id": {"$gte": 1}}, {"name": 1}).sort("_id").batch_size(50))) == 300  # a find, 6 getMore
things.update_one({"_id": 1}, {"$set": {"name": "set", "more": 1.5}})
things.update_many({"_id": {"$lt": 5}}, {"$inc": {"n": 1}})
things.find_one_and_update({"_id": 2}, {"$set": {"name": "found"}})
things.delete_one({"_id": 3})
things.bulk_write([pymongo.InsertOne({"_id": 1000}), pymongo.UpdateOne({"_id": 1000}, {"$set": {"a": 1}}),
                   pymongo.UpdateOne({"_id": 1}, {"$set": {"a": 2}}), pymongo.DeleteOne({"_id": 1000})])
assert things.count_documents({"_id": {"$lt": 100}}) == 99
list(things.aggregate([{"$match": {"_id": {"$gt": 290}}}, {"$sort": {"_id": 1}}, {"$limit": 5}]))
assert len(things.distinct("name", {"_id": {"$in": [10, 11]}})) == 2
client.driver_pymongo.big.insert_one({"_id": 1, "text": "x" * 2_000_000})
assert len(client.driver_pymongo.big.find_one()["text"]) == 2_000_000
for _ in range(2):
    with contextlib.suppress(BulkWriteError):
        things.insert_many([{"_id": 10}, {"_id": 11}], ordered=False)
with contextlib.suppress(OperationFailure):
    client.driver_pymongo.command("noSuchCommand")
things.with_options(write_concern=pymongo.WriteConcern(w=0)).insert_many([{"_id": 5000 + id} for id in range(5)])
cursor = things.find().batch_size(2)
next(cursor)
cursor.close()  # killCursors
client.admin.command("ping")

asked = {"dropDatabase": 1, "insert": 2 + 1 + 1 + 2 + 1, "createIndexes": 1, "find": 20 + 1 + 1 + 1, "getMore": 6,
         "update": 2 + 1, "findAndModify": 1, "delete": 1 + 1, "aggregate": 2, "distinct": 1, "noSuchCommand": 1,
         "killCursors": 1, "ping": 1}
say("pymongo", asked, {"insert": 2, "noSuchCommand": 1})
client.close()
