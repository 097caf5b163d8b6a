// Command web is an HTTP server whose handlers submit tasks and call grains. With RAYSYS_CONSUL it is a driver of that
// cluster, and raysys node --app web makes it a worker, which serves the drivers, and no HTTP.
//
//	go run ./examples/web -addr 127.0.0.1:8080
//	curl '127.0.0.1:8080/primes?below=100000'
//	curl 127.0.0.1:8080/visits/alice
//
// Programs that are not this one call the same functions at /call/, by package door: from this host, or with a token of
// -tokens FILE, a file of lines NAME TOKEN. callers has two of them.
//
//	python3 examples/web/callers/visits.py http://127.0.0.1:8080 alice
package main

import (
	"context"
	"flag"

	"github.com/raysys/raysys/system"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	tokens := flag.String("tokens", "", "file of lines NAME TOKEN: who may call functions at /call/ (unless given: this host alone)")
	system.Main(func(ctx context.Context) error {
		h, err := handler(system.NodeOf(ctx), *tokens)
		if err != nil {
			return err
		}
		return system.Serve(ctx, *addr, h)
	})
}
