package door_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(doorAt); at != "" {
		serveAt(at)
	}
	testkit.Main(m)
}

type entry struct {
	N    int64  `json:"n"`
	Note string `json:"note"`
}

var errNoMoney = errors.New("alice in /secret has no money")

var _ = raysys.RegisterError("door_test.no-money", errNoMoney)

type account struct{ Sum grains.State[int64] }

func (a *account) Add(_ context.Context, e entry) (int64, error) {
	switch a.Sum.Value += e.N; {
	case e.Note == "panic":
		panic("secret")
	case a.Sum.Value < 0:
		return 0, errNoMoney
	case e.Note == "fail":
		return 0, errors.New("secret")
	}
	return a.Sum.Value, nil
}

func (a *account) Read(context.Context) (int64, error) { return a.Sum.Value, nil }

type echo struct{}

func (*echo) Say(ctx context.Context, s string) (string, error) {
	return door.Caller(ctx) + ": " + s, nil
}

func (*echo) Key(ctx context.Context) (string, error)       { id, _ := grains.Self(ctx); return id.Key, nil }
func (*echo) Nothing(context.Context, []byte) error         { return nil }
func (*echo) NaN(context.Context) (float64, error)          { return math.NaN(), nil }
func (*echo) Long(_ context.Context, n int) (string, error) { return strings.Repeat("x", n), nil }
func (*echo) Floats(_ context.Context, f [2]float64) (float64, error) {
	return f[0] + f[1], nil
}

func (*echo) Wait(ctx context.Context) error {
	held <- struct{}{}
	<-ctx.Done()
	given <- context.Cause(ctx)
	return ctx.Err()
}

// held gets a value when a method or task waits, given how its context ended.
var held, given = make(chan struct{}, 2000), make(chan error, 2000)

// colour takes none.
type colour int

func (*colour) UnmarshalText(text []byte) error { return fmt.Errorf("no colour in /etc: %s", text) }

type chain struct {
	Next *chain `json:"next"`
}

var (
	accounts = grains.Define[account]("door.account", grains.Durable())
	add      = grains.Method(accounts, "add", (*account).Add)
	read     = grains.Method0(accounts, "read", (*account).Read).ReadOnly()

	echoes  = grains.Define[echo]("door.echo.v2", grains.Mailbox(3000))
	say     = grains.Method(echoes, "say", (*echo).Say)
	keyOf   = grains.Method0(echoes, "key", (*echo).Key)
	nothing = grains.Action(echoes, "nothing", (*echo).Nothing)
	nan     = grains.Method0(echoes, "nan", (*echo).NaN)
	lengthy = grains.Method(echoes, "long", (*echo).Long)
	floats  = grains.Method(echoes, "floats", (*echo).Floats)
	hold    = grains.Action0(echoes, "hold", (*echo).Wait)

	square = tasks.Define("door/square", func(_ context.Context, x int) (int, error) {
		if x < 0 {
			return 0, errNoMoney
		}
		return x * x, nil
	})
	depth = tasks.Define("door.depth", func(_ context.Context, c *chain) (n int, _ error) {
		for ; c != nil; c = c.Next {
			n++
		}
		return n, nil
	})
	paint  = tasks.Define("door.paint", func(context.Context, []colour) (int, error) { return 1, nil })
	answer = tasks.Define0("door.answer", func(context.Context) (int64, error) { return 42, nil })
)

var marks = []door.Option{
	door.Method(add, "Adds cents."), door.Method0(read, "Reads."), door.Method(say, "Says."), door.Method0(keyOf, "Key."), door.Method(nothing, "Nothing."),
	door.Method0(nan, "NaN."), door.Method(lengthy, "Long."), door.Method(floats, "Floats."), door.Method0(hold, "Holds."),
	door.Task(square, "Squares."), door.Task(depth, "Depth."), door.Task0(answer, "Answers."), door.Task(paint, "Paints."),
	door.Task(patient, "Takes its time."),
	door.Error(errNoMoney, http.StatusPaymentRequired, "not enough money"),
}

// server serves a door to the node.
type server struct {
	testing.TB
	*httptest.Server
	token string
}

func serve(t testing.TB, n *system.Node, opts ...door.Option) *server {
	t.Helper()
	d, err := door.New(n, append(marks[:len(marks):len(marks)], opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t, httptest.NewServer(d), ""}
	t.Cleanup(s.Close)
	return s
}

// as is the server for another caller.
func (s *server) as(token string) *server { return &server{s.TB, s.Server, token} }

// problem is what a client reads of one.
type problem struct {
	Type, Title, Detail, ID, Ran string
	Status                       int
}

// do makes a request. headers are pairs.
func (s *server) do(method, path, body string, headers ...string) (*http.Response, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else if r.Header[headers[i]] != nil && headers[i] != "Content-Type" {
			r.Header.Add(headers[i], headers[i+1])
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	a, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.Fatal(err)
	}
	return a, string(text)
}

// want makes a request, and expects a status code and, if text is not "", the body or a part of a problem.
func (s *server) want(code int, text, method, path, body string, headers ...string) problem {
	s.Helper()
	a, got := s.do(method, path, body, headers...)
	var p problem
	if a.StatusCode >= 400 {
		if err := json.Unmarshal([]byte(got), &p); err != nil || a.Header.Get("Content-Type") != "application/problem+json" || p.Status != a.StatusCode {
			s.Errorf("%s %s: no problem: %s %v", method, path, got, err)
		}
		for _, secret := range []string{"secret", "alice", ".go:", "goroutine", "n1", "n2", "n3"} {
			if strings.Contains(got, secret) {
				s.Errorf("%s %s tells of %s: %s", method, path, secret, got)
			}
		}
	}
	if a.StatusCode != code || p.Status == 0 && text != "" && got != text || p.Status != 0 && !strings.Contains(got, text) {
		s.Errorf("%s %s %.60s = %d %.300s, want %d %s", method, path, body, a.StatusCode, got, code, text)
	}
	return p
}

// tokenFile writes a file of tokens.
func tokenFile(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const aliceToken, bobToken = "0123456789abcdef", "fedcba9876543210"

// twoCallers lets alice and bob in.
func twoCallers(t testing.TB) door.Option {
	t.Helper()
	who, err := door.Tokens(tokenFile(t, "# callers\nalice "+aliceToken+"\n\nbob "+bobToken+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return door.Callers(who)
}

// eachSystem runs a test alone and on three nodes.
func eachSystem(t *testing.T, f func(t *testing.T, k *testkit.Kit)) {
	t.Run("alone", func(t *testing.T) { f(t, testkit.New(t)) })
	t.Run("cluster", func(t *testing.T) { f(t, testkit.New(t, testkit.Nodes(3))) })
}

// TestCall: methods and tasks are called by JSON, whatever their keys are.
func TestCall(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node())
		const acc = "/call/grain/door.account/"
		s.want(200, "5", "POST", acc+"add/x", `{"n":5}`)
		s.want(200, "7", "POST", acc+"add/x", `{"n":2,"note":"ü"}`, "Content-Type", "application/json; charset=utf-8")
		s.want(200, "7", "POST", acc+"read/x", "")
		s.want(200, "7", "POST", acc+"read/x", "{}", "Accept", "text/html, application/*;q=0.5")
		s.want(200, `"local: a"`, "POST", "/call/grain/door.echo.v2/say/x", `"a"`)
		s.want(204, "", "POST", "/call/grain/door.echo.v2/nothing/x", `"AAEC"`)
		s.want(200, "3.5", "POST", "/call/grain/door.echo.v2/floats/x", `[1,2.5]`)
		s.want(200, "49", "POST", "/call/task/door%2Fsquare", "7")
		s.want(200, "42", "POST", "/call/task/door.answer", "")
		s.want(200, "3", "POST", "/call/task/door.depth", `{"next":{"next":{}}}`)
		for path, key := range map[string]string{
			"/a%2Fb": `"a/b"`, "/a/b": `"a/b"`, "/%00%25": `"\u0000%"`, "/%FF": `"\ufffd"`, "/x%2520y": `"x%20y"`, "/a.b": `"a.b"`, "/~": `"~"`, "/+": `"+"`,
			"?key=": `""`, "?key=.": `"."`, "?key=a//b": `"a//b"`, "?key=/": `"/"`, "?key=%00": `"\u0000"`, "/" + strings.Repeat("k", 1024): "",
		} {
			s.want(200, key, "POST", "/call/grain/door.echo.v2/key"+path, "")
		}
	})
}

// TestRefusals: what a client does wrong is said, with what to do, and nothing runs.
func TestRefusals(t *testing.T) {
	s := serve(t, testkit.New(t).Node(), door.Size(1<<20, 1<<20))
	const add, key = "/call/grain/door.account/add/x", "/call/grain/door.echo.v2/key"
	for _, c := range []struct {
		code                     int
		kind, text, method, path string
		body                     string
		headers                  []string
	}{
		{400, "bad-argument", "at m: door_test.entry has no field of that name", "POST", add, `{"m":5}`, nil},
		{400, "bad-argument", "at n: string is no int64", "POST", add, `{"n":"5"}`, nil},
		{400, "bad-argument", "at n: number 9223372036854775808 is no int64", "POST", add, `{"n":9223372036854775808}`, nil},
		{400, "bad-argument", "at [1]: number 1e400 is no float64", "POST", "/call/grain/door.echo.v2/floats/x", `[1,1e400]`, nil},
		{400, "bad-argument", "at [2]", "POST", "/call/grain/door.echo.v2/floats/x", `[1,2,3]`, nil},
		{400, "bad-argument", "", "POST", add, `{"n":1} {"n":2}`, nil},
		{400, "bad-argument", "it is no UTF-8", "POST", add, "{\"note\":\"\xff\"}", nil},
		{400, "bad-argument", "", "POST", add, `{"n":1`, nil},
		{400, "bad-argument", "", "POST", add, `{"n":NaN}`, nil},
		{400, "bad-argument", "depth", "POST", add, `{"note":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}", nil},
		{400, "bad-argument", "depth", "POST", "/call/task/door.depth", strings.Repeat(`{"next":`, 20000) + "{}" + strings.Repeat("}", 20000), nil},
		{400, "bad-argument", "no argument", "POST", "/call/task/door.answer", "5", nil},
		{413, "too-large", "1048576 bytes", "POST", add, `{"note":"` + strings.Repeat("x", 2<<20) + `"}`, nil},
		{415, "unsupported-media-type", "", "POST", add, `{"n":1}`, []string{"Content-Type", "text/plain"}},
		{415, "unsupported-media-type", "", "POST", add, `{"n":1}`, []string{"Content-Type", ""}},
		{415, "unsupported-media-type", "", "POST", add, `{"n":1}`, []string{"Content-Encoding", "gzip"}},
		{406, "not-acceptable", "application/json", "POST", add, `{"n":1}`, []string{"Accept", "text/html"}},
		{405, "method-not-allowed", "POST", "GET", add, "", nil},
		{405, "method-not-allowed", "POST", "PUT", add, `{"n":1}`, nil},
		{405, "method-not-allowed", "POST", "GET", "/call/task/door.answer", "", nil},
		{404, "not-found", "", "POST", "/call/grain/door.account/none/x", "", nil},
		{404, "not-found", "", "POST", "/call/grain/door.account", "", nil},
		{404, "not-found", "", "POST", "/call/task/door/square", "7", nil},
		{404, "not-found", "", "POST", "/call/", "", nil},
		{404, "not-found", "", "POST", "/call/nothing/x/y/z", "", nil},
		{404, "not-found", "", "POST", "/task/door.answer", "", nil},
		{404, "not-found", "", "POST", "//call/task/door.answer", "", nil},
		{404, "not-found", "", "POST", "/call//task/door.answer", "", nil},
		{404, "not-found", "", "POST", "/call/task//door.answer", "", nil},
		{404, "not-found", "", "POST", "/call/%2e%2e/call/task/door.answer", "", nil},
		{404, "not-found", "", "POST", "/call/grain/door.account/%2e%2e/door.account/add/x", `{"n":1}`, nil},
		{400, "bad-argument", "at [0]: door_test.colour refuses it", "POST", "/call/task/door.paint", `["secret"]`, nil},
		{400, "bad-request", "key of a grain", "POST", key, "", nil},
		{400, "bad-request", "?key=", "POST", key + "/", "", nil},
		{400, "bad-request", "?key=", "POST", key + "/%2E", "", nil},
		{400, "bad-request", "?key=", "POST", key + "/a%2F..%2Fb", "", nil},
		{400, "bad-request", "?key=", "POST", key + "/a%2F%2Fb", "", nil},
		{400, "bad-request", "?key=", "POST", key + "/a?key=b", "", nil},
		{400, "bad-request", "takes once", "POST", key + "?key=a&key=b", "", nil},
		{400, "bad-request", "wait", "POST", key + "/a?wait=1s", "", nil},
		{400, "bad-request", "query", "POST", key + "/a?key=%zz", "", nil},
		{400, "bad-request", "1024 bytes", "POST", key + "/" + strings.Repeat("k", 1025), "", nil},
		{400, "bad-request", "30s", "POST", add, `{"n":1}`, []string{"Raysys-Deadline", "-1s"}},
		{400, "bad-request", "30s", "POST", add, `{"n":1}`, []string{"Raysys-Deadline", "10h"}},
		{400, "bad-request", "30s", "POST", add, `{"n":1}`, []string{"Raysys-Deadline", "x"}},
		{400, "bad-request", "255 bytes", "POST", add, `{"n":1}`, []string{"Idempotency-Key", strings.Repeat("k", 10<<10)}},
		{400, "bad-request", "255 bytes", "POST", add, `{"n":1}`, []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}},
		{400, "bad-request", "255 bytes", "POST", add, `{"n":1}`, []string{"Idempotency-Key", ""}},
		{400, "bad-request", "durable", "POST", "/call/grain/door.echo.v2/say/x", `"a"`, []string{"Idempotency-Key", "a"}},
		{400, "bad-request", "durable", "POST", "/call/grain/door.account/read/x", "", []string{"Idempotency-Key", "a"}},
		{400, "bad-request", "PUT of a run", "POST", "/call/task/door.answer", "", []string{"Idempotency-Key", "a"}},
		{403, "forbidden", "origin", "POST", add, `{"n":1}`, []string{"Origin", "https://evil.example"}},
		{403, "forbidden", "origin", "POST", add, `{"n":1}`, []string{"Sec-Fetch-Site", "cross-site"}},
	} {
		if p := s.want(c.code, c.text, c.method, c.path, c.body, c.headers...); p.Type != "raysys:"+c.kind || p.Ran != "no" || p.Title == "" || p.ID != "" {
			t.Errorf("%s %s %v: %+v, want %s", c.method, c.path, c.headers, p, c.kind)
		}
	}
	s.want(200, "0", "POST", "/call/grain/door.account/read/x", "")
}

// TestFailures: what a method returns is told by what door.Error says, and by nothing else.
func TestFailures(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), door.Size(1<<10, 100))
		const add = "/call/grain/door.account/add/alice"
		for _, c := range []struct {
			code             int
			kind, text, path string
			body             string
		}{
			{402, "application", "not enough money", add, `{"n":-1}`},
			{500, "failed", "", add, `{"note":"fail"}`},
			{500, "failed", "", add, `{"note":"panic"}`},
			{402, "application", "not enough money", "/call/task/door%2Fsquare", "-1"},
			{500, "unencodable", "", "/call/grain/door.echo.v2/nan/alice", ""},
			{500, "result-too-large", "100 bytes", "/call/grain/door.echo.v2/long/alice", "99"},
		} {
			p := s.want(c.code, c.text, "POST", c.path, c.body)
			if p.Type != "raysys:"+c.kind || p.Ran != "yes" || len(p.ID) != 32 {
				t.Errorf("%s %s: %+v, want %s", c.path, c.body, p, c.kind)
			}
		}
		s.want(200, "", "POST", "/call/grain/door.echo.v2/long/alice", "98")
	})
}

// TestDeadline: a call ends with its time, and a client that hangs up cancels it.
func TestDeadline(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node())
		const hold = "/call/grain/door.echo.v2/hold/x"
		if p := s.want(504, "", "POST", hold, "", "Raysys-Deadline", "20ms"); p.Type != "raysys:deadline" || p.Ran != "maybe" {
			t.Errorf("%+v", p)
		}
		<-held
		if err := <-given; !errors.Is(err, raysys.ErrDeadline) && !errors.Is(err, raysys.ErrCancelled) { // another node is told that it is cancelled
			t.Error(err)
		}
		ctx, hangUp := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, "POST", s.URL+hold, nil)
		go func() { <-held; hangUp() }()
		if _, err := s.Client().Do(r); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-given; !errors.Is(err, raysys.ErrCancelled) {
			t.Error(err)
		}
	})
}

// TestNew: what is wrong with the options is said, all of it.
func TestNew(t *testing.T) {
	n := testkit.New(t).Node()
	refs := tasks.DefineIn(raysys.NewTable(), "refs", func(_ context.Context, r raysys.Ref[int]) (int, error) { return 0, nil })
	back := tasks.DefineIn(raysys.NewTable(), "back", func(_ context.Context, r int) (h raysys.Handle[int], _ error) { return h, nil })
	dots := tasks.DefineIn(raysys.NewTable(), "..", func(_ context.Context, n int) (int, error) { return n, nil })
	for text, opts := range map[string][]door.Option{
		"task door.answer is marked twice": {door.Task0(answer, ""), door.Task0(answer, "")},
		"task ..: no path of a request":    {door.Task(dots, "")},
		"zero value":                       {door.Task(tasks.Task[int, int]{}, "")},
		"Method or Watch: the handle is":   {door.Method(grains.Func[echo, string, string]{}, "")},
		"may hold references":              {door.Task(refs, "")},
		"raysys.Handle[int] may hold":      {door.Task(back, "")},
		"Detached(\"x\")":                  {door.Task(square.With(raysys.Detached("x")), "")},
		"Deadline(-1s)":                    {door.Deadline(-time.Second)},
		"Size(0, 5)":                       {door.Size(0, 5)},
		"option 1 is nil":                  {nil},
		"Callers":                          {door.Callers(nil)},
		"give an error":                    {door.Error(nil, 400, "")},
		"a status of 400":                  {door.Error(errNoMoney, 200, "")},
	} {
		_, err := door.New(n, opts...)
		if !errors.Is(err, raysys.ErrBadOption) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %s", err, text)
		}
	}
	if _, err := door.New(nil); err == nil {
		t.Error("a door without a node")
	}
}
