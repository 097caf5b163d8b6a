package grainengine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
)

// pids returns the PIDs of the activations of a kind.
func pids(n *system.Node, kind string) (found []*actor.PID) {
	for _, bucket := range n.Actors().ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range bucket.Keys() {
			if strings.HasPrefix(id, kind+"/") {
				found = append(found, actor.NewPID(n.Actors().Address(), id))
			}
		}
	}
	return found
}

// TestEveryActivationHasAPID: one per activation, named kind/key, gone with it.
func TestEveryActivationHasAPID(t *testing.T) {
	for name, opts := range map[string][]grains.Option{"grain": nil, "worker": {grains.StatelessWorker(2)}} {
		t.Run(name, func(t *testing.T) {
			h := newHooked(opts...)
			n, ctx := nodetest.Start(t, system.Config{Table: h.table})
			for _, key := range []string{"a", "b", "c/d$e"} {
				wants(t, ctx, h.add.Call(ctx, h.kind.Get(key), 1), 1)
			}
			all := pids(n, "hooked")
			if len(all) != 3 {
				t.Fatal(all)
			}
			for _, key := range []string{"a", "b", "c/d$e"} {
				ok := false
				for _, pid := range all {
					ok = ok || strings.HasPrefix(pid.Id, "hooked/"+key+"$")
				}
				if !ok {
					t.Errorf("no PID for %s: %v", key, all)
				}
			}
			if err := n.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if left := pids(n, "hooked"); len(left) != 0 {
				t.Error("PIDs outlive their activations:", left)
			}
		})
	}
}

type strange struct{ S string }

// TestForeignMessages: what others send to the PID harms nothing, in any number.
func TestForeignMessages(t *testing.T) {
	h := newHooked()
	n, ctx := nodetest.Start(t, system.Config{Table: h.table})
	a := h.kind.Get("a")
	wants(t, ctx, h.add.Call(ctx, a, 1), 1)
	pid := pids(n, "hooked")[0]
	root := n.Actors().Root
	for i := range 200 {
		root.Send(pid, strange{"x"})
		root.Send(pid, &strange{"y"})
		root.Send(pid, nil)
		root.RequestWithCustomSender(pid, "z", pid)
		root.Request(pid, 7)
		wants(t, ctx, h.add.Call(ctx, a, 1), i+2)
	}
	// protoactor's own question is answered by every actor.
	if _, err := root.RequestFuture(pid, &actor.Touch{}, 5*time.Second).Result(); err != nil {
		t.Error("Touch:", err)
	}
	h.want(t, "activate a")
}

// TestStoppedThroughTheActorSystem: whoever stops or poisons the PID deactivates the grain properly; no call is lost,
// and the next finds a new activation.
func TestStoppedThroughTheActorSystem(t *testing.T) {
	for name, stop := range map[string]func(*actor.RootContext, *actor.PID) *actor.Future{
		"stop": (*actor.RootContext).StopFuture, "poison": (*actor.RootContext).PoisonFuture,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooked()
			n, ctx := nodetest.Start(t, system.Config{Table: h.table})
			a := h.kind.Get("a")
			for range 4 {
				wants(t, ctx, h.add.Call(ctx, a, 1), 1)
				var refs []raysys.Ref[int]
				gone := stop(n.Actors().Root, pids(n, "hooked")[0])
				for range 20 {
					refs = append(refs, h.add.Call(ctx, a, 1))
				}
				if err := gone.Wait(); err != nil {
					t.Fatal(err)
				}
				last := 1
				for _, r := range refs {
					v, err := r.Get(ctx)
					if err != nil || v != last+1 && v != 1 {
						t.Fatalf("%d after %d, %v", v, last, err)
					}
					last = v
				}
				// Both the old and the new activation may have had some; let the new one go too.
				if _, err := h.leave.Call(ctx, a).Get(ctx); err != nil {
					t.Fatal(err)
				}
				nodetest.Eventually(t, "nothing in memory", func() bool { return len(pids(n, "hooked")) == 0 })
			}
			in := 0
			for i, line := range h.test.said() {
				if i%2 == 0 != strings.HasPrefix(line, "activate") {
					t.Fatalf("line %d of %v is out of turn", i, h.test.said())
				}
				in++
			}
			if in < 8 {
				t.Error("only", in, "hooks ran")
			}
		})
	}
}

// TestWatch: an activation can be watched like any actor.
func TestWatch(t *testing.T) {
	h := newHooked()
	n, ctx := nodetest.Start(t, system.Config{Table: h.table})
	a := h.kind.Get("a")
	wants(t, ctx, h.add.Call(ctx, a, 1), 1)
	pid, ended, ready := pids(n, "hooked")[0], make(chan string, 1), make(chan bool, 1)
	watcher := n.Actors().Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.Started:
			c.Watch(pid)
			ready <- true
		case *actor.Terminated:
			ended <- m.Who.Id
		}
	}))
	defer n.Actors().Root.Stop(watcher)
	<-ready
	if _, err := h.leave.Call(ctx, a).Get(ctx); err != nil {
		t.Error(err)
	}
	if id := <-ended; id != pid.Id {
		t.Error(id)
	}
}
