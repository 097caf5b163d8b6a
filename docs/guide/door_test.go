package guide_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

func openDoor(node *system.Node, file string) (http.Handler, error) {
	who, err := door.Tokens(file)
	if err != nil {
		return nil, err
	}
	d, err := door.New(node, door.Callers(who),
		door.Method(addCents, "Adds cents to an account, returns the sum."),
		door.Task(train, "Trains a model, returns its score."),
		door.Watch(paid, "What is paid."),
		door.Generator(tableRows, "The rows of a table."),
		door.Error(errNoMoney, http.StatusPaymentRequired, "not enough money"))
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/call/", d)
	mux.Handle("/mcp", mcp.Handler(d)) // for agents
	return mux, nil
}

func mayRead(who door.Who) door.Who {
	return func(r *http.Request, w door.Work) (string, error) {
		caller, err := who(r, w)
		if err == nil && caller == "auditor" && !w.ReadOnly {
			err = door.ErrForbidden
		}
		return caller, err
	}
}

type bill struct {
	Cents int64 `json:"cents"`
}

type purse struct{ Sum grains.State[int64] }

func (p *purse) Pay(ctx context.Context, b bill) (int64, error) {
	if p.Sum.Value+b.Cents < 0 {
		return 0, errNoMoney
	}
	p.Sum.Value += b.Cents
	raysys.Logger(ctx).Info("paid", "by", door.Caller(ctx))
	return p.Sum.Value, nil
}

type till struct{ Moves feed.Feed[bill] }

var (
	errNoMoney = errors.New("no money")
	addCents   = grains.Method(grains.Define[purse]("guide.purse", grains.Durable()), "pay", (*purse).Pay)
	train      = tasks.Define("guide.train", func(_ context.Context, epochs int) (float64, error) { return float64(epochs) / 2, nil })
	paid       = feed.Method(grains.Define[till]("guide.till"), "moves", func(t *till) *feed.Feed[bill] { return &t.Moves })
	tableRows  = generator.Define("guide.door.rows", func(_ context.Context, n int, yield func(int) bool) error {
		for i := 0; i < n && yield(i); i++ {
		}
		return nil
	})
)

func TestDoor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("alice 0123456789abcdef\nauditor fedcba9876543210\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openDoor(testkit.New(t).Node(), file)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer s.Close()
	for range 2 {
		r, _ := http.NewRequest("POST", s.URL+"/call/grain/guide.purse/pay/alice", strings.NewReader(`{"cents":500}`))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer 0123456789abcdef"}, "Idempotency-Key": {"order-17"}}
		a, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != 200 || string(text) != "500" {
			t.Error(a.StatusCode, string(text))
		}
	}
	r, _ := http.NewRequest("POST", s.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer 0123456789abcdef"}, "Accept": {"application/json, text/event-stream"}}
	a, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(a.Body)
	a.Body.Close()
	for _, tool := range []string{"guide_purse_pay", "guide_train", "guide_train_start", "guide_train_result", "guide_till_moves", "guide_door_rows"} {
		if !strings.Contains(string(text), `"name":"`+tool+`"`) {
			t.Errorf("no tool %s: %s", tool, text)
		}
	}
	who, err := door.Tokens(file)
	if err != nil {
		t.Fatal(err)
	}
	r = httptest.NewRequest("POST", "/", nil)
	r.Header.Set("Authorization", "Bearer fedcba9876543210")
	if _, err := mayRead(who)(r, door.Work{}); !errors.Is(err, door.ErrForbidden) {
		t.Error(err)
	}
	if caller, err := mayRead(who)(r, door.Work{ReadOnly: true}); caller != "auditor" || err != nil {
		t.Error(caller, err)
	}
}
