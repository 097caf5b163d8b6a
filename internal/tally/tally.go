package tally

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is how a run ended.
type Outcome uint8

// The outcomes.
const (
	OK        Outcome = iota
	Error             // the function returned an error, or ended its goroutine
	Panic             // it panicked
	Cancelled         // it was cancelled, before its start or while it ran, or an input failed
	Retried           // it failed, and runs again
	numOutcomes
)

// String names the outcome, as metrics do.
func (o Outcome) String() string {
	return [numOutcomes]string{"ok", "error", "panic", "cancelled", "retried"}[o]
}

// Outcomes are all there are.
func Outcomes() []Outcome { return []Outcome{OK, Error, Panic, Cancelled, Retried} }

// Kind is what a function is called as.
type Kind string

// The kinds.
const (
	TaskKind Kind = "task"
	CallKind Kind = "call"
)

const (
	// Sample is of how many short runs one is timed, where each is timed by itself.
	Sample = 16
	// shortRun is what a run takes at most that is timed once in Sample runs.
	shortRun = int64(50 * time.Microsecond)
	// Stripes is how many counters a function has. What runs at the same time counts in different ones, mostly.
	Stripes = 8
)

// Function counts the runs of one function on one node.
type Function struct {
	Name string
	Kind Kind

	of       *Tally
	outcomes [numOutcomes]atomic.Uint64 // but what is in stripes
	short    atomic.Bool                // the last that was timed took little
	texts    texts
	left     atomic.Uint64 // failures whose texts were not looked at
	times    histogram
	waits    *histogram // of calls; nil of a task
	stripes  [Stripes]stripe
}

// stripe counts runs with outcome OK. It fills a cache line.
type stripe struct {
	ok atomic.Uint64
	_  [56]byte
}

// Ended counts n runs.
func (f *Function) Ended(o Outcome, n uint64) { f.outcomes[o].Add(n) }

// Took counts n runs of ns nanoseconds each, of any outcome.
func (f *Function) Took(ns int64, n uint64) { f.times.add(ns, n) }

// Waited counts a call that waited ns nanoseconds for its turn. of is Sample for one that Timed chose, and else 1.
func (f *Function) Waited(ns int64, of uint64) {
	if !f.short.Load() {
		of = 1
	}
	f.waits.add(max(ns, 0), of)
}

// Timed reports whether a run that begins now is to be timed: one in Sample while they are short.
func (f *Function) Timed(stripe uint) bool {
	return f.stripes[stripe%Stripes].ok.Load()%Sample == 0 || !f.short.Load()
}

// OK counts one run that ended well.
func (f *Function) OK(stripe uint) { f.stripes[stripe%Stripes].ok.Add(1) }

// Sampled counts a run that Timed chose, and those for which it stands: it is one of so many while they are short.
func (f *Function) Sampled(ns int64, of uint64) {
	short := f.short.Load()
	if !short {
		of = 1
	}
	f.times.add(ns, of)
	if next := ns < shortRun; next != short {
		f.short.Store(next)
	}
}

// row is what has been counted so far.
func (f *Function) row() Row {
	r := Row{Name: f.Name, Kind: f.Kind, Times: f.times.times(), Left: f.left.Load()}
	if f.waits != nil {
		r.Waited = f.waits.times()
	}
	for o := range f.outcomes {
		r.Outcomes[o] = f.outcomes[o].Load()
	}
	for i := range f.stripes {
		r.Outcomes[OK] += f.stripes[i].ok.Load()
	}
	return r
}

// Row is what a node has counted of one function, and what it has of it now.
type Row struct {
	Name     string `json:"name"` // of a method: kind.method
	Kind     Kind   `json:"kind"`
	Outcomes Counts `json:"outcomes"`
	Left     uint64 `json:"left,omitempty"` // of the failures in Outcomes, those that no Failure has
	Times    Times  `json:"times"`
	Waited   Times  `json:"waited"` // of calls, for their turn

	Running int           `json:"running"`
	Waiting int           `json:"waiting"`          // to start: for inputs, a CPU, resources, or the turn of its grain
	Oldest  time.Duration `json:"oldest,omitempty"` // for how long the one has waited that has waited longest, about
}

// Counts are numbers of runs by Outcome.
type Counts [numOutcomes]uint64

// Runs is how often the function was run, to any end.
func (c Counts) Runs() (n uint64) {
	for _, k := range c {
		n += k
	}
	return n
}

// Failed is how many runs ended in an error or a panic, and were not repeated.
func (c Counts) Failed() uint64 { return c[Error] + c[Panic] }

// Waits counts one that has waited so long.
func (r *Row) Waits(d time.Duration) {
	r.Waiting++
	r.Oldest = max(r.Oldest, d)
}

// Plus returns the row of both nodes.
func (r Row) Plus(o Row) Row {
	for i, n := range o.Outcomes {
		r.Outcomes[i] += n
	}
	r.Times, r.Waited = r.Times.Plus(o.Times), r.Waited.Plus(o.Waited)
	r.Left += o.Left
	r.Running += o.Running
	r.Waiting += o.Waiting
	r.Oldest = max(r.Oldest, o.Oldest)
	return r
}

// Tally is what one node counts. The zero value is ready.
type Tally struct {
	recorder  atomic.Pointer[Recorder] // read for each task and call, so nothing beside it is written often
	functions sync.Map                 // by key
	_         [64]byte
	failures  failures
}

type key struct {
	kind Kind
	name string
}

// Function returns what counts the function.
func (t *Tally) Function(kind Kind, name string) *Function {
	k := key{kind, name}
	if f, ok := t.functions.Load(k); ok {
		return f.(*Function)
	}
	f := &Function{Name: name, Kind: kind, of: t}
	if kind == CallKind {
		f.waits = &histogram{}
	}
	kept, _ := t.functions.LoadOrStore(k, f)
	return kept.(*Function)
}

// Rows are all functions of the kind that have run here, or were to, by name. Running, Waiting and Oldest are for the engine to fill.
func (t *Tally) Rows(kind Kind) (rows []Row) {
	t.functions.Range(func(_, v any) bool {
		if f := v.(*Function); f.Kind == kind {
			rows = append(rows, f.row())
		}
		return true
	})
	return byName(rows)
}

// Merged are the rows of one kind while an engine fills them.
type Merged struct {
	kind Kind
	rows map[string]*Row
}

// Merge begins with what is counted.
func Merge(t *Tally, kind Kind) *Merged {
	m := &Merged{kind, map[string]*Row{}}
	for _, r := range t.Rows(kind) {
		m.rows[r.Name] = &r
	}
	return m
}

// Row is that of a function, of which nothing may have run yet.
func (m *Merged) Row(name string) *Row {
	r := m.rows[name]
	if r == nil {
		r = &Row{Name: name, Kind: m.kind}
		m.rows[name] = r
	}
	return r
}

// Rows are all, by name.
func (m *Merged) Rows() []Row {
	rows := make([]Row, 0, len(m.rows))
	for _, r := range m.rows {
		rows = append(rows, *r)
	}
	return byName(rows)
}

func byName(rows []Row) []Row {
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

// Cache remembers the Function of the node that asked last. What defines a function has one.
type Cache struct{ last atomic.Pointer[Function] }

// Last returns what counts the function in t, where that asked last; else nil. It is for inlining.
func (c *Cache) Last(t *Tally) *Function {
	if f := c.last.Load(); f != nil && f.of == t {
		return f
	}
	return nil
}

// Of returns what counts the function in t.
func (c *Cache) Of(t *Tally, kind Kind, name string) *Function {
	f := c.Last(t)
	if f == nil {
		f = t.Function(kind, name)
		c.last.Store(f)
	}
	return f
}
