package page

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/eventually"
	"github.com/raysys/raysys/internal/operate"
)

// fake answers with what it was asked.
type fake struct {
	Source // nil: what is not below panics

	asked atomic.Int64
	wait  func(ctx context.Context) // before an answer; nil for not at all
}

func (f *fake) come(ctx context.Context) {
	f.asked.Add(1)
	if f.wait != nil {
		f.wait(ctx)
	}
}

func (f *fake) Status(ctx context.Context) (inspect.Status, error) {
	f.come(ctx)
	return inspect.Status{Cluster: "c"}, ctx.Err()
}

func (f *fake) Functions(ctx context.Context, limit int) (inspect.Functions, error) {
	f.come(ctx)
	return inspect.Functions{Count: limit}, ctx.Err()
}

func (f *fake) Tasks(_ context.Context, q inspect.TaskQuery) (inspect.Tasks, error) {
	switch {
	case q.Function == "none":
		return inspect.Tasks{}, fmt.Errorf("%w: there are a and b", raysys.ErrNotFound)
	case q.State == "asleep":
		return inspect.Tasks{}, fmt.Errorf("%w: there are waiting and running", raysys.ErrBadOption)
	case q.Node == "z":
		return inspect.Tasks{}, fmt.Errorf("%w: look again", operate.ErrNoSuchNode)
	}
	return inspect.Tasks{Count: q.Limit, Cluster: fmt.Sprintf("%s|%s|%s|%v", q.State, q.Function, q.Node, q.Detached)}, nil
}

func (f *fake) Grains(_ context.Context, q inspect.GrainQuery) (inspect.Grains, error) {
	return inspect.Grains{Count: q.Limit, Cluster: fmt.Sprintf("%s|%s|%s", q.Kind, q.Key, q.Node), Grains: []inspect.Grain{{Key: "<script>alert(1)</script>"}}}, nil
}

func (f *fake) Memory(_ context.Context, node raysys.NodeID, limit int) (inspect.Memory, error) {
	return inspect.Memory{Cluster: fmt.Sprint(node, limit), Nodes: []inspect.NodeMemory{{Name: "b"}, {Name: "a", Error: "no"}}}, nil
}

func (f *fake) Groups(_ context.Context, id string, limit int) (inspect.Groups, error) {
	return inspect.Groups{Cluster: id, Count: limit}, nil
}

// Timeline fails before it writes, or when half is written.
func (f *fake) Timeline(_ context.Context, q inspect.TimelineQuery, w io.Writer) (inspect.Timeline, error) {
	switch {
	case q.Function == "none":
		return inspect.Timeline{}, fmt.Errorf("%w: there are a and b", raysys.ErrNotFound)
	case q.Function == "half":
		_, _ = io.WriteString(w, `{"traceEvents":[`)
		return inspect.Timeline{}, operate.ErrNoSuchNode
	}
	_, err := io.WriteString(w, `{"traceEvents":[]}`)
	return inspect.Timeline{For: q.For, Silent: []string{"é: no\nanswer"}}, err
}

func (f *fake) Logs(ctx context.Context, q inspect.LogQuery, follow func(inspect.LogLine)) (inspect.Logs, error) {
	if q.Node == "z" {
		return inspect.Logs{}, operate.ErrNoSuchNode
	}
	if follow != nil {
		f.asked.Add(1)
		follow(inspect.LogLine{Text: "one"})
		<-ctx.Done()
		f.asked.Add(-1)
		return inspect.Logs{}, nil
	}
	return inspect.Logs{Matched: q.Limit, Cluster: fmt.Sprintf("%s|%s|%s", q.Node, q.Driver, q.Function)}, nil
}

func (f *fake) Get(_ context.Context, text string) (inspect.Found, error) {
	return inspect.Found{Cluster: text}, nil
}

// serving is a server without a socket.
func serving(t *testing.T, f Source, change ...func(*Server)) *Server {
	s := newServer(Config{Source: f, Ready: func() error { return nil }, Others: http.NotFoundHandler()})
	s.access = access{local: true, name: "devbox"}
	for _, c := range change {
		c(s)
	}
	t.Cleanup(s.answers.close)
	return s
}

func request(path string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "localhost:8265"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	return r
}

// from is the request of another reader.
func from(host string, r *http.Request) *http.Request {
	r.RemoteAddr = net.JoinHostPort(host, "5")
	return r
}

func ask(s *Server, path string, header ...string) (int, string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request(path, header...))
	return w.Code, w.Body.String()
}

// TestAPI: each kind takes the filters of its command, and its limits.
func TestAPI(t *testing.T) {
	s := serving(t, &fake{})
	for path, want := range map[string]any{
		"status":            inspect.Status{Cluster: "c", Nodes: []inspect.NodeStatus{}, Shards: []inspect.ShardStatus{}},
		"functions":         inspect.Functions{Count: 100},
		"functions?limit=7": inspect.Functions{Count: 7},
		"functions?limit=0": inspect.Functions{Count: -1},
		"groups?limit=0":    inspect.Groups{},
		"groups":            inspect.Groups{Count: 100},
		"tasks":             inspect.Tasks{Count: 100, Cluster: "|||false"},
		"logs":              inspect.Logs{Matched: 100, Cluster: "||"},
		"logs?node=a&driver=d&function=f&lines=3":                     inspect.Logs{Matched: 3, Cluster: "a|d|f"},
		"tasks?state=running&function=f&node=n&detached=true&limit=3": inspect.Tasks{Count: 3, Cluster: "running|f|n|true"},
		"grains?kind=k&key=%2F%25&node=n":                             inspect.Grains{Count: 100, Cluster: "k|/%|n", Grains: []inspect.Grain{{Key: "<script>alert(1)</script>"}}},
		"objects?node=n":                                              inspect.Memory{Cluster: "n20", Nodes: []inspect.NodeMemory{{Name: "b"}, {Name: "a", Error: "no"}}}.List(20),
		"get/kind/a/b":                                                inspect.Found{Cluster: "kind/a/b"},
		"get/kind%2F%2Fa%2F..%2F%25%3F%23":                            inspect.Found{Cluster: "kind//a/../%?#"},
	} {
		code, body := ask(s, "/api/"+path)
		b, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if code != http.StatusOK || body != string(b)+"\n" {
			t.Errorf("%s: %d %s\nwant %s", path, code, body, b)
		}
		if strings.Contains(body, "<script>") {
			t.Errorf("%s: a key is HTML in %s", path, body)
		}
	}
	long := strings.Repeat("f", 10<<10)
	for path, want := range map[string]struct {
		code int
		says string
	}{
		"":                        {404, "get/ID, failures, functions, grains"},
		"nothing":                 {404, "/api has"},
		"status/":                 {404, "/api has"},
		"get/":                    {404, "/api has"},
		"status?limit=1":          {400, `\"limit\" is not known: there are none`},
		"tasks?limt=1":            {400, `\"limt\" is not known: there are state, function, node, detached, limit`},
		"tasks?limit=-1":          {400, `limit=\"-1\": give a whole number`},
		"tasks?limit=1&limit=2":   {400, "limit is there 2 times"},
		"tasks?detached=perhaps":  {400, `detached=\"perhaps\": give true or false`},
		"tasks?state=asleep":      {400, "there are waiting and running"},
		"tasks?function=none":     {404, "there are a and b"},
		"tasks?node=z":            {404, "look again"},
		"logs?lines=x":            {400, "whole number"},
		"logs?node=z&follow=true": {404, "no such node"},
		"timeline?for=5":          {400, `for=\"5\": give a time such as 10s`},
		"timeline?for=1s&for=2s":  {400, "for is there 2 times"},
		"timeline?limit=1":        {400, "there are for, function"},
		"timeline?function=none":  {404, "there are a and b"},
		"timeline?for=5s":         {200, `{"traceEvents":[]}`},
		"tasks?%zz":               {400, "cannot be read"},
		"waits":                   {500, "panic: "},
		"tasks?function=" + long:  {200, long},
	} {
		if code, body := ask(s, "/api/"+path); code != want.code || !strings.Contains(body, want.says) || !json.Valid([]byte(body)) {
			t.Errorf("%.60s: %d %.300s; want %d %.60s", path, code, body, want.code, want.says)
		}
	}
	if code, _ := ask(s, "/nothing"); code != http.StatusNotFound {
		t.Errorf("a page that is not there: %d", code)
	}
	s.Ready = func() error { return errors.New("the node has not started") }
	if code, body := ask(s, "/api/status"); code != http.StatusServiceUnavailable || !strings.Contains(body, "has not started") {
		t.Errorf("before the node has started: %d %s", code, body)
	}
}

// TestTimeline: the file comes part by part, and behind it what it has; a reader sees that one is not whole.
func TestTimeline(t *testing.T) {
	server := httptest.NewServer(serving(t, &fake{}))
	defer server.Close()
	asked := ""
	read := func(query string) (body, said string, err error) {
		a, err := http.Get(server.URL + "/api/timeline?" + query)
		if err != nil {
			return "", "", err
		}
		defer a.Body.Close()
		asked = a.Header.Get(Asked)
		b, err := io.ReadAll(a.Body)
		return string(b), a.Trailer.Get(Recorded), err
	}
	body, said, err := read("for=5s")
	var all inspect.Timeline
	if asked == "" {
		t.Errorf("the file has no %s", Asked)
	}
	if e := json.Unmarshal([]byte(said), &all); e != nil || err != nil || body != `{"traceEvents":[]}` || all.For != 5*time.Second || all.Silent[0] != "é: no\nanswer" {
		t.Errorf("%q, %q, %v %v", body, said, err, e)
	}
	if body, said, err := read("function=half"); err == nil || said != "" {
		t.Errorf("half a file: %q, %q", body, said)
	}
}

// TestGzip: who can read it gets answers that are packed.
func TestGzip(t *testing.T) {
	s := serving(t, &fake{})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request("/api/functions", "Accept-Encoding", "br, gzip"))
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(z)
	_, plain := ask(s, "/api/functions")
	if ms, _ := strconv.ParseInt(w.Header().Get("Raysys-Asked"), 10, 64); time.Since(time.UnixMilli(ms)) > time.Minute {
		t.Errorf("asked at %d", ms)
	}
	if err != nil || w.Header().Get("Content-Encoding") != "gzip" || string(body) != plain || !strings.Contains(plain, `"count":100`) {
		t.Errorf("%v %v: %s, plain %s", err, w.Header(), body, plain)
	}
}

// TestOneQuestion: the readers of a second share one question, which does not end with the first of them, and nothing is asked when none
// reads.
func TestOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wait: func(ctx context.Context) { _ = sleep(ctx, 100*time.Millisecond) }}
		s := serving(t, f)
		for second := range 10 {
			var all sync.WaitGroup
			for tab := range 20 {
				all.Go(func() {
					_ = sleep(context.Background(), time.Duration(tab)*40*time.Millisecond)
					if code, body := ask(s, "/api/status"); code != http.StatusOK {
						t.Errorf("%d %s", code, body)
					}
				})
			}
			all.Wait()
			<-time.After(time.Second)
			if n := f.asked.Load(); n > int64(2*(second+1)) {
				t.Fatalf("20 tabs had %d questions asked in %d s", n, 2*(second+1))
			}
		}
		n := f.asked.Load()
		<-time.After(time.Minute)
		if got := f.asked.Load(); got != n {
			t.Errorf("%d questions while none reads", got-n)
		}
		if n := kept(s); n > 0 {
			t.Errorf("%d answers are kept", n)
		}

		// The first reader goes, and the second gets its answer.
		f.asked.Store(0)
		ctx, cancel := context.WithCancel(t.Context())
		go s.ServeHTTP(httptest.NewRecorder(), request("/api/functions").WithContext(ctx))
		synctest.Wait()
		cancel()
		if code, _ := ask(s, "/api/functions"); code != http.StatusOK || f.asked.Load() != 1 {
			t.Errorf("%d after %d questions", code, f.asked.Load())
		}
	})
}

func kept(s *Server) int {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	return len(s.answers.by)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestBusy: eight answers are made at once for a reader, and no more are begun; one that does not come ends by itself, and all with the server.
// Whatever one reader asks, another one is answered.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{wait: func(ctx context.Context) { <-ctx.Done() }}
		s := serving(t, f)
		codes := make(chan int, eachMade+1)
		for i := range eachMade {
			go func() { code, _ := ask(s, fmt.Sprintf("/api/functions?limit=%d", i)); codes <- code }()
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request("/api/status"))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("the ninth: %d %v", w.Code, w.Header())
		}
		go func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, from("198.51.100.7", request("/api/status")))
			codes <- w.Code
		}()
		synctest.Wait()
		if n := f.asked.Load(); n != eachMade+1 {
			t.Errorf("beside a reader with %d questions another one's is not asked: %d are", eachMade, n)
		}
		began := time.Now()
		for range eachMade + 1 {
			if code := <-codes; code != http.StatusGatewayTimeout || time.Since(began) > madeWithin {
				t.Errorf("a question without an answer: %d after %v", code, time.Since(began))
			}
		}
		go func() { code, _ := ask(s, "/api/status"); codes <- code }()
		synctest.Wait()
		s.answers.close()
		if code := <-codes; code != http.StatusServiceUnavailable {
			t.Errorf("when the server ends: %d", code)
		}
		if code, _ := ask(s, "/api/status"); code != http.StatusServiceUnavailable {
			t.Errorf("after it has ended: %d", code)
		}

		// Quick questions are bounded as well: so many answers are kept.
		f.wait = nil
		s = serving(t, f)
		busy := 0
		for i := range 2 * eachKept {
			if code, _ := ask(s, fmt.Sprintf("/api/functions?limit=%d", i)); code == http.StatusServiceUnavailable {
				busy++
			}
		}
		if n := kept(s); busy != eachKept || n != eachKept {
			t.Errorf("%d were refused, %d are kept", busy, n)
		}
		w = httptest.NewRecorder()
		if s.ServeHTTP(w, from("198.51.100.7", request("/api/functions?limit=100000"))); w.Code != http.StatusOK {
			t.Errorf("beside a reader with %d questions another one gets %d", 2*eachKept, w.Code)
		}
		<-time.After(freshFor)
		synctest.Wait()
		if code, _ := ask(s, "/api/status"); code != http.StatusOK {
			t.Errorf("a second later: %d", code)
		}
	})
}

// TestFollow: lines come as they are written, to eight of a reader at most, and until the reader or the server goes. Timelines are made beside.
func TestFollow(t *testing.T) {
	f := &fake{}
	s, url := opened(t, Config{Source: f})
	var all []*http.Response
	for range eachFollowers {
		a, err := http.Get(url + "api/logs?follow=true")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		all = append(all, a)
		if a.Header.Get(Asked) == "" {
			t.Fatalf("lines have no %s", Asked)
		}
		var l inspect.LogLine
		if err := json.NewDecoder(a.Body).Decode(&l); err != nil || l.Text != "one" {
			t.Fatalf("%v: %+v", err, l)
		}
	}
	if code, body := fetch(t, url+"api/logs?follow=true"); code != http.StatusServiceUnavailable {
		t.Errorf("the ninth: %d %s", code, body)
	}
	if code, body := fetch(t, url+"api/timeline"); code != http.StatusOK {
		t.Errorf("a timeline beside those who follow logs: %d %s", code, body)
	}
	all[0].Body.Close()
	eventually.Holds(t, 10*time.Second, "the server sees that a reader has gone", func() bool { return f.asked.Load() < eachFollowers })
	s.Close()
	if n := f.asked.Load(); n != 0 {
		t.Errorf("%d are followed after the end", n)
	}
}

// TestAccess: who may read, on loopback, behind a proxy and beyond. Profiles are read as the API is.
func TestAccess(t *testing.T) {
	s := serving(t, &fake{})
	s.Others = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	local := s.access
	beyond := access{asks: true, sha256: sum("a token of 16 ch")}
	both := local
	both.asks, both.sha256 = true, beyond.sha256
	off := access{off: "give TLS", name: "0.0.0.0"}
	bearer := []string{"Authorization", "Bearer a token of 16 ch"}
	for _, c := range []struct {
		what   string
		access access
		path   string
		header []string
		code   int
	}{
		{"localhost", local, "/api/status", nil, 200},
		{"127.0.0.1", local, "/api/status", []string{"Host", "127.0.0.1:99"}, 200},
		{"::1", local, "/api/status", []string{"Host", "[::1]"}, 200},
		{"its name", local, "/api/status", []string{"Host", "DevBox:8265"}, 200},
		{"rebinding", local, "/api/status", []string{"Host", "evil.example:8265"}, 403},
		{"rebinding of the page", local, "/nothing", []string{"Host", "evil.example"}, 403},
		{"rebinding to a name like it", local, "/api/status", []string{"Host", "localhost.evil.example"}, 403},
		{"its own page", local, "/api/status", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:8265"}, 200},
		{"typed", local, "/api/status", []string{"Sec-Fetch-Site", "none"}, 200},
		{"a page of another site", local, "/api/status", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a page of another port", local, "/api/status", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"another origin", local, "/api/status", []string{"Origin", "http://localhost:3000"}, 403},
		{"no origin", local, "/api/status", []string{"Origin", "null"}, 403},
		{"a link", local, "/nothing", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 404},
		{"a frame", local, "/nothing", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"a link to the API", local, "/api/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},

		{"no token", beyond, "/api/status", nil, 401},
		{"a wrong token", beyond, "/api/status", []string{"Authorization", "Bearer a token of 16 cH"}, 401},
		{"the token in another form", beyond, "/api/status", []string{"Authorization", "Basic a token of 16 ch"}, 401},
		{"the token in the URL", beyond, "/api/status?token=a+token+of+16+ch", nil, 401},
		{"the token", beyond, "/api/status", append([]string{"Host", "10.0.0.1:8265"}, bearer...), 200},
		{"the token from another site", beyond, "/api/status", append([]string{"Sec-Fetch-Site", "cross-site"}, bearer...), 403},
		{"files need none", beyond, "/nothing", nil, 404},
		{"a file has a token for loopback", both, "/api/status", nil, 401},
		{"that token", both, "/api/status", bearer, 200},
		{"that token behind a proxy", both, "/api/status", append([]string{"Host", "pages.example", "Via", "1.1 p"}, bearer...), 200},
		{"that token of a page of another name", both, "/api/status", append([]string{"Host", "pages.example"}, bearer...), 403},
		{"a proxy beyond", beyond, "/api/status", append([]string{"X-Forwarded-For", "192.0.2.1"}, bearer...), 200},
		{"a proxy beyond, no token", beyond, "/api/status", []string{"X-Forwarded-For", "192.0.2.1"}, 401},
		{"a page behind a proxy", both, "/nothing", []string{"Host", "pages.example", "X-Forwarded-For", "192.0.2.1"}, 404},
		{"metrics behind a proxy", local, "/metrics", []string{"X-Forwarded-For", "192.0.2.1"}, 200},
		{"metrics without a token", beyond, "/metrics", nil, 200},
		{"metrics plain beyond loopback", off, "/metrics", nil, 200},
		{"plain beyond loopback", off, "/api/status", bearer, 403},
		{"plain beyond loopback, the page", off, "/", nil, 403},
	} {
		s.access = c.access
		paths := []string{c.path}
		if c.path == "/api/status" {
			paths = append(paths, "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1")
		}
		for _, path := range paths {
			if code, body := ask(s, path, c.header...); code != c.code {
				t.Errorf("%s: %s: %d %s, want %d", c.what, path, code, body, c.code)
			}
		}
	}
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Real-IP", "x-real-ip", "Via"} {
		for _, path := range []string{"/", "/api/status", "/debug/pprof/heap"} {
			s.access = local
			if code, body := ask(s, path, header, ""); code != http.StatusForbidden || !strings.Contains(body, "behind a proxy: give RAYSYS_HTTP_TOKEN_FILE") {
				t.Errorf("%s with %s: %d %s", path, header, code, body)
			}
		}
	}
	// Where the page is not served, profiles are for this host.
	s.access = off
	for _, c := range []struct {
		remote, host, header string
		code                 int
	}{
		{"127.0.0.1", "localhost:9464", "X-A", 200},
		{"::1", "[::1]", "X-A", 200},
		{"192.0.2.1", "localhost", "X-A", 403},
		{"127.0.0.1", "evil.example", "X-A", 403},
		{"127.0.0.1", "localhost.evil.example", "X-A", 403},
		{"127.0.0.1", "localhost", "Via", 403},
		{"127.0.0.1", "localhost", "Origin", 403},
	} {
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, from(c.remote, request("/debug/pprof/heap", "Host", c.host, c.header, "http://evil.example"))); w.Code != c.code {
			t.Errorf("a profile from %s at %s with %s: %d, want %d", c.remote, c.host, c.header, w.Code, c.code)
		}
	}
	s.access = local
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get"} {
		for _, path := range []string{"/", "/api/status", "/api/get/x", "/debug/pprof/heap"} {
			w, r := httptest.NewRecorder(), request(path)
			r.Method = method
			s.ServeHTTP(w, r)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d %v", method, path, w.Code, w.Header())
			}
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, request("/api/status"))
	want := map[string]string{
		"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
	}
	for name, v := range want {
		if d := cmp.Diff(v, w.Header().Get(name)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if w.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Error("other sites may read")
	}
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	a, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b)
}
