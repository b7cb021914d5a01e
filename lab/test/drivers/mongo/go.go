// needs: go.mongodb.org/mongo-driver/v2@v2.9.3
// MongoDB's Go driver: connections of many goroutines, bulk writes, cursors, errors.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func main() {
	ctx := context.Background()
	settings := options.Client().ApplyURI("mongodb://127.0.0.1:" + os.Args[1]).SetMaxPoolSize(4)
	client := check(mongo.Connect(settings))
	db := client.Database("driver_go")
	check(0, db.Drop(ctx))
	things := db.Collection("things")
	check(things.InsertOne(ctx, bson.D{{"_id", 0}, {"list", bson.A{1, "two", 3.0, nil}}, {"raw", []byte("bytes")}, {"at", bson.DateTime(0)}}))
	var documents []any
	for id := 1; id <= 150; id++ {
		documents = append(documents, bson.D{{"_id", id}, {"name", fmt.Sprint("name ", id)}})
	}
	check(things.InsertMany(ctx, documents))
	atOnce(4, func(worker int) {
		for id := 0; id < 20; id++ {
			var found bson.D
			check(0, things.FindOne(ctx, bson.D{{"_id", worker*20 + id}}).Decode(&found))
		}
	})
	cursor := check(things.Find(ctx, bson.D{{"_id", bson.D{{"$gt", 0}}}}, options.Find().SetBatchSize(40))) // 3 getMore
	var all []bson.D
	check(0, cursor.All(ctx, &all))
	check(things.UpdateMany(ctx, bson.D{{"_id", bson.D{{"$lt", 9}}}}, bson.D{{"$set", bson.D{{"n", int64(1)}}}}))
	check(things.DeleteOne(ctx, bson.D{{"_id", 3}}))
	check(things.BulkWrite(ctx, []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(bson.D{{"_id", 1000}}),
		mongo.NewUpdateOneModel().SetFilter(bson.D{{"_id", 1000}}).SetUpdate(bson.D{{"$set", bson.D{{"a", true}}}}),
		mongo.NewDeleteOneModel().SetFilter(bson.D{{"_id", 1000}})}))
	check(things.InsertOne(ctx, bson.D{{"_id", 2000}, {"text", strings.Repeat("x", 1_500_000)}}))
	var big struct{ Text string }
	check(0, things.FindOne(ctx, bson.D{{"_id", 2000}}).Decode(&big))
	_, err := things.InsertOne(ctx, bson.D{{"_id", 1}})
	want(mongo.IsDuplicateKeyError(err) && len(all) == 150 && len(big.Text) == 1_500_000, err, len(all), len(big.Text))
	want(db.RunCommand(ctx, bson.D{{"noSuchCommand", 1}}).Err() != nil)
	check(0, client.Ping(ctx, nil))
	asked := map[string]int{"dropDatabase": 1, "insert": 5, "find": 82, "getMore": 3, "update": 2, "delete": 2, "noSuchCommand": 1, "ping": 1}
	errors := map[string]int{"insert": 1, "noSuchCommand": 1}
	said("mongo-driver 2.9.3", asked, errors)
	check(0, client.Disconnect(ctx))
}
