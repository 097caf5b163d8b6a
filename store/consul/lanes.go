package consul

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
)

// A lane is a set of connections that calls of one kind share, so that those of another never wait for them.
type lane int

const (
	dataLane lane = iota
	watchLane
	sessionLane
	laneCount
)

// perLane is how many connections each lane has to one address: 16 together (C13).
var perLane = [laneCount]int{dataLane: 9, watchLane: 5, sessionLane: 2}

// maxWatches is how many watches may run at once.
const maxWatches = 5

// dialTimeout is short: within a lease there must be time to try several addresses.
const dialTimeout = 2 * time.Second

// endpoint is one address.
type endpoint struct {
	address string
	clients [laneCount]*api.Client
}

// connections counts and holds the open connections of all lanes.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]struct{}
	closed bool
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// add keeps a connection until it is closed.
func (c *connections) add(conn net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, store.ErrClosed
	}
	kept := &keptConn{conn, c}
	c.open[kept] = struct{}{}
	return kept, nil
}

// close closes all: also those that a call gives back only now.
func (c *connections) close() {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.open))
	c.closed = true
	c.mu.Unlock()
	for _, conn := range all {
		_ = conn.Close()
	}
}

type keptConn struct {
	net.Conn
	of *connections
}

func (c *keptConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// newEndpoints makes the clients. The transports are shared by all addresses; their limits are per address.
func newEndpoints(cfg Config, conns *connections) ([]endpoint, [laneCount]*http.Transport, error) {
	var transports [laneCount]*http.Transport
	base := api.DefaultConfig() // reads the environment
	tlsConfig := cfg.TLS
	if reflect.ValueOf(tlsConfig).IsZero() {
		tlsConfig = base.TLSConfig
	}
	secured, err := api.SetupTLSConfig(&tlsConfig)
	if err != nil {
		return nil, transports, fmt.Errorf("TLS files of Consul: %w", err)
	}
	for l := range transports {
		transports[l] = newTransport(perLane[l], secured, conns)
	}
	var all []endpoint
	for _, a := range cfg.Addresses {
		e := endpoint{address: a}
		for l := range e.clients {
			c, err := api.NewClient(&api.Config{
				Address:    a,
				Token:      cfg.Token,
				Namespace:  cfg.Namespace,
				HttpClient: &http.Client{Transport: statuses{transports[l]}},
			})
			if err != nil {
				return nil, transports, fmt.Errorf("address of Consul %q: %w", a, err)
			}
			e.clients[l] = c
		}
		all = append(all, e)
	}
	return all, transports, nil
}

func newTransport(max int, secured *tls.Config, conns *connections) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 5 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return conns.add(c)
		},
		TLSClientConfig:     secured.Clone(),
		TLSHandshakeTimeout: dialTimeout,
		MaxConnsPerHost:     max,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: max,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true, // values are packed already
	}
}

// statusError is an answer that is neither success nor one that a call expects.
type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.code, e.body) }

// statuses turns unexpected answers into errors that keep their code, which the client's own errors do not.
type statuses struct{ next http.RoundTripper }

// maxErrorBody bounds what is read of an error's text.
const maxErrorBody = 4 << 10

func (s statuses) RoundTrip(req *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := s.next.RoundTrip(req)
	if want, ok := req.Context().Value(headersKey{}).(func(http.Header, time.Duration)); ok && err == nil {
		want(resp.Header, time.Since(began))
	}
	// 404 says that a key or session is not there, 409 that a transaction was refused.
	if err != nil || resp.StatusCode < 400 || resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusConflict {
		return resp, err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return nil, &statusError{resp.StatusCode, string(body)}
}
