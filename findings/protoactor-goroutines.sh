#!/usr/bin/env bash
# github.com/asynkron/protoactor-go v0.0.0-20240822202345-3c0e61ca19c9: on whose goroutine a message is delivered, and what a mailbox with a
# bound does when it is full.
#
# Guess: Send never waits. A mailbox with a bound makes dead letters of what is too much. Handlers of the EventStream have goroutines of their own.
# Seen:  Send waits for room, with Bounded(10) from the 17th message on, since the bound is rounded up to a power of two. An actor whose answer is
#        piped (Future.PipeTo) to such a mailbox waits in its turn, though it never sent to it. BoundedDropping drops without a dead letter. A
#        handler of the EventStream runs on the goroutine that publishes.
#
# raysys hands what a link brings to such actors on goroutines of their own, with bounds: internal/remote/line.go.
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
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

var (
	system  = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	letters atomic.Int64
)

// busy is an actor with that mailbox. It has taken one message, and takes the next when goOn is closed.
func busy(mailbox actor.MailboxProducer) (pid *actor.PID, goOn chan bool) {
	begun, goOn := make(chan bool), make(chan bool)
	pid = system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if c.Message() == "first" {
			close(begun)
			<-goOn
		}
	}, actor.WithMailbox(mailbox)))
	system.Root.Send(pid, "first")
	<-begun
	return pid, goOn
}

// send sends 100 messages. It returns how many have left after half a second, and what is closed when all have.
func send(pid *actor.PID) (n int64, all chan bool) {
	var count atomic.Int64
	all = make(chan bool)
	go func() {
		defer close(all)
		for range 100 {
			system.Root.Send(pid, "more")
			count.Add(1)
		}
	}()
	time.Sleep(500 * time.Millisecond)
	return count.Load(), all
}

// goroutine is the line that names the goroutine which calls it.
func goroutine() string {
	buf := make([]byte, 100)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return name
}

func main() {
	system.EventStream.Subscribe(func(event any) {
		if _, ok := event.(*actor.DeadLetterEvent); ok {
			letters.Add(1)
		}
	})
	dropping, goOn := busy(actor.BoundedDropping(10))
	n, _ := send(dropping)
	fmt.Println("BoundedDropping(10):", n, "of 100 sent,", letters.Load(), "dead letters")
	close(goOn)

	full, goOn := busy(actor.Bounded(10))
	n, all := send(full)
	fmt.Println("Bounded(10):", n, "of 100 sent, then Send waits")

	echo := system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if c.Message() == "ask" {
			c.Respond("answer")
		}
	}))
	system.Root.RequestFuture(echo, "ask", time.Minute).PipeTo(full)
	time.Sleep(100 * time.Millisecond)
	_, err := system.Root.RequestFuture(echo, "ask", 500*time.Millisecond).Result()
	fmt.Println("an actor whose answer was piped to it answers no more:", err)
	close(goOn)
	<-all
	answer, err := system.Root.RequestFuture(echo, "ask", time.Minute).Result()
	fmt.Println("once there is room:", answer, err)

	on := ""
	system.EventStream.Subscribe(func(event any) {
		if event == "an event" {
			on = goroutine()
		}
	})
	system.EventStream.Publish("an event")
	fmt.Println("a handler of the EventStream runs on the goroutine that publishes:", on == goroutine())
}
END
cat >want <<'END'
BoundedDropping(10): 100 of 100 sent, 0 dead letters
Bounded(10): 16 of 100 sent, then Send waits
an actor whose answer was piped to it answers no more: future: timeout
once there is room: answer <nil>
a handler of the EventStream runs on the goroutine that publishes: true
END
GOWORK=off GOFLAGS=-mod=mod go run . 2>got.err >got || { cat got.err; exit 1; }
diff want got
cat got
