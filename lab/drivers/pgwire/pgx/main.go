// pgx: CopyFrom, batches, pipelines, the ways to execute a query, and a copy that fails.
//
// Usage: pgx URL [ROWS]. Prints what was done as JSON.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	rows := 1000
	if len(os.Args) > 2 {
		rows, _ = strconv.Atoi(os.Args[2])
	}
	db, err := pgx.Connect(ctx, os.Args[1])
	must(err)
	exec := func(sql string, args ...any) {
		_, err := db.Exec(ctx, sql, args...)
		must(err)
	}
	exec("drop table if exists pgx")
	exec("create table pgx (id int, name text, tags int[])")
	// Data follow the statement at once.
	for range 6 {
		_, err := db.CopyFrom(ctx, pgx.Identifier{"pgx"}, []string{"id", "name", "tags"},
			pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
				return []any{int32(i), fmt.Sprintf("name %05d", i), []int32{int32(i), int32(i + 1)}}, nil
			}))
		must(err)
	}
	csv := strings.Repeat("7,\"name, \"\"seven\"\"\",\n", rows)
	_, err = db.PgConn().CopyFrom(ctx, strings.NewReader(csv), "copy pgx from stdin with (format csv)")
	must(err)
	bad := strings.Repeat("1\tone\t{1}\n", 10) + strings.Repeat("no number\ttwo\t{2}\n", 10*rows)
	_, err = db.PgConn().CopyFrom(ctx, strings.NewReader(bad), "copy pgx from stdin")
	failed := err != nil
	var out strings.Builder
	_, err = db.PgConn().CopyTo(ctx, &out, "copy (select id, name from pgx limit 100) to stdout")
	must(err)
	for i := range 10 {
		var name string
		must(db.QueryRow(ctx, "select name from pgx where id = $1 limit 1", i).Scan(&name))
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec} {
		var tags []int32
		must(db.QueryRow(ctx, "select tags from pgx where id = $1 and tags is not null limit 1", mode, 3).Scan(&tags))
	}
	batch := &pgx.Batch{}
	for i := range 5 {
		batch.Queue("select $1::int + 1", i)
	}
	batch.Queue("select 1 / $1::int", 0)
	batch.Queue("select 1")
	_ = db.SendBatch(ctx, batch).Close()
	pipeline(ctx, db.PgConn())
	must(db.Close(ctx))
	fmt.Printf("{\"copied\": %d, \"failed\": %v, \"out\": %d}\n", 6*rows, failed, out.Len())
}

// Several synchronisation points in flight, one of them behind an error.
func pipeline(ctx context.Context, conn *pgconn.PgConn) {
	p := conn.StartPipeline(ctx)
	p.SendPrepare("half", "select 10 / $1::int", nil)
	must(p.Sync())
	for _, n := range []string{"1", "0", "2"} {
		p.SendQueryPrepared("half", [][]byte{[]byte(n)}, nil, nil)
		must(p.Sync())
	}
	for range 4 {
		for {
			results, err := p.GetResults()
			if err != nil {
				continue
			}
			if reader, ok := results.(*pgconn.ResultReader); ok {
				_ = reader.Read()
				continue
			}
			if _, ok := results.(*pgconn.PipelineSync); ok || results == nil {
				break
			}
		}
	}
	must(p.Close())
}
