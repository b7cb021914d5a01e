// needs: github.com/jackc/pgx/v5@v5.12.0
// pgx: statements that are prepared and described behind the application's back, binary formats, batches as pipelines,
// CopyFrom that does not wait for the server, errors, notifications.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	db := check(pgx.Connect(ctx, "postgres://postgres@127.0.0.1:"+os.Args[1]+"/bench?sslmode=disable"))
	check(db.Exec(ctx, "DROP TABLE IF EXISTS driver_pgx"))
	check(db.Exec(ctx, "CREATE TABLE driver_pgx (id int PRIMARY KEY, name text, list int[])"))
	insert := "INSERT INTO driver_pgx VALUES ($1, $2, $3)"
	for id := 0; id < 20; id++ {
		check(db.Exec(ctx, insert, id, fmt.Sprint("name ", id), []int{id, 2}))
	}
	batch := &pgx.Batch{}
	for id := 0; id < 50; id++ {
		batch.Queue(insert, 100+id, nil, []int{})
		batch.Queue("SELECT name FROM driver_pgx WHERE id = $1", id%20)
	}
	check(0, db.SendBatch(ctx, batch).Close())
	for copy := 1; copy <= 6; copy++ {
		rows := pgx.CopyFromSlice(10_000, func(id int) ([]any, error) {
			return []any{copy*10_000 + id, strings.Repeat("x", 14)}, nil
		})
		check(db.CopyFrom(ctx, pgx.Identifier{"driver_pgx"}, []string{"id", "name"}, rows))
	}
	var out bytes.Buffer
	check(db.PgConn().CopyTo(ctx, &out, "COPY driver_pgx TO STDOUT"))
	check(db.PgConn().CopyFrom(ctx, strings.NewReader("70000,\"a,b\"\n70001,c\n"), "COPY driver_pgx (id, name) FROM STDIN WITH (FORMAT csv)"))
	_, twice := db.CopyFrom(ctx, pgx.Identifier{"driver_pgx"}, []string{"id"}, pgx.CopyFromRows([][]any{{1}, {2}}))
	for id := 0; id < 10; id++ {
		var name string
		check(0, db.QueryRow(ctx, "SELECT name FROM driver_pgx WHERE id = $1", pgx.QueryExecModeSimpleProtocol, id).Scan(&name))
		check(0, db.QueryRow(ctx, "SELECT name FROM driver_pgx WHERE id = $1", pgx.QueryExecModeExec, id).Scan(&name))
	}
	var big string
	check(0, db.QueryRow(ctx, "SELECT repeat('x', $1)", 500_000).Scan(&big))
	_, failed := db.Exec(ctx, "SELECT 1 / $1::int", 0)
	_, unknown := db.Exec(ctx, "SELECT * FROM nothing_here")
	want(twice != nil && failed != nil && unknown != nil && len(big) == 500_000 && out.Len() >= 100_000, len(big), out.Len())
	transaction := check(db.Begin(ctx))
	check(transaction.Exec(ctx, "LISTEN here"))
	check(0, transaction.Commit(ctx))
	check(db.Exec(ctx, "NOTIFY here"))
	check(db.WaitForNotification(ctx))
	// nothing_here has no parameters, so it is a simple query. CopyFrom asks for the types of its columns by a PREPARE.
	asked := map[string]int{"DROP": 1, "CREATE": 1, "INSERT": 70, "SELECT": 50 + 20 + 1 + 1 + 1, "COPY": 9, "BEGIN": 1, "COMMIT": 1, "LISTEN": 1, "NOTIFY": 1}
	data := map[string][]int{"COPY": {60_000*(4+14) + 5 + 3 + 5 + 1 + 2*4, -1}}
	said("pgx 5.12.0", asked, map[string]int{"SELECT": 2, "COPY": 1}, "data", data)
	check(0, db.Close(ctx))
}
