package testkit_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// roomWorker is a worker of a stateless kind, and roomHolder a grain, that hold a device or CPUs. roomNow notes what they do.
type (
	roomWorker struct{ roomHeld }
	roomHolder struct{ roomHeld }
	roomHeld   struct{ node raysys.NodeID }
)

var roomNow *roomUse

// roomUse is how much is held, and which calls of workers have begun.
type roomUse struct {
	mu    sync.Mutex
	held  map[raysys.NodeID]int
	freed map[raysys.NodeID]time.Time // when the last that was held became free
	calls map[int]*roomCall
	ends  map[string]chan struct{} // of the turns of holders
}

// roomCall is one call of a worker.
type roomCall struct {
	at   time.Time // when it was made
	runs []raysys.NodeID
	over bool
}

// roomWork is the argument of one.
type roomWork struct {
	ID   int
	For  time.Duration
	Goes bool // the worker goes after the call
}

func newRoomUse() *roomUse {
	return &roomUse{held: map[raysys.NodeID]int{}, freed: map[raysys.NodeID]time.Time{}, calls: map[int]*roomCall{}, ends: map[string]chan struct{}{}}
}

func (h *roomHeld) OnActivate(ctx context.Context) error {
	h.node = system.NodeOf(ctx).Name()
	r := roomNow
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[h.node]++
	return nil
}

func (h *roomHeld) OnDeactivate(context.Context) error {
	r := roomNow
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[h.node]--
	r.freed[h.node] = time.Now()
	return nil
}

func (h *roomWorker) work(ctx context.Context, w roomWork) (raysys.NodeID, error) {
	r := roomNow
	r.mu.Lock()
	r.calls[w.ID].runs = append(r.calls[w.ID].runs, h.node)
	r.mu.Unlock()
	select {
	case <-time.After(w.For):
		if w.Goes {
			return h.node, grains.Deactivate(ctx)
		}
		return h.node, nil
	case <-ctx.Done():
		return h.node, context.Cause(ctx)
	}
}

// hold is a turn that lasts until roomUse.end, after which the grain goes.
func (h *roomHolder) hold(ctx context.Context, name string) (raysys.NodeID, error) {
	select {
	case <-roomNow.gate(name):
	case <-ctx.Done():
		return h.node, context.Cause(ctx)
	}
	return h.node, grains.Deactivate(ctx)
}

func (r *roomUse) gate(name string) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends[name] == nil {
		r.ends[name] = make(chan struct{})
	}
	return r.ends[name]
}

func (r *roomUse) end(name string) { close(r.gate(name)) }

// roomKinds are the kinds of a test.
type roomKinds struct {
	workers grains.Kind[roomWorker]
	holders []grains.Kind[roomHolder] // of each node: they do not move
	work    grains.Func[roomWorker, roomWork, raysys.NodeID]
	hold    []grains.Func[roomHolder, string, raysys.NodeID]
	table   *raysys.Table
	goes    bool // workers go after each call, so that none is idle
}

func newRoomKinds(holds raysys.Option, opts ...grains.Option) *roomKinds {
	k := &roomKinds{table: raysys.NewTable()}
	k.workers = grains.DefineIn[roomWorker](k.table, "room.worker", append(opts, grains.Holds(holds))...)
	for n := range 4 {
		kind := grains.DefineIn[roomHolder](k.table, fmt.Sprint("room.holder", n), grains.Holds(holds), grains.Label("number", fmt.Sprint(n)))
		k.holders = append(k.holders, kind)
		k.hold = append(k.hold, grains.Method(kind, "hold", (*roomHolder).hold).With(raysys.Deadline(time.Hour)))
	}
	k.work = grains.Method(k.workers, "work", (*roomWorker).work).With(raysys.Deadline(time.Hour))
	return k
}

// oneDevice gives each worker node one device, of several CPUs.
func oneDevice(i int, cfg *system.Config) { devicesOf(1)(i, cfg) }

// devicesOf gives each worker node so many devices.
func devicesOf(n int) func(int, *system.Config) {
	return func(i int, cfg *system.Config) {
		if i == 0 {
			return
		}
		cfg.Resources.CPU = 8
		cfg.Cluster.Labels = map[string]string{"number": fmt.Sprint(i)}
		for d := range n {
			cfg.Devices = append(cfg.Devices, raysys.Device{UUID: fmt.Sprint("GPU-", i, "-", d), Model: "H100", Memory: 80 << 30})
		}
	}
}

// cpus gives each worker node so many CPUs.
func cpus(n float64) func(int, *system.Config) {
	return func(i int, cfg *system.Config) {
		if i > 0 {
			cfg.Resources.CPU = n
			cfg.Cluster.Labels = map[string]string{"number": fmt.Sprint(i)}
		}
	}
}

// holdAt has a grain hold the device of a node, or room for one worker there, until roomUse.end.
func (k *roomKinds) holdAt(ctx context.Context, node int, name string) {
	k.hold[node].Call(ctx, k.holders[node].Get(name), name)
}

// call makes a call from a node.
func (k *roomKinds) call(c *testkit.Cluster, ctx context.Context, from, id int, key string, takes time.Duration) raysys.Ref[raysys.NodeID] {
	roomNow.mu.Lock()
	roomNow.calls[id] = &roomCall{at: time.Now()}
	roomNow.mu.Unlock()
	ref := k.work.Call(c.Node(from).Context(ctx), k.workers.Get(key), roomWork{id, takes, k.goes})
	return ref
}

// waits lists the calls that have not begun.
func (r *roomUse) waits() (list []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.calls {
		if len(c.runs) == 0 && !c.over {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// check waits for calls, each of which runs once.
func (r *roomUse) check(t testing.TB, ctx context.Context, calls map[int]raysys.Ref[raysys.NodeID]) {
	t.Helper()
	for id, ref := range calls {
		if _, err := ref.Get(ctx); err != nil {
			t.Errorf("call %d: %v", id, err)
		}
		r.mu.Lock()
		if n := len(r.calls[id].runs); n != 1 {
			t.Errorf("call %d ran %d times, on %v", id, n, r.calls[id].runs)
		}
		r.mu.Unlock()
	}
}

// TestStatelessCallBegins: a call of a stateless kind whose workers hold a device begins where one is free, be it a driver's or one of a
// node whose own is held.
func TestStatelessCallBegins(t *testing.T) {
	kinds := newRoomKinds(raysys.GPU(1), grains.StatelessWorker(4))
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, c, ctx := k.T(), k.Cluster(), k.Context()
		roomNow = newRoomUse()
		id := 0
		for round := range 4 {
			for free := 1; free <= 3; free++ {
				var held []string
				for n := 1; n <= 3; n++ {
					if n != free {
						name := fmt.Sprint(round, free, n)
						held = append(held, name)
						kinds.holdAt(ctx, n, name)
					}
				}
				k.Advance(300 * time.Millisecond)
				for from := range 4 {
					id++
					ref := kinds.call(c, ctx, from, id, fmt.Sprint("k", id), 300*time.Millisecond)
					within := long.Form(waitLimit(), 10*time.Millisecond) // the other devices are held until the round ends
					k.Advance(within)
					if len(roomNow.waits()) > 0 {
						t.Errorf("round %d: a call of node %d has not begun after %v: devices are free on n%d alone", round, from, within, free)
					}
					roomNow.check(t, ctx, map[int]raysys.Ref[raysys.NodeID]{id: ref})
					k.Advance(time.Second)
					// the worker goes, so that the next call finds a free device
					roomNow.mu.Lock()
					idle := roomNow.held[raysys.NodeID(fmt.Sprint("n", free))]
					roomNow.mu.Unlock()
					if idle > 0 {
						name := fmt.Sprint("evicts", id)
						kinds.holdAt(ctx, free, name)
						k.Advance(time.Second)
						roomNow.end(name)
						k.Advance(300 * time.Millisecond)
					}
				}
				for _, name := range held {
					roomNow.end(name)
				}
				k.Advance(300 * time.Millisecond)
			}
		}
	}, testkit.Table(kinds.table), testkit.Nodes(3), testkit.Each(oneDevice))
}

// TestStatelessCallsFollowRoom: calls that wait for workers, of a driver and of nodes, go to a node as soon as it has a device free: also
// past a kind with one worker for each node. While all are held they wait.
func TestStatelessCallsFollowRoom(t *testing.T) {
	for _, workers := range []int{1, 4} {
		kinds := newRoomKinds(raysys.GPU(1), grains.StatelessWorker(workers))
		t.Run(fmt.Sprint(workers, "workers"), func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				t, c, ctx := k.T(), k.Cluster(), k.Context()
				for free := 1; free <= 3; free++ {
					roomNow = newRoomUse()
					for n := 1; n <= 3; n++ {
						name := fmt.Sprint(free, n)
						kinds.holdAt(ctx, n, name)
					}
					k.Advance(300 * time.Millisecond)
					calls := map[int]raysys.Ref[raysys.NodeID]{}
					for id := range 12 {
						calls[id] = kinds.call(c, ctx, id%4, id, "x", 10*time.Millisecond)
					}
					k.Advance(long.Form[time.Duration](5, 20)*time.Second + 37*time.Millisecond)
					if n := len(roomNow.waits()); n != len(calls) {
						t.Fatalf("%d of %d calls wait while all devices are held", n, len(calls))
					}
					roomNow.end(fmt.Sprint(free, free))
					k.Advance(waitLimit())
					if n := len(roomNow.waits()); n == len(calls) {
						t.Errorf("no call has begun in %v since a device of n%d is free", waitLimit(), free)
					}
					within := long.Form(5*time.Second, 2*time.Second) // the other devices are held until then
					k.Advance(within)
					if w := roomNow.waits(); len(w) > 0 {
						t.Errorf("calls %v wait %v after a device of n%d became free", w, within, free)
					}
					for n := 1; n <= 3; n++ {
						if n != free {
							roomNow.end(fmt.Sprint(free, n))
						}
					}
					roomNow.check(t, ctx, calls)
					k.Advance(time.Second)
				}
			}, testkit.Table(kinds.table), testkit.Nodes(3), testkit.Each(oneDevice))
		})
	}
}

// roomStep is one step of a story.
type roomStep struct {
	After time.Duration
	Do    string // call, hold, end
	From  int
	Key   string
	For   time.Duration
	N     int
	Burst int // so many calls
}

// TestStatelessRoomLaw: no call of a stateless kind whose workers hold a device, or CPUs, waits for more than waitLimit beside as much that is
// free; each runs once.
func TestStatelessRoomLaw(t *testing.T) {
	for name, c := range map[string]struct {
		holds raysys.Option
		slots int // for how many workers a node has room
		node  func(int, *system.Config)
	}{
		"a device":        {raysys.GPU(1), 1, oneDevice},
		"three devices":   {raysys.GPU(1), 3, devicesOf(3)},
		"two CPUs":        {raysys.CPU(2), 1, cpus(2)},
		"one CPU":         {raysys.CPU(1), 1, cpus(1)},
		"two CPUs of six": {raysys.CPU(2), 3, cpus(6)},
		"one CPU of two":  {raysys.CPU(1), 2, cpus(2)},
	} {
		t.Run(name, func(t *testing.T) {
			drawsOfForm(t, 2, 100)
			kinds := newRoomKinds(c.holds, grains.StatelessWorker(4))
			kinds.goes = c.slots > 1
			longest := time.Duration(0)
			rapid.Check(t, func(rt *rapid.T) {
				steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) roomStep {
					return roomStep{
						After: time.Duration(rapid.IntRange(0, 80).Draw(rt, "after")) * time.Millisecond,
						Do:    rapid.SampledFrom([]string{"call", "call", "call", "hold", "end"}).Draw(rt, "do"),
						From:  rapid.IntRange(0, 3).Draw(rt, "from"), Key: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"),
						For: time.Duration(rapid.IntRange(0, 300).Draw(rt, "for")) * time.Millisecond, N: rapid.IntRange(0, 11).Draw(rt, "n"),
						Burst: rapid.SampledFrom([]int{1, 1, 1, c.slots, 3 * c.slots}).Draw(rt, "burst"),
					}
				}), 20, 60).Draw(rt, "steps")
				seed := rapid.Uint64Range(1, 1<<62).Draw(rt, "seed")
				var failed string
				testkit.Virtual(t, func(k *testkit.Kit) {
					var waited time.Duration
					failed, waited = playRooms(k, kinds, c.slots, steps)
					longest = max(longest, waited)
				}, testkit.Table(kinds.table), testkit.Nodes(3), testkit.Each(c.node), testkit.Seed(seed))
				if failed != "" {
					rt.Fatal(failed)
				}
			})
			t.Logf("the longest wait beside room: %v", longest)
		})
	}
}

// playRooms plays a story where each node has room for so many workers, and says which law it breaks, and how long calls have waited
// beside room.
func playRooms(k *testkit.Kit, kinds *roomKinds, slots int, steps []roomStep) (failed string, longest time.Duration) {
	c, ctx := k.Cluster(), k.Context()
	r := newRoomUse()
	roomNow = r
	begin := time.Now()
	beside := map[raysys.NodeID]time.Time{} // since when a node has been free beside a call that waits
	calls := map[int]raysys.Ref[raysys.NodeID]{}
	var holders []string
	pass := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); {
			k.Advance(slower() * 2 * time.Millisecond)
			waits := r.waits()
			for n := 1; n <= 3; n++ {
				node := raysys.NodeID(fmt.Sprint("n", n))
				r.mu.Lock()
				free := r.held[node] < slots
				over := r.held[node] > slots
				freed := r.freed[node]
				r.mu.Unlock()
				since, ok := beside[node]
				switch {
				case over:
					failed = fmt.Sprintf("more than there is of %s is held", node)
				case !free || len(waits) == 0:
					delete(beside, node)
				case !ok || freed.After(since):
					beside[node] = time.Now()
				default:
					longest = max(longest, time.Since(since))
					if longest > waitLimit() && failed == "" {
						failed = fmt.Sprintf("%v: calls %v wait beside room of %s that has been free for %v", time.Since(begin), waits, node, time.Since(since))
					}
				}
			}
		}
	}
	for id, s := range steps {
		pass(slower() * s.After)
		switch s.Do {
		case "call":
			for i := range s.Burst {
				calls[1000*i+id] = kinds.call(c, ctx, s.From, 1000*i+id, s.Key, slower()*s.For)
			}
		case "hold":
			name := fmt.Sprint("h", id)
			holders = append(holders, name)
			kinds.holdAt(ctx, 1+s.N%3, name)
		case "end":
			if len(holders) > 0 {
				i := s.N % len(holders)
				r.end(holders[i])
				holders = slices.Delete(holders, i, i+1)
			}
		}
	}
	for _, name := range holders {
		pass(slower() * 50 * time.Millisecond)
		r.end(name)
	}
	for range 1000 {
		if pass(slower() * 20 * time.Millisecond); len(r.waits()) == 0 {
			break
		}
	}
	if w := r.waits(); len(w) > 0 && failed == "" {
		failed = fmt.Sprintf("calls %v never begin", w)
	}
	if failed == "" {
		r.check(k.T(), ctx, calls)
	}
	return failed, longest
}

// TestStatelessBurstStays: where many calls wait and one node gets room for one of them, few are sent there, one or two of each node: who sends one takes the room
// to be taken. Else most are, each time.
func TestStatelessBurstStays(t *testing.T) {
	for name, c := range map[string]struct {
		holds raysys.Option
		node  func(int, *system.Config)
	}{"a device": {raysys.GPU(1), oneDevice}, "two CPUs": {raysys.CPU(2), cpus(2)}, "one CPU": {raysys.CPU(1), cpus(1)}} {
		withSeeds(t, name, func(t *testing.T, seed testkit.Option) {
			kinds := newRoomKinds(c.holds, grains.StatelessWorker(4))
			testkit.Virtual(t, func(k *testkit.Kit) {
				takes := long.Form(time.Second, 100*time.Millisecond)
				t, cluster, ctx := k.T(), k.Cluster(), k.Context()
				roomNow = newRoomUse()
				for n := 1; n <= 3; n++ {
					kinds.holdAt(ctx, n, fmt.Sprint(n))
				}
				k.Advance(300 * time.Millisecond)
				calls := map[int]raysys.Ref[raysys.NodeID]{}
				for id := range long.Form(40, 80) { // they wait on n1 and n3
					calls[id] = kinds.call(cluster, ctx, 1+id%2*2, id, "x", takes)
				}
				k.Advance(long.Form[time.Duration](5, 20)*time.Second + 37*time.Millisecond)
				var sent atomic.Int32
				cluster.Drop(1, func(f testkit.Frame) bool { // none
					if k := wire.Kind(f.Kind); f.To == "n2" && (k == wire.KindCall || k == wire.KindCalls) {
						sent.Add(1)
					}
					return false
				})
				roomNow.end("2")
				k.Advance(takes * 95 / 100) // less than the first that begins there takes
				if n, begun := sent.Load(), len(calls)-len(roomNow.waits()); int(n) > long.Form(len(calls)/4, 4) || begun != 1 {
					t.Errorf("%d calls were sent to n2 by two nodes, and %d began there, where it got room for one", n, begun)
				}
				roomNow.end("1")
				roomNow.end("3")
				roomNow.check(t, ctx, calls)
				k.Advance(time.Second)
			}, seed, testkit.Table(kinds.table), testkit.Nodes(3), testkit.Each(c.node))
		})
	}
}
