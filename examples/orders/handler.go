package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/stream"
)

const (
	maxBody     = 64 << 10
	publishTime = 30 * time.Second // a server of NATS may be away that long
)

// handler serves until ends is done, when the reads that follow a stream end.
func handler(ends context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{customer}", func(w http.ResponseWriter, r *http.Request) {
		var o Order
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&o)
		if err != nil || o.Item == "" || o.Amount <= 0 {
			http.Error(w, `give an order such as {"item": "book", "amount": 30}`, http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), publishTime)
		defer cancel()
		seq, err := orders.Publish(ctx, r.PathValue("customer"), o)
		if err != nil { // the order is stored, or it is not
			fail(w, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		write(w, map[string]uint64{"seq": seq})
	})
	mux.HandleFunc("GET /orders/{customer}", func(w http.ResponseWriter, r *http.Request) { list(ends, orders, w, r) })
	mux.HandleFunc("GET /parked/{customer}", func(w http.ResponseWriter, r *http.Request) { list(ends, orders.Parked(), w, r) })
	mux.HandleFunc("GET /accounts/{customer}", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		n, err := balance.Call(ctx, accounts.Get(r.PathValue("customer"))).Get(ctx)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, map[string]int{"balance": n})
	})
	mux.HandleFunc("GET /audits/{day}", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		t, err := totals.Call(ctx, audits.Get(r.PathValue("day"))).Get(ctx)
		if err != nil {
			fail(w, err)
			return
		}
		write(w, t)
	})
	return mux
}

// line is an event as GET /orders writes it.
type line struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Order            // its fields
	Reason string    `json:"reason,omitempty"` // why it is parked, or cannot be read
}

// list writes the events of a customer, from the number that the client asks for: those that are stored and, with follow=1, those that come.
func list(ends context.Context, s stream.Stream[Order], w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	opts := []stream.ReadOption{}
	if from := q.Get("from"); from != "" {
		seq, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			http.Error(w, "from: give the number of an order", http.StatusBadRequest)
			return
		}
		opts = append(opts, stream.From(seq))
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	follow := q.Get("follow") == "1"
	if follow {
		defer context.AfterFunc(ends, cancel)()
	} else {
		opts = append(opts, stream.ToEnd())
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	if follow {
		_ = flush.Flush() // the client sees that it is served, before there is an event
	}
	began := follow
	for e, err := range s.Read(ctx, r.PathValue("customer"), opts...) {
		reason := e.Reason
		switch {
		case errors.Is(err, stream.ErrUnreadable):
			reason = "unreadable" // the next one may be readable
		case ctx.Err() != nil && follow:
			return
		case err != nil && !began:
			fail(w, err)
			return
		case err != nil:
			panic(http.ErrAbortHandler) // the client sees that the list is not complete
		}
		began = true
		if write(w, line{e.Seq, e.Time, e.Value, reason}) != nil {
			return // the client has gone
		}
		if follow {
			_ = flush.Flush()
		}
	}
}

// write writes v as a line of JSON.
func write(w http.ResponseWriter, v any) error { return json.NewEncoder(w).Encode(v) }

// fail tells the client whether to come back. The log has the rest: an error names nodes, keys and addresses, which are not a client's matter.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case raysys.Retriable(err), errors.Is(err, raysys.ErrClosed), errors.Is(err, stream.ErrNoNATS), errors.Is(err, stream.ErrFull):
		code = http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = http.StatusGatewayTimeout
	case errors.Is(err, raysys.ErrTooLarge):
		code = http.StatusRequestEntityTooLarge
	}
	slog.Error("a request failed", "code", code, "error", err)
	http.Error(w, http.StatusText(code), code)
}
