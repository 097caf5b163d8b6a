package due_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
)

// world is a leader with its store, and writes down what it gives.
type world struct {
	due.Table
	records map[string]due.Record
	seq     uint64
	mono    time.Duration
	wall    time.Time
	dead    map[core.NodeKey]bool
	rings   []int64 // alarms that were set, by their time
	worker  core.NodeKey
	gave    []string
	items   []due.Item // the last
}

var (
	one = core.NodeKey{Node: "one", Incarnation: 1}
	two = core.NodeKey{Node: "two", Incarnation: 2}
)

func newWorld() *world {
	return &world{records: map[string]due.Record{}, wall: time.Unix(1_000_000, 0), dead: map[core.NodeKey]bool{}, worker: one, mono: time.Hour}
}

func (w *world) Record(key string) (due.Record, due.Version, bool) {
	r, ok := w.records[key]
	return r, due.Version{Epoch: 1, Seq: uint64(r.At.Incarnation) + w.seq}, ok
}

func (w *world) Scan(prefix string, visit func(key string) bool) {
	var keys []string
	for key := range w.records {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) && !visit(key) {
			return
		}
	}
}

func (w *world) Alive(k core.NodeKey) bool { return !w.dead[k] }

func (w *world) Worker(string, string) (core.NodeKey, error) {
	if w.worker == (core.NodeKey{}) {
		return w.worker, errors.New("no node has it")
	}
	return w.worker, nil
}

func (w *world) Fire(with core.NodeKey, list []due.Item) {
	w.items = list
	for i := range list {
		line := fmt.Sprint(list[i].Name.Name, " to ", with.Node)
		if list[i].Deleted() {
			line += " deleted"
		}
		w.gave = append(w.gave, line)
	}
}

func (w *world) Ready() bool                      { return true }
func (w *world) Ring(_ time.Duration, at int64)   { w.rings = append(w.rings, at) }
func (w *world) Now() int64                       { return int64(w.mono) }
func (w *world) Wall() time.Time                  { return w.wall }
func (w *world) key(name string) string           { return due.Name{Namespace: "p", Name: name}.Key() }
func (w *world) in(d time.Duration) int64         { return w.wall.Add(d).UnixNano() }
func (w *world) put(name string, rec due.Record)  { w.store(name, rec); w.Look(w.key(name)) }
func (w *world) done(name string, rec due.Record) { w.Done(w.key(name), w.worker); w.put(name, rec) }

func (w *world) store(name string, rec due.Record) {
	w.seq++
	if rec.Data == nil {
		rec.Data = []byte("data")
	}
	w.records[w.key(name)] = rec
}

// pass passes time, and rings what is set.
func (w *world) pass(d time.Duration) {
	for end := w.mono + d; ; {
		slices.Sort(w.rings)
		if len(w.rings) == 0 || time.Duration(w.rings[0]) > end {
			w.wall, w.mono = w.wall.Add(end-w.mono), end
			return
		}
		at := w.rings[0]
		w.rings = w.rings[1:]
		if step := time.Duration(at) - w.mono; step > 0 {
			w.wall, w.mono = w.wall.Add(step), time.Duration(at)
		}
		w.Rang(at)
	}
}

func (w *world) want(t *testing.T, lines ...string) {
	t.Helper()
	if !slices.Equal(w.gave, lines) {
		t.Errorf("given: %q, want %q", w.gave, lines)
	}
	w.gave = nil
}

// low is what a record says whose clock may have been ahead.
func low(at int64) []byte { return fmt.Appendf(nil, `{"Low":%d,"Spec":{}}`, at) }

// TestEdited: who has a record is given an edit of it at once, and is told that it is gone; its own changes do not come back.
func TestEdited(t *testing.T) {
	w := newWorld()
	w.Build(w)
	w.put("a", due.Record{Due: w.in(time.Second)})
	w.pass(2 * time.Second)
	w.want(t, "a to one")
	w.Changed(w.key("a"), false)
	w.put("a", due.Record{At: one}) // it runs for long
	w.pass(time.Minute)
	w.want(t)
	w.Changed(w.key("a"), true)
	w.put("a", due.Record{At: one})
	w.pass(0)
	w.want(t, "a to one")
	had := w.items[0].Version
	delete(w.records, w.key("a"))
	w.Look(w.key("a"))
	w.want(t, "a to one deleted")
	if w.items[0].Version != had {
		t.Errorf("deleted: version %v, want that of the record that is gone: %v", w.items[0].Version, had)
	}
	w.put("b", due.Record{Due: w.in(time.Hour)}) // nobody has it
	w.Changed(w.key("b"), true)
	w.put("b", due.Record{Due: w.in(time.Hour)})
	delete(w.records, w.key("b"))
	w.Look(w.key("b"))
	w.pass(2 * time.Hour)
	w.want(t)
}

// TestHold: what is being changed is given to nobody, until the change is stored, or after a minute.
func TestHold(t *testing.T) {
	w := newWorld()
	w.Build(w)
	w.put("a", due.Record{Due: w.in(5 * time.Second)})
	w.put("none", due.Record{})
	w.Hold(w.key("a"))
	w.Hold(w.key("none"))
	w.pass(30 * time.Second)
	w.want(t)
	w.put("a", due.Record{Due: w.in(-25 * time.Second)})
	w.pass(time.Second)
	w.want(t, "a to one")
	w.put("b", due.Record{Due: w.in(5 * time.Second)})
	w.Hold(w.key("b")) // and the change is refused
	w.pass(2 * time.Minute)
	w.want(t, "b to one")
}

// TestUnchanged: a record that its worker gives back as it is waits a second, or for its time.
func TestUnchanged(t *testing.T) {
	w := newWorld()
	w.Build(w)
	rec := due.Record{Due: w.in(time.Second), Data: []byte("data")}
	w.put("a", rec)
	for range 3 {
		w.pass(time.Second)
		w.want(t, "a to one")
		if other := (due.Record{Due: 1, Data: []byte("data")}); !w.Unchanged(w.key("a"), &rec) || w.Unchanged(w.key("a"), nil) || w.Unchanged(w.key("a"), &other) {
			t.Error("which record is as it is stored?")
		}
		w.Done(w.key("a"), one)
		w.Stay(w.key("a"))
		w.pass(900 * time.Millisecond)
		w.want(t)
		w.pass(-900 * time.Millisecond)
	}
	w.put("never", due.Record{})
	w.Stay(w.key("never"))
	w.done("a", due.Record{Due: w.in(time.Hour)})
	w.Stay(w.key("a"))
	w.pass(59 * time.Minute)
	w.want(t)
	w.pass(2 * time.Minute)
	w.want(t, "a to one")
}

// TestUnread: a record that a node cannot read waits for a minute, with the reason.
func TestUnread(t *testing.T) {
	w := newWorld()
	w.Build(w)
	w.put("a", due.Record{Due: w.in(0)})
	w.pass(0)
	w.want(t, "a to one")
	w.Unread(w.key("a"), two, "not mine") // it does not have it
	w.Unread(w.key("a"), one, "bad")
	if it := w.Item(w.key("a")); it.Why != "bad" || it.Record.At.Node != "" || it.Now != w.wall.UnixNano() {
		t.Errorf("got %+v", it)
	}
	w.pass(59 * time.Second)
	w.want(t)
	w.pass(2 * time.Second)
	w.want(t, "a to one")
}

// TestClockWasAhead: what waits because of a clock that was ahead is given to a worker within a minute; so is what waits for a pause that was made then.
func TestClockWasAhead(t *testing.T) {
	w := newWorld()
	w.Build(w)
	w.wall = w.wall.Add(30 * 24 * time.Hour)
	w.put("low", due.Record{Due: w.in(time.Hour), Data: low(w.in(-time.Hour))})
	w.put("far", due.Record{Due: w.in(time.Hour)}) // it is meant
	w.put("absent", due.Record{Due: w.in(0)})
	w.worker = core.NodeKey{}
	w.pass(0)
	if it := w.Item(w.key("absent")); it.Why != "no node has it" {
		t.Errorf("got %+v", it)
	}
	w.worker = one
	w.wall = w.wall.Add(-30 * 24 * time.Hour)
	w.pass(61 * time.Second)
	w.want(t, "absent to one", "low to one")
	w.done("low", due.Record{Due: w.in(time.Hour), Data: low(w.in(-time.Hour))})
	w.done("absent", due.Record{})
	w.pass(30 * time.Minute)
	w.want(t)

	other := newWorld() // a new leader sees it too
	other.records = map[string]due.Record{w.key("low"): {Due: other.in(time.Hour), Data: low(other.in(time.Hour))}}
	other.Build(other)
	other.Arm()
	other.pass(61 * time.Second)
	other.want(t, "low to one")
}

// TestDiesSoon: nodes that die within a minute of being given a record are counted, until one has stored the next.
func TestDiesSoon(t *testing.T) {
	w := newWorld()
	w.Build(w)
	w.put("a", due.Record{Due: w.in(0)})
	alive := func(core.NodeKey) bool { return false }
	for i := range 12 {
		w.pass(30 * time.Second)
		if w.want(t, "a to one"); int(w.items[0].Died) != i {
			t.Errorf("after %d nodes: %d", i, w.items[0].Died)
		}
		w.Reap(alive)
	}
	w.pass(30 * time.Second)
	w.Changed(w.key("a"), false) // it has stored them with its own
	w.put("a", due.Record{At: one})
	w.Reap(alive)
	w.pass(0)
	if w.want(t, "a to one", "a to one"); w.items[0].Died != 1 {
		t.Errorf("after a node that had stored what it was told: %d", w.items[0].Died)
	}
	w.pass(2 * time.Minute)
	w.Reap(alive) // it had it for long
	w.pass(time.Second)
	if w.want(t, "a to one"); w.items[0].Died != 0 {
		t.Errorf("after one that had it for long: %d", w.items[0].Died)
	}
	w.Reap(alive)
	w.pass(time.Second)
	w.gave = nil
	w.done("a", due.Record{Due: w.in(0)})
	w.pass(time.Second)
	if w.want(t, "a to one"); w.items[0].Died != 0 {
		t.Errorf("after it was moved on: %d", w.items[0].Died)
	}
}

// TestDiesApart: records that died together with one whose work ends nodes do not come to the next node at its side each time.
func TestDiesApart(t *testing.T) {
	w := newWorld()
	w.Build(w)
	for i := range 50 {
		w.put(fmt.Sprint(i), due.Record{Due: w.in(0)})
	}
	w.pass(0)
	w.Reap(func(core.NodeKey) bool { return false })
	w.pass(0)
	if len(w.gave) != 100 {
		t.Errorf("after one dead node all go to the next at once: %d", len(w.gave)-50)
	}
	w.Reap(func(core.NodeKey) bool { return false })
	w.gave = nil
	w.pass(time.Second)
	if n := len(w.gave); n < 10 || n > 40 {
		t.Errorf("after two dead nodes %d of 50 go on within the first of two seconds", n)
	}
	if w.pass(time.Second); len(w.gave) != 50 {
		t.Errorf("after two seconds: %d of 50", len(w.gave))
	}
}

// BenchmarkLook is the look at 100,000 records that wait, which a leader takes each minute.
func BenchmarkLook(b *testing.B) {
	w := newWorld()
	for i := range 100_000 {
		w.store(fmt.Sprint("schedule", i), due.Record{Due: w.in(50_000*time.Hour + time.Duration(i)*time.Minute), Data: low(1)})
	}
	w.Build(w)
	w.Arm()
	for b.Loop() {
		w.pass(time.Minute)
	}
	if len(w.gave) > 0 {
		b.Errorf("%d were given", len(w.gave))
	}
}

// TestOfAnotherNode: a node that had a record, and has it no more, neither ends what another does with it nor takes it from there.
func TestOfAnotherNode(t *testing.T) {
	w := newWorld()
	w.Build(w)
	w.put("a", due.Record{Due: w.in(0)})
	w.pass(0)
	w.want(t, "a to one")
	item := w.items[0]
	w.dead[one], w.worker = true, two
	w.Reap(w.Alive)
	w.pass(0)
	w.want(t, "a to two")
	w.Done(w.key("a"), one)
	w.Unread(w.key("a"), one, "no")
	w.Refused(due.Refused{List: []due.Item{item}, By: one, Err: errors.New("no")})
	if it := w.Item(w.key("a")); it.Record.At != two || it.Why != "" {
		t.Errorf("it is with %v: %s", it.Record.At, it.Why)
	}
	w.pass(2 * time.Minute)
	w.want(t)
}
