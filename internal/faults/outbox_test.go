package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// teller is a durable grain that tells a ledger each of its numbers, in their order.
type teller struct{ N grains.State[int] }

// ledger is a durable grain that adds up what it is told, by teller.
type ledger struct {
	Last grains.State[map[string]int]
	Odd  grains.State[[]string] // what came twice, or out of order
}

type told struct {
	From string
	N    int
}

var (
	ledgers    = grains.Define[ledger]("faults.ledger", grains.Durable())
	ledgerNote = grains.Action(ledgers, "note", (*ledger).Note)
	ledgerRead = grains.Method0(ledgers, "read", (*ledger).Read).ReadOnly()
	tellers    = grains.Define[teller]("faults.teller", grains.Durable())
	tellerTell = grains.Method(tellers, "tell", (*teller).Tell)
	tellerPID  = grains.Method0(tellers, "pid", (*teller).PID).ReadOnly()
)

func (l *ledger) Note(_ context.Context, t told) error {
	if l.Last.Value == nil {
		l.Last.Value = map[string]int{}
	}
	if last := l.Last.Value[t.From]; t.N != last+1 {
		l.Odd.Value = append(l.Odd.Value, fmt.Sprintf("%d of %s after %d", t.N, t.From, last))
	}
	l.Last.Value[t.From] = t.N
	return nil
}

// ledgerNow is what a ledger has.
type ledgerNow struct {
	Last map[string]int
	Odd  []string
}

func (l *ledger) Read(context.Context) (ledgerNow, error) {
	return ledgerNow{l.Last.Value, l.Odd.Value}, nil
}

// Tell tells the next n numbers to a ledger of its own, and to one that all tellers share.
func (x *teller) Tell(ctx context.Context, n int) (int, error) {
	id, _ := grains.Self(ctx)
	var err error
	for range n {
		x.N.Value++
		t := told{id.Key, x.N.Value}
		err = errors.Join(err, ledgerNote.Tell(ctx, ledgers.Get(id.Key), t), ledgerNote.Tell(ctx, ledgers.Get("all"), t))
	}
	return x.N.Value, err
}

func (x *teller) PID(context.Context) (int, error) { return os.Getpid(), nil }

// TestMessagesAfterSIGKILL: the process of a durable grain is killed between the commit of a turn and what the turn tells
// others, and at other moments of it. Each message that was stored arrives without a further call, once, in its order.
func TestMessagesAfterSIGKILL(t *testing.T) {
	p := testkit.Processes(t, 3, testkit.CPU(1), testkit.TTL(10*time.Second), testkit.On(testkit.Consul(t, onDisk()...)))
	ctx := p.Context()
	const senders, each = 4, 3
	tell := tellerTell.With(raysys.Deadline(2 * time.Minute))
	read := ledgerRead.With(raysys.Deadline(2 * time.Minute))
	look := func(key string) ledgerNow {
		t.Helper()
		now, err := read.Call(ctx, ledgers.Get(key)).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	kills, behind := long.Form(6, 300), 0
	var arrive spread
	for i := range kills {
		first := fmt.Sprint("t", i%senders)
		id, err := tellerPID.With(raysys.Deadline(2*time.Minute)).Call(ctx, tellers.Get(first)).Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		victim := procWith(t, p, id)
		want := (i + 1) * each
		var calls sync.WaitGroup
		call := func(key string) {
			if n, err := tell.Call(ctx, tellers.Get(key), each).Get(ctx); n != want || err != nil {
				t.Errorf("kill %d: %s has told %d, %v, want %d", i, key, n, err, want)
			}
		}
		for j := range senders {
			if key := fmt.Sprint("t", j); key != first {
				calls.Go(func() { call(key) })
			}
		}
		if i%2 == 0 { // its turn is stored, and nothing of it has left, or some has
			call(first)
		} else {
			calls.Go(func() { call(first) })
			pause(time.Duration(i%16) * 300 * time.Microsecond)
		}
		victim.Kill()
		from := time.Now()
		calls.Wait()
		if look("all").Last[first] < want {
			behind++
		}
		for _, key := range []string{first, "all"} {
			testkit.Eventually(t, time.Minute, fmt.Sprintf("kill %d: what %s has told arrives at %s", i, first, key), func() bool {
				return look(key).Last[first] == want
			})
		}
		arrive = append(arrive, time.Since(from))
		victim.Restart()
		p.Ready()
		if t.Failed() {
			return
		}
	}
	for j := range senders {
		key := fmt.Sprint("t", j)
		for _, of := range []string{key, "all"} {
			testkit.Eventually(t, time.Minute, "the rest arrives", func() bool { return look(of).Last[key] == kills*each })
		}
		if odd := look(key).Odd; len(odd) > 0 {
			t.Errorf("the ledger of %s has met %q", key, odd)
		}
	}
	if odd := look("all").Odd; len(odd) > 0 {
		t.Errorf("the ledger of all has met %q", odd)
	}
	figure(t, "%d SIGKILLs around the commit of a turn that tells others: after %d messages were missing at first; all are there after %v, each once, in order", kills, behind, arrive)
}
