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
	"flag"

	"github.com/raysys/raysys/system"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	system.Main(func(ctx context.Context) error { return system.Serve(ctx, *addr, handler(ctx)) })
}
