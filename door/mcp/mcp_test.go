package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/door/mcp"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/feed"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tasks/generator"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type entry struct {
	N    int64    `json:"n"`
	Tags []string `json:"tags,omitempty"`
}

var errNoMoney = errors.New("no money in /secret")

var _ = raysys.RegisterError("mcp_test.no-money", errNoMoney)

type account struct{ Sum grains.State[int64] }

func (a *account) Add(_ context.Context, e entry) (int64, error) {
	if a.Sum.Value+e.N < 0 {
		return 0, errNoMoney
	}
	a.Sum.Value += e.N
	return a.Sum.Value, nil
}

func (a *account) Read(context.Context) (int64, error) { return a.Sum.Value, nil }

type echo struct{ Lines feed.Feed[string] }

func (*echo) Key(ctx context.Context) (string, error) {
	id, _ := grains.Self(ctx)
	return fmt.Sprintf("%s %q", door.Caller(ctx), id.Key), nil
}
func (e *echo) Tell(_ context.Context, s string) error { return e.Lines.Emit(s) }
func (*echo) Empty(context.Context) ([]string, error)  { return nil, nil }
func (*echo) Set(context.Context, string) error        { return nil }
func (*echo) Wait(ctx context.Context) error {
	held <- struct{}{}
	<-ctx.Done()
	given <- context.Cause(ctx)
	return ctx.Err()
}

// held gets a value when a method waits, given how its context ended; begun when a run begins, which ends with goOn.
var (
	held, given = make(chan struct{}, 2000), make(chan error, 2000)
	begun, goOn = make(chan int, 100), make(chan struct{}, 100)
)

type chain struct {
	Next *chain `json:"next"`
}

type shy struct{ N int }

func (*shy) UnmarshalJSON([]byte) error { panic("secret") }

var (
	accounts = grains.Define[account]("mcp.account", grains.Durable())
	add      = grains.Method(accounts, "add", (*account).Add)
	read     = grains.Method0(accounts, "read", (*account).Read).ReadOnly()

	echoes = grains.Define[echo]("echo", grains.Mailbox(3000))
	keyOf  = grains.Method0(echoes, "key", (*echo).Key)
	tell   = grains.Action(echoes, "tell", (*echo).Tell)
	empty  = grains.Method0(echoes, "empty", (*echo).Empty)
	set    = grains.Action(echoes, "set", (*echo).Set).Idempotent()
	hold   = grains.Action0(echoes, "hold", (*echo).Wait)
	lines  = feed.Method(echoes, "lines", func(e *echo) *feed.Feed[string] { return &e.Lines })

	patient = tasks.Define("mcp/train", func(ctx context.Context, n int) (int, error) {
		begun <- n
		select {
		case <-goOn:
			return 2 * n, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
	depth = tasks.Define("mcp.depth", func(_ context.Context, c *chain) (n int, _ error) {
		for ; c != nil; c = c.Next {
			n++
		}
		return n, nil
	})
	nothing = tasks.Define0("mcp.nothing", func(context.Context) (struct{}, error) { return struct{}{}, nil })
	wary    = tasks.Define("mcp.wary", func(context.Context, shy) (int, error) { return 1, nil })
	hidden  = tasks.Define0("mcp.hidden", func(context.Context) (int, error) { return 1, nil })
	twin    = tasks.Define0("mcp_nothing", func(context.Context) (int, error) { return 2, nil })
	counted = generator.Define("count", func(ctx context.Context, n int, yield func(int) bool) error {
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
	large = generator.Define("large", func(_ context.Context, n int, yield func(string) bool) error {
		for yield(strings.Repeat("x", n)) {
		}
		return nil
	})
)

var marks = []door.Option{
	door.Method(add, "Adds cents."), door.Method0(read, "Reads."), door.Method0(keyOf, "Key."), door.Method(tell, "Tells."), door.Method0(empty, "Empty."),
	door.Method(set, "Sets."), door.Method0(hold, "Holds."), door.Watch(lines, "Lines."), door.Task(patient, "Trains."), door.Task(depth, "Depth."),
	door.Task0(nothing, "Nothing."), door.Task(wary, "Wary."), door.Task0(hidden, ""), door.Task0(twin, "Twin."), door.Generator(counted, "Counts."), door.Generator(large, "Large."),
	door.Error(errNoMoney, http.StatusPaymentRequired, "not enough money"),
}

func serve(t testing.TB, n *system.Node, opts ...door.Option) *httptest.Server {
	t.Helper()
	d, err := door.New(n, append(marks[:len(marks):len(marks)], opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(mcp.Handler(d))
	t.Cleanup(s.Close)
	return s
}

const aliceToken, bobToken = "0123456789abcdef", "fedcba9876543210"

func twoCallers(t testing.TB) door.Option {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(name, []byte("alice "+aliceToken+"\nbob "+bobToken), 0o600); err != nil {
		t.Fatal(err)
	}
	who, err := door.Tokens(name)
	if err != nil {
		t.Fatal(err)
	}
	return door.Callers(who)
}

// headers adds headers to each request of a client.
type headers struct {
	http.Header
	next http.RoundTripper
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.Header {
		if r.Header[name] = values; name == "Host" {
			r.Host = values[0]
		}
	}
	return h.next.RoundTrip(r)
}

// client is one of the SDK.
type client struct {
	testing.TB
	*sdk.ClientSession
}

// open opens a client; pairs are headers.
func open(t testing.TB, s *httptest.Server, pairs ...string) (*client, error) {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = []string{pairs[i+1]}
	}
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(), &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &http.Client{Transport: headers{h, s.Client().Transport}}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return &client{t, c}, err
}

func as(t testing.TB, s *httptest.Server, token string) *client {
	t.Helper()
	var pairs []string
	if token != "" {
		pairs = []string{"Authorization", "Bearer " + token}
	}
	c, err := open(t, s, pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// call calls a tool with arguments as JSON.
func (c *client) call(ctx context.Context, tool, args string) (text string, structured json.RawMessage, isError bool, err error) {
	p := &sdk.CallToolParams{Name: tool}
	if args != "" {
		p.Arguments = json.RawMessage(args)
	}
	r, err := c.CallTool(ctx, p)
	if err != nil {
		return "", nil, false, err
	}
	structured, err = json.Marshal(r.StructuredContent)
	return r.Content[0].(*sdk.TextContent).Text, structured, r.IsError, err
}

// want calls a tool, and expects structured content, which is the text too.
func (c *client) want(structured, tool, args string) {
	c.Helper()
	text, got, isError, err := c.call(context.Background(), tool, args)
	if err != nil || isError || string(got) != structured || structured != "null" && text != structured {
		c.Errorf("%s %.100s = %s %s %v, want %s", tool, args, text, got, err, structured)
	}
}

// fails calls a tool, and expects a problem, or another text.
func (c *client) fails(part, tool, args string) {
	c.Helper()
	text, got, isError, err := c.call(context.Background(), tool, args)
	if err != nil || !isError || string(got) != "null" || !strings.Contains(text, part) || strings.Contains(text, "secret") {
		c.Errorf("%s %.100s = %s %s %v, want a failure with %s", tool, args, text, got, err, part)
	}
}

func eachSystem(t *testing.T, f func(t *testing.T, k *testkit.Kit)) {
	t.Run("alone", func(t *testing.T) { f(t, testkit.New(t)) })
	t.Run("cluster", func(t *testing.T) { f(t, testkit.New(t, testkit.Nodes(3))) })
}

func jsonOf(v any) string { text, _ := json.Marshal(v); return string(text) }

// TestList: a client sees the tools that it may call, with what they take and give.
func TestList(t *testing.T) {
	s := serve(t, testkit.New(t).Node(), door.Callers(func(r *http.Request, w door.Work) (string, error) {
		switch me := r.Header.Get("Me"); {
		case me == "auditor" && !w.ReadOnly, me == "none":
			return "", door.ErrForbidden
		case me == "odd" && w.Function == "count":
			panic("secret")
		default:
			return me, nil
		}
	}))
	list := func(me string) (names []string, tools map[string]*sdk.Tool) {
		t.Helper()
		c, err := open(t, s, "Me", me)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.ListTools(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		tools = map[string]*sdk.Tool{}
		for _, tool := range r.Tools {
			names, tools[tool.Name] = append(names, tool.Name), tool
		}
		if r.CacheScope == "public" {
			t.Error("a list is for all clients")
		}
		return names, tools
	}
	names, tools := list("alice")
	all := "count echo_empty echo_hold echo_key echo_lines echo_set echo_tell large mcp_account_add mcp_account_read mcp_depth mcp_depth_result mcp_depth_start " +
		"mcp_nothing mcp_nothing_a082d933 mcp_nothing_result mcp_nothing_result_b9fe32d8 mcp_nothing_start mcp_nothing_start_aeaf27bc mcp_train mcp_train_result mcp_train_start mcp_wary mcp_wary_result mcp_wary_start"
	if got := strings.Join(names, " "); got != all {
		t.Errorf("%s", got)
	}
	for name, want := range map[string]string{
		"mcp_account_add": `{"additionalProperties":false,"properties":{"arg":{"additionalProperties":false,"properties":{"n":{"type":"integer"},"tags":{"items":{"type":"string"},"type":"array"}},"required":["n"],"type":"object"},` +
			`"idempotency_key":{"description":"a call that is made again with it counts once","type":"string"},"key":{"description":"of the grain mcp.account","type":"string"}},"required":["arg","key"],"type":"object"}`,
		"mcp_nothing": `{"additionalProperties":false,"properties":{},"required":[],"type":"object"}`,
	} {
		if got := jsonOf(tools[name].InputSchema); got != want {
			t.Errorf("%s takes %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"mcp_account_add":  `{"additionalProperties":false,"properties":{"result":{"type":"integer"}},"required":["result"],"type":"object"}`,
		"echo_empty":       `{"additionalProperties":false,"properties":{"result":{"items":{"type":"string"},"type":["null","array"]}},"required":["result"],"type":"object"}`,
		"echo_tell":        `null`,
		"mcp_train_start":  `null`,
		"mcp_train_result": `{"additionalProperties":false,"properties":{"result":{"type":"integer"},"running":{"type":"boolean"}},"required":["running"],"type":"object"}`,
		"count":            `{"additionalProperties":false,"properties":{"ended":{"type":"boolean"},"items":{"items":{"type":"integer"},"type":"array"},"missed":{"type":"integer"}},"required":["ended","items"],"type":"object"}`,
	} {
		if got := jsonOf(tools[name].OutputSchema); got != want {
			t.Errorf("%s gives %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{ // read only, idempotent, destructive
		"mcp_account_add": "false false true", "mcp_account_read": "true true false", "echo_set": "false true true", "echo_lines": "true true false",
		"mcp_train": "false false true", "mcp_train_start": "false true true", "mcp_train_result": "true true false", "count": "false false true",
	} {
		a := tools[name].Annotations
		if got := fmt.Sprint(a.ReadOnlyHint, a.IdempotentHint, *a.DestructiveHint); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if a := tools["mcp_train_start"]; a.Title != "mcp/train.start" || a.Description != "Starts a run, which goes on by itself: Trains." {
		t.Errorf("%+v", a)
	}
	names, _ = list("auditor")
	if got := strings.Join(names, " "); got != "echo_lines mcp_account_read mcp_depth_result mcp_nothing_result mcp_nothing_result_b9fe32d8 mcp_train_result mcp_wary_result" {
		t.Error(got)
	}
	if names, _ = list("odd"); strings.Join(names, " ") != strings.TrimPrefix(all, "count ") {
		t.Error(names)
	}
	if _, err := open(t, s, "Me", "none"); err == nil {
		t.Error("a client that may call nothing is let in")
	}
	c, err := open(t, s, "Me", "auditor")
	if err != nil {
		t.Fatal(err)
	}
	c.fails("raysys:forbidden", "mcp_account_add", `{"key":"x","arg":{"n":1}}`)
	c.want(`{"result":0}`, "mcp_account_read", `{"key":"x"}`)
}

// TestCalls: methods and tasks are called, whatever their keys are.
func TestCalls(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), twoCallers(t))
		alice, bob := as(t, s, aliceToken), as(t, s, bobToken)
		for range 2 {
			alice.want(`{"result":5}`, "mcp_account_add", `{"key":"x","arg":{"n":5},"idempotency_key":"k"}`)
		}
		bob.want(`{"result":10}`, "mcp_account_add", `{"key":"x","arg":{"n":5},"idempotency_key":"k"}`)
		alice.fails(`"type":"raysys:key-reused"`, "mcp_account_add", `{"key":"x","arg":{"n":6},"idempotency_key":"k"}`)
		alice.fails(`"detail":"not enough money"`, "mcp_account_add", `{"key":"x","arg":{"n":-60}}`)
		alice.want(`{"result":10}`, "mcp_account_read", `{"key":"x"}`)
		alice.want(`null`, "echo_set", `{"key":"x","arg":"a"}`)
		alice.want(`{"result":null}`, "echo_empty", `{"key":"x"}`)
		alice.want(`null`, "mcp_nothing", ``)
		alice.want(`{"result":0}`, "mcp_depth", `{"arg":null}`)
		for _, key := range []string{"", ".", "..", "a/../b", "a//b", "/", "\x00", "ü\n", "%2F", "a+b c&d=e?#", strings.Repeat("\x01", 1024)} {
			alice.want(jsonOf(map[string]string{"result": fmt.Sprintf("alice %q", key)}), "echo_key", jsonOf(map[string]string{"key": key}))
		}
	})
}

// TestRefusals: what a client does wrong is said, and nothing runs.
func TestRefusals(t *testing.T) {
	s := serve(t, testkit.New(t).Node())
	c := as(t, s, "")
	for _, tool := range []string{"none", "mcp_hidden", "mcp.account.add", strings.Repeat("x", 1000)} {
		if _, _, _, err := c.call(context.Background(), tool, `{}`); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("%.20s: %v", tool, err)
		}
	}
	const add = "mcp_account_add"
	for _, f := range [][3]string{
		{"at n: string is no int64", add, `{"key":"x","arg":{"n":"5"}}`},
		{"has no field of that name", add, `{"key":"x","arg":{"m":5}}`},
		{"is no mcp_test.entry", add, `{"key":"x","arg":"{\"n\":5}"}`},
		{"mcp_account_add takes arg, idempotency_key, key: key is missing", add, `{"arg":{"n":1}}`},
		{"key is missing", add, `{"key":null,"arg":{"n":1}}`},
		{"arg is missing", add, `{"key":"x"}`},
		{"key is missing", "echo_key", ``},
		{`and no "amount"`, add, `{"key":"x","arg":{"n":1},"amount":5}`},
		{"give a string of Unicode as \"key\"", add, `{"key":5,"arg":{"n":1}}`},
		{"give a string of Unicode as \"key\"", add, `{"key":"\ud800","arg":{"n":1}}`},
		{"give a string of Unicode as \"idempotency_key\"", add, `{"key":"x","arg":{"n":1},"idempotency_key":5}`},
		{"as an object", add, `["x"]`},
		{"as an object", add, `"x"`},
		{"1024 bytes", add, `{"key":"` + strings.Repeat("k", 1025) + `","arg":{"n":1}}`},
		{"255 bytes", add, `{"key":"x","arg":{"n":1},"idempotency_key":""}`},
		{"255 bytes", add, `{"key":"x","arg":{"n":1},"idempotency_key":"` + strings.Repeat("k", 10<<10) + `"}`},
		{"raysys:too-large", add, `{"key":"x","arg":{"n":1,"tags":["` + strings.Repeat("x", 70<<10) + `"]}}`},
		{`and no "idempotency_key"`, "mcp_account_read", `{"key":"x","idempotency_key":"a"}`},
		{"raysys:failed", "mcp_wary", `{"arg":{}}`},
		{"give 0 to 1000", "echo_lines", `{"key":"x","last":-1}`},
		{"give 0 to 1000", "echo_lines", `{"key":"x","last":"5"}`},
		{"up to 1m0s", "echo_lines", `{"key":"x","wait":"61s"}`},
		{"up to 1m0s", "echo_lines", `{"key":"x","wait":"-1s"}`},
		{"up to 1m0s", "count", `{"arg":1,"wait":"0s"}`},
		{"up to 1m0s", "mcp_train_result", `{"run":"x","wait":"x"}`},
		{"raysys:not-found", "mcp_train_result", `{"run":"x"}`},
		{"1 to 4", "mcp_train_start", `{"run":"","arg":1}`},
	} {
		c.fails(f[0], f[1], f[2])
	}
	c.want(`{"result":0}`, "mcp_account_read", `{"key":"x"}`)
}

// TestRuns: a run goes on without its client, and is its caller's own.
func TestRuns(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		s := serve(t, k.Node(), twoCallers(t))
		alice, bob := as(t, s, aliceToken), as(t, s, bobToken)
		alice.want("null", "mcp_train_start", `{"run":"a//b","arg":7}`)
		if n := <-begun; n != 7 {
			t.Fatal(n)
		}
		alice.want("null", "mcp_train_start", `{"run":"a//b","arg":7}`)
		alice.fails("raysys:name-taken", "mcp_train_start", `{"run":"a//b","arg":8}`)
		alice.want(`{"running":true}`, "mcp_train_result", `{"run":"a//b"}`)
		alice.want(`{"running":true}`, "mcp_train_result", `{"run":"a//b","wait":"10ms"}`)
		bob.fails("raysys:not-found", "mcp_train_result", `{"run":"a//b"}`)
		goOn <- struct{}{}
		alice.want(`{"result":14,"running":false}`, "mcp_train_result", `{"run":"a//b","wait":"60s"}`)
		alice.want("null", "mcp_nothing_start", `{"run":"n"}`)
		alice.want(`{"running":false}`, "mcp_nothing_result", `{"run":"n","wait":"60s"}`)
	})
}

// TestStreams: a generator's and a feed's first items are a result, and their end, and what they have missed.
func TestStreams(t *testing.T) {
	eachSystem(t, func(t *testing.T, k *testkit.Kit) {
		c := as(t, serve(t, k.Node()), "")
		c.want(`{"ended":true,"items":[0,1]}`, "count", `{"arg":2}`)
		c.want(`{"ended":true,"items":[]}`, "count", `{"arg":0}`)
		c.fails("not enough money", "count", `{"arg":3}`)
		_, got, _, err := c.call(context.Background(), "count", `{"arg":-1}`)
		var r struct {
			Items []int
			Ended *bool
		}
		if err := errors.Join(err, json.Unmarshal(got, &r)); err != nil || len(r.Items) != 100 || r.Items[99] != 99 || *r.Ended {
			t.Errorf("%v %s", err, got)
		}
		<-given
		if text, _, isError, err := c.call(context.Background(), "large", `{"arg":300000}`); err != nil || isError || len(text) < 1<<20 || len(text) > 2<<20 {
			t.Errorf("%d bytes %v %v", len(text), isError, err)
		}
		for _, line := range []string{"a", "data: b\n\n"} {
			c.want("null", "echo_tell", `{"key":"x","arg":`+jsonOf(line)+`}`)
		}
		for args, want := range map[string]string{
			`{"key":"x"}`: `{"ended":false,"items":["a","data: b\n\n"]}`, `{"key":"x","last":1,"wait":"100ms"}`: `{"ended":false,"items":["data: b\n\n"]}`,
		} {
			testkit.Eventually(t, time.Minute, "what comes in time is "+want, func() bool {
				text, _, isError, err := c.call(context.Background(), "echo_lines", args)
				return err == nil && !isError && text == want
			})
		}
	})
}

// TestHangUp: a client that hangs up cancels its call, and leaves nothing behind.
func TestHangUp(t *testing.T) {
	k := testkit.New(t)
	s := serve(t, k.Node())
	c := as(t, s, "")
	c.want(`{"result":"local \"x\""}`, "echo_key", `{"key":"x"}`)
	before := runtime.NumGoroutine()
	for range 50 {
		ctx, hangUp := context.WithCancel(context.Background())
		go func() { <-held; hangUp() }()
		if _, _, _, err := c.call(ctx, "echo_hold", `{"key":"x"}`); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-given; !errors.Is(err, raysys.ErrCancelled) {
			t.Error(err)
		}
	}
	s.Client().CloseIdleConnections()
	testkit.Eventually(t, time.Minute, "the goroutines of 50 calls have ended", func() bool { return runtime.NumGoroutine() <= before+10 })
}
