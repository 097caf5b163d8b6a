package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// A story is what happens to a cluster of three nodes with devices, one step after the other.
type moveStory struct {
	Seed    uint64
	Devices [3]int // of each node
	Steps   []step
}

// step is one thing that happens.
type step struct {
	After  time.Duration // the step before
	Do     string        // call, task, free, sick, well, drain, kill
	From   int           // the node that calls, or submits
	Grain  string        // that is called
	GPUs   float64       // that it holds, or the task
	For    time.Duration // how long the turn or the task takes, or a node is away
	Gate   bool          // the turn lasts until a step free
	Leaves bool          // the grain goes after the turn
	Safe   bool          // the call is idempotent
	Number int           // of the node, the device or the gate that the step is about, modulo how many there are
}

func drawStory(rt *rapid.T) moveStory {
	s := moveStory{Seed: rapid.Uint64Range(1, 1<<62).Draw(rt, "seed")}
	for i := range s.Devices {
		s.Devices[i] = rapid.IntRange(2, 4).Draw(rt, "devices")
	}
	usual := []string{"call", "call", "call", "call", "call", "call", "task", "task", "task", "free", "free"}
	do := slices.Repeat(usual, 8)
	for _, trouble := range [][]string{{"sick", "well", "sick", "well", "sick", "well"}, {"drain", "drain"}, {"kill", "kill"}} {
		if rapid.Bool().Draw(rt, trouble[0]) {
			do = append(do, trouble...)
		}
	}
	s.Steps = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step { return drawStep(rt, do) }), 80, 200).Draw(rt, "steps")
	return s
}

func drawStep(rt *rapid.T, do []string) step {
	millis := func(label string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(rt, label)) * time.Millisecond
	}
	x := step{After: millis("after", 60), Do: rapid.SampledFrom(do).Draw(rt, "do"), Number: rapid.IntRange(0, 11).Draw(rt, "number")}
	switch x.Do {
	case "call":
		x.From, x.GPUs = rapid.IntRange(0, 3).Draw(rt, "from"), float64(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(rt, "gpus"))
		x.Grain = strconv.Itoa(rapid.IntRange(0, 8).Draw(rt, "grain"))
		x.Gate, x.Leaves, x.Safe = rapid.IntRange(0, 3).Draw(rt, "gate") == 0, rapid.Bool().Draw(rt, "leaves"), rapid.Bool().Draw(rt, "safe")
		x.For = millis("for", 400)
	case "task":
		x.From, x.GPUs = rapid.IntRange(0, 3).Draw(rt, "from"), rapid.SampledFrom([]float64{0.5, 1, 1, 2}).Draw(rt, "gpus")
		x.For = millis("for", 800)
	case "drain", "kill":
		x.For = millis("for", 3000)
	}
	return x
}

// work is a call or a task. The run's mu guards it.
type work struct {
	step
	id        int
	life      string // of its caller
	submitted time.Time
	runs      int
	over      bool
	ended     time.Time
	err       error
}

func (w *work) String() string {
	what := "task"
	if w.Grain != "" {
		what = "call of grain " + w.Grain
		if w.Safe {
			what = "idempotent " + what
		}
	}
	return fmt.Sprintf("%s %d for %g devices, of node %d", what, w.id, w.GPUs, w.From)
}

// told is the argument of a call or a task.
type told struct {
	ID     int
	For    time.Duration
	Gate   bool
	Leaves bool
}

// telling is a story that is being played.
type telling struct {
	moveStory
	k     *testkit.Kit
	c     *testkit.Cluster
	a     *accounts
	calls map[float64]grains.Func[heldGrain, told, raysys.NodeID]
	kinds map[float64]grains.Kind[heldGrain]
	task  tasks.Task[told, raysys.NodeID]
	began time.Time

	mu        sync.Mutex // guards the rest
	work      []*work
	gates     []int // those of turns that have not been freed
	gate      map[int]chan struct{}
	away      map[int]bool            // nodes that are killed, drain or join
	calm      time.Time               // since when, or from when on, the cluster has been at rest after the last death or drain
	shaken    []time.Time             // when nodes died
	short     map[float64][]time.Time // by need: when no node had enough devices that were well
	kept      map[string]time.Time    // by node and need: when free devices were last seen to be kept for older work
	looked    map[string]time.Time    // by the same: when that was last looked at
	longest   time.Duration
	wrong     []string
	events    []string
	disturbed sync.WaitGroup
}

var tellingNow *telling

// run is the body of all turns and tasks.
func (r *telling) run(ctx context.Context, t told) (raysys.NodeID, error) {
	r.mu.Lock()
	w := r.work[t.ID]
	w.runs++
	gate := r.gate[t.ID]
	r.mu.Unlock()
	if t.Gate {
		select {
		case <-gate:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	} else {
		select {
		case <-time.After(t.For):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	if t.Leaves {
		if err := grains.Deactivate(ctx); err != nil {
			return "", err
		}
	}
	return raysys.NodeID(at(ctx)), nil
}

func (g *heldGrain) Run(ctx context.Context, t told) (raysys.NodeID, error) {
	return tellingNow.run(ctx, t)
}

// newTelling defines the program.
func newTelling(table *raysys.Table) *telling {
	r := &telling{
		a: newAccounts(), gate: map[int]chan struct{}{}, away: map[int]bool{}, kept: map[string]time.Time{}, looked: map[string]time.Time{},
		calls: map[float64]grains.Func[heldGrain, told, raysys.NodeID]{}, kinds: map[float64]grains.Kind[heldGrain]{}, short: map[float64][]time.Time{},
	}
	for n, name := range map[float64]string{1: "one", 2: "two"} {
		r.kinds[n] = grains.DefineIn[heldGrain](table, name, grains.Holds(raysys.GPU(n)))
		r.calls[n] = grains.Method(r.kinds[n], "run", (*heldGrain).Run).With(raysys.Deadline(5 * time.Minute))
	}
	r.task = tasks.DefineIn(table, "task", func(ctx context.Context, t told) (raysys.NodeID, error) {
		r.mu.Lock()
		thousandths := min(int(r.work[t.ID].GPUs*1000), 1000)
		r.mu.Unlock()
		defer r.a.enter(raysys.Devices(ctx), thousandths)()
		return r.run(ctx, t)
	})
	return r
}

// tell plays a story and returns what was wrong.
func tell(t *testing.T, s moveStory) (r *telling) {
	table := raysys.NewTable()
	r = newTelling(table)
	r.moveStory = s
	tellingNow, accountsNow = r, r.a
	testkit.Virtual(t, func(k *testkit.Kit) {
		r.k, r.c = k, k.Cluster()
		r.c.Ready()
		r.calm, r.began = time.Now(), time.Now()
		over := make(chan struct{})
		var looks, ends sync.WaitGroup
		looks.Go(func() { r.look(over) })
		for _, x := range s.Steps {
			<-time.After(x.After)
			r.play(x, &ends)
		}
		for range r.work {
			r.free(0)
		}
		for i := range 3 {
			for d := range s.Devices[i] {
				r.health(i+1, d, "")
			}
		}
		r.disturbed.Wait()
		ends.Wait()
		close(over)
		looks.Wait()
		r.judge()
	}, testkit.Table(table), testkit.Nodes(3), testkit.Seed(s.Seed), testkit.Each(func(i int, cfg *system.Config) {
		if i > 0 {
			r.a.begin(i, s.Devices[i-1], cfg)
		}
	}))
	return r
}

// play does one step.
func (r *telling) play(x step, ends *sync.WaitGroup) {
	node := 1 + x.Number%3
	switch x.Do {
	case "call", "task":
		r.submit(x, ends)
	case "free":
		r.free(x.Number)
	case "sick":
		r.health(node, x.Number/3%r.Devices[node-1], "ECC errors")
	case "well":
		for d := range r.Devices[node-1] {
			r.health(node, d, "")
		}
	case "drain", "kill":
		r.mu.Lock()
		busy := r.away[node] || len(r.away) > 1
		if !busy {
			r.away[node] = true
			r.notesLack()
		}
		r.mu.Unlock()
		if !busy {
			r.disturbed.Go(func() { r.disturb(node, x) })
		}
	}
}

// submit submits a call or a task, and notes its end.
func (r *telling) submit(x step, ends *sync.WaitGroup) {
	life := ""
	if x.From > 0 {
		life = r.a.lifeOf(x.From) // before the node is taken, which may die in between
	}
	n := r.c.Node(x.From)
	if n == nil || life == "" {
		life, x.From, n = "", 0, r.c.Node(0)
	}
	r.mu.Lock()
	w := &work{step: x, id: len(r.work), submitted: time.Now(), life: life}
	r.work = append(r.work, w)
	if x.Gate {
		r.gates, r.gate[w.id] = append(r.gates, w.id), make(chan struct{})
	}
	r.mu.Unlock()
	arg := told{w.id, x.For, x.Gate, x.Leaves}
	ctx := n.Context(r.k.Context())
	ends.Go(func() {
		var ref raysys.Ref[raysys.NodeID]
		switch {
		case x.Grain == "":
			ref = r.task.With(raysys.GPU(x.GPUs), raysys.Retries(100)).Go(ctx, arg)
		case x.Safe:
			ref = r.calls[x.GPUs].Idempotent().Call(ctx, r.kinds[x.GPUs].Get(x.Grain), arg)
		default:
			ref = r.calls[x.GPUs].Call(ctx, r.kinds[x.GPUs].Get(x.Grain), arg)
		}
		_, err := ref.Get(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		w.over, w.err, w.ended = true, err, time.Now()
	})
}

// free has a turn end that lasts until it is told.
func (r *telling) free(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.gates) > 0 {
		i := number % len(r.gates)
		close(r.gate[r.gates[i]])
		r.gates = slices.Delete(r.gates, i, i+1)
	}
}

// health has a device be sick, or well: "".
func (r *telling) health(node, device int, cause string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.a.health(node, device, cause)
	r.notesLack()
}

// disturb has a node die or leave, and come back.
func (r *telling) disturb(node int, x step) {
	r.event("%s %d", x.Do, node)
	if x.Do == "kill" {
		r.mu.Lock()
		r.shaken = append(r.shaken, time.Now())
		r.mu.Unlock()
		r.a.kill(r.c, node)
	} else {
		r.shake()
		ctx, cancel := context.WithTimeout(context.Background(), long.Form(2*time.Minute, 29*time.Second))
		err := r.c.Node(node).Drain(ctx)
		cancel()
		if err == nil {
			r.c.Drain(node) // it closes the node
		} else {
			r.mu.Lock()
			r.wrong = append(r.wrong, fmt.Sprintf("at %v: drain node %d: %v", time.Since(r.began), node, err))
			r.mu.Unlock()
			r.a.kill(r.c, node)
		}
	}
	r.shake()
	<-time.After(x.For)
	r.event("gone %d", node)
	r.c.Restart(node)
	r.event("back %d", node)
	r.mu.Lock()
	delete(r.away, node)
	r.mu.Unlock()
	r.shake()
}

func (r *telling) event(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprint(time.Since(r.began), " ", fmt.Sprintf(format, args...)))
}

// recovers is how long the shards of a node and what is known of it may take after it has died, begun to drain, left or come.
const recovers = 1500 * time.Millisecond

func (r *telling) shake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calm = time.Now().Add(recovers)
}

// notesLack notes that no node has enough devices that are well. The caller holds r.mu.
func (r *telling) notesLack() {
	for _, gpus := range []float64{0.5, 1, 2} {
		most := 0
		for node := 1; node <= 3; node++ {
			if !r.away[node] {
				most = max(most, r.a.well(node))
			}
		}
		if most < max(int(gpus), 1) {
			r.short[gpus] = append(r.short[gpus], time.Now())
		}
	}
}

// judge says what is wrong once all is over.
func (r *telling) judge() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong = append(r.wrong, r.a.found()...)
	for _, w := range r.work {
		switch {
		case w.Grain != "" && !w.Safe && w.err == nil && w.runs != 1:
			r.wrong = append(r.wrong, fmt.Sprintf("%v was answered and ran %d times", w, w.runs))
		case w.Grain != "" && !w.Safe && w.runs > 1:
			r.wrong = append(r.wrong, fmt.Sprintf("%v failed (%v) and ran %d times", w, w.err, w.runs))
		}
		if w.err != nil && !r.permitted(w) {
			r.wrong = append(r.wrong, fmt.Sprintf("%v, submitted at %v, ran %d times, after %v: %v", w, w.submitted.Sub(r.began), w.runs, w.ended.Sub(w.submitted), w.err))
		}
	}
}

// permitted reports whether a call or a task may end with its error.
func (r *telling) permitted(w *work) bool {
	if w.life != "" && r.a.lifeOf(w.From) != w.life {
		return true // its caller's node is gone, and with it whoever would hear
	}
	var own *raysys.TaskError
	switch {
	case errors.Is(w.err, raysys.ErrMoved), errors.As(w.err, &own):
		return false
	case errors.Is(w.err, raysys.ErrNoCapacity), errors.Is(w.err, raysys.ErrOverloaded):
		from := w.submitted.Add(-recovers)
		return slices.ContainsFunc(r.short[w.GPUs], func(t time.Time) bool { return t.After(from) && !t.After(w.ended) })
	case errors.Is(w.err, raysys.ErrOutcomeUnknown):
		return w.Grain != "" && !w.Safe && slices.ContainsFunc(r.shaken, func(t time.Time) bool { return !t.Before(w.submitted) && !t.After(w.ended) })
	}
	return false
}

// look checks at each moment that nothing waits beside a free device.
func (r *telling) look(over chan struct{}) {
	for {
		select {
		case <-time.After(5 * time.Millisecond):
			r.lookNow()
		case <-over:
			return
		}
	}
}

// TestGrainsThatMove: grains that hold one device or two, and tasks that hold some beside them, on three nodes whose devices fall sick,
// and which drain, die and come back. The laws:
//   - No grain is active twice at once.
//   - No more of a device is held than there is, and a node that leaves in good order has nothing.
//   - A call that is not idempotent runs once if it is answered, and once at most if it is not.
//   - A call or a task of a node that lives ends with a value; a call with ErrOutcomeUnknown if it is not idempotent and a node died
//     meanwhile; and either with ErrNoCapacity or ErrOverloaded if meanwhile no node that was there had enough devices that were well.
//   - No task and no grain waits for more than waitLimit to begin while a node has had devices free for it for that long. Devices are not
//     free for it that the node keeps for work of another need that goes before it: is older, or of a job with less use of the node. The law cannot hold while the cluster learns of a death, a drain
//     or a newcomer: it counts from recovers after that. Nor is it about devices that idle grains hold.
func TestGrainsThatMove(t *testing.T) {
	drawsOfForm(t, 5, 500)
	longer := long.Form[time.Duration](3, 1) // as slower, where drains must not take minutes
	moved, n := 0, 0
	var longest time.Duration
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt)
		for i := range s.Steps {
			s.Steps[i].After *= longer
			s.Steps[i].For *= longer
		}
		r := tell(t, s)
		moved += r.a.moves
		n += len(r.work)
		longest = max(longest, r.longest)
		if len(r.wrong) > 0 {
			rt.Fatalf("%s", strings.Join(append(r.wrong, r.events...), "\n"))
		}
	})
	if moved == 0 {
		t.Error("no grain was active on another node than before")
	}
	t.Logf("%d calls and tasks, grains moved %d times, longest wait beside a device %v", n, moved, longest)
}
