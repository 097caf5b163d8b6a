package refs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// box is an object, and refers to others.
type box struct {
	Data  []uint32
	Inner []raysys.Handle[box]
}

const boxed = 40_000 // numbers of four bytes: it is an object

func newBox(n int) box {
	b := box{Data: make([]uint32, boxed)}
	for i := range b.Data {
		b.Data[i] = uint32(n*7919 + i)
	}
	return b
}

// n returns what the box was made from, and an error when a number is wrong.
func (b box) n() (int, error) {
	if len(b.Data) != boxed {
		return 0, fmt.Errorf("a box of %d numbers", len(b.Data))
	}
	for i, v := range b.Data {
		if v != b.Data[0]+uint32(i) {
			return 0, fmt.Errorf("number %d is wrong", i)
		}
	}
	return int(b.Data[0] / 7919), nil
}

// made counts how often each box was made.
var made counts

type counts struct {
	mu sync.Mutex // guards of
	of map[int]int
}

func (c *counts) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[int]int{}
	}
	c.of[n]++
}

func (c *counts) count(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[n]
}

func (c *counts) take() map[int]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of
	c.of = nil
	return of
}

// drawer is a grain that keeps references.
type drawer struct{ boxes []raysys.Handle[box] }

func (d *drawer) Put(_ context.Context, hs []raysys.Handle[box]) (int, error) {
	d.boxes = append(d.boxes, hs...)
	return len(d.boxes), nil
}

func (d *drawer) Pass(ctx context.Context, to string) (int, error) {
	return drawerPut.Call(ctx, drawers.Get(to), d.boxes).Get(ctx)
}

func (d *drawer) Sum(ctx context.Context) (sum int, err error) { return total(ctx, d.boxes) }

func (d *drawer) View(ctx context.Context) (sum int, err error) {
	for _, h := range d.boxes {
		if err := raysys.View(ctx, h.Ref(), func(b box) error {
			n, err := b.n()
			sum += n
			return err
		}); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

func total(ctx context.Context, boxes []raysys.Handle[box]) (sum int, err error) {
	for _, h := range boxes {
		b, err := h.Ref().Get(ctx)
		if err != nil {
			return 0, err
		}
		n, err := b.n()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

var (
	table = raysys.NewTable()

	fill = tasks.DefineIn(table, "fill", func(_ context.Context, n int) (box, error) {
		made.add(n)
		return newBox(n), nil
	})
	// next makes the box that follows another.
	next = tasks.DefineIn(table, "next", func(_ context.Context, b box) (box, error) {
		n, err := b.n()
		if err != nil {
			return box{}, err
		}
		made.add(n + 1)
		return newBox(n + 1), nil
	})
	// reluctant makes a box at first, and the next time finds that a node which it needs does not answer.
	reluctant = tasks.DefineIn(table, "reluctant", func(_ context.Context, n int) (box, error) {
		if made.add(n); made.count(n) == 2 {
			return box{}, fmt.Errorf("ask another node: %w", raysys.ErrUnreachable)
		}
		return newBox(n), nil
	})
	// nested has another node make a box, and returns a reference to it.
	nested = tasks.DefineIn(table, "nested", func(ctx context.Context, n int) (raysys.Handle[box], error) {
		r := fill.With(at(2)).Go(ctx, n)
		_, _, err := raysys.Wait(ctx, []raysys.Ref[box]{r}, 1)
		return r.Handle(), err
	})

	drawers    = grains.DefineIn[drawer](table, "drawer")
	drawerPut  = grains.Method(drawers, "put", (*drawer).Put)
	drawerPass = grains.Method(drawers, "pass", (*drawer).Pass)
	drawerSum  = grains.Method0(drawers, "sum", (*drawer).Sum)
	drawerView = grains.Method0(drawers, "view", (*drawer).View)
)

// at keeps work on node i.
func at(i int) raysys.Option { return raysys.Label("at", fmt.Sprint(i)) }

// cluster starts three workers with drawers of the names d1, d2 and d3 on them.
func cluster(t *testing.T, change func(i int, cfg *system.Config)) (*testkit.Cluster, context.Context) {
	t.Helper()
	made.take()
	k := testkit.New(t, testkit.Table(table), testkit.Nodes(3), testkit.TTL(10*time.Second), testkit.Each(func(i int, cfg *system.Config) {
		cfg.Cluster.Labels = map[string]string{"at": fmt.Sprint(i)}
		if change != nil {
			change(i, cfg)
		}
	}))
	for i := 1; i <= 3; i++ {
		if _, err := drawerPut.With(at(i), raysys.WaitForResources()).Call(k.Context(), drawers.Get(fmt.Sprint("d", i)), nil).Get(k.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return k.Cluster(), k.Context()
}

// inMemory has no node take over what a dead submitter had.
func inMemory(_ int, cfg *system.Config) { cfg.Lineage = system.LineageInMemory }

// ready waits until all boxes are made, and brings none here.
func ready(ctx context.Context, t *testing.T, refs []raysys.Ref[box]) {
	t.Helper()
	if _, rest, err := raysys.Wait(ctx, refs, len(refs)); err != nil || len(rest) > 0 {
		t.Fatal(len(rest), err)
	}
}

func handles(refs []raysys.Ref[box]) (hs []raysys.Handle[box]) {
	for _, r := range refs {
		hs = append(hs, r.Handle())
	}
	return hs
}

func check(t *testing.T, what string, got int, err error, want int) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: the boxes add up to %d, want %d: %v", what, got, want, err)
	}
}

// each fails the test unless every box of want was made that often.
func each(t *testing.T, what string, want map[int]int) {
	t.Helper()
	got := made.take()
	for n, k := range want {
		if got[n] != k {
			t.Errorf("%s: box %d was made %d times, want %d", what, n, got[n], k)
		}
		delete(got, n)
	}
	if len(got) > 0 {
		t.Errorf("%s: boxes were made that no one lacks: %v", what, got)
	}
}

// TestOwnerKilled: the objects of a node that is killed are made again, once each, whoever asks for them: the node that
// submitted, third nodes, and those who got the reference from these.
func TestOwnerKilled(t *testing.T) {
	for _, first := range []string{"driver", "d2", "d3", "view", "all"} {
		t.Run(first, func(t *testing.T) {
			c, ctx := cluster(t, nil)
			var refs []raysys.Ref[box]
			once, sum := map[int]int{}, 0
			for n := range 8 {
				refs = append(refs, fill.With(at(1)).Go(ctx, n))
				once[n], sum = 1, sum+n
			}
			ready(ctx, t, refs)
			each(t, "at first", once)
			if _, err := drawerPut.Call(ctx, drawers.Get("d2"), handles(refs)).Get(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := drawerPass.Call(ctx, drawers.Get("d2"), "d3").Get(ctx); err != nil {
				t.Fatal(err)
			}
			c.Kill(1)
			c.Restart(1)
			ask := map[string]func() (int, error){
				"driver": func() (int, error) { return total(ctx, handles(refs)) },
				"d2":     func() (int, error) { return drawerSum.Call(ctx, drawers.Get("d2")).Get(ctx) },
				"d3":     func() (int, error) { return drawerSum.Call(ctx, drawers.Get("d3")).Get(ctx) },
				"view":   func() (int, error) { return drawerView.Call(ctx, drawers.Get("d2")).Get(ctx) },
			}
			if f := ask[first]; f != nil {
				got, err := f()
				check(t, first, got, err, sum)
			}
			var all sync.WaitGroup
			for who, f := range ask {
				all.Go(func() {
					got, err := f()
					check(t, who, got, err, sum)
				})
			}
			all.Wait()
			each(t, "after the death", once)
		})
	}
}

// TestOwnerOfChainKilled: of a chain whose objects are all lost each is made again once, for a node that has the last
// reference alone.
func TestOwnerOfChainKilled(t *testing.T) {
	c, ctx := cluster(t, nil)
	const depth = 6
	want := map[int]int{}
	func() {
		refs := []raysys.Ref[box]{fill.With(at(1)).Go(ctx, 0)}
		for n := range depth {
			refs = append(refs, next.With(at(1)).On(ctx, refs[n]))
		}
		ready(ctx, t, refs)
		if _, err := drawerPut.Call(ctx, drawers.Get("d2"), handles(refs[depth:])).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}()
	for n := range depth + 1 {
		want[n] = 1
	}
	each(t, "at first", want)
	c.Kill(1)
	c.Restart(1)
	got, err := drawerSum.Call(ctx, drawers.Get("d2")).Get(ctx)
	check(t, "the last of the chain", got, err, depth)
	each(t, "after the death", want)
}

// TestRebuildLater: a value that cannot be made again at the moment is not lost, neither to the node that submitted nor to a third one:
// it is made for the next reader.
func TestRebuildLater(t *testing.T) {
	for _, first := range []string{"driver", "d2"} {
		t.Run(first, func(t *testing.T) {
			c, ctx := cluster(t, nil)
			r := reluctant.With(at(1)).Go(ctx, 5)
			ready(ctx, t, []raysys.Ref[box]{r})
			for _, d := range []string{"d2", "d3"} {
				if _, err := drawerPut.Call(ctx, drawers.Get(d), handles([]raysys.Ref[box]{r})).Get(ctx); err != nil {
					t.Fatal(err)
				}
			}
			read := func(who string) (int, error) {
				if who == "driver" {
					return total(ctx, handles([]raysys.Ref[box]{r}))
				}
				return drawerSum.Call(ctx, drawers.Get(who)).Get(ctx)
			}
			c.Kill(1)
			c.Restart(1)
			if _, err := read(first); !errors.Is(err, raysys.ErrUnreachable) || errors.Is(err, raysys.ErrObjectLost) {
				t.Errorf("a node that is needed does not answer: %v, want an ErrUnreachable and no ErrObjectLost", err)
			}
			for _, next := range []string{"d3", "driver"} {
				got, err := read(next)
				check(t, next+" reads when that node answers", got, err, 5)
			}
			each(t, "that node answers", map[int]int{5: 3})
		})
	}
}

// TestReferenceInResult: a reference inside a result names the node that submitted the task, which is no driver; when that
// is dead too, the error says so.
func TestReferenceInResult(t *testing.T) {
	c, ctx := cluster(t, inMemory)
	h, err := nested.With(at(1)).Go(ctx, 5).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(2)
	c.Restart(2)
	got, err := total(ctx, []raysys.Handle[box]{h})
	check(t, "the owner is dead", got, err, 5)
	each(t, "the owner is dead", map[int]int{5: 2})
	if h, err = nested.With(at(1)).Go(ctx, 6).Get(ctx); err != nil {
		t.Fatal(err)
	}
	c.Kill(1)
	c.Kill(2)
	_, err = h.Ref().Get(ctx)
	if !errors.Is(err, raysys.ErrObjectLost) || !strings.Contains(err.Error(), "submitter n1") {
		t.Errorf("owner and submitter are dead: %v; want an ErrObjectLost that names the submitter", err)
	}
}

// TestFileDamaged: the owner lives, and its file of an object is damaged: the object is made again for a third node, and
// for the owner itself.
func TestFileDamaged(t *testing.T) {
	dir := t.TempDir()
	_, ctx := cluster(t, func(i int, cfg *system.Config) {
		if cfg.Objects.NoSharing = true; i == 1 {
			cfg.Objects.Spill, cfg.Objects.Memory = dir, 1<<20
		}
	})
	for _, who := range []string{"d1", "d2"} {
		var refs []raysys.Ref[box]
		want := 0
		for n := range 20 { // 160 kB each, of which six fit
			refs = append(refs, fill.With(at(1)).Go(ctx, n))
			want += n
		}
		ready(ctx, t, refs)
		made.take()
		if _, err := drawerPut.Call(ctx, drawers.Get(who), handles(refs)).Get(ctx); err != nil {
			t.Fatal(err)
		}
		damaged := 0
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() || info.Size() < 4*boxed {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			damaged++
			_, err = f.WriteAt(make([]byte, 4*boxed), 0)
			return err
		})
		if err != nil || damaged == 0 {
			t.Fatalf("%d files were damaged: %v: the test shows nothing", damaged, err)
		}
		got, err := drawerSum.Call(ctx, drawers.Get(who)).Get(ctx)
		check(t, who, got, err, want)
		again := 0
		for n, k := range made.take() {
			if again += k; k > 1 {
				t.Errorf("%s: box %d was made %d times more", who, n, k)
			}
		}
		if again == 0 || again > damaged {
			t.Errorf("%s: %d boxes were made again after %d files were damaged", who, again, damaged)
		}
	}
}

// TestWhy: what is known of a value, on whichever node, is told on any: who owns it, who submitted its task, of what it was
// made, and why it is lost.
func TestWhy(t *testing.T) {
	c, ctx := cluster(t, inMemory)
	first := fill.With(at(1)).Go(ctx, 1)
	second := next.With(at(1)).On(ctx, first)
	ready(ctx, t, []raysys.Ref[box]{first, second})
	e, err := raysys.Why(ctx, second)
	if err != nil || e.Name != "next" || e.State != "ready" || e.Owner != "n1" || e.Submitter != "test" || !e.Recipe || len(e.Inputs) != 1 {
		t.Fatalf("of a task of this node: %v\n%v", err, e)
	}
	if in := e.Inputs[0]; in.Name != "fill" || in.ID != first.ID().String() || in.Owner != "n1" || !in.Recipe {
		t.Errorf("its input: %v", in)
	}
	h, err := nested.With(at(1)).Go(ctx, 5).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	checkNested := func(what string, e raysys.Explanation, err error) {
		t.Helper()
		if err != nil || e.ID != h.Ref().ID().String() || e.Name != "fill" || e.Owner != "n2" || e.Submitter != "n1" || !e.Recipe {
			t.Errorf("%s: %v\n%v", what, err, e)
		}
	}
	e, err = raysys.Why(ctx, h.Ref())
	checkNested("of a task of another node", e, err)
	e, err = c.Node(3).Why(ctx, h.Ref().ID().String()[:16])
	checkNested("by its id, on a node that has nothing of it", e, err)
	if _, err := c.Node(3).Why(ctx, "none"); !errors.Is(err, raysys.ErrNotFound) {
		t.Errorf("of no value: %v", err)
	}
	c.Kill(1)
	c.Kill(2)
	if _, err := h.Ref().Get(ctx); !errors.Is(err, raysys.ErrObjectLost) {
		t.Error(err)
	}
	if e, err = raysys.Why(ctx, h.Ref()); err != nil || e.State != "lost" || !strings.Contains(e.NoRecipe, "n1 is dead") || e.Error == "" {
		t.Errorf("when owner and submitter are dead: %v\n%v", err, e)
	}
}
