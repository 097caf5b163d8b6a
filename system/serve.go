package system

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/raysys/raysys"
)

const (
	// serveGrace is how long requests in progress get when Serve ends. It has to be above 5 s: http.Server.Shutdown
	// waits that long for connections on which a client, such as a browser that connects ahead, has sent nothing.
	serveGrace = 10 * time.Second
	// A client that does not finish a header, or sends nothing, loses its connection. ReadTimeout stays unset: when it
	// is over net/http cancels the context of a request that still runs.
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
)

// Serve serves HTTP at addr, HOST:PORT, until ctx ends, and returns nil then. Main and Run give such a ctx:
//
//	system.Main(func(ctx context.Context) error { return system.Serve(ctx, "127.0.0.1:8080", handler) })
//
// The context of a request is a driver's, as Node.Context makes it: handlers submit tasks and call grains with
// r.Context(), and what runs for a client that has gone is cancelled.
//
// When ctx ends, Serve accepts no more requests, and those in progress get 10 seconds. Then it cancels their contexts
// and closes their connections. A handler whose answer has no end, such as a stream of events, should end it when ctx
// ends. Connections that a handler took over (http.Hijacker) stay open.
//
// An address that is taken, or is none, is an error that names it. Where the node of ctx was fenced, Serve returns the
// error of Node.Err. Serve prints where it listens to standard error, unless RAYSYS_LOG is error; a program that needs
// the port of ":0" calls ServeListener. A nil handler is http.DefaultServeMux. Bodies and answers may take any time:
// http.ResponseController sets deadlines for them.
func Serve(ctx context.Context, addr string, h http.Handler) error {
	if addr == "" {
		return errors.New("serve HTTP: the address is empty: give HOST:PORT, such as 127.0.0.1:8080")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("serve HTTP at %s: %w", addr, err)
	}
	if n := NodeOf(ctx); n != nil {
		tellRun(n, "listening on http://"+l.Addr().String())
	}
	return ServeListener(ctx, l, h)
}

// ServeListener is Serve with a listener, which it closes. The listener of tls.NewListener makes it HTTPS.
func ServeListener(ctx context.Context, l net.Listener, h http.Handler) error {
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	n := NodeOf(ctx)
	srv := &http.Server{
		Handler: makeDrivers(n, h), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return base },
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	select {
	case err := <-served:
		_ = srv.Close() // it closes what the failed listener accepted
		return fmt.Errorf("serve HTTP at %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), serveGrace)
	defer cancel()
	if err := srv.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		cut(context.Cause(ctx))
		_ = srv.Close() // its error is about connections that go anyway
		if n != nil {
			name := zap.String("node", string(n.cfg.Name))
			n.log.Warn("HTTP requests were cut off", name, zap.Duration("after", serveGrace))
		}
	}
	<-served
	if n != nil && !errors.Is(n.Err(), raysys.ErrClosed) {
		return n.Err()
	}
	return nil
}

// makeDrivers has h get each request with the context of a driver of n.
func makeDrivers(n *Node, h http.Handler) http.Handler {
	if h == nil {
		h = http.DefaultServeMux
	}
	if n == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(n.Context(r.Context())))
	})
}
