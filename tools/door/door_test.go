package door_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/raysys/raysys/door"
	"github.com/raysys/raysys/door/mcp"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/feed"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tasks/generator"
)

type named struct{ Text string }

func (n named) MarshalJSON() ([]byte, error) { return []byte(`{}`), nil }

type tree struct{ Left, Right *tree }

type order struct {
	ID    int64             `json:"id,string"`
	At    time.Time         `json:"at"`
	For   time.Duration     `json:"for"`
	Raw   []byte            `json:"raw"`
	Tags  map[string][]bool `json:"tags,omitempty"`
	Named *named            `json:"named"`
	Pair  [2]float32        `json:"pair"`
}

type shop struct{ Orders feed.Feed[order] }

func (s *shop) Put(context.Context, order) (order, error) { return order{}, nil }
func (s *shop) Grow(context.Context, tree) error          { return nil }

var (
	stores  = grains.Define[shop]("odd {kind}/shop")
	put     = grains.Method(stores, "put", (*shop).Put)
	grow    = grains.Action(stores, "grow", (*shop).Grow)
	orders  = feed.Method(stores, "orders", func(s *shop) *feed.Feed[order] { return &s.Orders })
	lasting = grains.Define[sum]("lasting", grains.Durable())
	add     = grains.Method(lasting, "add", (*sum).Add)
	drop    = grains.Method(lasting, "drop", (*sum).Drop)
	train   = tasks.Define("train", func(context.Context, order) (int, error) { return 7, nil })
	rows    = generator.Define("rows", func(_ context.Context, n int, yield func(tree) bool) error {
		for range n {
			yield(tree{Left: &tree{}})
		}
		return nil
	})
)

type sum struct{ N grains.State[int] }

func (s *sum) Add(_ context.Context, n int) (int, error)            { s.N.Value += n; return s.N.Value, nil }
func (s *sum) Drop(context.Context, map[int]string) ([]byte, error) { return nil, nil }

// serve serves a door with each kind of mark, and an MCP handler.
func serve(t *testing.T, opts ...door.Option) *httptest.Server {
	t.Helper()
	n, err := system.New(system.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(context.Background()) })
	d, err := door.New(n, append(opts, door.Method(put, "Puts."), door.Method(grow, "Grows."), door.Method(add, "Adds."), door.Method(drop, "Drops."),
		door.Watch(orders, "Orders."), door.Task(train, "Trains."), door.Generator(rows, "Rows."))...)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/call/", d)
	mux.Handle("/mcp", mcp.Handler(d))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// TestDocument: kin-openapi finds nothing wrong with the document of each kind of mark, and names it where there is something.
func TestDocument(t *testing.T) {
	s := serve(t)
	a, err := s.Client().Get(s.URL + "/call/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := doc.Validate(t.Context()); err != nil || doc.Paths.Len() != 8 {
		t.Errorf("%d paths: %v: %s", doc.Paths.Len(), err, text)
	}
	for _, path := range doc.Paths.InMatchingOrder() { // it sees a parameter that is missing
		for _, o := range doc.Paths.Value(path).Operations() {
			if len(o.Parameters) > 0 && o.Parameters[0].Value.In == "path" {
				o.Parameters = o.Parameters[1:]
			}
		}
	}
	if doc.Validate(t.Context()) == nil {
		t.Error("a document without parameters is valid")
	}
}
