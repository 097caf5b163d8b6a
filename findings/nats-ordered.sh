#!/usr/bin/env bash
# github.com/nats-io/nats.go 1.55.0, nats-server 2.15.2: an ordered consumer that begins behind the end of its stream.
#
# Guess: the server refuses the number, or begins with the next message that is stored.
# Seen:  no error. The messages up to the one before that number are never delivered, and a reader cannot tell them from a stream in which nothing
#        happens. nats.go makes its ordered consumers anew by itself, from the number after the last one: so a server that comes back with an older
#        store does this to a program that did nothing.
#
# raysys compares the last event that was read with the store, at each connection and while nothing comes: stream/internal/bus/bus.go.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.26.0

require (
	github.com/nats-io/nats-server/v2 v2.15.2
	github.com/nats-io/nats.go v1.55.0
)

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)
END
cat >main.go <<'END'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	folder := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(folder)
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: folder, NoLog: true, NoSigs: true}))
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		panic("the server is not ready")
	}
	nc := must(nats.Connect(s.ClientURL()))
	defer nc.Close()
	js := must(jetstream.New(nc))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream := must(js.CreateStream(ctx, jetstream.StreamConfig{Name: "s", Subjects: []string{"s"}}))
	publish := func(n int) {
		for range n {
			must(js.Publish(ctx, "s", nil))
		}
	}
	read := func(c jetstream.Consumer) string {
		m, err := c.Next(jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint("message ", must(m.Metadata()).Sequence.Stream)
	}
	publish(3)
	// Whoever had taken message 10 goes on from 11. The server came back with an older store, of 3.
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 11})
	fmt.Println("an ordered consumer from 11 on, the last is 3: error", err)
	publish(7)
	fmt.Println("after 4 to 10 were stored:", read(c))
	publish(1)
	fmt.Println("after 11 was stored:", read(c))
}
END
cat >want <<'END'
an ordered consumer from 11 on, the last is 3: error <nil>
after 4 to 10 were stored: nats: timeout
after 11 was stored: message 11
END
GOWORK=off GOFLAGS=-mod=mod go run . 2>got.err >got || { cat got.err; exit 1; }
diff want got
cat got
