// Command web is an HTTP server whose handlers submit tasks and call grains. With RAYSYS_CONSUL it is a driver of that
// cluster, and raysys node --app web makes it a worker, which serves the drivers, and no HTTP.
//
//	go run ./examples/web -addr 127.0.0.1:8080
//	curl '127.0.0.1:8080/primes?below=100000'
//	curl 127.0.0.1:8080/visits/alice
package main

import (
	"context"
	"flag"

	"github.com/raysys/raysys/system"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	system.Main(func(ctx context.Context) error { return system.Serve(ctx, *addr, handler()) })
}
