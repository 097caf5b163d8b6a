package system_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
)

type (
	// bookrack is a durable grain, and brokenBookrack the same kind of a program in which a State has another type.
	bookrack struct {
		Owner grains.State[string]
		Scans grains.State[[]byte] // may be large
		books grains.Map[string, int]
	}
	brokenBookrack struct{ Owner grains.State[int] }
)

// TestStored: all grains of a durable kind are read as they are stored, without an activation; one that cannot be read
// comes with its error, and the others come too.
func TestStored(t *testing.T) {
	table, next, plain := raysys.NewTable(), raysys.NewTable(), raysys.NewTable()
	bookracks := grains.DefineIn[bookrack](table, "bookrack", grains.Durable())
	type entry struct {
		Owner string
		Books int
		Scan  int
	}
	set := grains.Action(bookracks, "set", func(s *bookrack, _ context.Context, e entry) error {
		s.Owner.Value, s.Scans.Value = e.Owner, make([]byte, e.Scan)
		for i := range e.Books {
			s.books.Set(fmt.Sprint(i), i)
		}
		return nil
	})
	look := grains.Method0(bookracks, "look", func(s *bookrack, _ context.Context) (string, error) { return s.Owner.Value, nil }).ReadOnly()
	broken := grains.DefineIn[brokenBookrack](next, "bookrack", grains.Durable())
	notDurable := grains.DefineIn[brokenBookrack](plain, "bookrack")
	data := t.TempDir()
	start := func(table *raysys.Table) (n *system.Node, ctx context.Context) {
		n, err := system.New(system.Config{Table: table, Data: data, Namespace: "test", Objects: system.ObjectConfig{Disk: 1 << 30}})
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return n, n.Context(t.Context())
	}
	end := func(n *system.Node) {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	want := map[string]entry{"eu/a": {"ann", 0, 0}, "eu/a\x00b": {"bob", 300, 10}, "eu/c": {"cid", 3, 200_000}, "us/d": {"dan", 1, 0}}
	n, ctx := start(table)
	for key, e := range want {
		if _, err := set.Call(ctx, bookracks.Get(key), e).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := look.Call(ctx, bookracks.Get("eu/never")).Get(ctx); err != nil { // it stores nothing
		t.Fatal(err)
	}
	end(n)

	n, ctx = start(table)
	var keys []string
	for s, err := range grains.Stored(ctx, bookracks, "eu/") {
		if err != nil {
			t.Error(s.Key, err)
			continue
		}
		got := entry{s.State.Owner.Value, s.State.books.Len(), len(s.State.Scans.Value)}
		if v, ok := s.State.books.Get("2"); got != want[s.Key] || s.Turn != 1 || got.Books > 2 && (v != 2 || !ok) {
			t.Errorf("%q: %+v, turn %d, want %+v", s.Key, got, s.Turn, want[s.Key])
		}
		keys = append(keys, s.Key)
	}
	if slices.Sort(keys); fmt.Sprintf("%q", keys) != `["eu/a" "eu/a\x00b" "eu/c"]` {
		t.Errorf("stored: %q", keys)
	}
	if found, err := n.Grains(t.Context(), inspect.GrainQuery{}); err != nil || len(found.Grains) > 0 {
		t.Errorf("active: %+v, %v", found, err)
	}
	for s := range grains.Stored(ctx, bookracks, "us/") {
		if err := s.State.Owner.Write(ctx); !errors.Is(err, raysys.ErrNoRuntime) {
			t.Errorf("a Write of what was read: %v", err)
		}
		if p := panicOf(func() { s.State.books.Set("a", 1) }); !strings.Contains(fmt.Sprint(p), "belongs to no active grain") {
			t.Errorf("a Set of what was read: %v", p)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for s, err := range grains.Stored(cancelled, bookracks, "") {
		if !errors.Is(err, context.Canceled) || s.Key != "" {
			t.Errorf("cancelled: %q, %v", s.Key, err)
		}
	}
	end(n)

	n, ctx = start(next)
	bad := 0
	for s, err := range grains.Stored(ctx, broken, "") {
		if !errors.Is(err, grains.ErrUnreadable) || s.State != nil || want[s.Key].Owner == "" || !strings.Contains(err.Error(), `state "Owner"`) {
			t.Errorf("%q: %v", s.Key, err)
		}
		bad++
	}
	if bad != len(want) {
		t.Errorf("%d grains that cannot be read, want %d", bad, len(want))
	}
	end(n)

	n, ctx = start(plain)
	for _, err := range grains.Stored(ctx, notDurable, "") {
		if !errors.Is(err, raysys.ErrBadOption) {
			t.Errorf("a kind that is not Durable: %v", err)
		}
	}
	for _, err := range grains.Stored(context.Background(), notDurable, "") {
		if !errors.Is(err, raysys.ErrNoRuntime) {
			t.Errorf("without a node: %v", err)
		}
	}
	end(n)
}

// TestStoredEnds: the walk ends with its context, within a page too.
func TestStoredEnds(t *testing.T) {
	table := raysys.NewTable()
	racks := grains.DefineIn[bookrack](table, "bookrack", grains.Durable())
	set := grains.Action0(racks, "set", func(s *bookrack, _ context.Context) error {
		s.Owner.Value = "ann"
		return nil
	})
	n, err := system.New(system.Config{Table: table, Data: t.TempDir(), Namespace: "test"})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close(context.Background())
	ctx := n.Context(t.Context())
	for key := range 100 { // so that each shard has several
		if _, err := set.Call(ctx, racks.Get(fmt.Sprint(key))).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	walk, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := 0
	for s, err := range grains.Stored(walk, racks, "") {
		switch seen++; {
		case seen == 1 && err == nil:
			cancel()
		case seen > 2, !errors.Is(err, context.Canceled), s.Key != "":
			t.Fatalf("after its end: %q, %v", s.Key, err)
		}
	}
	if seen != 2 {
		t.Errorf("%d grains and errors", seen)
	}
}

func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}
