// needs: github.com/apache/cassandra-gocql-driver/v2@v2.1.2
// gocql: its own control connection and pool, statements that it always prepares, paging, batches, compression, errors.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/apache/cassandra-gocql-driver/v2/lz4"
)

func main() {
	cluster := gocql.NewCluster("127.0.0.1")
	cluster.Port, _ = strconv.Atoi(os.Args[1])
	cluster.Consistency = gocql.One
	if len(os.Args) > 2 {
		cluster.Compressor = lz4.LZ4Compressor{}
	}
	session := check(cluster.CreateSession())
	run := func(text string, values ...any) { must(session.Query(text, values...).Exec()) }
	run("DROP KEYSPACE IF EXISTS driver_gocql")
	run("CREATE KEYSPACE driver_gocql WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	run("CREATE TABLE driver_gocql.things (part int, id int, name text, scores list<double>, PRIMARY KEY (part, id))")
	insert := "INSERT INTO driver_gocql.things (part, id, name, scores) VALUES (?, ?, ?, ?)"
	atOnce(4, func(worker int) {
		for id := 0; id < 25; id++ {
			run(insert, worker, id, fmt.Sprint("name ", id), []float64{1.5, float64(id)})
		}
	})
	run(insert, 9, 0, strings.Repeat("x", 400_000), nil)
	var name string
	must(session.Query("SELECT name FROM driver_gocql.things WHERE part = 9 AND id = 0").Scan(&name))
	rows := 0
	pages := session.Query("SELECT id FROM driver_gocql.things WHERE part = ?", 1).PageSize(10).Iter()
	for id := 0; pages.Scan(&id); rows++ {
	}
	must(pages.Close())
	batch := session.Batch(gocql.LoggedBatch)
	for id := 0; id < 5; id++ {
		batch.Query(insert, 5, id, "batch", nil)
	}
	batch.Query("DELETE FROM driver_gocql.things WHERE part = 6")
	must(batch.Exec())
	once := session.Query("INSERT INTO driver_gocql.things (part, id) VALUES (1, 1) IF NOT EXISTS")
	applied := check(once.ScanCAS(new(int), new(int), new(string), new([]float64)))
	want(!applied && len(name) == 400_000 && rows == 25, applied, len(name), rows)
	want(session.Query("SELECT nothing FROM driver_gocql.things").Exec() != nil)
	// The last SELECT fails when it is prepared and is never executed.
	asked := map[string]int{"DROP": 1, "CREATE": 2, "INSERT": 100 + 1 + 1, "SELECT": 1 + 3, "BATCH": 1}
	said("gocql 2.1.2", asked, map[string]int{})
	session.Close()
}
