package grainengine_test

import (
	"context"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/tasks"
)

// journal is a grain that writes down the number of each call in the order the turns ran.
type journal struct{ numbers []int }

// entry is a call of any size.
type entry struct {
	Number int
	Load   []byte
}

type journals struct {
	table *raysys.Table
	kind  grains.Kind[journal]
	write grains.Func[journal, entry, int]
	read  grains.Func0[journal, []int]
	make  tasks.Task[int, entry]
}

func newJournals(opts ...grains.Option) *journals {
	j := &journals{table: raysys.NewTable()}
	j.kind = grains.DefineIn[journal](j.table, "journal", opts...)
	j.write = grains.Method(j.kind, "write", func(j *journal, _ context.Context, e entry) (int, error) {
		j.numbers = append(j.numbers, e.Number) // no lock: the race detector sees turns that overlap
		return len(j.numbers), nil
	})
	j.read = grains.Method0(j.kind, "read", func(j *journal, _ context.Context) ([]int, error) { return j.numbers, nil })
	j.make = tasks.DefineIn(j.table, "make", func(_ context.Context, n int) (entry, error) { return entry{Number: n}, nil })
	return j
}

// TestOrderOfOneCaller: calls, told or with a large argument, run in the order they were made; a call by reference
// whose value is there takes its place at once, and one that comes late holds nobody up.
func TestOrderOfOneCaller(t *testing.T) {
	j := newJournals()
	ctx := nodetest.Driver(t, j.table)
	rapid.Check(t, func(rt *rapid.T) {
		g := j.kind.Get(rapid.StringN(1, 8, -1).Draw(rt, "key") + string(rune('0'+serial.Add(1))))
		forms := rapid.SliceOfN(rapid.IntRange(0, 4), 1, 60).Draw(rt, "forms")
		late, all := map[int]bool{}, []raysys.Ref[int]{}
		for i, form := range forms {
			e := entry{Number: i}
			switch form {
			case 0:
				all = append(all, j.write.Call(ctx, g, e))
			case 1:
				if err := j.write.Tell(ctx, g, e); err != nil {
					rt.Fatal(err)
				}
			case 2:
				e.Load = make([]byte, 1<<16)
				all = append(all, j.write.Call(ctx, g, e))
			case 3:
				all = append(all, j.write.On(ctx, g, raysys.Ready(e)))
			case 4:
				late[i] = true
				all = append(all, j.write.On(ctx, g, j.make.Go(ctx, i)))
			}
		}
		for _, o := range raysys.GetAll(ctx, all) {
			if o.Err != nil {
				rt.Fatal(o.Err)
			}
		}
		got, err := j.read.Call(ctx, g).Get(ctx)
		if err != nil || len(got) != len(forms) {
			rt.Fatalf("%d of %d calls ran, %v", len(got), len(forms), err)
		}
		last, seen := -1, map[int]bool{}
		for _, n := range got {
			if seen[n] {
				rt.Errorf("call %d ran twice", n)
			}
			seen[n] = true
			if late[n] {
				continue
			}
			if n < last {
				rt.Errorf("call %d ran after %d: %v", n, last, got)
			}
			last = n
		}
	})
}

// TestOrderOfManyCallers: each caller's calls keep their order while others call the same grain.
func TestOrderOfManyCallers(t *testing.T) {
	j := newJournals(grains.Mailbox(100_000))
	ctx := nodetest.Driver(t, j.table)
	const callers, calls = 8, 2000
	g := j.kind.Get("a")
	var wg sync.WaitGroup
	for c := range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx := raysys.Branch(ctx, c)
			for i := range calls {
				if err := j.write.Tell(ctx, g, entry{Number: c*calls + i}); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	got, err := j.read.Call(ctx, g).Get(ctx)
	if err != nil || len(got) != callers*calls {
		t.Fatal(len(got), err)
	}
	var next [callers]int
	for _, n := range got {
		if n%calls != next[n/calls] {
			t.Fatalf("call %d of caller %d ran, want %d", n%calls, n/calls, next[n/calls])
		}
		next[n/calls]++
	}
}

// TestLateReference: the call takes its place when the value is there, behind what was called meanwhile.
func TestLateReference(t *testing.T) {
	j := newJournals()
	gate := make(chan bool)
	hold := tasks.DefineIn(j.table, "hold", func(_ context.Context, n int) (entry, error) {
		<-gate
		return entry{Number: n}, nil
	})
	ctx := nodetest.Driver(t, j.table)
	g := j.kind.Get("a")
	first := hold.Go(ctx, 1)
	on := j.write.On(ctx, g, first)
	first.Release() // the call has borrowed it
	wants(t, ctx, j.write.Call(ctx, g, entry{Number: 2}), 1)
	gate <- true
	wants(t, ctx, on, 2)
	// A reference that fails fails the call, and the method does not run.
	bad := tasks.Define0In(raysys.NewTable(), "bad", func(context.Context) (entry, error) { return entry{}, errNote })
	nodetest.Fails(t, ctx, j.write.On(ctx, g, bad.Go(ctx)), raysys.ErrUnknownFunc)
	wants(t, ctx, j.write.Call(ctx, g, entry{Number: 3}), 3)
}
