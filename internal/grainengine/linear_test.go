package grainengine_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/long"
)

type counterOp struct {
	key string
	add int // 0: a read
}

type counterOut struct {
	value   int
	unknown bool // the call failed, so it took effect at some time or never
}

// counterModel is a set of counters, each by itself.
var counterModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(counterOp).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return 0 },
	Step: func(state, in, out any) (bool, any) {
		s, op, o := state.(int), in.(counterOp), out.(counterOut)
		return o.unknown || o.value == s+op.add, s + op.add
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v -> %+v", in, out) },
}

// TestModelRefuses proves that the model can fail: a lost update is no history of a counter.
func TestModelRefuses(t *testing.T) {
	history := []porcupine.Operation{
		{ClientId: 0, Input: counterOp{"x", 1}, Output: counterOut{value: 1}, Call: 0, Return: 1},
		{ClientId: 0, Input: counterOp{"x", 1}, Output: counterOut{value: 1}, Call: 2, Return: 3},
	}
	if porcupine.CheckOperations(counterModel, history) {
		t.Error("a lost update passes")
	}
}

// TestStateIsLinearizable: counters kept in State, under killed nodes whose engines live on as zombies, grains that
// leave and come back elsewhere, and a store whose answers get lost, are linearizable (rule C20).
func TestStateIsLinearizable(t *testing.T) {
	for _, seed := range long.Seeds() {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { linearizable(t, seed, 1000) })
	}
}

func linearizable(t *testing.T, seed uint64, ops int) {
	const keys = 8 // the more calls of unknown outcome a key has, the longer the check takes
	p := newPurses(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex // guards rnd, nodes and history
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(n)
	}
	nodes := []*fakeNode{p.net.add("n0"), p.net.add("n1"), p.net.add("n2")}
	s := p.net.store
	s.onSave = func(graindir.ID, string) fault {
		if f := draw(40); f < int(saveRefused)+1 {
			return fault(f)
		}
		return saveWell
	}
	var history []porcupine.Operation
	failed := map[string]int{}
	begin := time.Now()
	var done atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for done.Add(1) <= int64(ops) {
				mu.Lock()
				n := nodes[rnd.IntN(len(nodes))]
				op := counterOp{key: fmt.Sprint(rnd.IntN(keys)), add: rnd.IntN(2)}
				mu.Unlock()
				ctx := n.context()
				call := time.Since(begin).Nanoseconds()
				var out counterOut
				var err error
				if op.add == 0 {
					out.value, err = p.get.With(raysys.Deadline(2*time.Second)).Call(ctx, p.kind.Get(op.key)).Get(ctx)
				} else {
					out.value, err = p.put.With(raysys.Deadline(2*time.Second)).Call(ctx, p.kind.Get(op.key), op.add).Get(ctx)
				}
				ret := time.Since(begin).Nanoseconds()
				if err != nil {
					// Any other error says that the call had no effect.
					if op.add == 0 || !errors.Is(err, raysys.ErrOutcomeUnknown) && !errors.Is(err, raysys.ErrDeadline) && !errors.Is(err, raysys.ErrCancelled) {
						mu.Lock()
						failed[fmt.Sprintf("%.60s", errors.Unwrap(err))]++
						mu.Unlock()
						continue
					}
					out.unknown, ret = true, math.MaxInt64
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: len(history), Input: op, Call: call, Output: out, Return: ret})
				mu.Unlock()
			}
		}()
	}
	stop := make(chan struct{})
	var trouble sync.WaitGroup
	trouble.Add(1)
	go func() {
		defer trouble.Done()
		for last := int64(0); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if now := done.Load(); now < last+10 {
				continue
			} else {
				last = now
			}
			i := draw(len(nodes))
			switch draw(4) {
			case 0:
				mu.Lock()
				old := nodes[i]
				mu.Unlock()
				old.kill() // its engine goes on, with the clients that have its context
				fresh := p.net.add(string(old.name))
				mu.Lock()
				nodes[i] = fresh
				mu.Unlock()
			case 1:
				ctx := nodes[i].context()
				_ = p.quit.Tell(ctx, p.kind.Get(fmt.Sprint(draw(keys))))
			case 2:
				nodes[i].cut(errors.New("cable"))
			case 3:
				s.arrive()
			}
		}
	}()
	clients.Wait()
	close(stop)
	trouble.Wait()
	s.heal()
	s.arrive()
	good := 0
	for _, op := range history {
		if !op.Output.(counterOut).unknown {
			good++
		}
	}
	if good < ops/4 {
		t.Errorf("only %d of %d calls succeeded", good, ops)
	}
	t.Logf("%d calls in the history, %d of known outcome; failed: %v", len(history), good, failed)
	result, info := porcupine.CheckOperationsVerbose(counterModel, history, 30*time.Second)
	if result != porcupine.Ok {
		path := "linear.html"
		if err := porcupine.VisualizePath(counterModel, info, path); err != nil {
			t.Error(err)
		}
		t.Errorf("%v with seed %d; the picture is in %s", result, seed, path)
	}
}
