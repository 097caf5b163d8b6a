package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/due"
)

// edit is a change by a client: verb, or what a program sets. Its letter may come later.
func (w *world) edit(verb string, n int) {
	s, when := w.draw(n)
	it := w.table.Item(w.name().Key())
	var send func()
	send = func() {
		if !it.Exists() {
			<-time.After(1) // no two records are set at one time
			it = w.table.Item(w.name().Key())
		}
		c, err := due.Change{}, error(nil)
		if it.Name = w.name(); verb == "" {
			c, err = s.put(it, nil)
		} else {
			c, err = do(verb, it, nil)
		}
		if err != nil || c.Read {
			return
		}
		c.Name, c.Was = it.Name, it.Version
		w.logf("a client at %s: %s%v", clock(it.Now), verb, when)
		if now, made := w.serve(c, nil, verb, &s.spec, it.Now); !made {
			it = now
			send()
		}
	}
	w.client = append(w.client, letter{"a client's letter arrives", send, func() {}})
	if n%4 != 3 {
		w.deliver(len(w.client)-1, false)
	}
}

// draw is what a program sets.
func (w *world) draw(n int) (setting, When) {
	r := rand.New(rand.NewPCG(uint64(n), 0))
	var when When
	every := []time.Duration{10 * time.Second, time.Minute, 7 * time.Minute, 20 * time.Minute}
	switch r.IntN(8) {
	case 0:
		when = At(time.Unix(0, w.wall()).Add(time.Duration(r.IntN(40)-10) * time.Minute))
	case 1:
		when = Cron("*/5 * * * *", "")
	case 2:
		when = Cron("7 * * * *", "Europe/Berlin")
	default:
		when = Every(every[min(r.IntN(12)+1, 11)/3])
	}
	if w.far {
		when = Every(20 * time.Minute)
	}
	most := maxRunning
	if w.far || when.every == every[0] { // what that many cost
		most = 5
	}
	s, err := settingOf(when, []Option{
		[]Overlap{Skip, Queue, Allow}[r.IntN(3)], CatchUp([]int{0, 1, 1, 3, 3, most}[r.IntN(6)]), Jitter([]time.Duration{0, 0, 20 * time.Second, 3 * time.Minute}[r.IntN(4)]),
	})
	s.paused = r.IntN(10) == 0
	s.Work = work{Function: "f"}
	w.check(err)
	return s, when
}

// outcomesOf are those of firings: errors that are outcomes, and faults, before which the work may have been done.
var outcomesOf = []struct {
	err   error
	ran   bool
	fault bool
}{
	{nil, true, false},
	{errors.New("bad"), true, false},
	{fmt.Errorf("%w: %w", raysys.ErrEncode, errors.New("chan int")), true, false},
	{raysys.ErrCancelled, true, false},
	{raysys.ErrOutcomeUnknown, true, true},
	{raysys.ErrOutcomeUnknown, false, true},
	{raysys.ErrNodeDead, false, true},
	{raysys.ErrOverloaded, false, true},
}

// outcome ends the firing n of those that run; it returns false where none does.
func (w *world) outcome(n, which int) bool {
	all := 0
	for _, k := range w.workers {
		all += len(k.live)
	}
	if all == 0 {
		return false
	}
	n %= all
	for _, k := range w.workers {
		if n >= len(k.live) {
			n -= len(k.live)
			continue
		}
		f, o := k.live[n], outcomesOf[which%len(outcomesOf)]
		k.live = slices.Delete(k.live, n, n+1)
		w.logf("%v: %s ends: %v", k, clock(f.due), o.err)
		f.own.ran = f.own.ran || o.ran
		switch {
		case !o.fault:
			if !f.h.over {
				w.mu.Lock()
				k.ended[f.own] = f.of
				w.mu.Unlock()
			}
		case o.err != raysys.ErrOverloaded:
			w.deaths++
		}
		f.h.ended(f.due, o.err)
		w.hear()
		return true
	}
	return true
}

// Enabled implements slog.Handler.
func (k *worker) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (k *worker) WithAttrs([]slog.Attr) slog.Handler { return k }

// WithGroup implements slog.Handler.
func (k *worker) WithGroup(string) slog.Handler { return k }

// Handle implements slog.Handler: a firing that is given up has an outcome.
func (k *worker) Handle(_ context.Context, line slog.Record) error {
	k.report(func() {
		k.w.logf("log of %v: %s", k, line.Message)
		line.Attrs(func(a slog.Attr) bool {
			if line.Message == "a firing of a schedule is given up" && a.Key == "due" {
				k.w.gaveUp(a.Value.Time().UnixNano())
			}
			return true
		})
	})
	return nil
}

func (w *world) gaveUp(t int64) {
	if r := w.stored[w.version]; r != nil && !w.bad {
		w.lives[r.Set].fate(t).ran = true
	}
	if w.deaths < maxDied {
		w.check(fmt.Errorf("%s is given up after %d deaths", clock(t), w.deaths))
	}
}

// spoil has a record be stored that nobody can read.
func (w *world) spoil(n int) {
	r := w.stored[w.version]
	if r == nil {
		return
	}
	bad := *r
	switch n % 5 {
	case 0:
		bad.Spec.Overlap = 9
	case 1:
		bad.Running = append(slices.Clone(r.Running), firing{Due: 5}, firing{Due: 5})
	case 2:
		bad.Next = -1
	case 3:
		bad.Missed = 1 << 60
	case 4:
		bad.Spec.When = stored{At: 5, Every: int64(time.Hour)}
	}
	data, err := json.Marshal(&bad)
	w.check(err)
	w.bad, w.lives[r.Set].over = true, true
	w.rec, w.version = due.Record{Due: 1, Function: w.rec.Function, Data: data}, due.Version{Epoch: 1, Seq: uint64(len(w.stored)) + 1}
	w.stored[w.version] = nil
	w.logf("a record that nobody can read: %s", data)
	w.table.Changed(w.name().Key(), true)
	w.table.Look(w.name().Key())
}

// settle passes a time with right clocks, without faults, and asks whether all is settled.
func (w *world) settle(d time.Duration) {
	w.setClock(0, false)
	w.table.Reap(w.Alive)
	if len(w.workers) == 0 {
		w.born(1)
	}
	if r := w.stored[w.version]; r != nil && r.when.every > 0 {
		d = min(d, 10*r.when.every)
	}
	w.logf("all is well from here on")
	given := w.given
	w.flow(d+3*time.Minute, true, true)
	r := w.stored[w.version]
	switch {
	case w.err != nil:
	case w.bad:
		if it := w.table.Item(w.name().Key()); it.Why == "" || w.given > given+70 {
			w.check(fmt.Errorf("a record that nobody can read was given %d times in an hour, and says %q", w.given-given, it.Why))
		}
	case r != nil:
		w.check(w.lives[r.Set].settled(r, w.wall()))
	}
}

type step struct {
	what string
	n    int
}

var durations = []time.Duration{time.Second, time.Second, 10 * time.Second, 10 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 20 * time.Minute, time.Hour}

func (w *world) step(s step) {
	d := durations[s.n%len(durations)]
	if w.version == (due.Version{}) && slices.Contains([]string{verbPause, verbResume, verbRun, verbDelete}, s.what) {
		s.what = "set"
	}
	switch s.what {
	case "deliver", "lose":
		w.deliver(s.n, s.what == "lose")
	case "end":
		w.outcome(s.n/10, max(s.n%10-2, 0))
	case "die":
		w.die(s.n%8, s.n/8)
	case "born":
		if len(w.workers) < 3 {
			w.born(1)
		}
	case "pass", "flow", "succeed":
		w.table.Reap(w.Alive)
		w.flow(d, s.what != "pass", s.what == "succeed")
	case "set":
		w.edit("", s.n)
	case "lead": // another leader knows what is stored
		w.rings = nil
		w.table = due.Table{}
		w.table.Build(w)
		w.table.Arm()
	case "jump":
		w.setClock(int64(s.n%61-30)*10*int64(time.Second), false)
	case "ahead":
		w.setClock(int64(30*24*time.Hour), true)
	case "nobody":
		for len(w.workers) > 0 {
			w.die(0, s.n)
		}
		w.flow(time.Hour, true, false)
		w.born(1 + s.n%3)
	case "plague": // nodes die one behind the other
		for range maxDied + s.n%4 {
			w.flow(40*time.Second, true, false)
			for len(w.workers) > 0 {
				w.die(0, 0)
			}
			w.table.Reap(w.Alive)
			w.born(1)
		}
	case "spoil":
		w.spoil(s.n)
	default:
		w.edit(s.what, s.n)
	}
}

// weights say how often a step is drawn.
var weights = map[string]int{
	"deliver": 12, "lose": 2, "end": 8, "die": 2, "born": 2, "pass": 4, "flow": 8, "succeed": 4, "set": 2, verbPause: 1, verbResume: 1, verbRun: 2, verbDelete: 1,
	"lead": 1, "jump": 2, "nobody": 1,
}

// play plays a history, and says which law it breaks.
func play(t *testing.T, h story, trace *[]string) (err error) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(trace)
		w.far = h.far
		w.born(h.workers)
		w.edit("", h.set)
		for _, s := range h.steps {
			if w.err == nil {
				w.step(s)
			}
		}
		if w.settle(time.Hour); w.err == nil && w.version != (due.Version{}) {
			if w.edit(verbResume, 0); w.bad {
				w.edit(verbDelete, 0)
			}
			w.settle(0)
		}
		for _, k := range w.workers {
			k.stop()
		}
		err = w.err
	})
	return err
}

type story struct {
	workers, set int
	far          bool
	steps        []step
}

func drawStory(t *rapid.T) (h story) {
	clocks := rapid.SampledFrom([]string{"right", "right", "off", "far"}).Draw(t, "clocks")
	var names []string
	for name, n := range weights {
		if name == "jump" && clocks == "right" {
			continue
		}
		for range n {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	one := rapid.Custom(func(t *rapid.T) step {
		return step{rapid.SampledFrom(names).Draw(t, "step"), rapid.IntRange(0, 1000).Draw(t, "n")}
	})
	h.workers, h.set = rapid.IntRange(1, 3).Draw(t, "workers"), rapid.IntRange(0, 1000).Draw(t, "set")
	h.steps = rapid.SliceOfN(one, 1, 80).Draw(t, "steps")
	rare := rapid.SampledFrom([]string{"", "", "", "", "", "", "", "", "spoil", "plague"}).Draw(t, "rare")
	if h.far = clocks == "far"; h.far {
		rare = "ahead"
	}
	if rare != "" {
		at := rapid.IntRange(0, len(h.steps)).Draw(t, "at")
		h.steps = slices.Insert(h.steps, at, step{rare, at})
		if rare == "spoil" && rapid.Bool().Draw(t, "lost") { // that it cannot be read
			h.steps = slices.Insert(h.steps, at+1, step{"pass", 0}, step{"deliver", 0}, step{"lose", 0})
		}
		if h.far {
			h.steps = append(h.steps, step{"jump", 30})
		}
	}
	return h
}

// TestLaw plays drawn histories of one schedule: see ledger for what must hold.
func TestLaw(t *testing.T) {
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = flag.Set("rapid.checks", "1500")
		t.Cleanup(func() { _ = flag.Set("rapid.checks", f.DefValue) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		h := drawStory(rt)
		if err := play(t, h, nil); err != nil {
			var trace []string
			_ = play(t, h, &trace)
			rt.Fatalf("%v\n%s", err, strings.Join(trace, "\n"))
		}
	})
}

// TestLawStories plays what drawn histories have found, and do not find each time.
func TestLawStories(t *testing.T) {
	for _, h := range []story{
		// What a worker looked at before a clock was ahead, told to a record of that clock.
		{1, 0, true, []step{{"run", 0}, {"pass", 0}, {"resume", 3}, {"ahead", 3}, {"pause", 0}, {"flow", 0}, {"jump", 30}}},
	} {
		var trace []string
		if err := play(t, h, &trace); err != nil {
			t.Errorf("%v\n%s", err, strings.Join(trace, "\n"))
		}
	}
}

// TestLawFull: of more times than can wait some are left out, which the drawn histories do not reach.
func TestLawFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(nil)
		w.born(1)
		s, err := settingOf(Every(time.Second), []Option{Allow, CatchUp(maxRunning)})
		w.check(err)
		s.Work = work{Function: "f"}
		it := w.table.Item(w.name().Key())
		it.Name = w.name()
		c, err := s.put(it, nil)
		w.check(err)
		c.Name = it.Name
		w.serve(c, nil, "", &s.spec, it.Now)
		w.flow(20*time.Minute, false, false)
		w.flow(2*time.Second, true, false)
		r := w.stored[w.version]
		if w.err == nil && (len(r.Running) != maxRunning || r.Left[leftFull] == 0) {
			w.err = fmt.Errorf("%d run, left out: %v", len(r.Running), r.Left)
		}
		if w.err != nil {
			t.Error(w.err)
		}
		w.workers[0].stop()
	})
}
