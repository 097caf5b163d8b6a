package schedule_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/schedule"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// habit is what the work of a drawn world does: it notes its firing, and takes a while. How long that is and how it ends is drawn by its due time, so
// that a firing which is made again ends in the same way.
type habit struct {
	Name    string
	Longest time.Duration
	Odd     uint64 // of 100 firings so many fail, and as many return what does not encode
}

var (
	drawnCall    = grains.Method(clocks, "drawn", func(_ *clock, ctx context.Context, h habit) (any, error) { return h.run(ctx) })
	drawnDurable = grains.Method(purses, "drawn", func(p *purse, ctx context.Context, h habit) (any, error) {
		p.keep(ctx)
		return h.run(ctx)
	})
	drawnTask = tasks.Define("schedule.drawn", func(ctx context.Context, h habit) (any, error) { return h.run(ctx) })

	runs struct {
		mu  sync.Mutex
		m   map[string]map[int64]uint64 // by the name of a schedule: the due times that ran, and what each tells of those missed
		bad []wrong
	}
)

type wrong struct {
	name string
	due  int64
	what string
}

// draw is a number of less than n for a firing.
func (h habit) draw(due int64, what string, n uint64) uint64 {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, h.Name, " ", due, " ", what)
	return (sum.Sum64() >> 8) % n
}

// counts reports whether a firing ends without an error.
func (h habit) counts(due int64) bool { return h.draw(due, "end", 100) >= 2*h.Odd }

func (h habit) run(ctx context.Context) (any, error) {
	f, _ := schedule.Fired(ctx)
	due, missed := f.Due.UnixNano(), uint64(f.Missed)
	runs.mu.Lock()
	if runs.m[h.Name] == nil {
		runs.m[h.Name] = map[int64]uint64{}
	}
	if before, ok := runs.m[h.Name][due]; ok && before != missed {
		runs.bad = append(runs.bad, wrong{h.Name, due, fmt.Sprintf("the firing of %v tells of %d missed, and of %d", f.Due, before, missed)})
	}
	runs.m[h.Name][due] = missed
	runs.mu.Unlock()
	select {
	case <-time.After(time.Duration(h.draw(due, "time", uint64(h.Longest)+1))):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch at := h.draw(due, "end", 100); {
	case at < h.Odd:
		return nil, errors.New("no")
	case at < 2*h.Odd:
		return odd{1}, nil
	}
	return nil, nil
}

// world is a cluster with schedules that three clients change, and whose nodes, clocks and store fail.
type world struct {
	k      *testkit.Kit
	jumps  bool // clocks differ
	names  []string
	first  map[string]schedule.State // as it was set
	habits map[string]habit

	mu      sync.Mutex               // guards the rest
	lines   map[string]schedule.When // by their text
	tries   map[string][]try
	cancels map[string]int
	leaves  map[string]bool // it has had CatchUp(0), which may leave out what has run
}

// try is a try to change a record.
type try struct {
	schedule.Edit
	verb         string
	made         bool // else it may have been
	began, ended int64
}

// line draws a line that no other schedule has.
func (w *world) line(r *rand.Rand) schedule.When {
	line := schedule.Every(time.Duration(1+r.IntN(15))*time.Second + time.Duration(len(w.lines)))
	w.lines[line.String()] = line
	return line
}

func (w *world) options(r *rand.Rand, name string) []schedule.Option {
	n := []int{0, 1, 1, 3, 1000}[r.IntN(5)]
	w.leaves[name] = w.leaves[name] || n == 0
	return []schedule.Option{schedule.Overlap(r.IntN(3)), schedule.CatchUp(n), schedule.Jitter(time.Duration(max(0, r.IntN(4)-1)) * time.Second)}
}

// set sets a schedule of each kind and each longest time.
func (w *world) set(r *rand.Rand) {
	ctx, t := w.k.Context(), w.k.T()
	for i := range 6 {
		name := fmt.Sprint([]string{"call", "durable", "task"}[i%3], i)
		h := habit{name, time.Duration(r.IntN(4)) * time.Second, uint64(r.IntN(3) * 10)}
		line, opts := w.line(r), w.options(r, name)
		if r.IntN(6) == 0 {
			line = schedule.Cron("* * * * *", "")
			w.lines[line.String()] = line
		}
		w.names, w.habits[name] = append(w.names, name), h
		switch i % 3 {
		case 0:
			must(t, schedule.Call(ctx, name, line, drawnCall, clocks.Get(name), h, opts...))
		case 1:
			must(t, schedule.Call(ctx, name, line, drawnDurable, purses.Get(name), h, opts...))
		default:
			must(t, schedule.Task(ctx, name, line, drawnTask, h, opts...))
		}
		s, err := schedule.Stored(ctx, name)
		must(t, err)
		w.first[name] = s
	}
}

// change changes a schedule, and notes the tries.
func (w *world) change(ctx context.Context, name, verb string, line schedule.When, opts ...schedule.Option) error {
	began := time.Now().UnixNano()
	edits, err := schedule.Change(ctx, name, verb, line, opts...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, e := range edits {
		w.tries[name] = append(w.tries[name], try{e, verb, err == nil && i == len(edits)-1, began, time.Now().UnixNano()})
	}
	return err
}

// client changes schedules until a time, by nodes that may be dead or away.
func (w *world) client(r *rand.Rand, until time.Time) {
	for {
		<-time.After(time.Duration(r.Int64N(int64(10 * time.Second))))
		if !time.Now().Before(until) {
			return
		}
		node := w.k.Cluster().Node(r.IntN(w.k.Cluster().Size() + 1))
		if node == nil {
			continue
		}
		name := w.names[r.IntN(len(w.names))]
		ctx, cancel := context.WithTimeout(node.Context(context.Background()), 30*time.Second)
		switch at := r.IntN(16); {
		case at < 4:
			_ = w.change(ctx, name, "pause", schedule.When{})
		case at < 9:
			_ = w.change(ctx, name, "resume", schedule.When{})
		case at < 11:
			_ = w.change(ctx, name, "run", schedule.When{})
		case at < 14:
			w.mu.Lock()
			s, line := w.lines[w.now(name)], schedule.When{}
			if line = s; at < 13 {
				line = w.line(r)
			}
			opts := w.options(r, name)
			w.mu.Unlock()
			_ = w.change(ctx, name, "replace", line, opts...)
		case strings.HasPrefix(name, "task"):
			w.mu.Lock()
			w.cancels[name]++
			w.mu.Unlock()
			raysys.Lookup[any](ctx, name).Cancel()
		}
		cancel()
	}
}

// now is the line that a schedule had when it was changed last. mu is held.
func (w *world) now(name string) string {
	line := w.first[name].Line
	for _, t := range w.tries[name] {
		if t.made {
			line = t.Is.Line
		}
	}
	return line
}

// fail makes one fault, and ends it; clocks stay as they were set.
func (w *world) fail(r *rand.Rand) {
	c, node := w.k.Cluster(), 1+r.IntN(w.k.Cluster().Size())
	last := func() { <-time.After(time.Duration(r.Int64N(int64(20 * time.Second)))) }
	switch r.IntN(5) {
	case 0:
		c.Kill(node)
		last()
		c.Restart(node)
	case 1:
		c.Pause(node)
		last()
		c.Resume(node)
	case 2:
		c.StoreDown()
		last()
		c.StoreUp()
	case 3:
		c.StoreDown(node)
		last()
		c.StoreUp(node)
	case 4:
		if w.jumps {
			c.ClockJump(node, time.Duration(r.Int64N(int64(10*time.Minute)))-5*time.Minute)
		}
	}
}

// rest ends the world: what is due is made, then all is paused, and what runs ends.
func (w *world) rest() {
	ctx, t := w.k.Context(), w.k.T()
	w.k.Cluster().Heal()
	w.k.Advance(20 * time.Second)
	w.k.Cluster().Ready()
	for _, name := range w.names {
		must(t, w.change(ctx, name, "resume", schedule.When{}))
	}
	w.k.Advance(90 * time.Second)
	for _, name := range w.names {
		must(t, w.change(ctx, name, "pause", schedule.When{}))
	}
	for _, name := range w.names {
		for n := 0; ; n++ {
			i, err := schedule.Get(ctx, name)
			must(t, err)
			s, err := schedule.Stored(ctx, name)
			if must(t, err); i.Node == "" && len(s.Asked) == 0 {
				break
			}
			if w.k.Advance(5 * time.Second); n == 60 {
				t.Fatalf("%s has been paused for five minutes: %+v, %+v", name, i, s)
			}
		}
	}
}

// span is a line of a schedule from its first time to the first that it was not due at, without those that pauses passed over.
type span struct {
	line     schedule.When
	from, to int64
	passed   [][2]int64
}

func next(w schedule.When, after int64) int64 {
	t, err := w.Next(time.Unix(0, after))
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

// times adds the times of the span to a set.
func (s *span) times(due map[int64]bool) {
	for t := s.from; t < s.to; t = next(s.line, t) {
		if !slices.ContainsFunc(s.passed, func(p [2]int64) bool { return p[0] <= t && t < p[1] }) {
			due[t] = true
		}
	}
}

// behind is the next time of a schedule where those that had come by now are settled.
func (w *world) behind(s *schedule.State, now int64) int64 {
	t := s.Next
	for t+s.Jitter <= now {
		t = next(w.lines[s.Line], t)
	}
	return t
}

// due has the times at which a schedule was due, by what was changed in it; and checks that each change counts from when it was made.
func (w *world) due(name string, last schedule.State) map[int64]bool {
	t := w.k.T()
	list := w.tries[name]
	slices.SortStableFunc(list, func(a, b try) int {
		return cmp.Or(cmp.Compare(a.Was.Version.Epoch, b.Was.Version.Epoch), cmp.Compare(a.Was.Version.Seq, b.Was.Version.Seq))
	})
	all, s := map[int64]bool{}, span{line: w.lines[w.first[name].Line], from: w.first[name].Next}
	for i := 0; i < len(list); {
		was, made, n := list[i].Was, -1, i
		for ; n < len(list) && list[n].Was.Version == was.Version; n++ {
			w.check(name, &list[n])
		}
		then := last
		if n < len(list) {
			then = list[n].Was
		}
		// One of those that read this version was made at most. Where the answer was lost it is the one that explains what comes then.
		for j := i; j < n; j++ {
			e := &list[j]
			explains := was.Line != then.Line && e.Is.Line == then.Line || was.Line == then.Line && was.Paused && !then.Paused && e.verb == "resume"
			if e.made || made < 0 && explains {
				made = j
			}
		}
		if i = n; made < 0 {
			continue
		}
		switch e := &list[made]; {
		case e.Is.Line != was.Line:
			if s.to = was.Next; !was.Paused {
				s.to = w.behind(&was, e.Now)
			}
			s.times(all)
			s = span{line: w.lines[e.Is.Line], from: e.Is.Next}
		case e.verb == "resume" && was.Paused:
			s.passed = append(s.passed, [2]int64{was.Next, e.Is.Next})
		}
	}
	if s.to = last.Next; s.line.String() != last.Line {
		t.Errorf("%s has the line %s, and nobody gave it that", name, last.Line)
	}
	s.times(all)
	return all
}

// check checks what a try made of the record.
func (w *world) check(name string, e *try) {
	want := e.Was.Next
	switch {
	case e.Is.Line != e.Was.Line:
		want = next(w.lines[e.Is.Line], e.Now)
	case !e.Was.Paused || e.verb == "resume":
		want = w.behind(&e.Was, e.Now)
	}
	if e.Is.Next != want {
		w.k.T().Errorf("%s: %s at %d makes %+v of %+v: want next %d", name, e.verb, e.Now, e.Is, e.Was, want)
	}
	if !w.jumps && (e.Now < e.began || e.Now > e.ended) {
		w.k.T().Errorf("%s: %s between %d and %d was made by the time %d", name, e.verb, e.began, e.ended, e.Now)
	}
}

// account checks that each due time of a schedule has one end.
func (w *world) account(name string) {
	ctx, t := w.k.Context(), w.k.T()
	s, err := schedule.Stored(ctx, name)
	must(t, err)
	due, fired, told := w.due(name, s), maps.Clone(runs.m[name]), s.Since
	if fired == nil {
		fired = map[int64]uint64{}
	}
	if strings.HasPrefix(name, "durable") {
		w.counted(name, due, &s)
	}
	maps.Copy(fired, s.Running)
	unheard, either := 0, uint64(0) // due times that have not fired; what firings tell of that may have begun before a change or not
	for at := range due {
		if _, ok := fired[at]; !ok {
			unheard++
		}
	}
	for at, n := range fired {
		told += n
		if w.begun(name, at, s) {
			either += n
		} else if !due[at] && !w.asked(name, at) {
			t.Errorf("%s has fired at %d, and was not due then", name, at)
			w.show(name, at)
		}
	}
	missed, cancels, leaves := int(s.Missed), w.cancels[name], w.leaves[name]
	exact := unheard == missed && told-either <= s.Missed && s.Missed <= told
	if !exact && (cancels == 0 && !leaves || unheard > missed+cancels || !leaves && (unheard < missed || told-either > s.Missed)) {
		t.Errorf("%s: %d were due, of which %d have not fired; %d were missed, and firings told of %d (%d); %d cancelled: %+v", name, len(due), unheard, missed, told, either, cancels, s)
		w.show(name, 0)
	}
}

// asked reports whether Run has asked for a firing.
func (w *world) asked(name string, at int64) bool {
	return slices.ContainsFunc(w.tries[name], func(e try) bool { return slices.Contains(e.Is.Asked, at) })
}

// begun reports whether a firing may have begun by a clock that was ahead of the one by which a change was made later.
func (w *world) begun(name string, at int64, last schedule.State) bool {
	return w.jumps && (last.Next == at || slices.ContainsFunc(w.tries[name], func(e try) bool { return e.Was.Next == at }))
}

// show logs the changes of a schedule around a time; 0: all.
func (w *world) show(name string, at int64) {
	w.k.T().Logf("the clocks differ: %v, CatchUp(0): %v", w.jumps, w.leaves[name])
	for _, e := range w.tries[name] {
		if d := time.Duration(e.Now - at).Abs(); at == 0 || d < 30*time.Second {
			w.k.T().Logf("%s made %v at %d (%d to %d): %+v -> %+v", e.verb, e.made, e.Now, e.began, e.ended, e.Was, e.Is)
		}
	}
}

// counted checks that a Durable grain counts each firing once, unless that ended with an error.
func (w *world) counted(name string, due map[int64]bool, s *schedule.State) {
	ctx, t := w.k.Context(), w.k.T()
	list, err := charged.Call(ctx, purses.Get(name)).Get(ctx)
	must(t, err)
	kept := map[int64]bool{}
	for _, f := range list {
		if missed, ran := runs.m[name][f.Due]; kept[f.Due] || !ran || int(missed) != f.Missed {
			t.Errorf("%s counts %+v, and had %v; it ran: %v, with %d missed", name, f, kept[f.Due], ran, missed)
		}
		kept[f.Due] = true
	}
	for at := range runs.m[name] {
		if _, waits := s.Running[at]; !waits && !w.leaves[name] && (due[at] || w.asked(name, at)) && kept[at] != w.habits[name].counts(at) {
			t.Errorf("%s: the firing of %d ends without an error: %v, and counts: %v", name, at, !kept[at], kept[at])
			w.show(name, at)
		}
	}
}

// TestWorlds: in drawn worlds, whatever fails and whoever changes a schedule meanwhile, each due time has one end: it has fired, it is counted as missed,
// or it is still owed; and the firings tell of all that were missed.
func TestWorlds(t *testing.T) {
	for i := range long.Form(30, 2000) {
		nodes := 2 + i%4
		t.Run(fmt.Sprint(nodes, " nodes ", i), func(t *testing.T) {
			testkit.Virtual(t, func(k *testkit.Kit) {
				runs.m, runs.bad = map[string]map[int64]uint64{}, nil
				r := k.Rand()
				w := &world{
					k: k, jumps: r.IntN(3) == 0, first: map[string]schedule.State{}, lines: map[string]schedule.When{}, tries: map[string][]try{},
					cancels: map[string]int{}, leaves: map[string]bool{}, habits: map[string]habit{},
				}
				w.set(r)
				until := time.Now().Add(time.Minute + time.Duration(math.Pow(r.Float64(), 3)*float64(4*time.Minute))) // more of them are short
				var clients sync.WaitGroup
				for range 3 {
					own := rand.New(rand.NewPCG(r.Uint64(), 0))
					clients.Go(func() { w.client(own, until) })
				}
				for time.Now().Before(until) {
					k.Advance(time.Duration(r.Int64N(int64(10 * time.Second))))
					w.fail(r)
				}
				clients.Wait()
				w.rest()
				for _, name := range w.names {
					w.account(name)
				}
				for _, b := range runs.bad {
					if s, err := schedule.Stored(k.Context(), b.name); err != nil || !w.begun(b.name, b.due, s) {
						k.T().Errorf("%s: %s: %v", b.name, b.what, err)
						w.show(b.name, b.due)
					}
				}
			}, testkit.Nodes(nodes), testkit.Seed(long.Form(uint64(i)+1, 0)))
		})
	}
}
