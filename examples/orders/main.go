// Command orders is a shop on package stream: each order is an event, which is published to its customer and counts once in the account, and once
// in the audit of its day. Alone its orders lie in memory; with RAYSYS_CONSUL it is a driver of that cluster, where they lie in NATS (RAYSYS_NATS),
// and with RAYSYS_ROLE=worker it runs grains.
//
//	go run ./examples/orders -addr 127.0.0.1:8080
//	curl -d '{"item": "book", "amount": 30}' 127.0.0.1:8080/orders/alice
//	curl 127.0.0.1:8080/accounts/alice
//	curl '127.0.0.1:8080/orders/alice?from=1&follow=1'
//	curl 127.0.0.1:8080/audits/$(date -u +%F)
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
		return system.Run(ctx, cfg, nil) // it has the grains, and serves no HTTP
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
		Handler: handler(ctx, node), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
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
