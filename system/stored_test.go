package system_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
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

// TestStoredGrains: an operator is told what is stored of each grain of a kind once, page by page, with the values as JSON;
// where they cannot be read, why.
func TestStoredGrains(t *testing.T) {
	const grainsOf, scan = 40, 100_000
	table, next, plain := raysys.NewTable(), raysys.NewTable(), raysys.NewTable()
	bookracks := grains.DefineIn[bookrack](table, "bookrack", grains.Durable())
	set := grains.Action(bookracks, "set", func(s *bookrack, _ context.Context, n int) error {
		s.Owner.Value, s.Scans.Value = fmt.Sprint("owner ", n), make([]byte, n%2*scan)
		s.books.Set("first", n)
		return nil
	})
	grains.DefineIn[brokenBookrack](next, "bookrack", grains.Durable())
	data := t.TempDir()
	list := func(table *raysys.Table, fill bool, q inspect.StoredQuery) (all []inspect.StoredGrain, pages int) {
		n, err := system.New(system.Config{Table: table, Data: data, Namespace: "test"})
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		for i := range grainsOf {
			if ctx := n.Context(t.Context()); fill {
				if _, err := set.With(raysys.Key("k")).Call(ctx, bookracks.Get(fmt.Sprintf("eu/%02d\xff", i)), i).Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		q.Kind = "bookrack"
		for more := true; more; more = q.From != "" {
			p, err := n.StoredGrains(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			all, q.From = append(all, p.Grains...), p.Next
			pages++
		}
		slices.SortFunc(all, func(a, b inspect.StoredGrain) int { return strings.Compare(a.Key, b.Key) })
		if _, err := n.StoredGrains(t.Context(), inspect.StoredQuery{Kind: "bookrack", From: "x"}); !errors.Is(err, raysys.ErrBadOption) {
			t.Errorf("from a place that is none: %v", err)
		}
		return all, pages
	}
	values := inspect.StoredQuery{Prefix: "eu/", Values: true}
	got, pages := list(table, true, values)
	if len(got) != grainsOf || pages < grainsOf/2*scan/(384<<10) {
		t.Fatalf("%d grains are listed in %d pages", len(got), pages)
	}
	for i, g := range got {
		if g.Key != fmt.Sprintf("eu/%02d\xff", i) || g.Turn != 1 || g.Namespace != "test" || g.Keys != 1 || g.Messages != 0 || g.Why != fmt.Sprintf("its key is no UTF-8: %q", g.Key) || len(g.States) != 3 {
			t.Fatalf("%+v", g)
		}
		owner, scans, books := g.States[0], g.States[1], g.States[2]
		if string(owner.JSON) != fmt.Sprintf(`"owner %d"`, i) || owner.Bytes == 0 || len(scans.JSON) < i%2*scan ||
			string(books.JSON) != fmt.Sprintf(`{"first":%d}`, i) || books.Entries != 1 || books.Bytes == 0 {
			t.Errorf("%q: %s, %d bytes, %s", g.Key, owner.JSON, len(scans.JSON), books.JSON)
		}
	}
	if got, _ = list(table, false, inspect.StoredQuery{Prefix: "eu/1"}); len(got) != 10 || got[3].States[0].JSON != nil || got[3].States[1].Bytes < scan {
		t.Errorf("without values: %d, %+v", len(got), got[3])
	}
	if got, _ = list(next, false, values); len(got) != grainsOf || !strings.Contains(got[3].Why, `state "Owner"`) || got[3].Turn != 1 {
		t.Errorf("that cannot be read: %d, %+v", len(got), got[3])
	}
	if got, _ = list(plain, false, values); len(got) != grainsOf || !strings.HasSuffix(got[3].Why, `\xff"; no node that answers has the kind`) || len(got[3].States) != 3 {
		t.Errorf("of a kind that is gone: %d, %+v", len(got), got[3])
	}
	if got, _ = list(table, false, inspect.StoredQuery{Prefix: "us/"}); len(got) != 0 {
		t.Errorf("of another prefix: %+v", got)
	}
}

// grade is a key of a Map whose own text is the same for all.
type grade int

func (grade) String() string { return "grade" }

// essay is a State whose MarshalJSON hangs for the keys in reportsThatHang.
type essay struct{ Key string }

var reportsThatHang sync.Map

func (r essay) MarshalJSON() ([]byte, error) {
	if end, ok := reportsThatHang.Load(r.Key); ok {
		<-end.(chan struct{})
	}
	return json.Marshal(r.Key)
}

type pupil struct {
	Report grains.State[essay]
	Name   grains.State[string]
	Marks  grains.Map[grade, float64]
	Notes  grains.Map[string, int]
}

// TestStoredGrainsOfOddPrograms: a grain that is large, has the empty key, or whose values hang keeps no other from being
// listed, and what a Map says is whole or missing.
func TestStoredGrainsOfOddPrograms(t *testing.T) {
	table := raysys.NewTable()
	pupils := grains.DefineIn[pupil](table, "pupil", grains.Durable())
	set := grains.Action(pupils, "set", func(p *pupil, _ context.Context, key string) error {
		p.Report.Value.Key, p.Name.Value = key, "name "+key
		switch key {
		case "":
			for n := range 1000 { // again and again, until there are more than a page counts
				p.Marks.Set(grade(p.Marks.Len()), float64(n))
			}
		case "nan":
			p.Marks.Set(7, math.NaN())
			p.Notes.Set("a\xff", 1)
			p.Notes.Set("a\xfe", 2)
		default:
			p.Marks.Set(1, 1.5)
			p.Marks.Set(2, 2.5)
		}
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
	for range 8 {
		if _, err := set.Call(ctx, pupils.Get(""), "").Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	keys := []string{"", "nan"}
	for i := range 200 { // so that each shard has several
		keys = append(keys, fmt.Sprint(i))
	}
	for _, key := range keys {
		if _, err := set.Call(ctx, pupils.Get(key), key).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	list := func(values bool) (all []inspect.StoredGrain) {
		q := inspect.StoredQuery{Kind: "pupil", Values: values}
		seen := map[string]bool{}
		for more := true; more; more = q.From != "" {
			p, err := n.StoredGrains(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range p.Grains {
				if seen[g.Key] {
					t.Fatalf("%q is listed again", g.Key)
				}
				seen[g.Key] = true
			}
			all, q.From = append(all, p.Grains...), p.Next
		}
		if len(all) != len(keys) {
			t.Fatalf("%d grains are listed of %d", len(all), len(keys))
		}
		return all
	}
	end, first := make(chan struct{}), list(false)
	defer close(end)
	for _, g := range first[1:3] { // of one shard
		reportsThatHang.Store(g.Key, end)
	}
	for _, g := range list(true) {
		of := map[string]inspect.State{}
		for _, s := range g.States {
			of[s.Name] = s
		}
		report, name, marks, notes := of["Report"], of["Name"], of["Marks"], of["Notes"]
		if len(g.States) != 4 || string(name.JSON) != fmt.Sprintf("%q", "name "+g.Key) {
			t.Fatalf("%q: %+v", g.Key, g.States)
		}
		if _, hangs := reportsThatHang.Load(g.Key); hangs != strings.HasPrefix(report.Why, "its MarshalJSON has not returned") {
			t.Errorf("%q hangs: %v: %+v", g.Key, hangs, report)
		}
		switch {
		case g.Key == "nan" && (marks.Text != `map["7":NaN]` || notes.Text != `map["a\xfe":2 "a\xff":1]` ||
			notes.Why != `it is no JSON: json: error calling MarshalJSON for type entries.shown: its key "a\xff" is no UTF-8`):
			t.Errorf("%+v, %+v", marks, notes)
		case g.Key == "" && marks.Entries != 9000:
			t.Errorf("%d entries", marks.Entries)
		case g.Key != "" && g.Key != "nan" && string(marks.JSON) != `{"1":1.5,"2":2.5}`:
			t.Errorf("%q: %s", g.Key, marks.JSON)
		}
	}
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

// neverActive is a receiver to which no message arrives.
type neverActive struct{}

func (*neverActive) OnActivate(context.Context) error { return errors.New("not today") }

// TestMessagesOfAKindThatIsGone: without a cluster, too, messages of a grain whose kind the program has no more are seen
// and dropped.
func TestMessagesOfAKindThatIsGone(t *testing.T) {
	table, next := raysys.NewTable(), raysys.NewTable()
	away := grains.DefineIn[neverActive](table, "away")
	hear := grains.Action0(away, "hear", func(*neverActive, context.Context) error { return nil })
	racks := grains.DefineIn[bookrack](table, "bookrack", grains.Durable())
	tell := grains.Action0(racks, "tell", func(s *bookrack, ctx context.Context) error { return hear.Tell(ctx, away.Get("r")) })
	data := t.TempDir()
	start := func(table *raysys.Table) *system.Node {
		n, err := system.New(system.Config{Table: table, Data: data, Namespace: "test"})
		if err == nil {
			err = n.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := start(table)
	ctx := n.Context(t.Context())
	if _, err := tell.Call(ctx, racks.Get("x")).Get(ctx); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	n = start(next)
	found, err := n.Get(t.Context(), "bookrack/x")
	if err != nil || len(found.Things) != 1 || len(found.Things[0].Outbox) != 1 ||
		found.Things[0].Outbox[0].Receivers[0].To != "away/r" || !strings.Contains(found.Things[0].Outbox[0].Why, "has its kind") {
		t.Fatalf("%+v, %v", found, err)
	}
	for _, want := range []int{1, 0} {
		if got, err := n.DropMessages(t.Context(), "bookrack/x", "away/r"); got != want || want == 0 && !errors.Is(err, raysys.ErrNotFound) {
			t.Errorf("%d messages are dropped, want %d: %v", got, want, err)
		}
	}
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
