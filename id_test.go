package raysys_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

type echoer struct{}

func (*echoer) Echo(_ context.Context, x int) (int, error) { return x, nil }

// journal runs a program that submits in every way, on a node of its own, and returns all ids in order of their place
// in the program, and the draws of Rand.
func journal(t *testing.T, seed uint64) (ids []string, draws []uint64) {
	table := raysys.NewTable()
	var mu sync.Mutex
	byPlace := map[string]string{}
	note := func(place string, id raysys.TaskID) {
		mu.Lock()
		defer mu.Unlock()
		byPlace[place] = id.String()
	}
	leaf := echo(table)
	echoes := grains.DefineIn[echoer](table, "echoer")
	call := grains.Method(echoes, "echo", (*echoer).Echo)
	parent := tasks.DefineIn(table, "parent", func(ctx context.Context, place string) (uint64, error) {
		turn, _, err := core.TurnOf(ctx)
		if err != nil {
			return 0, err
		}
		note(place, turn.ID())
		first := leaf.Go(ctx, 1)
		note(place+"/go", first.ID())
		note(place+"/on", leaf.On(ctx, first).ID())
		note(place+"/put", raysys.Put(ctx, 1).ID())
		note(place+"/call", call.Call(ctx, echoes.Get("1"), 1).ID())
		sub, cancel := context.WithCancel(ctx)
		note(place+"/derived", leaf.Go(sub, 1).ID())
		note(place+"/detached", leaf.With(raysys.Detached()).Go(ctx, 1).ID())
		for i, r := range leaf.Map(ctx, []int{1, 2, 3}) {
			note(place+"/map"+string(rune('0'+i)), r.ID())
		}
		cancel()
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				own := raysys.Branch(ctx, i)
				for k := range 3 {
					note(place+"/branch"+string(rune('0'+i))+string(rune('0'+k)), leaf.Go(own, k).ID())
				}
				sub, cancel := context.WithCancel(own)
				defer cancel()
				note(place+"/branch"+string(rune('0'+i))+"derived", leaf.Go(sub, 1).ID())
			})
		}
		group.Wait()
		if !turn.Deterministic() {
			t.Error("branches made the turn non-deterministic")
		}
		return raysys.Rand(ctx).Uint64(), nil
	})
	n, ctx := nodetest.Start(t, system.Config{Table: table, Seed: seed, Resources: raysys.Resources{CPU: 2}})
	refs := []raysys.Ref[uint64]{parent.Go(ctx, "a"), parent.Go(ctx, "b")}
	refs = append(refs, parent.Go(n.Context(context.Background()), "c"))
	for i, r := range refs {
		note("driver/"+string(rune('0'+i)), r.ID())
		v, err := nodetest.Get(t, ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		draws = append(draws, v)
	}
	draws = append(draws, raysys.Rand(ctx).Uint64())
	places := make([]string, 0, len(byPlace))
	for p := range byPlace {
		places = append(places, p)
	}
	slices.Sort(places)
	seen := map[string]string{}
	for _, p := range places {
		id := byPlace[p]
		ids = append(ids, p+" "+id)
		// parent.Go's id is that of the parent's own turn: the same work, noted at two places.
		if other, twice := seen[id]; twice && len(p) > 1 && len(other) > 1 {
			t.Errorf("%s and %s have the same id", p, other)
		}
		seen[id] = p
	}
	return ids, draws
}

// C1: a run repeats all ids and draws under the same seed, and none under another.
func TestIDsRepeatWithTheSeed(t *testing.T) {
	ids, draws := journal(t, 7)
	again, drawsAgain := journal(t, 7)
	if diff := cmp.Diff(ids, again); diff != "" {
		t.Errorf("ids of two runs with one seed:\n%s", diff)
	}
	if diff := cmp.Diff(draws, drawsAgain); diff != "" {
		t.Errorf("draws of two runs with one seed:\n%s", diff)
	}
	for _, seed := range []uint64{8, 0, 0} {
		other, drawsOther := journal(t, seed)
		for i := range ids {
			if ids[i] == other[i] {
				t.Errorf("seed %d repeats an id of seed 7: %s", seed, ids[i])
			}
		}
		for i := range draws {
			if draws[i] == drawsOther[i] {
				t.Errorf("seed %d repeats a draw of seed 7", seed)
			}
		}
	}
}

// C1 over versions, from v0.1 on: nodes of different versions give one submission one id, and RAYSYS_SEED repeats a run of a
// program that was built with another. The ids and draws of testdata/ids.txt are those of every version: a change of them is
// a change of the wire.
func TestGoldenIDs(t *testing.T) {
	var got strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&got, format+"\n", args...) }
	for _, seed := range []uint64{0, 1, 7, math.MaxUint64} {
		job := core.SeededJob(seed)
		line("job of seed %d: %v", seed, job)
		for _, n := range []uint64{0, 1, 2, 1 << 32, math.MaxUint64} {
			child := raysys.TaskID(job).Child(n)
			line("  submission %d: %v, and its submission 3: %v", n, child, child.Child(3))
		}
	}
	ids, draws := journal(t, 7)
	line("a program with seed 7:")
	for _, id := range ids {
		line("  %s", id)
	}
	for _, d := range draws {
		line("  draw %016x", d)
	}
	want, err := os.ReadFile("testdata/ids.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("this version derives other ids than testdata/ids.txt, so it and earlier ones name one submission differently:\n%s", diff)
	}
}

// Goroutines that submit on one context at the same time, without Branch, are found out.
func TestConcurrentSubmittersAreMarked(t *testing.T) {
	_, ctx := node(t, raysys.NewTable())
	turn, _, err := core.TurnOf(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		raysys.Put(ctx, 1)
	}
	if !turn.Deterministic() {
		t.Fatal("one submitter alone is marked")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // at the same time: on two threads
	stop := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(stop)
	for range 2 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					raysys.Put(ctx, 1)
				}
			}
		})
	}
	nodetest.Eventually(t, "two submitters are marked", func() bool { return !turn.Deterministic() })
}

// Ids of different submissions differ: siblings for certain, and cousins and branches as far as 128 bits go.
func TestIDsDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent := raysys.TaskID{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		if a != b && parent.Child(a) == parent.Child(b) {
			t.Fatalf("children %d and %d of %v are both %v", a, b, parent, parent.Child(a))
		}
		other := raysys.TaskID{Hi: parent.Hi ^ 1<<rapid.IntRange(0, 63).Draw(t, "bit"), Lo: parent.Lo}
		lower := raysys.TaskID{Hi: parent.Hi, Lo: parent.Lo ^ 1<<rapid.IntRange(0, 63).Draw(t, "low bit")}
		for _, cousin := range []raysys.TaskID{other.Child(a), lower.Child(a), parent.Child(a).Child(a), other.Child(b), parent} {
			if cousin == parent.Child(a) {
				t.Fatalf("%v has two parents", cousin)
			}
		}
	})
	seen := map[raysys.TaskID]bool{}
	root := raysys.TaskID(core.SeededJob(1))
	for i := range uint64(300) {
		for k := range uint64(300) {
			seen[root.Child(i).Child(k)] = true
		}
		seen[root.Child(i)] = true
	}
	if len(seen) != 300*300+300 {
		t.Errorf("%d distinct ids of %d", len(seen), 300*300+300)
	}
}

func TestIDText(t *testing.T) {
	id := raysys.TaskID{Hi: 1, Lo: 0xabc}
	if got, want := id.String(), "00000000000000010000000000000abc"; got != want || raysys.JobID(id).String() != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if id.IsZero() || !(raysys.TaskID{}).IsZero() {
		t.Error("IsZero is wrong")
	}
	if one, again := core.SeededJob(1), core.SeededJob(1); one != again || one == core.SeededJob(2) {
		t.Error("SeededJob is no function of its seed")
	}
}
