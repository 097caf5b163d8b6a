package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/groups"
	"github.com/raysys/raysys/placement"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// deviceUser is work that asks for a device, in the forms that there are. Each says which it has.
type deviceUser struct {
	k       *testkit.Kit
	ctx     context.Context
	sources []*source
	began   chan string
	gates   map[string]chan struct{} // by device: until when hold has it
	calls   int
	forms   map[string]func(opts ...raysys.Option) raysys.Ref[string]
	hold    tasks.Task[int, string]
}

// whichDevice is a grain, or a stateless worker.
type whichDevice struct{}

func (*whichDevice) Which(ctx context.Context) (string, error) { return raysys.Devices(ctx)[0], nil }

// withDeviceUser runs a test in virtual time, on a node alone with two devices, or in a cluster of two with one each, with the work from its driver or a worker.
func withDeviceUser(t *testing.T, from string, test func(t testing.TB, u *deviceUser)) {
	u := &deviceUser{gates: map[string]chan struct{}{}}
	table := raysys.NewTable()
	minutes := raysys.Deadline(30 * time.Minute)
	which := tasks.DefineIn(table, "which", func(ctx context.Context, _ int) (string, error) { return raysys.Devices(ctx)[0], nil }).With(raysys.GPU(1), minutes)
	u.hold = tasks.DefineIn(table, "hold", func(ctx context.Context, _ int) (string, error) {
		d := raysys.Devices(ctx)[0]
		u.began <- d
		<-u.gates[d]
		return d, nil
	}).With(raysys.GPU(1))
	kind := grains.DefineIn[whichDevice](table, "kind", grains.Holds(raysys.GPU(1)))
	kept := grains.DefineIn[whichDevice](table, "kept", grains.Holds(raysys.GPU(1)), grains.Keep())
	callKept := grains.Method0(kept, "which", (*whichDevice).Which).With(minutes)
	pool := grains.DefineIn[whichDevice](table, "pool", grains.Holds(raysys.GPU(1)), grains.StatelessWorker(2))
	call, pooled := grains.Method0(kind, "which", (*whichDevice).Which).With(minutes), grains.Method0(pool, "which", (*whichDevice).Which).With(minutes)
	u.forms = map[string]func(opts ...raysys.Option) raysys.Ref[string]{
		"task": func(opts ...raysys.Option) raysys.Ref[string] { return which.With(opts...).Go(u.ctx, 0) },
		"grain": func(opts ...raysys.Option) raysys.Ref[string] {
			u.calls++
			return call.With(opts...).Call(u.ctx, kind.Get(fmt.Sprint(u.calls)))
		},
		"kept": func(opts ...raysys.Option) raysys.Ref[string] {
			return callKept.With(opts...).Call(u.ctx, kept.Get(""))
		},
		"stateless": func(opts ...raysys.Option) raysys.Ref[string] { return pooled.With(opts...).Call(u.ctx, pool.Get("")) },
	}
	opts := []testkit.Option{testkit.Table(table)}
	node, each := map[string]int{"alone": -1, "driver": 0, "worker": 1}[from], 1
	if node < 0 {
		each = 2
	}
	add := func(i int, cfg *system.Config) {
		s := newSource(i, each)
		u.sources = append(u.sources, s)
		cfg.Resources.CPU, cfg.DeviceSource = 8, s
	}
	if node < 0 {
		var cfg system.Config
		add(1, &cfg)
		cfg.Table = table
		opts = []testkit.Option{testkit.Config(cfg)}
	} else {
		opts = append(opts, testkit.Nodes(2), testkit.Each(func(i int, cfg *system.Config) {
			if i > 0 {
				add(i, cfg)
			}
		}))
	}
	testkit.Virtual(t, func(k *testkit.Kit) {
		u.k, u.ctx, u.began = k, k.Context(), make(chan string, 8)
		if node >= 0 {
			u.ctx = k.Cluster().Node(node).Context(k.Context())
		}
		for _, s := range u.sources {
			for _, d := range s.now.Devices {
				u.gates[d.UUID] = make(chan struct{})
			}
		}
		k.Advance(time.Second)
		test(k.T(), u)
	}, opts...)
}

// set makes a device sick, and says of what; "" makes it well.
func (u *deviceUser) set(uuid, cause string) {
	for _, s := range u.sources {
		s.mu.Lock()
		for i := range s.now.Devices {
			if d := &s.now.Devices[i]; d.UUID == uuid {
				d.Sick = cause
			}
		}
		s.mu.Unlock()
		s.tell()
	}
	u.k.Advance(time.Second)
}

// holds has a task hold a device until its gate opens, and says which.
func (u *deviceUser) holds(opts ...raysys.Option) string {
	u.hold.With(opts...).Go(u.ctx, 0)
	return <-u.began
}

// fails checks that work has failed since those devices are sick.
func (u *deviceUser) fails(t testing.TB, what string, work raysys.Ref[string], sick ...string) {
	t.Helper()
	if raysys.PhaseOf(work) == raysys.PhasePending {
		t.Errorf("%s: it waits", what)
		return
	}
	_, err := work.Get(u.ctx)
	if !errors.Is(err, raysys.ErrNoCapacity) {
		t.Errorf("%s: %v", what, err)
	}
	for _, d := range sick {
		if !strings.Contains(fmt.Sprint(err), d) || !errors.Is(err, raysys.ErrDeviceSick) {
			t.Errorf("%s: it does not say that %s is sick: %v", what, d, err)
		}
	}
}

// runs checks that work has that device.
func (u *deviceUser) runs(t testing.TB, what string, work raysys.Ref[string], device string) {
	t.Helper()
	u.k.Advance(time.Second)
	if raysys.PhaseOf(work) == raysys.PhasePending {
		t.Errorf("%s: it waits", what)
		return
	}
	if got, err := work.Get(u.ctx); err != nil || device != "" && got != device {
		t.Errorf("%s: it has %q, not %s: %v", what, got, device, err)
	}
}

// TestSickDevicesOfANodeAlone: without a cluster, too, work for devices that are sick fails and says which, at once and where it waits when they fall
// sick. With WaitForResources it waits until one is well, also beside a call that does not.
func TestSickDevicesOfANodeAlone(t *testing.T) {
	for _, form := range []string{"task", "grain", "stateless"} {
		t.Run(form, func(t *testing.T) {
			withDeviceUser(t, "alone", func(t testing.TB, u *deviceUser) {
				submit, patient := u.forms[form], raysys.WaitForResources()
				one, other := u.holds(), u.holds()
				waiter, waits := submit(), submit(patient)
				u.set(one, "lost")
				if raysys.PhaseOf(waiter) != raysys.PhasePending {
					t.Error("one of two devices is well, and work that waits for it has ended")
				}
				u.set(other, "lost")
				u.fails(t, "work that waits when the second of two devices falls sick", waiter, one, other)
				late := submit()
				u.k.Advance(time.Second)
				u.fails(t, "work that comes when both are sick", late, one, other)
				lateWaits := submit(patient)
				close(u.gates[one])
				close(u.gates[other])
				u.k.Advance(time.Minute)
				if raysys.PhaseOf(waits) != raysys.PhasePending || raysys.PhaseOf(lateWaits) != raysys.PhasePending {
					t.Fatalf("with WaitForResources: %v, %v", raysys.PhaseOf(waits), raysys.PhaseOf(lateWaits))
				}
				u.set(other, "")
				u.runs(t, "what waited since before", waits, other)
				u.runs(t, "what waited", lateWaits, other)
				u.runs(t, "what comes later", submit(), other)
			})
		})
	}
}

// TestOneGrainWaitsForASickDevice: of the calls of one grain those fail that do not wait for resources, whichever comes first.
func TestOneGrainWaitsForASickDevice(t *testing.T) {
	withDeviceUser(t, "alone", func(t testing.TB, u *deviceUser) {
		sick := []string{u.holds(), u.holds()}
		submit := func(opts ...raysys.Option) raysys.Ref[string] {
			u.calls = 0 // so that it is the same grain
			return u.forms["grain"](opts...)
		}
		first, waits := submit(), submit(raysys.WaitForResources())
		for _, d := range sick {
			u.set(d, "lost")
		}
		u.fails(t, "the first call", first, sick...)
		last := submit()
		u.k.Advance(time.Minute)
		u.fails(t, "a call after one that waits", last, sick...)
		if raysys.PhaseOf(waits) != raysys.PhasePending {
			t.Fatalf("the call that waits for resources is %v", raysys.PhaseOf(waits))
		}
		for _, d := range sick {
			close(u.gates[d])
			u.set(d, "")
		}
		u.runs(t, "the call that waits for resources", waits, "")
	})
}

// TestSickDevicesOfBundles: work in a bundle whose device is sick fails and says so, at once and where it waits when that falls sick; work that may
// be in any bundle goes to one whose device is well, and fails where none is. With WaitForResources it waits.
func TestSickDevicesOfBundles(t *testing.T) {
	for _, from := range []string{"alone", "driver", "worker"} {
		for _, form := range []string{"task", "grain"} {
			t.Run(from+" "+form, func(t *testing.T) {
				withDeviceUser(t, from, func(t testing.TB, u *deviceUser) { sickBundles(t, u, u.forms[form]) })
			})
		}
	}
}

// TestGrainKeepsASickDevice: a grain that has a device of a bundle, and keeps it when that falls sick, is found by calls that name the bundle, also
// from a node that has not called it before.
func TestGrainKeepsASickDevice(t *testing.T) {
	withDeviceUser(t, "worker", func(t testing.TB, u *deviceUser) {
		g, err := groups.Create(u.ctx, placement.Spread, []raysys.Resources{{CPU: 4, GPU: 1}})
		if err != nil {
			t.Fatal(err)
		}
		first, err := u.forms["kept"](g.Bundle(0)).Get(u.ctx)
		if err != nil {
			t.Fatal(err)
		}
		u.set(first, "lost")
		u.ctx = u.k.Context() // of the driver
		u.runs(t, "a call from elsewhere", u.forms["kept"](g.Bundle(0)), first)
		other := u.forms["grain"](g.Bundle(0))
		u.k.Advance(time.Second)
		u.fails(t, "a grain that has not begun", other, first)
	})
}

func sickBundles(t testing.TB, u *deviceUser, submit func(opts ...raysys.Option) raysys.Ref[string]) {
	patient := raysys.WaitForResources()
	g, err := groups.Create(u.ctx, placement.Spread, []raysys.Resources{{CPU: 4, GPU: 1}, {CPU: 4, GPU: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(u.ctx); err != nil {
		t.Fatal(err)
	}
	u.k.Advance(time.Second)
	one, other := u.holds(g.Bundle(0)), u.holds(g.Bundle(1))
	named, any, waits := submit(g.Bundle(0)), submit(g.AnyBundle()), submit(g.Bundle(0), patient)
	u.k.Advance(time.Second)
	u.set(one, "lost")
	u.fails(t, "work that waits in the bundle", named, one)
	if raysys.PhaseOf(any) != raysys.PhasePending || raysys.PhaseOf(waits) != raysys.PhasePending {
		t.Fatalf("work that may be in any bundle is %v, and such that waits for resources %v", raysys.PhaseOf(any), raysys.PhaseOf(waits))
	}
	late, lateWaits := submit(g.Bundle(0)), submit(g.Bundle(0), patient)
	u.k.Advance(time.Second)
	u.fails(t, "work that comes to the bundle", late, one)
	close(u.gates[other])
	u.runs(t, "work that may be in any bundle and waited", any, other)
	u.runs(t, "work that may be in any bundle", submit(g.AnyBundle()), other)
	u.set(other, "lost")
	late, anyWaits := submit(g.AnyBundle()), submit(g.AnyBundle(), patient)
	u.k.Advance(time.Minute)
	u.fails(t, "work that may be in any bundle, while the devices of all are sick", late)
	close(u.gates[one])
	u.k.Advance(time.Minute)
	for what, w := range map[string]raysys.Ref[string]{"before": waits, "late": lateWaits, "any": anyWaits} {
		if raysys.PhaseOf(w) != raysys.PhasePending {
			_, err := w.Get(u.ctx)
			t.Errorf("work that waits for resources (%s) has ended: %v", what, err)
		}
	}
	u.set(one, "")
	u.runs(t, "what waited for resources since before", waits, one)
	u.runs(t, "what waited for resources", lateWaits, one)
	u.runs(t, "what waited in any bundle", anyWaits, one)
}
