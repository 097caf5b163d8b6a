package taskengine_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/loadreport"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/taskwire"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/tasks"
)

// began is where a task ran, and when it began, since the test did.
type began struct {
	Node string
	At   time.Duration
}

// asking is the table of the tests of who is owed word. All are in virtual time, in which links take none.
type asking struct {
	*testing.T
	start  time.Time
	table  *raysys.Table
	work   tasks.Task[time.Duration, began] // takes so long on its CPU
	parks  tasks.Task[time.Duration, began] // the same, and then gives its CPU back for a minute
	refers tasks.Task[slowRef, began]
}

// slowRef is an argument with a reference, and one that is read when its node lets it be.
type slowRef struct {
	Of   raysys.Handle[began]
	Read gated
}

// gated is read after its gate has been opened, where there is one.
type gated struct{}

var gate atomic.Pointer[chan struct{}]

func (gated) MarshalBinary() ([]byte, error) { return []byte{1}, nil }
func (*gated) UnmarshalBinary([]byte) error {
	if g := gate.Load(); g != nil {
		<-*g
	}
	return nil
}

func ask(t *testing.T, f func(a *asking)) {
	synctest.Test(t, func(t *testing.T) {
		a := &asking{T: t, start: time.Now(), table: raysys.NewTable()}
		here := func(ctx context.Context) began {
			tu, _, _ := core.TurnOf(ctx)
			return began{string(tu.Job().Node), time.Since(a.start)}
		}
		a.work = tasks.DefineIn(a.table, "work", func(ctx context.Context, takes time.Duration) (began, error) {
			b := here(ctx)
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return b, nil
		})
		a.parks = tasks.DefineIn(a.table, "parks", func(ctx context.Context, takes time.Duration) (began, error) {
			b := here(ctx)
			<-time.After(takes)
			tu, _, _ := core.TurnOf(ctx)
			tu.Runtime().Block(tu)
			defer tu.Runtime().Unblock(tu)
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return b, nil
		})
		a.refers = tasks.DefineIn(a.table, "refers", func(ctx context.Context, _ slowRef) (began, error) {
			b := here(ctx)
			<-time.After(5 * time.Second)
			return b, nil
		})
		f(a)
	})
}

// host is a node whose CPUs are taken for so long by tasks of its own.
func (a *asking) host(name string, cpus int, taken time.Duration, change ...func(*taskengine.Config)) *tasksRuntime {
	h := newHost(a, name, a.table, float64(cpus), change...)
	for range cpus {
		if taken > 0 {
			a.work.Go(h.ctx(), taken)
		}
	}
	synctest.Wait()
	return h
}

// begins fails the test unless the task begins there, and then, or a few milliseconds later.
func (a *asking) begins(of *tasksRuntime, r raysys.Ref[began], node string, at time.Duration) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), 30*time.Second)
	defer cancel()
	b, err := r.Get(of.with(ctx))
	if err != nil || b.Node != node || b.At < at || b.At > at+5*time.Millisecond {
		a.Errorf("the task began on %q after %v, want on %s after %v, or a few milliseconds later: %v",
			b.Node, b.At, node, at, err)
	}
}

// givenBack counts the frames from the node that give tasks back, and the loads that it tells.
func (a *asking) givenBack(l *link, from *tasksRuntime) (back, told func() int) {
	var backs, loads atomic.Int64
	l.rule(func(node raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
		switch {
		case node != from.name:
		case k == wire.KindTaskResult && p[len(p)-1] == taskwire.ResultGivenBack:
			backs.Add(1)
		case k == wire.KindLoad:
			loads.Add(1)
		}
		return deliver
	})
	return func() int { return int(backs.Load()) }, func() int { return int(loads.Load()) }
}

// TestRefusedAtOnce: a task that takes long, or nobody knows how long, comes back at once from a node whose CPUs are taken. The node that
// sent it is told when a CPU is free, and it alone. A task of a driver waits there instead.
func TestRefusedAtOnce(t *testing.T) {
	ask(t, func(a *asking) {
		here, there := a.host("here", 1, 10*time.Second), a.host("there", 1, 200*time.Millisecond)
		other, driver := a.host("other", 1, 10*time.Second), a.host("driver", 0, 0)
		back, told := a.givenBack(join(a, here, there), there)
		_, otherTold := a.givenBack(join(a, other, there), there)
		r := a.work.Go(here.ctx(), time.Second)
		<-time.After(time.Millisecond) // it may be sent by its submitter, which does not wait for it
		synctest.Wait()
		if back() != 1 || told() != 0 || there.engine.Load().Inbound != 0 {
			a.Errorf("%d tasks came back, %d loads were told and %d tasks wait there, want 1, none and none",
				back(), told(), there.engine.Load().Inbound)
		}
		a.begins(here, r, "there", 200*time.Millisecond)
		if back() != 1 || told() != 1 || otherTold() != 0 {
			a.Errorf("%d tasks came back, %d loads were told, and %d to a node that waits for nothing; want 1, 1 and none",
				back(), told(), otherTold())
		}

		back, _ = a.givenBack(join(a, driver, there), there)
		a.work.Go(there.ctx(), time.Second)
		synctest.Wait()
		began := time.Since(a.start)
		r = a.work.Go(driver.ctx(), time.Second)
		<-time.After(time.Millisecond)
		synctest.Wait()
		if n := there.engine.Load().Inbound; n != 1 || back() != 0 {
			a.Errorf("%d tasks of the driver wait there and %d came back, want 1 and none", n, back())
		}
		a.begins(driver, r, "there", began+time.Second)
	})
}

// TestWordFollowsRefusal: a CPU that becomes free while a node reads the rest of a frame, of which it gives a task back, is told of behind
// that answer. Word that came first would be of no use, and the node would be left alone for a second.
func TestWordFollowsRefusal(t *testing.T) {
	ask(t, func(a *asking) {
		here, there := a.host("here", 1, 10*time.Second), a.host("there", 2, 200*time.Millisecond)
		join(a, here, there)
		open := make(chan struct{})
		gate.Store(&open)
		defer gate.Store(nil)
		of := raysys.Put(here.ctx(), began{})
		ctx := here.ctx() // of one turn, in one frame
		first, second := a.work.Go(ctx, time.Second), a.refers.Go(ctx, slowRef{Of: of.Handle()})
		<-time.After(300 * time.Millisecond)
		close(open)
		synctest.Wait()
		a.begins(here, first, "there", 300*time.Millisecond)
		a.begins(here, second, "there", 300*time.Millisecond)
	})
}

// TestRefusedWithReferences: so is a task whose argument has references, which have to be read.
func TestRefusedWithReferences(t *testing.T) {
	ask(t, func(a *asking) {
		here, there := a.host("here", 1, 10*time.Second), a.host("there", 1, 5*time.Second)
		third := a.host("third", 1, 200*time.Millisecond)
		l := join(a, here, there)
		there.engine.PeerLoad(l.ends[1], here.engine.Load())
		r := a.refers.Go(here.ctx(), slowRef{Of: raysys.Put(here.ctx(), began{}).Handle()})
		<-time.After(time.Millisecond)
		synctest.Wait()
		join(a, here, third)
		a.begins(here, r, "third", 200*time.Millisecond)
	})
}

// TestWordOfFreeCPU: a CPU is told of, however it becomes free.
func TestWordOfFreeCPU(t *testing.T) {
	for name, takes := range map[string]func(a *asking, there *tasksRuntime){
		"a task waits for another": func(a *asking, there *tasksRuntime) { a.parks.Go(there.ctx(), 200*time.Millisecond) },
		"a task of two CPUs ends":  func(a *asking, there *tasksRuntime) { a.work.With(raysys.CPU(2)).Go(there.ctx(), 200*time.Millisecond) },
		"a task of half a CPU ends": func(a *asking, there *tasksRuntime) {
			a.work.With(raysys.CPU(1.5)).Go(there.ctx(), 200*time.Millisecond)
		},
		"one that gathers is stopped": func(a *asking, there *tasksRuntime) {
			a.work.Go(there.ctx(), 10*time.Second)
			synctest.Wait()
			r := a.work.With(raysys.CPU(2)).Go(there.ctx(), time.Second)
			time.AfterFunc(200*time.Millisecond, func() { r.Cancel() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, func(a *asking) {
				here, there := a.host("here", 1, 20*time.Second), a.host("there", 2, 0)
				if name == "a task waits for another" {
					a.work.Go(there.ctx(), 10*time.Second)
				}
				takes(a, there)
				synctest.Wait()
				join(a, here, there)
				a.begins(here, a.work.Go(here.ctx(), time.Second), "there", 200*time.Millisecond)
			})
		})
	}
}

// TestWordAfterDrain: a node that has given a task back since it drained tells that it takes tasks again.
func TestWordAfterDrain(t *testing.T) {
	ask(t, func(a *asking) {
		here := a.host("here", 1, 10*time.Second)
		there := a.host("there", 1, 0, func(c *taskengine.Config) { c.Changed = nil }) // both changes meet in one report
		back, _ := a.givenBack(join(a, here, there), there)
		if err := there.engine.Drain(a.Context()); err != nil {
			a.Fatal(err)
		}
		r := a.work.Go(here.ctx(), time.Second)
		<-time.After(100 * time.Millisecond)
		if back() == 0 {
			a.Error("nothing came back: the test tests nothing")
		}
		there.engine.CancelDrain()
		a.begins(here, r, "there", 100*time.Millisecond)
	})
}

// TestFullNodeIsNotAsked: a node that has as many tasks of others as it takes, which all wait for others, has free CPUs and no room.
// It tells of none before it takes tasks.
func TestFullNodeIsNotAsked(t *testing.T) {
	ask(t, func(a *asking) {
		here := a.host("here", 1, 10*time.Second)
		there := a.host("there", 2, 0, func(c *taskengine.Config) { c.QueueInbound = 1 })
		l := join(a, here, there)
		a.parks.Go(here.ctx(), time.Millisecond)
		<-time.After(100 * time.Millisecond)
		var backs atomic.Int64
		l.rule(func(_ raysys.NodeID, _ wire.Class, k wire.Kind, p []byte) fate {
			if k == wire.KindTaskResult && p[len(p)-1] == taskwire.ResultGivenBack && backs.Add(1) == 100 {
				return sever
			}
			return deliver
		})
		r := a.work.Go(here.ctx(), time.Second)
		<-time.After(5 * time.Second)
		if n := backs.Load(); n < 1 || n > 10 {
			a.Errorf("a task came back %d times in 5 seconds, want once a second at most, and at least once", n)
		}
		a.begins(here, r, "here", 10*time.Second)
	})
}

// TestAskedAgain: a node that was told nothing of tasks that wait, since there were none when that was told, is asked when there are.
func TestAskedAgain(t *testing.T) {
	ask(t, func(a *asking) {
		late := true
		var here *tasksRuntime
		here = a.host("here", 1, 30*time.Millisecond, func(c *taskengine.Config) {
			c.Tell = func(p wire.Peer) {
				if !late {
					here.tellOne(p)
					return
				}
				late = false
				time.AfterFunc(50*time.Millisecond, func() { here.tellOne(p) })
			}
		})
		there := a.host("there", 1, 200*time.Millisecond)
		l := join(a, here, there)
		here.engine.PeerLoad(l.ends[0], there.engine.Load())
		a.work.Go(here.ctx(), 10*time.Millisecond)
		<-time.After(100 * time.Millisecond)
		a.work.Go(here.ctx(), 10*time.Second)
		synctest.Wait()
		a.begins(here, a.work.Go(here.ctx(), time.Second), "there", 200*time.Millisecond)
	})
}

// TestAskedBesideOlder: a node is asked for room also where one has room that lacks the function; and that one is not.
func TestAskedBesideOlder(t *testing.T) {
	ask(t, func(a *asking) {
		here, there := a.host("here", 1, 10*time.Second), a.host("there", 1, 200*time.Millisecond)
		older := a.host("older", 1, 0)
		l := join(a, here, there)
		here.engine.PeerLoad(l.ends[0], there.engine.Load())
		o := join(a, here, older)
		o.ends[0].lacks.Store(&map[string]bool{"work": true})
		_, asked := a.givenBack(o, here)
		here.engine.PeerLoad(o.ends[0], older.engine.Load())
		a.begins(here, a.work.Go(here.ctx(), time.Second), "there", 200*time.Millisecond)
		if n := asked(); n > 0 {
			a.Errorf("the node that lacks the function was asked for room %d times", n)
		}
	})
}

// TestRefusedBesideGathering: a CPU that is kept for a task of several is not free for others.
func TestRefusedBesideGathering(t *testing.T) {
	ask(t, func(a *asking) {
		here, there := a.host("here", 1, 10*time.Second), a.host("there", 2, 0)
		third := a.host("third", 1, 200*time.Millisecond)
		a.work.Go(there.ctx(), 5*time.Second)
		synctest.Wait()
		a.work.With(raysys.CPU(2)).Go(there.ctx(), 5*time.Second)
		synctest.Wait()
		l := join(a, here, there)
		there.engine.PeerLoad(l.ends[1], here.engine.Load())
		r := a.work.Go(here.ctx(), time.Second)
		<-time.After(time.Millisecond)
		synctest.Wait()
		join(a, here, third)
		a.begins(here, r, "third", 200*time.Millisecond)
	})
}

// TestNothingIsAskedOfNobody: a node without peers sets no alarms.
func TestNothingIsAskedOfNobody(t *testing.T) {
	ask(t, func(a *asking) {
		here, there := a.host("here", 1, 10*time.Second), a.host("there", 1, 10*time.Second)
		l := join(a, here, there)
		a.work.Go(here.ctx(), time.Second)
		<-time.After(100 * time.Millisecond)
		if !here.engine.Asks() {
			a.Error("it asks nobody: the test tests nothing")
		}
		l.cut(errSevered)
		<-time.After(100 * time.Millisecond)
		if here.engine.Asks() {
			a.Error("it goes on to ask when no peer is left")
		}
	})
}

// TestOnlyWhoWaitsIsOwed: who tells a load of which nothing waits for a CPU is owed no word.
func TestOnlyWhoWaitsIsOwed(t *testing.T) {
	ask(t, func(a *asking) {
		here, there := a.host("here", 1, 0), a.host("there", 1, 200*time.Millisecond)
		l := join(a, here, there)
		_, told := a.givenBack(l, there)
		for _, said := range []loadreport.Load{{}, {Queued: 1, Shaped: 1}, {Queued: 3, Free: 1}} {
			there.engine.PeerLoad(l.ends[1], said)
		}
		<-time.After(time.Second)
		if n := told(); n != 0 {
			a.Errorf("%d loads were told", n)
		}
	})
}

// TestPlacedWaits: a task that goes to where its values are waits there for a CPU.
func TestPlacedWaits(t *testing.T) {
	ask(t, func(a *asking) {
		large := tasks.DefineIn(a.table, "large", func(_ context.Context, n int) ([]byte, error) {
			<-time.After(20 * time.Millisecond)
			return make([]byte, n), nil
		})
		use := tasks.DefineIn(a.table, "use", func(ctx context.Context, _ []byte) (began, error) {
			tu, _, _ := core.TurnOf(ctx)
			return began{string(tu.Job().Node), time.Since(a.start)}, nil
		})
		var to, otherwise atomic.Pointer[end]
		here := a.host("here", 1, 10*time.Second, func(c *taskengine.Config) {
			c.Place = func(r taskengine.PlaceRequest) (wire.Peer, error) {
				if slices.Contains(r.Avoid, "there") {
					return otherwise.Load(), nil
				}
				return to.Load(), nil
			}
		})
		there := a.host("there", 1, 0)
		l := join(a, here, there)
		there.engine.PeerLoad(l.ends[1], here.engine.Load())
		to.Store(l.ends[0])
		value := large.Go(here.ctx(), 2*raysys.ObjectSize)
		<-time.After(100 * time.Millisecond)
		if there.engine.Load().Free != 1 || raysys.PhaseOf(value) == raysys.PhasePending {
			a.Fatal("the value is not there: the test tests nothing")
		}
		a.work.Go(there.ctx(), 100*time.Millisecond)
		synctest.Wait()
		otherwise.Store(join(a, here, a.host("third", 1, 0)).ends[0])
		a.begins(here, use.On(here.ctx(), value), "there", 200*time.Millisecond)
	})
}
