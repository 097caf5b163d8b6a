package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type (
	withChan   struct{ Inner struct{ C chan int } }
	withFunc   struct{ Hooks []func() }
	withHidden struct {
		Shown  int
		secret int //lint:ignore U1000 the test is that it is there
	}
	stringer  interface{ String() string }
	withIface struct{ What stringer }
	cyclic    struct {
		Ref  raysys.Ref[int]
		Next *cyclic
	}
	hiddenRef struct {
		Name string
		ref  raysys.Ref[int] //lint:ignore U1000 the test is that it is there
	}
	anyRef struct {
		Weights interface{ Weights() raysys.Ref[int] }
	}
	leftOut struct {
		Shown int
		local chan int `raysys:"-"` //lint:ignore U1000 the test is that it is there
	}
)

func take[A any](context.Context, A) (int, error)     { return 0, nil }
func give[R any](context.Context, int) (r R, _ error) { return r, nil }

// line is where its caller stands.
func line() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file, line)
}

// Every bad definition is reported by New, all of them together, each with its name, place and field path.
func TestBadDefinitions(t *testing.T) {
	table := raysys.NewTable()
	var nilFunc func(context.Context, int) (int, error)
	tasks.DefineIn(table, "fine", take[int])
	tasks.DefineIn(table, "left-out", take[leftOut])
	cases := []struct {
		name string
		says []string
	}{
		{"chan", []string{"Inner.C", "channel"}},
		{"func", []string{"Hooks[]", "function"}},
		{"hidden", []string{"secret", "unexported"}},
		{"interface", []string{"What", "not registered"}},
		{"cyclic", []string{"Next", "contains itself"}},
		{"hidden-ref", []string{"ref", "unexported"}},
		{"any-ref", []string{"Weights", "interface"}},
		{"result", []string{"result", "Inner.C"}},
		{"nil", []string{"nil"}},
		{"fine", []string{"taken"}},
		{"", []string{"name is empty"}},
		{"nil0", []string{"nil"}},
		{"second", []string{"argument", "channel"}},
		{"third", []string{"argument", "channel"}},
	}
	// The definitions stand one per line, in the order of the cases, so that each line's number is known.
	first := line()
	tasks.DefineIn(table, "chan", take[withChan])
	tasks.DefineIn(table, "func", take[withFunc])
	tasks.DefineIn(table, "hidden", take[withHidden])
	tasks.DefineIn(table, "interface", take[withIface])
	tasks.DefineIn(table, "cyclic", take[cyclic])
	tasks.DefineIn(table, "hidden-ref", take[hiddenRef])
	tasks.DefineIn(table, "any-ref", take[anyRef])
	tasks.DefineIn(table, "result", give[withChan])
	tasks.DefineIn(table, "nil", nilFunc)
	tasks.DefineIn(table, "fine", take[string])
	tasks.DefineIn(table, "", take[int])
	tasks.Define0In[int](table, "nil0", nil)
	tasks.Define2In(table, "second", func(context.Context, int, chan int) (int, error) { return 0, nil })
	tasks.Define3In(table, "third", func(context.Context, int, int, chan int) (int, error) { return 0, nil })

	_, err := system.New(system.Config{Table: table})
	if !errors.Is(err, raysys.ErrBadDefinition) {
		t.Fatalf("New: %v; want ErrBadDefinition", err)
	}
	file, _, _ := strings.Cut(first, ":")
	var start int
	fmt.Sscanf(strings.TrimPrefix(first, file+":"), "%d", &start)
	text := err.Error()
	for i, c := range cases {
		place := fmt.Sprintf("%s:%d", file, start+1+i)
		report := ""
		for _, l := range strings.Split(text, "\n") {
			if strings.Contains(l, "task "+c.name+" at "+place) {
				report = l
			}
		}
		if report == "" {
			t.Errorf("%q at %s is not reported in:\n%s", c.name, place, text)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(report, s) {
				t.Errorf("%q: the report lacks %q: %s", c.name, s, report)
			}
		}
	}
	if n := strings.Count(text, raysys.ErrBadDefinition.Error()); n != len(cases) {
		t.Errorf("%d definitions reported, want %d:\n%s", n, len(cases), text)
	}
	if n := len(table.Entries()); n != 2 {
		t.Errorf("the table holds %d good definitions, want 2", n)
	}
}

// A definition after New is bad: this system does not know it, and the next New says so.
func TestDefinedAfterNew(t *testing.T) {
	table := raysys.NewTable()
	_, ctx := nodetest.Node(t, table, 1)
	late := tasks.DefineIn(table, "late", func(ctx context.Context, x int) (int, error) { return x, nil })
	if _, err := nodetest.Get(t, ctx, late.Go(ctx, 1)); !errors.Is(err, raysys.ErrUnknownFunc) {
		t.Errorf("a task defined after New: %v; want ErrUnknownFunc", err)
	}
	_, err := system.New(system.Config{Table: table})
	if !errors.Is(err, raysys.ErrBadDefinition) || !strings.Contains(err.Error(), "defined after system.New") {
		t.Errorf("the next New: %v; want ErrBadDefinition that says when", err)
	}
}

func TestHandleOfAnotherTable(t *testing.T) {
	other := raysys.NewTable()
	foreign := tasks.DefineIn(other, "foreign", func(ctx context.Context, x int) (int, error) { return x, nil })
	foreign0 := tasks.Define0In(other, "foreign0", func(ctx context.Context) (int, error) { return 1, nil })
	_, ctx := nodetest.Node(t, raysys.NewTable(), 1)
	refs := []raysys.Ref[int]{
		foreign.Go(ctx, 1), foreign.On(ctx, raysys.Ready(1)), foreign.Map(ctx, []int{1, 2})[1],
		foreign.With(raysys.CPU(0)).Go(ctx, 1), foreign0.Go(ctx),
	}
	for i, r := range refs {
		_, err := nodetest.Get(t, ctx, r)
		if !errors.Is(err, raysys.ErrUnknownFunc) || !strings.Contains(err.Error(), "define_test.go:") {
			t.Errorf("submission %d: %v; want ErrUnknownFunc with the place of the definition", i, err)
		}
	}
}
