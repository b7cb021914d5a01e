// tls-client PORT: waits for a line on standard input, and then asks tls-server by TLS of the version $TLS. Secrets go to
// $SSLKEYLOGFILE.
package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"os"
)

func main() {
	version := uint16(tls.VersionTLS13)
	if os.Getenv("TLS") == "1.2" {
		version = tls.VersionTLS12
	}
	log, err := os.OpenFile(os.Getenv("SSLKEYLOGFILE"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	config := tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, KeyLogWriter: log}
	connection, err := tls.Dial("tcp", "127.0.0.1:"+os.Args[1], &config)
	if err != nil {
		panic(err)
	}
	for _, n := range []int64{1, 100, 4000, 70000, 500000} {
		fmt.Fprintf(connection, "PING\r\nGET %d\r\n", n)
		head := int64(len("+PONG\r\n") + len(fmt.Sprintf("$%d\r\n", n)))
		if _, err := io.CopyN(io.Discard, connection, head+n+2); err != nil {
			panic(err)
		}
	}
	connection.Close()
}
