#!/usr/bin/env bash
# github.com/asynkron/protoactor-go v0.0.0-20240822202345-3c0e61ca19c9: what an actor's mailbox holds when the actor is stopped.
#
# Guess: as in Akka, what was not handled becomes dead letters, and a request among it fails with ErrDeadLetter at once.
# Seen:  the mailbox is emptied without a word: no dead letter, and a request waits for its whole timeout. What is sent after the stop is a dead
#        letter, and a request fails with ErrDeadLetter.
#
# raysys makes dead letters of what the mailbox of an actor of a kind holds, so that senders hear of it at once: system/protoactor/activation.go.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.25

require github.com/asynkron/protoactor-go v0.0.0-20240822202345-3c0e61ca19c9

require (
	github.com/Workiva/go-datastructures v1.1.3 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.2.0 // indirect
	github.com/emirpasic/gods v1.18.1 // indirect
	github.com/go-logr/logr v1.3.0 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/golang/protobuf v1.5.3 // indirect
	github.com/google/uuid v1.5.0 // indirect
	github.com/lithammer/shortuuid/v4 v4.0.0 // indirect
	github.com/lmittmann/tint v1.0.3 // indirect
	github.com/matttproud/golang_protobuf_extensions v1.0.4 // indirect
	github.com/orcaman/concurrent-map v1.0.0 // indirect
	github.com/prometheus/client_golang v1.17.0 // indirect
	github.com/prometheus/client_model v0.5.0 // indirect
	github.com/prometheus/common v0.44.0 // indirect
	github.com/prometheus/procfs v0.11.1 // indirect
	github.com/twmb/murmur3 v1.1.8 // indirect
	go.opentelemetry.io/otel v1.21.0 // indirect
	go.opentelemetry.io/otel/exporters/prometheus v0.44.0 // indirect
	go.opentelemetry.io/otel/metric v1.21.0 // indirect
	go.opentelemetry.io/otel/sdk v1.21.0 // indirect
	go.opentelemetry.io/otel/sdk/metric v1.21.0 // indirect
	go.opentelemetry.io/otel/trace v1.21.0 // indirect
	golang.org/x/sys v0.19.0 // indirect
	google.golang.org/protobuf v1.33.0 // indirect
)
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

type work struct{ n int }

func main() {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	var handled, dead atomic.Int64
	system.EventStream.Subscribe(func(event any) {
		if d, ok := event.(*actor.DeadLetterEvent); ok {
			if _, ok := d.Message.(*work); ok {
				dead.Add(1)
			}
		}
	})
	begun, goOn := make(chan bool), make(chan bool)
	var stopped sync.WaitGroup
	stopped.Add(1)
	pid := system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *work:
			handled.Add(1)
			if m.n == 0 {
				close(begun)
				<-goOn
			}
		case *actor.Stopped:
			stopped.Done()
		}
	}))
	for n := range 10 {
		system.Root.Send(pid, &work{n})
	}
	waiting := system.Root.RequestFuture(pid, &work{10}, time.Second)
	<-begun // the first is handled, nine are in the mailbox, and a request behind them
	future := system.Root.StopFuture(pid)
	close(goOn)
	_ = future.Wait()
	stopped.Wait()
	_, err := waiting.Result()
	fmt.Println("of 11 messages that were there before the stop", handled.Load(), "is handled,", dead.Load(), "are dead letters; the request:", err)
	_, err = system.Root.RequestFuture(pid, &work{11}, time.Second).Result()
	fmt.Println("sent after the stop:", dead.Load(), "dead letter; the request:", err)
}
END
cat >want <<'END'
of 11 messages that were there before the stop 1 is handled, 0 are dead letters; the request: future: timeout
sent after the stop: 1 dead letter; the request: future: dead letter
END
GOWORK=off GOFLAGS=-mod=mod go run . 2>got.err >got || { cat got.err; exit 1; }
diff want got
cat got
