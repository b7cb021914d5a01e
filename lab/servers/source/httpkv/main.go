// A key-value store over HTTP/1.1, as people build them around a storage library: values in memory, nothing on disk.
//
//	httpkv 127.0.0.1:7800
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
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The largest value, or list of keys, that is taken.
const maxBody = 64 << 20

// The longest head: a request for thousands of keys has them in its target.
const maxHead = 8 << 20

type store struct {
	sync.RWMutex
	values map[string][]byte
	counts counts
}

// What the server says of itself. Bytes are those of the sockets, heads included.
type counts struct {
	Requests     atomic.Int64
	Gets         atomic.Int64
	MultiGets    atomic.Int64
	Keys         atomic.Int64
	Hits         atomic.Int64
	Sets         atomic.Int64
	BytesRead    atomic.Int64
	BytesWritten atomic.Int64
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: httpkv ADDRESS")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1]); err != nil && !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, address string) error {
	kv := &store{values: map[string][]byte{}}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: kv.routes(), MaxHeaderBytes: maxHead, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	return server.Serve(counting{listener, &kv.counts})
}

func (kv *store) routes() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("/get", kv.get)
	routes.HandleFunc("/mget", kv.multiGet)
	routes.HandleFunc("/set", kv.set)
	routes.HandleFunc("/mset", kv.multiSet)
	routes.HandleFunc("/delete", kv.remove)
	routes.HandleFunc("/stats", kv.stats)
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		kv.counts.Requests.Add(1)
		response.Header().Set("Server", "httpkv/1.0")
		routes.ServeHTTP(response, request)
	})
}

func (kv *store) find(key string) ([]byte, bool) {
	kv.RLock()
	value, found := kv.values[key]
	kv.RUnlock()
	kv.counts.Keys.Add(1)
	if found {
		kv.counts.Hits.Add(1)
	}
	return value, found
}

func (kv *store) get(response http.ResponseWriter, request *http.Request) {
	kv.counts.Gets.Add(1)
	value, found := kv.find(request.URL.Query().Get("key"))
	if !found {
		http.Error(response, "no such key", http.StatusNotFound)
		return
	}
	answer(response, value)
}

func (kv *store) multiGet(response http.ResponseWriter, request *http.Request) {
	kv.counts.MultiGets.Add(1)
	keys := request.URL.Query()["key"]
	if request.Method == http.MethodPost {
		body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
		if err != nil {
			http.Error(response, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		keys = lines(body)
	}
	var all bytes.Buffer
	for _, key := range keys {
		value, found := kv.find(key)
		if !found {
			all.WriteString("-1\n")
			continue
		}
		all.WriteString(strconv.Itoa(len(value)))
		all.WriteByte('\n')
		all.Write(value)
		all.WriteByte('\n')
	}
	answer(response, all.Bytes())
}

func (kv *store) set(response http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPut && request.Method != http.MethodPost {
		http.Error(response, "PUT or POST", http.StatusMethodNotAllowed)
		return
	}
	value, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
	if err != nil {
		http.Error(response, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	kv.counts.Sets.Add(1)
	kv.Lock()
	kv.values[request.URL.Query().Get("key")] = value
	kv.Unlock()
	response.WriteHeader(http.StatusNoContent)
}

func (kv *store) multiSet(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
	if err != nil || request.Method != http.MethodPost {
		http.Error(response, "POST lines of key, length and value", http.StatusBadRequest)
		return
	}
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
		kv.counts.Sets.Add(1)
		body = rest[length+1:]
	}
	response.WriteHeader(http.StatusNoContent)
}

func (kv *store) remove(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBody))
	if err != nil || request.Method != http.MethodPost {
		http.Error(response, "POST keys, one a line", http.StatusBadRequest)
		return
	}
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
	said, err := json.Marshal(map[string]int64{
		"requests":      kv.counts.Requests.Load(),
		"gets":          kv.counts.Gets.Load(),
		"multi_gets":    kv.counts.MultiGets.Load(),
		"keys":          kv.counts.Keys.Load(),
		"hits":          kv.counts.Hits.Load(),
		"sets":          kv.counts.Sets.Load(),
		"bytes_read":    kv.counts.BytesRead.Load(),
		"bytes_written": kv.counts.BytesWritten.Load(),
	})
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(response, said)
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
	var keys []string
	for _, line := range bytes.Split(body, []byte("\n")) {
		if len(line) > 0 {
			keys = append(keys, string(line))
		}
	}
	return keys
}

// counting is a listener whose connections count what goes through them.
type counting struct {
	net.Listener
	counts *counts
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
	counts *counts
}

func (connection counted) Read(bytes []byte) (int, error) {
	count, err := connection.Conn.Read(bytes)
	connection.counts.BytesRead.Add(int64(count))
	return count, err
}

func (connection counted) Write(bytes []byte) (int, error) {
	count, err := connection.Conn.Write(bytes)
	connection.counts.BytesWritten.Add(int64(count))
	return count, err
}
