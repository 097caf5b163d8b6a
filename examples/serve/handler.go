package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
)

// front is the HTTP side of one process. Any number of them may serve the same models.
type front struct {
	mu     sync.Mutex // guards the rest
	rng    *rand.Rand
	routes map[string]*route
}

// route is what a front knows of a model's traffic, for as long as fresh.
type route struct {
	versions []string
	traffic  traffic
	until    time.Time
}

const (
	fresh   = 100 * time.Millisecond
	maxBody = 1 << 20
)

func newFront(seed uint64) *front {
	return &front{rng: rand.New(rand.NewPCG(seed, 0)), routes: map[string]*route{}}
}

// handler serves
//
//	POST /models/M               an observation, of little-endian float32: {"action": 2, "version": "v1", "node": "n1"}
//	POST /models/M?version=V     asks one version, also one without traffic
//	PUT  /models/M/traffic       {"v1": 90, "v2": 10}: who gets how much
//	GET  /models/M/traffic
func (f *front) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /models/{model}", func(w http.ResponseWriter, r *http.Request) {
		obs, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		d, err := f.decide(r.Context(), r.PathValue("model"), r.URL.Query().Get("version"), obs)
		reply(w, d, err)
	})
	mux.HandleFunc("PUT /models/{model}/traffic", func(w http.ResponseWriter, r *http.Request) {
		var t traffic
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&t); err != nil {
			http.Error(w, `give weights of versions, such as {"v1": 90, "v2": 10}: `+err.Error(), http.StatusBadRequest)
			return
		}
		ctx := r.Context()
		_, err := shift.Call(ctx, catalogs.Get(r.PathValue("model")), t).Get(ctx)
		reply(w, t, err)
	})
	mux.HandleFunc("GET /models/{model}/traffic", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		t, err := shares.Call(ctx, catalogs.Get(r.PathValue("model"))).Get(ctx)
		reply(w, t, err)
	})
	return mux
}

// decide asks a version of the model: the one that is named, else one by the traffic.
func (f *front) decide(ctx context.Context, model, version string, obs []byte) (decision, error) {
	if version == "" {
		var err error
		if version, err = f.route(ctx, model); err != nil {
			return decision{}, err
		}
	}
	return infer.Call(ctx, servers.Get(model+"@"+version), obs).Get(ctx)
}

// route draws a version. The catalog is asked from time to time, not for each request.
func (f *front) route(ctx context.Context, model string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.routes[model]
	if r == nil || time.Now().After(r.until) {
		t, err := shares.Call(ctx, catalogs.Get(model)).Get(ctx)
		switch {
		case err != nil && r == nil:
			return "", err
		case err != nil: // the traffic of before will do
			r.until = time.Now().Add(fresh)
		case len(t) == 0:
			return "", fmt.Errorf("%w: nothing serves %q", errUnknown, model)
		default:
			r = &route{traffic: t, until: time.Now().Add(fresh)}
			for v := range t {
				r.versions = append(r.versions, v)
			}
			slices.Sort(r.versions)
			f.routes[model] = r
		}
	}
	return r.traffic.pick(r.versions, f.rng.Float64()), nil
}

// reply writes v as JSON, or says what the client can do about err. The log has the rest.
func reply(w http.ResponseWriter, v any, err error) {
	code := http.StatusInternalServerError
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // fails for a client that has gone
		return
	case errors.Is(err, errUnknown):
		code = http.StatusNotFound
	case errors.Is(err, errShape), errors.Is(err, errBad):
		code = http.StatusBadRequest
	case errors.Is(err, raysys.ErrOverloaded):
		w.Header().Set("Retry-After", "1") // a queue is gone long before
		code = http.StatusTooManyRequests
	case errors.Is(err, raysys.ErrDeadline):
		code = http.StatusGatewayTimeout
	case raysys.Retriable(err), errors.Is(err, raysys.ErrClosed):
		code = http.StatusServiceUnavailable
	}
	if code >= 500 {
		slog.Error("a request failed", "code", code, "error", err)
	}
	text := http.StatusText(code) // an error names nodes and keys, which are not a client's matter
	var cause *raysys.TaskError
	switch {
	case code == http.StatusNotFound:
		text = errUnknown.Error()
	case code == http.StatusBadRequest && errors.As(err, &cause):
		text = cause.Err.Error()
	}
	http.Error(w, text, code)
}
