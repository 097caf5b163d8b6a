package door_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tasks/generator"
	"github.com/raysys/raysys/testkit"
)

const sayX, addX = "/call/grain/door.echo.v2/say/x", "/call/grain/door.account/add/x"

// TestThisHost: without Callers a door answers loopback alone, and nothing that a proxy or a site elsewhere can have
// sent.
func TestThisHost(t *testing.T) {
	n := testkit.New(t).Node()
	s := serve(t, n)
	for _, host := range []string{"localhost:1", "127.0.0.1", "[::1]:80"} {
		s.want(200, "", "POST", sayX, `"a"`, "Host", host)
	}
	for name, text := range map[string]string{
		"Forwarded": "for=1.2.3.4", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "https", "X-Real-Ip": "127.0.0.1", "Via": "1.1 a", "Host": "rebound.example",
	} {
		for _, path := range []string{sayX, "/call/openapi.json", "/call/nothing"} {
			if p := s.want(403, text[:0], map[bool]string{true: "GET", false: "POST"}[strings.HasSuffix(path, "json")], path, `"a"`, name, text); p.Type != "raysys:forbidden" {
				t.Errorf("%s: %+v", name, p)
			}
		}
	}
	d, err := door.New(n, marks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []net.Addr{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, &net.UnixAddr{Name: "@x", Net: "unix"}, nil} {
		r := httptest.NewRequest("POST", "http://127.0.0.1"+sayX, strings.NewReader(`"a"`))
		r.Header.Set("Content-Type", "application/json")
		if at != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, at))
		}
		w := httptest.NewRecorder()
		if d.ServeHTTP(w, r); w.Code != 403 {
			t.Errorf("%v: %d %s", at, w.Code, w.Body)
		}
	}
}

// TestTokens: a caller is known by its token. The file is read again when it has changed, and a bad one lets nobody in.
func TestTokens(t *testing.T) {
	core, logged := observer.New(zap.ErrorLevel)
	n := testkit.New(t, testkit.Config(system.Config{Logger: zap.New(core)})).Node()
	file := tokenFile(t, "alice "+aliceToken+"\nbob "+bobToken)
	who, err := door.Tokens(file)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, n, door.Callers(who))
	s.as(aliceToken).want(200, `"alice: a"`, "POST", sayX, `"a"`, "X-Forwarded-For", "1.2.3.4", "Host", "door.example")
	s.as(bobToken).want(200, `"bob: a"`, "POST", sayX, `"a"`)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer 0123456789abcdee", "Bearer 0123456789abcdef0", "Basic " + aliceToken, aliceToken} {
		for _, path := range []string{sayX, "/call/none/x"} { // nobody learns what there is
			a, _ := s.do("POST", path, `"a"`, "Authorization", header)
			if a.StatusCode != 401 || a.Header.Get("Www-Authenticate") != "Bearer" {
				t.Errorf("%q: %d", header, a.StatusCode)
			}
		}
		s.want(401, "", "GET", "/call/openapi.json", "", "Authorization", header)
	}
	s.as(aliceToken).want(401, "", "POST", sayX, `"a"`, "Authorization", "Bearer "+bobToken) // twice
	write := func(text string, mode os.FileMode) {
		t.Helper()
		err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Chmod(file+".new", mode), os.Rename(file+".new", file))
		if err != nil {
			t.Fatal(err)
		}
	}
	write("carol "+bobToken, 0o600)
	s.as(aliceToken).want(401, "", "POST", sayX, `"a"`)
	s.as(bobToken).want(200, `"carol: a"`, "POST", sayX, `"a"`)
	for text, mode := range map[string]os.FileMode{
		"carol " + bobToken: 0o640, "carol " + bobToken[1:]: 0o600, "carol": 0o600, "carol " + bobToken + " x": 0o600, "carol " + bobToken + "\x01": 0o600,
		"carol " + bobToken + "\nmallory " + bobToken: 0o600, strings.Repeat("c", 129) + " " + bobToken: 0o600,
	} {
		write(text, mode)
		s.as(bobToken).want(503, "", "POST", sayX, `"a"`)
		p := s.as(bobToken).want(503, "", "POST", sayX, `"a"`)
		if said := logged.TakeAll(); len(said) != 1 || strings.Contains(fmt.Sprint(said), bobToken) {
			t.Errorf("%q: %v", text, said)
		}
		_, err := door.Tokens(file)
		if p.Ran != "no" || err == nil || strings.Contains(err.Error(), bobToken) || !strings.Contains(err.Error(), "tokens") {
			t.Errorf("%q: %+v %v", text, p, err)
		}
	}
	for range 2 { // a file that is wrong as it was before has changed all the same
		write("carol", 0o600)
		s.as(bobToken).want(503, "", "POST", sayX, `"a"`)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.as(bobToken).want(503, "", "POST", sayX, `"a"`)
	}
	if said := logged.TakeAll(); len(said) != 3 {
		t.Error(said)
	}
	write("bob "+bobToken, 0o600)
	s.as(bobToken).want(200, `"bob: a"`, "POST", sayX, `"a"`)
}

// TestWho: a program's own Who learns what is asked for, and says who may.
func TestWho(t *testing.T) {
	var asked door.Work
	s := serve(t, testkit.New(t).Node(), door.Callers(func(r *http.Request, w door.Work) (string, error) {
		asked = w
		switch r.Header.Get("Me") {
		case "reader":
			if !w.ReadOnly {
				return "", fmt.Errorf("secret: %w", door.ErrForbidden)
			}
			return "reader", nil
		case "odd":
			return "", nil
		case "long":
			return strings.Repeat("x", 129), nil
		}
		return "", errors.New("secret")
	}))
	s.want(403, "you may not", "POST", addX, `{"n":1}`, "Me", "reader")
	s.want(200, "0", "POST", "/call/grain/door.account/read/a%2Fb", "", "Me", "reader")
	if asked != (door.Work{Function: "door.account.read", Kind: "door.account", Key: "a/b", ReadOnly: true}) {
		t.Errorf("%+v", asked)
	}
	s.want(404, "", "GET", "/call/task/door%2Fsquare/run-1", "", "Me", "reader")
	if asked != (door.Work{Function: "door/square", Key: "run-1", ReadOnly: true}) {
		t.Errorf("%+v", asked)
	}
	for _, me := range []string{"", "odd", "long"} {
		s.want(401, "", "POST", addX, `{"n":1}`, "Me", me)
	}
	if _, text := s.do("GET", "/call/openapi.json", "", "Me", "reader"); !strings.Contains(text, "account.read") || strings.Contains(text, "account/add") || strings.Contains(text, "square") {
		t.Error(text)
	}
}

// shy panics when it is read or written.
type shy struct{ N int }

func (shy) MarshalJSON() ([]byte, error)     { panic("secret") }
func (*shy) UnmarshalJSON(text []byte) error { panic("secret") }

var (
	shyIn    = tasks.Define("door.shy-in", func(context.Context, shy) (int, error) { return 1, nil })
	shyOut   = tasks.Define0("door.shy-out", func(context.Context) (shy, error) { return shy{}, nil })
	shyItems = generator.Define("door.shy-items", func(_ context.Context, n int, yield func(shy) bool) error { yield(shy{}); return nil })
)

// TestPanics: what the program's own code panics with is a problem without a text, and the door goes on.
func TestPanics(t *testing.T) {
	s := serve(t, testkit.New(t).Node(), door.Task(shyIn, ""), door.Task0(shyOut, ""), door.Generator(shyItems, ""),
		door.Callers(func(r *http.Request, _ door.Work) (string, error) {
			if r.Header.Get("Me") == "" {
				panic("secret")
			}
			return "me", nil
		}))
	s.want(500, "failed", "POST", sayX, `"a"`)
	s.want(500, "failed", "POST", "/call/task/door.shy-in", "{}", "Me", "me")
	s.want(500, "unencodable", "POST", "/call/task/door.shy-out", "", "Me", "me")
	if a, text := s.do("POST", "/call/task/door.shy-items", "1", "Me", "me", "Accept", "text/event-stream"); a.StatusCode != 200 || !strings.Contains(text, "event: error\n") || strings.Contains(text, "secret") {
		t.Error(a.StatusCode, text)
	}
	s.want(200, `"me: a"`, "POST", sayX, `"a"`, "Me", "me")
}

// TestIdempotencyKey: a call with a key counts once, for its caller.
func TestIdempotencyKey(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), twoCallers(t))
		alice, bob := s.as(aliceToken), s.as(bobToken)
		for range 3 {
			alice.want(200, "5", "POST", addX, `{"n":5}`, "Idempotency-Key", "k")
		}
		alice.want(200, "5", "POST", addX, ` { "note": "", "n" : 5 } `, "Idempotency-Key", "k")
		if p := alice.want(409, "", "POST", addX, `{"n":6}`, "Idempotency-Key", "k"); p.Type != "raysys:key-reused" || p.Ran != "no" {
			t.Errorf("%+v", p)
		}
		bob.want(200, "11", "POST", addX, `{"n":6}`, "Idempotency-Key", "k")
		bob.want(200, "1", "POST", "/call/grain/door.account/add/y", `{"n":1}`, "Idempotency-Key", "k") // each grain has keys of its own
		alice.want(402, "", "POST", addX, `{"n":-50}`, "Idempotency-Key", "debt")
		alice.want(200, "21", "POST", addX, `{"n":10}`, "Idempotency-Key", "k2")
		alice.want(402, "", "POST", addX, `{"n":-50}`, "Idempotency-Key", "debt")
		alice.want(200, "21", "POST", "/call/grain/door.account/read/x", "")
	})
}

// TestRoom: beyond so many requests at a time of one caller a door answers 429, and goes on when they have ended.
func TestRoom(t *testing.T) {
	s := serve(t, testkit.New(t).Node(), twoCallers(t))
	ctx, end := context.WithCancel(context.Background())
	const n = 256
	ended := make(chan struct{}, n)
	for i := range n {
		go func() {
			r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/call/grain/door.echo.v2/hold/"+strconv.Itoa(i), nil)
			r.Header.Set("Authorization", "Bearer "+aliceToken)
			if a, err := s.Client().Do(r); err == nil { // else it is cancelled
				a.Body.Close()
			}
			ended <- struct{}{}
		}()
	}
	for range n {
		<-held
	}
	a, _ := s.as(aliceToken).do("POST", sayX, `"a"`)
	if a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" {
		t.Error(a.StatusCode, a.Header)
	}
	s.as(bobToken).want(200, "", "POST", sayX, `"a"`)
	end()
	for range n {
		<-ended
		<-given
	}
	testkit.Eventually(t, time.Minute, "alice has room", func() bool {
		a, _ := s.as(aliceToken).do("POST", sayX, `"a"`)
		return a.StatusCode == 200
	})
}

// brokenBody is a body of which something comes, and then an error.
type brokenBody struct{ err error }

func (b *brokenBody) Read(p []byte) (int, error) { return copy(p, `{"n"`), b.err }
func (b *brokenBody) Close() error               { return nil }

// request is one of this host, for a test without a server.
func request(method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
}

func recorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// TestBodies: a body that is cut off, or too slow, runs nothing, and one that is too large is not read to its end.
func TestBodies(t *testing.T) {
	n := testkit.New(t).Node()
	d, err := door.New(n, marks...)
	if err != nil {
		t.Fatal(err)
	}
	for body, code := range map[io.ReadCloser]int{
		&brokenBody{io.ErrUnexpectedEOF}: 400, &brokenBody{os.ErrDeadlineExceeded}: 408,
		io.NopCloser(io.LimitReader(&brokenBody{}, 1<<30)): 413,
	} {
		r := request("POST", addX, "")
		r.Body = body
		w := recorder()
		if d.ServeHTTP(w, r); w.Code != code || !bytes.Contains(w.Body.Bytes(), []byte(`"ran":"no"`)) {
			t.Errorf("%d %s, want %d", w.Code, w.Body, code)
		}
	}
	s := serve(t, n)
	s.want(200, "0", "POST", "/call/grain/door.account/read/x", "")
}

// TestEnd: a door whose node drains or has ended says that nothing ran.
func TestEnd(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	s := serve(t, k.Cluster().Node(1))
	s.want(200, "5", "POST", addX, `{"n":5}`)
	busy := grainsHold.Call(k.Context(), echoes.Get("x")) // a drain waits for it
	<-held
	drained := make(chan struct{})
	go func() { k.Cluster().Drain(1); close(drained) }()
	closed := func() bool {
		a, text := s.do("POST", "/call/grain/door.account/read/x", "")
		return a.StatusCode == 503 && a.Header.Get("Retry-After") != "" && strings.Contains(text, `"type":"raysys:closed"`) && strings.Contains(text, `"ran":"no"`)
	}
	testkit.Eventually(t, time.Minute, "the door is closed", closed)
	busy.Cancel()
	<-drained
	if !closed() {
		t.Error("the door of a node that has ended is open")
	}
	k.Cluster().Restart(1)
	if sum, err := readIdempotent.Call(k.Context(), accounts.Get("x")).Get(k.Context()); sum != 5 || err != nil {
		t.Error(sum, err)
	}
	<-given
}

var (
	grainsHold     = hold.With(raysys.NoDeadline())
	readIdempotent = read.Idempotent()
)

// dated is a client whose writes have a deadline.
type dated struct {
	*httptest.ResponseRecorder
	till, wrote time.Time
}

func (d *dated) SetWriteDeadline(t time.Time) error { d.till = t; return nil }

func (d *dated) Write(b []byte) (int, error) {
	if d.wrote = d.till; d.Code != http.StatusOK {
		return 0, os.ErrDeadlineExceeded
	}
	return d.ResponseRecorder.Write(b)
}

// TestUnreadAnswers: a client that does not read its answer is ended, so that it keeps no room; one that does may make
// further requests on its connection.
func TestUnreadAnswers(t *testing.T) {
	d, err := door.New(testkit.New(t).Node(), marks...)
	if err != nil {
		t.Fatal(err)
	}
	for body, read := range map[string]bool{`"a"`: true, `5`: false} {
		w := &dated{ResponseRecorder: recorder()}
		d.ServeHTTP(w, request("POST", sayX, body))
		if left := time.Until(w.wrote); left <= 0 || left > 30*time.Second || w.till.IsZero() != read {
			t.Errorf("%s: written until %v, then %v", body, w.wrote, w.till)
		}
	}
}
