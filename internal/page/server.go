package page

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what is served, where and to whom.
type Config struct {
	Address   string // HOST:PORT; with port 0 a free one
	TokenFile string // of the token that is asked for; on loopback none is without it
	Draw      func() string
	Cert, Key string // files, with which it speaks TLS; "" for none
	Insecure  bool   // also plain beyond loopback

	Source Source
	Ready  func() error // nil once Source can be asked
	Others http.Handler // of /metrics, /healthz, /readyz and /debug/pprof/, which are for everybody
}

// Server serves at one address.
type Server struct {
	Config
	access    access
	answers   answers
	followers chan struct{}
	conns     *conns
	http      http.Server
	at        net.Addr
	url       string
	over      chan struct{} // closed when nothing is accepted any more
}

const (
	readLimit  = 10 * time.Second
	writeLimit = 30 * time.Second
	idleLimit  = time.Minute
	headLimit  = 64 << 10
	maxConns   = 256
)

// Open serves from here on, until Close.
func Open(c Config) (*Server, error) {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return nil, err // New of the node has looked
	}
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return nil, fmt.Errorf("metrics, health and the page at %s: %w: give another address (RAYSYS_HTTP, --http, system.Config.HTTP)", c.Address, err)
	}
	s := &Server{Config: c, followers: make(chan struct{}, maxMade), at: l.Addr(), over: make(chan struct{})}
	s.answers.by = map[string]*answer{}
	s.answers.ctx, s.answers.end = context.WithCancel(context.Background())
	ip := l.Addr().(*net.TCPAddr)
	if s.access, err = newAccess(&c, ip.IP.IsLoopback(), host); err == nil && c.Cert != "" {
		l, err = withTLS(l, c.Cert, c.Key)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	if s.access.off == "" {
		if at := net.ParseIP(host); host == "" || at != nil && at.IsUnspecified() {
			if host, err = os.Hostname(); err != nil {
				host = "localhost"
			}
		}
		s.url = fmt.Sprintf("http://%s/", net.JoinHostPort(host, fmt.Sprint(ip.Port)))
		if c.Cert != "" {
			s.url = "https" + s.url[len("http"):]
		}
	}
	s.conns = &conns{idle: list.New(), by: map[net.Conn]*list.Element{}}
	s.http = http.Server{
		Handler: s, ReadTimeout: readLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headLimit, ConnState: s.conns.state,
		ErrorLog: log.New(io.Discard, "", 0), // of connections that end, which anybody can make
	}
	go func() {
		defer close(s.over)
		_ = s.http.Serve(l)
	}()
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.at }

// URL is that of the page; "" where it is not served, and Off says why.
func (s *Server) URL() string { return s.url }

// Off says why the page is not served; "" where it is.
func (s *Server) Off() string { return s.access.off }

// Token is the token that was drawn; "" where none was needed, or a file has it.
func (s *Server) Token() string { return s.access.drawn }

// Close ends it, and does not wait for readers.
func (s *Server) Close() {
	_ = s.http.Close()
	<-s.over
	s.answers.close()
}

func (s *Server) ready() error {
	if err := s.Ready(); err != nil {
		return fmt.Errorf("%w: %w", errNotServed, err)
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == "/metrics", path == "/healthz", path == "/readyz", strings.HasPrefix(path, "/debug/pprof/"):
		s.Others.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch code, why := s.access.refuse(r); {
	case code == http.StatusMethodNotAllowed:
		h.Set("Allow", "GET, HEAD")
		fail(w, r, code, why)
	case code != 0:
		fail(w, r, code, why)
	case strings.HasPrefix(r.URL.Path, "/api/"):
		s.api(w, r)
	default:
		file(w, r)
	}
}

// withTLS has l speak TLS. The files are read again at each handshake, since certificates are renewed; while they do not fit together, those
// that did serve on.
func withTLS(l net.Listener, cert, key string) (net.Listener, error) {
	first, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return l, fmt.Errorf("TLS of the page (RAYSYS_HTTP_TLS_CERT, RAYSYS_HTTP_TLS_KEY): %w", err)
	}
	var last atomic.Pointer[tls.Certificate]
	last.Store(&first)
	return tls.NewListener(l, &tls.Config{
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if now, err := tls.LoadX509KeyPair(cert, key); err == nil {
				last.Store(&now)
			}
			return last.Load(), nil
		},
	}), nil
}

// conns bounds the connections: one more ends that which has been idle longest, or itself where none is.
type conns struct {
	mu   sync.Mutex
	idle *list.List                 // of net.Conn, also those that were just accepted
	by   map[net.Conn]*list.Element // nil while a request is answered
}

// state is an http.Server's ConnState.
func (c *conns) state(conn net.Conn, to http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.by[conn]; e != nil {
		c.idle.Remove(e)
	}
	switch to {
	case http.StateNew, http.StateIdle:
		c.by[conn] = c.idle.PushBack(conn)
	case http.StateActive:
		c.by[conn] = nil
	default:
		delete(c.by, conn)
	}
	if len(c.by) > maxConns {
		oldest := c.idle.Front().Value.(net.Conn) // there is one: conn itself
		c.idle.Remove(c.by[oldest])
		delete(c.by, oldest)
		go oldest.Close() // of TLS that may take its time
	}
}
