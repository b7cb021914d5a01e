// A key-value store over HTTP/1.1, as people build them around a storage library: values in memory, nothing on disk.
//
//	httpkv 127.0.0.1:7800 [CERTIFICATE KEY]
//
//	GET    /get?key=K            the value; 404 where there is none
//	GET    /mget?key=A&key=B     for each key a line with the value's length and the value, or a line with -1
//	POST   /mget                 the same, of the keys in the body, one a line
//	PUT    /set?key=K            stores the body
//	POST   /mset                 stores what is in the body: lines of a key, its value's length, and the value
//	POST   /delete               removes the keys in the body, one a line, and says how many there were
//	GET    /stats                what it has counted, as JSON
package main

import (
	"bytes"
	"expvar"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The largest value, or list of keys, that is taken.
const maxBody = 64 << 20

// The longest head: a request for thousands of keys has them in its target.
const maxHead = 8 << 20

type store struct {
	sync.RWMutex
	values map[string][]byte
	// What the server says of itself, by name. Bytes are those of the sockets, heads included.
	counts *expvar.Map
}

func main() {
	if len(os.Args) != 2 && len(os.Args) != 4 {
		log.Fatal("usage: httpkv ADDRESS [CERTIFICATE KEY]")
	}
	kv := &store{values: map[string][]byte{}, counts: new(expvar.Map)}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: kv.routes(), MaxHeaderBytes: maxHead, ReadHeaderTimeout: 10 * time.Second}
	if len(os.Args) == 4 {
		log.Fatal(server.ServeTLS(listener, os.Args[2], os.Args[3]))
	}
	log.Fatal(server.Serve(counting{listener, kv.counts}))
}

func (kv *store) routes() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /get", kv.get)
	routes.HandleFunc("GET /mget", withBody(kv.multiGet))
	routes.HandleFunc("POST /mget", withBody(kv.multiGet))
	routes.HandleFunc("PUT /set", withBody(kv.set))
	routes.HandleFunc("POST /set", withBody(kv.set))
	routes.HandleFunc("POST /mset", withBody(kv.multiSet))
	routes.HandleFunc("POST /delete", withBody(kv.remove))
	routes.HandleFunc("GET /stats", kv.stats)
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		kv.counts.Add("requests", 1)
		response.Header().Set("Server", "httpkv/1.0")
		routes.ServeHTTP(response, request)
	})
}

func (kv *store) find(key string) ([]byte, bool) {
	kv.RLock()
	value, found := kv.values[key]
	kv.RUnlock()
	kv.counts.Add("keys", 1)
	if found {
		kv.counts.Add("hits", 1)
	}
	return value, found
}

func (kv *store) get(response http.ResponseWriter, request *http.Request) {
	kv.counts.Add("gets", 1)
	value, found := kv.find(request.URL.Query().Get("key"))
	if !found {
		http.Error(response, "no such key", http.StatusNotFound)
		return
	}
	answer(response, value)
}

func (kv *store) multiGet(response http.ResponseWriter, request *http.Request, body []byte) {
	kv.counts.Add("multi_gets", 1)
	keys := request.URL.Query()["key"]
	if request.Method == http.MethodPost {
		keys = lines(body)
	}
	var all bytes.Buffer
	for _, key := range keys {
		if value, found := kv.find(key); found {
			fmt.Fprintf(&all, "%d\n%s\n", len(value), value)
		} else {
			all.WriteString("-1\n")
		}
	}
	answer(response, all.Bytes())
}

func (kv *store) set(response http.ResponseWriter, request *http.Request, value []byte) {
	kv.counts.Add("sets", 1)
	kv.Lock()
	kv.values[request.URL.Query().Get("key")] = value
	kv.Unlock()
	response.WriteHeader(http.StatusNoContent)
}

func (kv *store) multiSet(response http.ResponseWriter, _ *http.Request, body []byte) {
	kv.Lock()
	defer kv.Unlock()
	for len(body) > 0 {
		key, rest, _ := bytes.Cut(body, []byte("\n"))
		line, rest, _ := bytes.Cut(rest, []byte("\n"))
		length, err := strconv.Atoi(string(line))
		if err != nil || length < 0 || length >= len(rest) || rest[length] != '\n' {
			http.Error(response, "not lines of key, length and value", http.StatusBadRequest)
			return
		}
		kv.values[string(key)] = append([]byte(nil), rest[:length]...)
		kv.counts.Add("sets", 1)
		body = rest[length+1:]
	}
	response.WriteHeader(http.StatusNoContent)
}

func (kv *store) remove(response http.ResponseWriter, _ *http.Request, body []byte) {
	kv.Lock()
	before := len(kv.values)
	for _, key := range lines(body) {
		delete(kv.values, key)
	}
	removed := before - len(kv.values)
	kv.Unlock()
	answer(response, []byte(strconv.Itoa(removed)))
}

func (kv *store) stats(response http.ResponseWriter, _ *http.Request) {
	answer(response, []byte(kv.counts.String()))
}

// withBody hands over the body of each request, or answers that it is too large.
func withBody(handle func(http.ResponseWriter, *http.Request, []byte)) http.HandlerFunc {
	return func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
		if err != nil {
			http.Error(response, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		handle(response, request, body)
	}
}

// answer sends a body with its length, however long it is.
func answer(response http.ResponseWriter, body []byte) {
	response.Header().Set("Content-Type", "application/octet-stream")
	response.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := response.Write(body); err != nil {
		log.Print(err)
	}
}

func lines(body []byte) []string {
	return strings.FieldsFunc(string(body), func(letter rune) bool { return letter == '\n' })
}

// counting is a listener whose connections count what goes through them.
type counting struct {
	net.Listener
	counts *expvar.Map
}

func (listener counting) Accept() (net.Conn, error) {
	connection, err := listener.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return counted{connection, listener.counts}, nil
}

type counted struct {
	net.Conn
	counts *expvar.Map
}

func (connection counted) Read(bytes []byte) (int, error) {
	count, err := connection.Conn.Read(bytes)
	connection.counts.Add("bytes_read", int64(count))
	return count, err
}

func (connection counted) Write(bytes []byte) (int, error) {
	count, err := connection.Conn.Write(bytes)
	connection.counts.Add("bytes_written", int64(count))
	return count, err
}
