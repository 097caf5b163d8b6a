package core_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/core"
)

// still is a runtime without a clock.
type still struct{}

func (still) Now() int64                  { return 0 }
func (still) SetAlarm(*core.Alarm)        {}
func (still) ClearAlarm(*core.Alarm) bool { return true }
func (still) Block(*core.Turn)            {}
func (still) Unblock(*core.Turn)          {}

// made is a future whose value can be made again.
type made struct {
	core.Result[[]byte]
	shared *shared
}

// ValueType says what the Future's value is.
func (*made) ValueType() *core.ValueType { return core.TypeOf[[]byte]() }

// shared counts what happens to one made, and says what is to happen.
type shared struct {
	mu       sync.Mutex // guards the rest
	rebuilds int
	running  int
	together int // rebuilds that ran while another did
	left     int // rebuilds that succeed
	fetches  int
	gate     chan struct{} // rebuilds end when it is closed
}

func (m *made) Name() string                          { return "made" }
func (m *made) Help(*core.Turn) bool                  { return false }
func (m *made) Expires() int64                        { return 0 }
func (m *made) Waits() ([]*core.Turn, []*core.Future) { return nil, nil }
func (m *made) Break([]string) bool                   { return false }

var errNoMore = fmt.Errorf("%w: nothing makes it again", core.ErrObjectLost)

// Remake implements core.Remaker.
func (m *made) Remake(_ *core.Future, _ error, done func(core.Source, error)) {
	s := m.shared
	s.mu.Lock()
	s.rebuilds++
	if s.running++; s.running > 1 {
		s.together++
	}
	s.mu.Unlock()
	go func() {
		<-s.gate
		s.mu.Lock()
		s.running--
		s.left--
		ok := s.left >= 0
		next := &brittle{s: s, value: byte(s.rebuilds)}
		s.mu.Unlock()
		if !ok {
			done(nil, errNoMore)
			return
		}
		done(next, nil)
	}()
}

// brittle is a Source that loses its value when lose is called.
type brittle struct {
	s     *shared
	value byte
	lost  bool
	on    core.Source // it is there instead
}

func (b *brittle) Name() string    { return "brittle" }
func (b *brittle) ID() core.TaskID { return core.TaskID{} }
func (b *brittle) Cancelled()      {}

func (b *brittle) lose() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.lost = true
}

func (b *brittle) Fetch(into any, done func(error)) {
	b.s.mu.Lock()
	b.s.fetches++
	var err error
	switch {
	case b.lost:
		err = fmt.Errorf("%w: dropped", core.ErrObjectLost)
	case b.on != nil:
		err = &core.Elsewhere{Source: b.on}
	default:
		*into.(*[]byte) = large(b.value)
	}
	b.s.mu.Unlock()
	if b.value%2 == 0 {
		done(err)
		return
	}
	go done(err)
}

// viewed is a brittle that shows its value too.
type viewed struct{ *brittle }

func (v viewed) View(into any, done func(func(), error)) {
	v.Fetch(into, func(err error) { done(nil, err) })
}

// large is an object that begins with b.
func large(b byte) []byte {
	v := make([]byte, 2*core.ObjectSize)
	v[0] = b
	return v
}

// keeps keeps every object.
type keeps struct{}

func (keeps) Keep(*core.Future, any) (bool, error) { return true, nil }
func (keeps) Drop(*core.Future)                    {}

// newMade returns an absent future, and a context of its node.
func newMade(src core.Source, s *shared) (*made, context.Context) {
	j := &core.Job{Runtime: still{}, Closed: make(chan struct{}), Objects: keeps{}}
	j.Top = core.NewRoot(j, context.Background(), nil, core.TaskID{})
	m := &made{shared: s}
	m.Future.Init(m, j.Top, 1, true)
	m.Future.Forward(src)
	return m, core.NewContext(core.NewRoot(j, context.Background(), j.Top, core.TaskID{Hi: 1}))
}

// TestRebuild: readers and viewers of a lost value share one rebuild, all of them end, and each rebuild but the last,
// which cannot be done, gives them the new value. A rebuild that failed stays.
func TestRebuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &shared{gate: make(chan struct{}), left: rapid.IntRange(0, 3).Draw(t, "rebuilds that succeed")}
		first := &brittle{s: s, lost: rapid.Bool().Draw(t, "lost"), value: byte(rapid.IntRange(100, 101).Draw(t, "value"))}
		var src core.Source = first
		if rapid.Bool().Draw(t, "shows") {
			src = viewed{first}
		}
		if rapid.Bool().Draw(t, "passed on") {
			src = &brittle{s: s, on: src, value: byte(rapid.IntRange(102, 103).Draw(t, "forwarder"))}
		}
		m, ctx := newMade(src, s)
		left := s.left
		readers := rapid.IntRange(1, 6).Draw(t, "readers")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 2), readers, readers).Draw(t, "kinds")
		var all sync.WaitGroup
		got := make([]byte, readers)
		errs := make([]error, readers)
		for i, kind := range kinds {
			all.Go(func() {
				switch kind {
				case 0:
					v, err := core.Get(ctx, core.RefTo(&m.Result))
					if errs[i] = err; err == nil {
						got[i] = v[0]
					}
				case 1:
					errs[i] = core.View(ctx, core.RefTo(&m.Result), func(v []byte) error { got[i] = v[0]; return nil })
				default: // as for another node that asks
					done := make(chan error, 1) // it may be called at once
					m.Future.Rebuild(first, core.ErrObjectLost, func(err error) { done <- err })
					errs[i] = <-done
				}
			})
		}
		close(s.gate)
		all.Wait()
		for i, kind := range kinds {
			switch lost := first.lost || kind == 2; {
			case !lost && errs[i] != nil && left > 0:
				t.Fatalf("reader %d: %v: a value that is there, or can be made again, is given", i, errs[i])
			case first.lost && left > 0 && errs[i] != nil:
				t.Fatalf("reader %d: %v: a lost value that can be made again is given", i, errs[i])
			case first.lost && left == 0 && kind < 2 && !errors.Is(errs[i], core.ErrObjectLost):
				t.Fatalf("reader %d got %d, %v: a lost value that cannot be made again is ErrObjectLost", i, got[i], errs[i])
			}
		}
		if s.together > 0 || s.rebuilds > 1 {
			t.Fatalf("%d rebuilds, %d of them beside another: one rebuild serves all who wait", s.rebuilds, s.together)
		}
		if first.lost && left == 0 && s.rebuilds == 1 {
			before := s.rebuilds
			if _, err := core.Get(ctx, core.RefTo(&m.Result)); !errors.Is(err, core.ErrObjectLost) || s.rebuilds != before {
				t.Fatalf("another Get: %v after %d rebuilds, was %d: a rebuild that failed stays", err, s.rebuilds, before)
			}
			if p := m.Future.Phase(); p != core.PhaseLost {
				t.Fatalf("phase %d after the value was lost for good, want %d", p, core.PhaseLost)
			}
		}
	})
}

// TestRebuildAgain: a value that is lost again is made again.
func TestRebuildAgain(t *testing.T) {
	s := &shared{gate: make(chan struct{}), left: 5}
	close(s.gate)
	first := &brittle{s: s, lost: true}
	m, ctx := newMade(first, s)
	for i := 1; i <= 5; i++ {
		v, err := core.Get(ctx, core.RefTo(&m.Result))
		if err != nil || int(v[0]) != i || s.rebuilds != i {
			t.Fatalf("value %v, %v after %d rebuilds: loss %d is followed by one rebuild", v, err, s.rebuilds, i)
		}
		core.SourceOf(&m.Future).(*brittle).lose()
		if !m.Future.Evict(nil) {
			t.Fatal("a value that its source brings back can be evicted")
		}
	}
}

// TestLocal: a value that another future of the node has is read there, and is not stored twice.
func TestLocal(t *testing.T) {
	s := &shared{gate: make(chan struct{})}
	at := &brittle{s: s, value: 7}
	again, ctx := newMade(at, s)
	if core.Local(&again.Future) != core.Source(at) {
		t.Fatal("the source of a value that is elsewhere is where it is")
	}
	j := again.Future.Up().Job()
	has := &made{shared: s}
	has.Future.Init(has, j.Top, 2, true)
	has.Future.Start()
	core.Resolve(&has.Result, large(9))
	lost := &made{shared: s}
	lost.Future.Init(lost, j.Top, 2, true)
	lost.Future.Forward(core.Local(&has.Future))
	for range 2 {
		v, err := core.Get(ctx, core.RefTo(&lost.Result))
		if err != nil || v[0] != 9 {
			t.Fatalf("got %v, %v: the value of the other future is given", v, err)
		}
		if !lost.Future.Absent() {
			t.Fatal("the value is stored in both futures")
		}
	}
	has.Future.Release()
	if _, err := core.Get(ctx, core.RefTo(&lost.Result)); err == nil {
		t.Fatal("a value that was released in the other future is given")
	}
}

// TestRebuildIsShared: those who ask while a rebuild is under way share it and its failure, and so do those who ask
// later: a value that cannot be made is not tried again.
func TestRebuildIsShared(t *testing.T) {
	s := &shared{gate: make(chan struct{})}
	src := &brittle{s: s, lost: true}
	m, _ := newMade(src, s)
	done := make(chan error, 3)
	ask := func() { m.Future.Rebuild(src, core.ErrObjectLost, func(err error) { done <- err }) }
	ask()
	ask()
	close(s.gate)
	for range 2 {
		if err := <-done; !errors.Is(err, errNoMore) {
			t.Errorf("a rebuild that failed gave %v", err)
		}
	}
	ask()
	if err := <-done; !errors.Is(err, errNoMore) {
		t.Errorf("a rebuild after one that failed gave %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rebuilds != 1 {
		t.Errorf("three who asked made %d rebuilds, not 1", s.rebuilds)
	}
}
