package faults_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// A tree is a task that submits others, whose results are objects, and gives references to these to one more:
//
//	driver ─► tree ─┬─► leaf ×4 ─ objects ─► press ─ object ─┐
//	                └─► seed ×3 ─ small values ──────────────┴─► the sum: an object for every fourth tree
const (
	treeLeaves = 4
	treeSeeds  = 3
	treeTasks  = 1 + treeLeaves + 1 + treeSeeds
)

// fruit is the result of each of these tasks.
type fruit struct {
	N    int
	Made made   // the execution that it comes from
	Bulk []byte // of an object
}

// made names one execution.
type made struct {
	PID int
	Run int64
}

var executions atomic.Int64 // of this process

func newFruit(n int, large bool) fruit {
	f := fruit{N: n, Made: made{os.Getpid(), executions.Add(1)}}
	if large {
		f.Bulk = slices.Repeat([]byte{byte(n)}, raysys.ObjectSize+1000)
	}
	return f
}

// check says what is wrong with the value of r, if anything is: it is n, and stays that of one execution.
func (f fruit) check(ctx context.Context, r raysys.Ref[fruit], n int) error {
	if f.N != n || slices.ContainsFunc(f.Bulk, func(b byte) bool { return b != byte(n) }) {
		return fmt.Errorf("%v is %d, want %d", r, f.N, n)
	}
	if again, err := r.Get(ctx); err != nil || again.Made != f.Made {
		return fmt.Errorf("%v came from execution %v and then from %v: a future is resolved once (%v)", r, f.Made, again.Made, err)
	}
	return nil
}

// gathered is what a task or the driver has of a reference.
func gathered(ctx context.Context, r raysys.Ref[fruit], n int) (fruit, error) {
	f, err := r.Get(ctx)
	if err == nil {
		err = f.check(ctx, r, n)
	}
	return f, err
}

type sapling struct {
	N     int
	Large bool
}

func leafOf(n, i int) int { return n*7 + i }
func seedOf(n, i int) int { return n*11 + i }

// treeOf is the result of a tree.
func treeOf(n int) (sum int) {
	for i := range treeLeaves {
		sum += leafOf(n, i)
	}
	for i := range treeSeeds {
		sum += seedOf(n, i)
	}
	return sum
}

var (
	leaf = tasks.Define("faults.leaf", func(_ context.Context, n int) (fruit, error) {
		pause(time.Millisecond)
		return newFruit(n, true), nil
	})
	seed  = tasks.Define("faults.seed", func(_ context.Context, n int) (fruit, error) { return newFruit(n, false), nil })
	press = tasks.Define("faults.press", func(ctx context.Context, leaves []raysys.Ref[fruit]) (fruit, error) {
		sum := 0
		for _, r := range leaves {
			f, err := r.Get(ctx)
			if err != nil {
				return fruit{}, err
			}
			sum += f.N
		}
		return newFruit(sum, true), nil
	})
	// often is for tasks that may be lost with their node as often as nodes are killed.
	often = raysys.Retries(1000)
	grow  = tasks.Define("faults.grow", func(ctx context.Context, s sapling) (fruit, error) {
		var leaves, seeds []raysys.Ref[fruit]
		want := 0
		for i := range treeLeaves {
			leaves = append(leaves, leaf.With(often).Go(ctx, leafOf(s.N, i)))
			want += leafOf(s.N, i)
		}
		for i := range treeSeeds {
			seeds = append(seeds, seed.With(often).Go(ctx, seedOf(s.N, i)))
		}
		f, err := gathered(ctx, press.With(often).Go(ctx, leaves), want)
		if err != nil {
			return fruit{}, err
		}
		sum := f.N
		for i, r := range seeds {
			if f, err = gathered(ctx, r, seedOf(s.N, i)); err != nil {
				return fruit{}, err
			}
			sum += f.N
		}
		return newFruit(sum, s.Large), nil
	})
)

// TestNestedTasksSurviveKilledWorkers: a random worker is killed again and again under tasks that submit tasks with objects,
// and with references to these. Objects that the driver holds are read later, and made again where they went with a worker.
// Each value is right, and each future resolved once. A kill follows a number of trees, and no clock: on a machine so busy
// that processes start more slowly than a clock kills them, no tree would ever be done.
func TestNestedTasksSurviveKilledWorkers(t *testing.T) {
	workers, kills, between := long.Form(3, 4), long.Form(8, 200), long.Form[int64](8, 190)
	p := testkit.Processes(t, workers, testkit.CPU(2), testkit.TTL(10*time.Second), testkit.On(testkit.Consul(t, onDisk()...)))
	ctx, cancel := context.WithTimeout(p.Context(), long.Form(5*time.Minute, time.Hour))
	defer cancel()
	total := between * int64(kills+1)
	var trees, objects atomic.Int64
	var stop, clients sync.WaitGroup
	due := make(chan struct{}, kills) // one for each kill; closed when the clients have ended
	stop.Go(func() {
		rng := rand.New(rand.NewPCG(long.Seed(), 0))
		for range due {
			p.Proc(rng.IntN(workers) + 1).Restart() // SIGKILL first
		}
	})
	from := time.Now()
	for range 8 {
		clients.Go(func() {
			held := map[int]raysys.Ref[fruit]{}
			read := func() {
				for n, r := range held {
					if _, err := gathered(ctx, r, treeOf(n)); err != nil {
						t.Errorf("the object of tree %d: %v", n, err)
					}
				}
				clear(held)
			}
			defer read()
			for !t.Failed() {
				n := int(trees.Add(1))
				if int64(n) > total {
					return
				}
				if int64(n)%between == 0 && int64(n) < total {
					due <- struct{}{}
				}
				r := grow.With(often).Go(ctx, sapling{n, n%4 == 0})
				if n%4 != 0 {
					if _, err := gathered(ctx, r, treeOf(n)); err != nil {
						t.Errorf("tree %d: %v", n, err)
					}
					continue
				}
				objects.Add(1)
				if _, _, err := raysys.Wait(ctx, []raysys.Ref[fruit]{r}, 1); err != nil {
					t.Error(err)
				}
				if held[n] = r; len(held) == 10 {
					read()
				}
			}
		})
	}
	clients.Wait()
	took := time.Since(from)
	close(due)
	stop.Wait()
	if t.Failed() {
		return
	}
	figure(t, "%d nested tasks (%d with objects that the driver held) over %d workers, %d kills in %v: 0 lost, 0 resolved twice",
		total*treeTasks, objects.Load(), workers, kills, took.Round(100*time.Millisecond))
}
