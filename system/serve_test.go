package system_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/system"
)

// listenHere returns a listener on a free port, and its URL.
func listenHere(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, "http://" + l.Addr().String()
}

func getText(url string) (string, error) {
	defer http.DefaultClient.CloseIdleConnections()
	r, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%d %s", r.StatusCode, b), err
}

// TestServe: handlers submit tasks with the contexts of their requests. A request that is in progress when ctx ends
// still submits, and is answered; no connection is accepted any more.
func TestServe(t *testing.T) {
	l, url := listenHere(t)
	begun, end := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, r *http.Request) {
		v, err := mainSquare.Go(r.Context(), 7).Get(r.Context())
		fmt.Fprint(w, v, err)
	}
	mux.HandleFunc("/square", answer)
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-end
		answer(w, r)
	})
	err := system.Run(t.Context(), system.Config{}, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		served, slow := make(chan error, 1), make(chan string, 1)
		go func() { served <- system.ServeListener(ctx, l, mux) }()
		if got, err := getText(url + "/square"); got != "200 49 <nil>" {
			t.Error(got, err)
		}
		go func() {
			got, err := getText(url + "/slow")
			slow <- fmt.Sprint(got, err)
		}()
		<-begun
		cancel()
		for { // until the listener is closed
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				break
			}
			c.Close()
		}
		close(end)
		if got := <-slow; got != "200 49 <nil><nil>" {
			t.Errorf("the request in progress got %q", got)
		}
		return <-served
	})
	if err != nil {
		t.Error(err)
	}
}

func init() {
	http.HandleFunc("GET /default", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "default") })
}

// TestServeDefault: a nil handler is http.DefaultServeMux, as everywhere in net/http. A ctx of no node serves too.
func TestServeDefault(t *testing.T) {
	l, url := listenHere(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- system.ServeListener(ctx, l, nil) }()
	if got, err := getText(url + "/default"); got != "200 default" {
		t.Error(got, err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestServeRefuses: what cannot be listened at is named.
func TestServeRefuses(t *testing.T) {
	l, _ := listenHere(t)
	taken := l.Addr().String()
	for addr, want := range map[string]string{
		taken:            "serve HTTP at " + taken + ": listen tcp " + taken + ": bind: ",
		"":               "the address is empty",
		"127.0.0.1":      "serve HTTP at 127.0.0.1: ",
		"127.0.0.1:none": "serve HTTP at 127.0.0.1:none: ",
	} {
		if err := system.Serve(t.Context(), addr, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", addr, err, want)
		}
	}
	l.Close()
	if err := system.ServeListener(t.Context(), l, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := system.Serve(over, "127.0.0.1:0", nil); err != nil {
		t.Errorf("a context that is over: %v", err)
	}
}

// pipes is a listener whose connections are pipes, for virtual time.
type pipes struct {
	conns chan net.Conn
	down  context.Context // ends with close
	close context.CancelFunc
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.down.Done():
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial() net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	return here
}

// TestServeGrace: clients that hang do not hold up the end for more than ten seconds, and a connection on which nothing
// was sent cuts off no request. Before the end a request may take any time.
func TestServeGrace(t *testing.T) {
	const get, post = " HTTP/1.1\r\nHost: h\r\n\r\n", " HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"
	for name, c := range map[string]struct {
		client  string        // what a client sends
		before  time.Duration // that much later ctx ends
		least   time.Duration // Serve takes after that, and at most 2 s more
		handler string        // what became of the handler
	}{
		"nobody":                    {before: time.Hour},
		"an idle connection":        {client: "GET /now" + get, before: time.Second, handler: "now"},
		"a connection ahead":        {client: "", before: time.Second, least: 4 * time.Second},
		"half a header":             {client: "GET / HT", before: time.Minute},
		"a stream that never ends":  {"GET /stream" + get, time.Hour, 10 * time.Second, "over: stop"},
		"a body that does not come": {"POST /body" + post, time.Hour, 10 * time.Second, "body: false"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				down, closes := context.WithCancel(context.Background())
				p := &pipes{make(chan net.Conn), down, closes}
				happened := make(chan string, 1)
				mux := http.NewServeMux()
				mux.HandleFunc("/now", func(w http.ResponseWriter, r *http.Request) { happened <- "now" })
				mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
					happened <- fmt.Sprint("over: ", context.Cause(r.Context()))
				})
				mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
					_, err := io.ReadAll(r.Body)
					happened <- fmt.Sprint("body: ", err == nil)
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				served := make(chan error, 1)
				go func() { served <- system.ServeListener(ctx, p, mux) }()
				if name != "nobody" {
					client := p.dial()
					defer client.Close()
					if _, err := io.WriteString(client, c.client); err != nil {
						t.Fatal(err)
					}
					go io.Copy(io.Discard, client)
				}
				<-time.After(c.before)
				if c.handler == "now" {
					if got := <-happened; got != c.handler {
						t.Errorf("the handler: %q", got)
					}
				}
				select {
				case got := <-happened:
					t.Errorf("the handler ended before: %q", got)
				default:
				}
				stopped := time.Now()
				cancel(errors.New("stop"))
				if err := <-served; err != nil {
					t.Error(err)
				}
				if took := time.Since(stopped); took < c.least || took > c.least+2*time.Second {
					t.Errorf("it took %v, want %v", took, c.least)
				}
				if c.handler != "" && c.handler != "now" {
					if got := <-happened; got != c.handler {
						t.Errorf("the handler: %q, want %q", got, c.handler)
					}
				}
			})
		})
	}
}

// TestServeFenced: a server whose node was fenced did not end as it was asked to.
func TestServeFenced(t *testing.T) {
	inBubble(t, func(b *bubble) {
		in := over(b.net.Transport("d"), system.ClusterConfig{Store: b.kv, Role: system.Driver})
		cfg := system.Config{Name: "d", Table: table, Namespace: "test", Cluster: in}
		down, closes := context.WithCancel(context.Background())
		err := system.Run(b.t.Context(), cfg, func(ctx context.Context) error {
			p, err := b.kv.Get(ctx, shardlog.NodesPrefix+"d")
			if err == nil {
				err = b.kv.Destroy(ctx, p.Session)
			}
			if err != nil {
				return err
			}
			return system.ServeListener(ctx, &pipes{nil, down, closes}, nil)
		})
		if !errors.Is(err, raysys.ErrFenced) {
			b.t.Errorf("%v, want ErrFenced", err)
		}
	})
}
