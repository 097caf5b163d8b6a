package door_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/feed"
	"github.com/raysys/raysys/tasks/generator"
	"github.com/raysys/raysys/testkit"
)

type roomOf struct{ Lines feed.Feed[string] }

func (r *roomOf) Say(_ context.Context, list []string) error {
	for _, s := range list {
		if err := r.Lines.Emit(s); err != nil {
			return err
		}
	}
	return nil
}

var (
	rooms   = grains.Define[roomOf]("door.room")
	tell    = grains.Action(rooms, "tell", (*roomOf).Say)
	lines   = feed.Method(rooms, "lines", func(r *roomOf) *feed.Feed[string] { return &r.Lines })
	counted = generator.Define("door.count", func(ctx context.Context, n int, yield func(int) bool) error {
		for i := 0; n < 0 || i < n; i++ {
			if !yield(i) {
				given <- context.Cause(ctx)
				return nil
			}
		}
		if n == 3 {
			return errNoMoney
		}
		return nil
	})
	streams = []door.Option{door.Method(tell, "Tells."), door.Watch(lines, "What is told."), door.Generator(counted, "Counts.")}
)

// event is one of text/event-stream.
type event struct{ name, data string }

// open opens a stream, and returns what reads its next event; ok is false at its end.
func (s *server) open(ctx context.Context, method, path, body string) (code int, next func() (event, bool)) {
	s.Helper()
	r, _ := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	a, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { a.Body.Close() })
	if got := a.Header.Get("Content-Type"); a.StatusCode == 200 && got != "text/event-stream" {
		s.Error(got)
	}
	in := bufio.NewScanner(a.Body)
	in.Buffer(nil, 1<<20)
	return a.StatusCode, func() (e event, ok bool) {
		for in.Scan() {
			switch line := in.Text(); {
			case line == "" && e != event{}:
				return e, true
			case strings.HasPrefix(line, "event: "):
				e.name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				e.data = line[len("data: "):]
			}
		}
		return e, false
	}
}

// TestFeed: a client gets what a grain emits, from the last items on, and learns what it has missed.
func TestFeed(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), streams...)
		const tellX, linesX = "/call/grain/door.room/tell/a%2Fb", "/call/feed/door.room/lines/a%2Fb"
		s.want(204, "", "POST", tellX, `["a","b","line\nend <ü>"]`)
		ctx, hangUp := context.WithCancel(context.Background())
		defer hangUp()
		code, next := s.open(ctx, "GET", linesX+"?last=2", "")
		if code != 200 {
			t.Fatal(code)
		}
		want := func(name, data string) {
			t.Helper()
			if e, _ := next(); e != (event{name, data}) {
				t.Errorf("%+v, want %s %s", e, name, data)
			}
		}
		want("", `"b"`)
		want("", `"line\nend \u003cü\u003e"`)
		s.want(204, "", "POST", tellX, `["c"]`)
		want("", `"c"`)
		if err := grains.Unload(k.Context(), rooms.Get("a/b")); err != nil {
			t.Fatal(err)
		}
		s.want(204, "", "POST", tellX, `["d"]`)
		want("missed", `{"n":0}`)
		want("", `"d"`)
	})
}

// TestGenerator: items come as events, then an end or a problem; the task ends with its client.
func TestGenerator(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), streams...)
		for n, last := range map[string]event{"2": {"end", "{}"}, "3": {"error", ""}} {
			_, next := s.open(t.Context(), "POST", "/call/task/door.count", n)
			var got []string
			e, ok := next()
			for ; ok && e.name == ""; e, ok = next() {
				got = append(got, e.data)
			}
			if strings.Join(got, " ") != map[string]string{"2": "0 1", "3": "0 1 2"}[n] || e.name != last.name || last.data != "" && e != last {
				t.Errorf("%s: %v %+v", n, got, e)
			}
			var p problem
			if last.name == "error" && (json.Unmarshal([]byte(e.data), &p) != nil || p.Status != 402 || p.Type != "raysys:application" || p.Ran != "yes") {
				t.Errorf("%+v", e)
			}
			if _, more := next(); more {
				t.Error("something comes after the end")
			}
		}
		ctx, hangUp := context.WithCancel(context.Background())
		_, next := s.open(ctx, "POST", "/call/task/door.count", "-1")
		for range 3 {
			if _, ok := next(); !ok {
				t.Fatal("it has ended")
			}
		}
		hangUp()
		<-given
	})
}

// TestStreamRefusals: what is wrong with a request for a stream is a problem, and no event.
func TestStreamRefusals(t *testing.T) {
	s := serve(t, testkit.New(t).Node(), streams...)
	const count, watch = "/call/task/door.count", "/call/feed/door.room/lines/x"
	for _, c := range []struct {
		code               int
		method, path, body string
		headers            []string
	}{
		{406, "POST", count, "1", nil},
		{406, "POST", count, "1", []string{"Accept", "*/*"}},
		{406, "GET", watch, "", []string{"Accept", "application/json"}},
		{400, "POST", count, `"x"`, []string{"Accept", "text/event-stream"}},
		{400, "POST", count, "1", []string{"Accept", "text/event-stream", "Raysys-Deadline", "1s"}},
		{400, "GET", watch + "?last=-1", "", nil},
		{400, "GET", watch + "?last=1001", "", nil},
		{400, "GET", watch + "?last=x", "", nil},
		{400, "GET", watch + "?wait=1s", "", nil},
		{400, "GET", watch, "", []string{"Idempotency-Key", "k"}},
		{405, "POST", watch, "", nil},
		{405, "PUT", count + "/run", "1", []string{"Accept", "text/event-stream"}},
	} {
		if p := s.want(c.code, "", c.method, c.path, c.body, c.headers...); p.Ran != "no" {
			t.Errorf("%+v: %+v", c, p)
		}
	}
}

// TestStreamsEnd: a server that shuts down, and a node that drains, end their streams: they do not wait for those.
func TestStreamsEnd(t *testing.T) {
	for name, end := range map[string]func(s *server, k *testkit.Kit){
		"shutdown": func(s *server, _ *testkit.Kit) { go s.Config.Shutdown(context.Background()) },
		"drain":    func(_ *server, k *testkit.Kit) { go k.Cluster().Drain(1) },
	} {
		t.Run(name, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(2))
			s := serve(t, k.Cluster().Node(1), streams...)
			_, next := s.open(t.Context(), "GET", "/call/feed/door.room/lines/x?last=1", "")
			if _, err := tell.Call(k.Context(), rooms.Get("x"), []string{"a"}).Get(k.Context()); err != nil {
				t.Fatal(err)
			}
			if e, _ := next(); e.data != `"a"` {
				t.Fatal(e)
			}
			end(s, k)
			e, ok := next()
			for ok && e.name == "missed" { // a grain that moves tells its watchers
				e, ok = next()
			}
			if !ok || e.name != "error" || !strings.Contains(e.data, "raysys:not-delivered") {
				t.Errorf("%+v", e)
			}
		})
	}
}

// stuck is a client that takes nothing.
type stuck struct {
	http.ResponseWriter
	till time.Time
	hung chan struct{}
}

func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.till = t
	return nil
}

func (s *stuck) Write(b []byte) (int, error) {
	if len(b) > 0 && strings.HasPrefix(string(b), "data") {
		if left := time.Until(s.till); left > 31*time.Second || left < 0 {
			return 0, errors.New("no deadline")
		}
		close(s.hung)
		return 0, errors.New("i/o timeout")
	}
	return len(b), nil
}

func (s *stuck) FlushError() error { return nil }

// TestStuckClient: a client that takes nothing has its stream ended, and the task with it.
func TestStuckClient(t *testing.T) {
	n := testkit.New(t).Node()
	d, err := door.New(n, streams...)
	if err != nil {
		t.Fatal(err)
	}
	r := request("POST", "/call/task/door.count", "-1")
	r.Header.Set("Accept", "text/event-stream")
	w := &stuck{ResponseWriter: recorder(), hung: make(chan struct{})}
	d.ServeHTTP(w, r)
	<-w.hung
	<-given
}

// TestWatchersSize: a watcher of a feed takes 64 KiB of memory at most, with its connection.
func TestWatchersSize(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector's own memory is in it")
	}
	k := testkit.New(t)
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC() // what a pool has goes with the second one
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	const doors, each, most = 4, 250, 64 << 10 // a door has 256 streams
	before := inUse()
	var watchers []net.Conn
	for range doors {
		s := serve(t, k.Node(), streams...)
		for range each {
			c, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, "GET /call/feed/door.room/lines/x?last=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			watchers = append(watchers, c)
		}
	}
	if _, err := tell.Call(k.Context(), rooms.Get("x"), []string{"a"}).Get(k.Context()); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1<<10)
	for _, c := range watchers {
		for got := ""; !strings.Contains(got, `data: "a"`); {
			n, err := c.Read(buffer)
			if got += string(buffer[:n]); err != nil {
				t.Fatal(got, err)
			}
		}
	}
	took := (inUse() - before) / uint64(len(watchers))
	t.Logf("%d bytes a watcher", took)
	if took > most {
		t.Errorf("a watcher takes %d bytes, %d are allowed", took, most)
	}
}
