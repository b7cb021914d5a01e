// FerretDB as a program: MongoDB's wire protocol on one address, a PostgreSQL database behind it. FerretDB's own command
// cannot be built as a dependency, so this one embeds its package.
//
//	ferretdb 127.0.0.1:7017 postgres://postgres@127.0.0.1:7432/ferretdb
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: ferretdb ADDRESS POSTGRESQL_URL")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2]); err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, address, url string) error {
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:      ferretdb.ListenerConfig{TCP: address},
		Handler:       "postgresql",
		PostgreSQLURL: url,
	})
	if err != nil {
		return err
	}
	return server.Run(ctx)
}
