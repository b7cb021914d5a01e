// needs: github.com/go-sql-driver/mysql@v1.9.3
// go-sql-driver: statements prepared for one use and for many, parameters put into the text, several statements at once, a file of the
// client's, a row of 24 MB, errors; with `compress` in compressed packets.
package main

import (
	"database/sql"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func open(port, options string) *sql.DB {
	db, err := sql.Open("mysql", "root@tcp(127.0.0.1:"+port+")/bench?maxAllowedPacket=33554432"+options)
	must(err)
	db.SetMaxOpenConns(1)
	return db
}

func main() {
	options := ""
	if len(os.Args) > 2 {
		options = "&compress=true"
	}
	db := open(os.Args[1], options+"&multiStatements=true")
	exec := func(text string, values ...any) {
		_, err := db.Exec(text, values...)
		must(err)
	}
	exec("DROP TABLE IF EXISTS driver_go")
	exec("CREATE TABLE driver_go (id INT PRIMARY KEY, name LONGTEXT, at DATETIME, price DECIMAL(10,2))")
	insert, err := db.Prepare("INSERT INTO driver_go VALUES (?, ?, NOW(), ?)")
	must(err)
	for id := 0; id < 20; id++ {
		_, err := insert.Exec(id, fmt.Sprint("name ", id), 1.5)
		must(err)
	}
	must(insert.Close())
	exec("INSERT INTO driver_go VALUES (?, ?, NULL, NULL)", 20, nil)
	for id := 0; id < 20; id++ {
		var name string
		must(db.QueryRow("SELECT name FROM driver_go WHERE id = ?", id).Scan(&name))
		if name != fmt.Sprint("name ", id) {
			log.Fatal("another row")
		}
	}
	tx, err := db.Begin()
	must(err)
	_, err = tx.Exec("UPDATE driver_go SET name = 'x' WHERE id < 5")
	must(err)
	must(tx.Rollback())
	exec("DELETE FROM driver_go WHERE id = 19; DELETE FROM driver_go WHERE id = 18")
	rows, err := db.Query("SELECT * FROM driver_go")
	must(err)
	count := 0
	for rows.Next() {
		count++
	}
	must(rows.Close())
	large := strings.Repeat("large", 4_000_000)
	exec("INSERT INTO driver_go (id, name) VALUES (?, ?)", 100, large[:12_000_000])
	var one, other string // together longer than a packet can be
	must(db.QueryRow("SELECT name, name FROM driver_go WHERE id = 100").Scan(&one, &other))
	mysql.RegisterReaderHandler("rows", func() io.Reader { return strings.NewReader("200\ta\n201\tb\n") })
	exec("LOAD DATA LOCAL INFILE 'Reader::rows' INTO TABLE driver_go (id, name)")
	failed := 0
	for _, text := range []string{"SELECT * FROM nothing_here", "SELEC 1", "INSERT INTO driver_go (id) VALUES (1)"} {
		if _, err := db.Exec(text); err != nil {
			failed++
		}
	}
	must(db.Ping())
	if count != 19 || failed != 3 || len(one)+len(other) != 24_000_000 {
		log.Fatal(count, failed, len(one), len(other))
	}
	fmt.Println(`{"driver": "go-sql-driver", "asked": {"DROP": 1, "CREATE": 1, "INSERT": 23, "SELECT": 23, "START": 1, "UPDATE": 1, ` +
		`"ROLLBACK": 1, "DELETE": 1, "LOAD": 1, "LONG DATA": 1, "PING": 1, "SELEC": 1}, "errors": {"SELECT": 1, "SELEC": 1, "INSERT": 1}, ` +
		// Two statements in one text are one operation.
		`"server": {"Com_delete": 1}}`)
	io.ReadAll(os.Stdin)
	must(db.Close())
}
