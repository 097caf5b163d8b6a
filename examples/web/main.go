// Command web is an HTTP server that owns its main: its handlers submit tasks and call grains through system.New. With
// RAYSYS_CONSUL it is a driver of that cluster, and raysys node --app web makes it a worker.
//
//	go run ./examples/web -addr 127.0.0.1:8080
//	curl '127.0.0.1:8080/primes?below=100000'
//	curl 127.0.0.1:8080/visits/alice
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/raysys/raysys/system"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, func(a net.Addr) { fmt.Fprintf(os.Stderr, "listening on http://%s\n", a) }); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(system.ExitCode(err))
	}
}

// run serves until ctx ends, then lets requests in progress finish. ready is told the address.
func run(ctx context.Context, addr string, ready func(net.Addr)) error {
	cfg, err := system.FromEnv()
	if err != nil {
		return err
	}
	if cfg.Cluster != nil && cfg.Cluster.Role == system.Worker {
		return system.Run(ctx, cfg, nil) // it serves the drivers, and no HTTP
	}
	node, err := system.New(cfg)
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return errors.Join(fmt.Errorf("listen on -addr %s: %w", addr, err), node.Close(context.Background()))
	}
	srv := &http.Server{ // a client that is slow, or does nothing, does not keep its connection for ever
		Handler: handler(node), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	ready(l.Addr())

	select {
	case err = <-served:
	case <-ctx.Done():
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = srv.Shutdown(grace)
		<-served
	}
	return errors.Join(err, node.Close(context.Background()))
}
