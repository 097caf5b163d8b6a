package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/door/mcp"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tasks/generator"
	"github.com/raysys/raysys/testkit"
)

type loose struct {
	Any  any             `json:"any"`
	List []any           `json:"list"`
	Map  map[string]any  `json:"map"`
	Raw  json.RawMessage `json:"raw"`
}

type Inner struct {
	X int      `json:"x"`
	Y []string `json:"y"`
}

// sparse has a null, or nothing, in most places where JSON may have one.
type sparse struct {
	*Inner
	M  map[string]*Inner           `json:"m"`
	S  []*Inner                    `json:"s"`
	P  *[]int                      `json:"p"`
	MM map[string]map[string][]int `json:"mm"`
	B  [][]byte                    `json:"b"`
	Q  *int64                      `json:"q,string"`
	L  []int                       `json:"l"`
	D  *time.Duration              `json:"d"`
	O  Inner                       `json:"o,omitzero"`
}

// moody panics when its second item is written.
type moody int

func (m moody) MarshalJSON() ([]byte, error) {
	if m == 1 {
		panic("secret")
	}
	return []byte("0"), nil
}

var (
	same      = grains.Define[echo]("mcp.same")
	sameStart = grains.Action0(same, "start", func(*echo, context.Context) error { return nil })
	sameTask  = tasks.Define0("mcp.same", func(context.Context) (string, error) { return "task", nil })
	sameOther = tasks.Define0("mcp.same.start", func(context.Context) (string, error) { return "other", nil })
	anything  = tasks.Define("mcp.any", func(_ context.Context, l loose) (loose, error) { return l, nil })
	none      = tasks.Define0("mcp.none", func(context.Context) (sparse, error) { return sparse{}, nil })
	some      = tasks.Define0("mcp.some", func(context.Context) (sparse, error) {
		n, d := int64(1), time.Second
		return sparse{
			&Inner{},
			map[string]*Inner{"a": nil},
			[]*Inner{nil, {}},
			&[]int{1},
			map[string]map[string][]int{"a": nil, "b": {"c": nil}},
			[][]byte{nil, {1}},
			&n,
			[]int{1},
			&d,
			Inner{X: 1},
		}, nil
	})
	moods = generator.Define("mcp.moods", func(_ context.Context, n int, yield func(moody) bool) error {
		for i := 0; i < n && yield(moody(i)); i++ {
		}
		return nil
	})
)

func serveThese(t *testing.T, opts ...door.Option) *httptest.Server {
	t.Helper()
	d, err := door.New(testkit.New(t).Node(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(mcp.Handler(d))
	t.Cleanup(s.Close)
	return s
}

// TestTitles: three tools with one title have names of their own.
func TestTitles(t *testing.T) {
	s := serveThese(t, door.Method0(sameStart, "The method."), door.Task0(sameOther, "The other."), door.Task0(sameTask, "The task."))
	c := as(t, s, "")
	r, err := c.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, tool := range r.Tools {
		if tool.Title == "mcp.same.start" {
			texts = append(texts, tool.Description)
			if tool.Description == "The other." {
				c.want(`{"result":"other"}`, tool.Name, "{}")
			}
		}
	}
	if len(r.Tools) != 7 || len(texts) != 3 {
		t.Errorf("%d tools, with the one title %q", len(r.Tools), texts)
	}
}

// TestAnything: no schema is true, which clients refuse with the whole list.
func TestAnything(t *testing.T) {
	s := serveThese(t, door.Task(anything, "Any."))
	_, text := post(t, s.URL, list)
	if !strings.Contains(text, `"items":{"description":"any JSON"}`) || strings.Contains(strings.ReplaceAll(text, `Hint":true`, ""), "true") {
		t.Error(text)
	}
	as(t, s, "").want(`{"result":{"any":1,"list":["a"],"map":{"b":null},"raw":[2]}}`, "mcp_any", `{"arg":{"any":1,"list":["a"],"map":{"b":null},"raw":[2]}}`)
}

// TestResultsFit: a result fits the schema of it, which clients check.
func TestResultsFit(t *testing.T) {
	c := as(t, serveThese(t, door.Task0(none, "None."), door.Task0(some, "Some.")), "")
	for tool, err := range c.Tools(context.Background(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.Name != "mcp_none" && tool.Name != "mcp_some" {
			continue
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(jsonOf(tool.OutputSchema)), &schema); err != nil {
			t.Fatal(err)
		}
		fits, err := schema.Resolve(nil)
		if err != nil {
			t.Fatal(err)
		}
		var result any
		_, got, isError, err := c.call(context.Background(), tool.Name, "{}")
		if err := errors.Join(err, json.Unmarshal(got, &result), fits.Validate(result)); err != nil || isError {
			t.Errorf("%s: %v %s", tool.Name, err, got)
		}
	}
}

// TestPanics: what the program's own code panics with is a problem without a text.
func TestPanics(t *testing.T) {
	s := serveThese(t, door.Generator(moods, "Moods."))
	as(t, s, "").fails("raysys:unencodable", "mcp_moods", `{"arg":3}`)
	s = serveThese(t, door.Callers(func(*http.Request, door.Work) (string, error) { panic("secret") }))
	if a, text := post(t, s.URL, list); a.StatusCode != 500 || !strings.Contains(text, "raysys:failed") || strings.Contains(text, "secret") {
		t.Error(a.StatusCode, text)
	}
}

// TestEndlessDeadline: a door that bounds no call answers, a list beyond all buffers too.
func TestEndlessDeadline(t *testing.T) {
	s := serveThese(t, door.Deadline(math.MaxInt64), door.Task(depth, strings.Repeat("deep ", 100_000)))
	if a, text := post(t, s.URL, list); a.StatusCode != 200 || len(text) < 500_000 {
		t.Error(a.StatusCode, len(text))
	}
	as(t, s, "").want(`{"result":1}`, "mcp_depth", `{"arg":{}}`)
}

// TestBatch: each call of a batch takes room.
func TestBatch(t *testing.T) {
	s := serve(t, testkit.New(t).Node())
	calls := make([]string, 300)
	for i := range calls {
		calls[i] = strings.Replace(call("echo_hold", `{"key":"`+strconv.Itoa(i)+`"}`), `"id":1`, `"id":`+strconv.Itoa(i), 1)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r, _ := http.NewRequestWithContext(ctx, "POST", s.URL, strings.NewReader("["+strings.Join(calls, ",")+"]"))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if a, err := s.Client().Do(r); err == nil { // else it is cancelled
			a.Body.Close()
		}
	}()
	for range 256 {
		<-held
	}
	if a, _ := post(t, s.URL, list); a.StatusCode != 429 {
		t.Error(a.StatusCode)
	}
	end()
	<-ended
	for range 256 {
		<-given
	}
}
