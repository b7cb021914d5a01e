// needs: github.com/go-sql-driver/mysql@v1.9.3
// go-sql-driver: statements prepared for one use and for many, parameters put into the text, several statements at once, a file of the
// client's, a row of 24 MB, errors; with `compress` in compressed packets.
package main

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

func main() {
	options := ""
	if len(os.Args) > 2 {
		options = "&compress=true"
	}
	db := check(sql.Open("mysql", "root@tcp(127.0.0.1:"+os.Args[1]+")/bench?maxAllowedPacket=33554432&multiStatements=true"+options))
	db.SetMaxOpenConns(1)
	exec := func(text string, values ...any) { check(db.Exec(text, values...)) }
	exec("DROP TABLE IF EXISTS driver_go")
	exec("CREATE TABLE driver_go (id INT PRIMARY KEY, name LONGTEXT, at DATETIME, price DECIMAL(10,2))")
	insert := check(db.Prepare("INSERT INTO driver_go VALUES (?, ?, NOW(), ?)"))
	for id := 0; id < 20; id++ {
		check(insert.Exec(id, fmt.Sprint("name ", id), 1.5))
	}
	must(insert.Close())
	exec("INSERT INTO driver_go VALUES (?, ?, NULL, NULL)", 20, nil)
	for id := 0; id < 20; id++ {
		var name string
		must(db.QueryRow("SELECT name FROM driver_go WHERE id = ?", id).Scan(&name))
		want(name == fmt.Sprint("name ", id), name)
	}
	tx := check(db.Begin())
	check(tx.Exec("UPDATE driver_go SET name = 'x' WHERE id < 5"))
	must(tx.Rollback())
	exec("DELETE FROM driver_go WHERE id = 19; DELETE FROM driver_go WHERE id = 18")
	rows := check(db.Query("SELECT * FROM driver_go"))
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
	for _, text := range []string{"SELECT * FROM nothing_here", "SELEC 1", "INSERT INTO driver_go (id) VALUES (1)"} {
		_, err := db.Exec(text)
		want(err != nil, text)
	}
	must(db.Ping())
	want(count == 19 && len(one)+len(other) == 24_000_000, count, len(one), len(other))
	asked := map[string]int{"DROP": 1, "CREATE": 1, "INSERT": 23, "SELECT": 23, "START": 1, "UPDATE": 1, "ROLLBACK": 1, "DELETE": 1, "LOAD": 1,
		"LONG DATA": 1, "PING": 1, "SELEC": 1}
	// Two statements in one text are one operation.
	said("go-sql-driver", asked, map[string]int{"SELECT": 1, "SELEC": 1, "INSERT": 1}, "server", map[string]int{"Com_delete": 1})
	must(db.Close())
}
