// Go's net/http: bodies of known and unknown length, 100 Continue, answers compressed where the server would, an early close.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	base := "http://127.0.0.1:" + os.Args[1]
	db := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: 5 * time.Second}}
	ask := func(method, path string, body io.Reader, headers ...string) (int, int) {
		request := check(http.NewRequest(method, base+path, body))
		for at := 0; at+1 < len(headers); at += 2 {
			request.Header.Set(headers[at], headers[at+1])
		}
		answer := check(db.Do(request))
		defer answer.Body.Close()
		return answer.StatusCode, len(check(io.ReadAll(answer.Body)))
	}
	want := func(what string, status, length, due, long int) {
		if status != due || length != long {
			log.Fatal(what, status, length)
		}
	}
	for id := 0; id < 20; id++ {
		path := fmt.Sprint("/set?key=k", id)
		status, length := ask("PUT", path, bytes.NewReader(make([]byte, id*1000)))
		want("set", status, length, 204, 0)
		status, length = ask("GET", fmt.Sprint("/get?key=k", id), nil)
		want("get", status, length, 200, id*1000)
	}
	status, length := ask("PUT", "/set?key=pipe", io.MultiReader(strings.NewReader("one"), strings.NewReader(strings.Repeat("two", 50_000))))
	want("chunks", status, length, 204, 0)
	status, length = ask("PUT", "/set?key=waits", strings.NewReader(strings.Repeat("w", 100_000)), "Expect", "100-continue")
	want("continue", status, length, 204, 0)
	status, length = ask("HEAD", "/get?key=waits", nil)
	want("head", status, length, 200, 0)
	status, length = ask("GET", "/get?key=pipe", nil, "Connection", "close")
	want("close", status, length, 200, 150_003)
	status, _ = ask("GET", "/get?key=nothing", nil)
	want("nothing", status, 0, 404, 0)
	status, _ = ask("POST", "/mset", strings.NewReader("a\n1\nx\nb\n2\nyy\n"))
	want("mset", status, 0, 204, 0)
	status, _ = ask("POST", "/mset", strings.NewReader("a\nwrong\n"))
	want("mset", status, 0, 400, 0)
	status, length = ask("POST", "/delete", strings.NewReader("a\nb\nc\n"))
	want("delete", status, length, 200, 1)
	said("Go net/http", map[string]int{"PUT /set": 22, "GET /get": 22, "HEAD /get": 1, "POST /mset": 2, "POST /delete": 1},
		map[string]int{"GET /get": 1, "POST /mset": 1})
	db.CloseIdleConnections()
}
