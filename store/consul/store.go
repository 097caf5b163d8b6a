package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
)

// Store is a store.KV. Make it with Open.
type Store struct {
	cfg        Config
	endpoints  []endpoint
	transports [laneCount]*http.Transport
	current    atomic.Int32 // the endpoint that is used
	conns      connections

	ctx    context.Context // ends all calls; its cause is ErrClosed
	cancel context.CancelCauseFunc

	at      atomic.Pointer[string] // see base
	onAgent atomic.Pointer[error]  // see OnAgent

	mu      sync.Mutex // guards what follows
	memo    map[string]memo
	watches int
	nodes   map[string]string // the catalog nodes of the sessions that were made here, by session
	unused  map[string]bool   // the catalog nodes without a session, as the last Sweep found them
}

var _ store.KV = (*Store)(nil)

// Open checks the configuration and does no I/O: the first call connects.
func Open(cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	s := &Store{cfg: cfg, memo: map[string]memo{}, nodes: map[string]string{}, conns: connections{open: map[net.Conn]struct{}{}}}
	var err error
	if s.endpoints, s.transports, err = newEndpoints(cfg, &s.conns); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s, nil
}

// Address returns the address that is used now.
func (s *Store) Address() string { return s.endpoints[s.current.Load()].address }

// Connections returns how many connections are open.
func (s *Store) Connections() int { return s.conns.count() }

// Close ends all calls under way and closes the connections. Sessions live on until they are destroyed or expire.
func (s *Store) Close() error {
	s.cancel(store.ErrClosed)
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
	s.conns.close()
	return nil
}

// call is one call to Consul.
type call struct {
	what   string // for messages: "get config"
	lane   lane
	writes bool
	limit  time.Duration // 0 means Config.Timeout
}

// do makes a call: on the current address, and on the next when that one cannot be connected to.
func (s *Store) do(ctx context.Context, c call, f func(ctx context.Context, client *api.Client) error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", c.what, context.Cause(ctx))
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", c.what, store.ErrClosed)
	}
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(store.ErrClosed) })()
	if c.limit == 0 {
		c.limit = s.cfg.Timeout
	}
	ctx, expire := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("%w: no answer within %v", store.ErrUnavailable, c.limit))
	defer expire()

	var sent atomic.Bool // written by the connection's goroutine
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	var err error
	for range s.endpoints {
		at, start := s.current.Load(), time.Now()
		err = f(traced, s.endpoints[at].clients[c.lane])
		if err == nil {
			return nil
		}
		err = s.explain(caller, ctx, c, s.endpoints[at].address, err, sent.Load())
		if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || time.Since(start) > dialTimeout {
			s.current.CompareAndSwap(at, (at+1)%int32(len(s.endpoints)))
		}
		if ctx.Err() != nil || !errors.Is(err, store.ErrUnavailable) || c.writes && sent.Load() {
			return err
		}
	}
	return err
}

// explain says what an error of a call means: see store.KV.
func (s *Store) explain(caller, ctx context.Context, c call, address string, err error, sent bool) error {
	lost := store.ErrUnavailable
	if c.writes && sent {
		lost = store.ErrUnknownOutcome
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return fmt.Errorf("%s: consul at %s: %w", c.what, address, meaning(status, c.writes))
	}
	if errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrNotFound) || errors.Is(err, errLockDelay) {
		return fmt.Errorf("%s: %w", c.what, err)
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if caller.Err() != nil {
			cause = context.Cause(caller)
		}
		if !c.writes || !sent {
			return fmt.Errorf("%s: consul at %s: %w", c.what, address, cause)
		}
		return fmt.Errorf("%s: consul at %s: %w: %w", c.what, address, lost, unmarked(cause))
	}
	if !sent {
		return fmt.Errorf("%s: %w: consul at %s cannot be reached: %w", c.what, lost, address, err)
	}
	return fmt.Errorf("%s: %w: consul at %s: %w", c.what, lost, address, err)
}

// unmarked keeps the text of an error that must not be told as ErrUnavailable.
func unmarked(err error) error {
	if errors.Is(err, store.ErrUnavailable) {
		return errors.New(err.Error())
	}
	return err
}

// meaning of an answer.
func meaning(e *statusError, writes bool) error {
	body := strings.TrimSpace(e.body)
	switch {
	case e.code == http.StatusForbidden || e.code == http.StatusUnauthorized:
		return fmt.Errorf("%w: %s: check the ACL token", store.ErrDenied, body)
	case e.code == http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %s", store.ErrTooLarge, body)
	case e.code == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, e)
	case strings.Contains(body, "invalid key name"), strings.Contains(body, "key contains"):
		return fmt.Errorf("%w: %w: this Consul refuses names of keys that an earlier one took: set DisableKVKeyValidation in its configuration, or move the keys to another prefix (consul kv export, consul kv import)", store.ErrBadOp, e)
	case e.code < 500, strings.Contains(body, "Invalid Session TTL"):
		return fmt.Errorf("%w: %w", store.ErrBadOp, e)
	case strings.Contains(body, "Permission denied"), strings.Contains(body, "ACL not found"):
		return fmt.Errorf("%w: %s: check the ACL token", store.ErrDenied, body)
	case hasNoLeader(body):
		// It is said before anything is done.
		return fmt.Errorf("%w: its servers have no leader, or none that can be reached", store.ErrUnavailable)
	case writes:
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, e)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, e)
}
