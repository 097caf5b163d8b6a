package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// span is a half-open range of numbers.
type span struct{ From, To int }

// countPrimes counts the primes in a span by trial division: work worth spreading over CPUs.
var countPrimes = tasks.Define("count-primes", func(ctx context.Context, s span) (int, error) {
	n := 0
	for p := max(s.From, 2); p < s.To; p++ {
		if p%1024 == 0 && ctx.Err() != nil {
			return 0, ctx.Err() // the client has gone
		}
		prime := true
		for d := 2; d*d <= p; d++ {
			if p%d == 0 {
				prime = false
				break
			}
		}
		if prime {
			n++
		}
	}
	return n, nil
})

// Visitor counts the visits of one name.
type Visitor struct{ Visits grains.State[int] }

// Visit counts one more.
func (v *Visitor) Visit(ctx context.Context) (int, error) {
	v.Visits.Value++
	return v.Visits.Value, nil
}

var (
	visitors = grains.Define[Visitor]("visitor", grains.Durable()) // so that a call with a key counts once
	visit    = grains.Method0(visitors, "visit", (*Visitor).Visit)
)

const (
	maxBelow = 5_000_000
	chunk    = 20_000
)

// openDoor is for programs that are not this one: with a token of the file, or of this host alone.
func openDoor(n *system.Node, tokens string) (*door.Door, error) {
	opts := []door.Option{
		door.Method0(visit, "Counts a visit, returns how many there were."),
		door.Task(countPrimes, "Counts the primes in a span."),
	}
	if tokens != "" {
		who, err := door.Tokens(tokens)
		if err != nil {
			return nil, err
		}
		opts = append(opts, door.Callers(who))
	}
	return door.New(n, opts...)
}

// handler uses the contexts of requests, which Serve has made drivers: a client that hangs up cancels its tasks.
func handler(n *system.Node, tokens string) (http.Handler, error) {
	mux := http.NewServeMux()
	d, err := openDoor(n, tokens)
	if err != nil {
		return nil, err
	}
	mux.Handle("/call/", d)
	mux.HandleFunc("GET /primes", func(w http.ResponseWriter, r *http.Request) {
		below, err := strconv.Atoi(r.URL.Query().Get("below"))
		if err != nil || below < 0 || below > maxBelow {
			http.Error(w, fmt.Sprintf("below: give a number from 0 to %d", maxBelow), http.StatusBadRequest)
			return
		}
		ctx := r.Context()
		var spans []span
		for from := 0; from < below; from += chunk {
			spans = append(spans, span{from, min(from+chunk, below)})
		}
		counts, err := raysys.GetAll(ctx, countPrimes.Map(ctx, spans)).Values()
		if err != nil {
			fail(w, err)
			return
		}
		sum := 0
		for _, n := range counts {
			sum += n
		}
		fmt.Fprintln(w, sum)
	})
	mux.HandleFunc("GET /visits/{name}", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		n, err := visit.Call(ctx, visitors.Get(r.PathValue("name"))).Get(ctx)
		if err != nil {
			fail(w, err)
			return
		}
		fmt.Fprintln(w, n)
	})
	return mux, nil
}

// fail tells the client whether to come back. The log has the rest: an error names nodes, keys and addresses, which are not a client's matter.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case raysys.Retriable(err), errors.Is(err, raysys.ErrClosed):
		code = http.StatusServiceUnavailable
	case errors.Is(err, raysys.ErrDeadline):
		code = http.StatusGatewayTimeout
	}
	slog.Error("a request failed", "code", code, "error", err)
	http.Error(w, http.StatusText(code), code)
}
