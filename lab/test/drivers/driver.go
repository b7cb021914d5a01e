// What the programs in Go share; it is put beside each.
package main

import (
	"encoding/json"
	"io"
	"log"
	"os"
	"sync"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func check[T any](value T, err error) T {
	must(err)
	return value
}

// want ends the program if an answer is not the expected one.
func want(isDue bool, found ...any) {
	if !isDue {
		log.Fatal("not the answers that were due: ", found)
	}
}

// atOnce runs the work of so many goroutines, and waits for all.
func atOnce(workers int, work func(worker int)) {
	var all sync.WaitGroup
	for worker := 0; worker < workers; worker++ {
		all.Add(1)
		go func(worker int) {
			defer all.Done()
			work(worker)
		}(worker)
	}
	all.Wait()
}

// said prints what was asked, and waits for the end of standard input. Further pairs of name and value go into the same line.
func said(driver string, asked, errors map[string]int, more ...any) {
	line := map[string]any{"driver": driver, "asked": asked, "errors": errors}
	for at := 0; at < len(more); at += 2 {
		line[more[at].(string)] = more[at+1]
	}
	must(json.NewEncoder(os.Stdout).Encode(line))
	io.Copy(io.Discard, os.Stdin)
}
