package page

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
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
	Others http.Handler // of /metrics, /healthz and /readyz, which are for everybody, and of /debug/pprof/
}

// Server serves at one address.
type Server struct {
	Config
	access    access
	answers   *answers
	requests  *rooms
	followers *rooms // who follow logs
	timelines *rooms // who wait for a timeline
	conns     *conns
	http      http.Server
	at        net.Addr
	url       string
	over      chan struct{} // closed when nothing is accepted any more
}

const (
	readLimit  = 10 * time.Second
	bodyLimit  = 2 * time.Second // for a body, which nothing here uses
	writeLimit = 30 * time.Second
	idleLimit  = time.Minute
	headLimit  = 64 << 10

	// maxConns and maxRequests bound all connections, and the requests that are answered at once; eachConns and eachRequests those of one reader.
	maxConns, eachConns       = 512, 256
	maxRequests, eachRequests = 256, 64
	// A reader that follows, or waits for a timeline, has a request all that time: some are left for its page.
	maxFollowers, eachFollowers = 16, 8
	maxTimelines, eachTimelines = 8, 4
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
	s := newServer(c)
	s.at = l.Addr()
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
	s.serve(l)
	return s, nil
}

// serve serves what l accepts, until Close.
func (s *Server) serve(l net.Listener) {
	s.http = http.Server{
		Handler: s, ReadTimeout: readLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headLimit, ConnState: s.conns.state,
		ErrorLog: log.New(io.Discard, "", 0), // of connections that end, which anybody can make
	}
	go func() {
		defer close(s.over)
		_ = s.http.Serve(l)
	}()
}

func newServer(c Config) *Server {
	return &Server{
		Config: c, answers: newAnswers(), requests: newRooms(maxRequests, eachRequests), followers: newRooms(maxFollowers, eachFollowers),
		timelines: newRooms(maxTimelines, eachTimelines), conns: newConns(), over: make(chan struct{}),
	}
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

// ServeHTTP implements http.Handler. The health of a node is answered however many read, but for a request with a body: that takes its time.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := r.ContentLength != 0
	if health := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"; !health || body {
		reader := readerOf(r.RemoteAddr)
		if !s.requests.enter(reader) {
			if body {
				_ = http.NewResponseController(w).SetReadDeadline(time.Now()) // else the server waits for it
			}
			fail(w, r, http.StatusServiceUnavailable, errBusy.Error())
			return
		}
		defer s.requests.leave(reader)
	}
	if body && !skipBody(w, r) {
		return
	}
	switch path := r.URL.Path; {
	case path == "/metrics/cluster":
		s.cluster(w, r)
		return
	case path == "/metrics", path == "/healthz", path == "/readyz":
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
	case strings.HasPrefix(r.URL.Path, profiles):
		s.Others.ServeHTTP(w, r)
	default:
		file(w, r)
	}
}

// skipBody reads the body, and reports whether it came whole: else it has answered, and the connection ends.
func skipBody(w http.ResponseWriter, r *http.Request) bool {
	to := http.NewResponseController(w)
	_ = to.SetReadDeadline(time.Now().Add(bodyLimit))
	switch _, err := io.CopyN(io.Discard, r.Body, headLimit+1); {
	case errors.Is(err, io.EOF):
		_ = to.SetReadDeadline(time.Now().Add(writeLimit))
		return true
	case err == nil:
		fail(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request here needs no body, and may have one of %d bytes", headLimit))
	default:
		fail(w, r, http.StatusRequestTimeout, fmt.Sprintf("the body of the request has not come within %v", bodyLimit))
	}
	_ = to.SetReadDeadline(time.Now()) // else the server waits for the rest
	return false
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
