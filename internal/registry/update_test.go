package registry

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/eventually"
)

// heeding is a leader that hears updates, unless it fails.
type heeding struct {
	mu   sync.Mutex // guards the rest
	fail func() (heard bool, err error)
	has  map[string]changeKind // what was heard last
}

func (h *heeding) asked(q *asked[[]Entry]) {
	h.mu.Lock()
	heard, err := true, error(nil)
	if h.fail != nil {
		heard, err = h.fail()
	}
	if heard {
		for _, ch := range changesOf(q) {
			if h.has == nil {
				h.has = map[string]changeKind{}
			}
			h.has[ch.key] = ch.kind
		}
	}
	h.mu.Unlock()
	q.answer(make([]Entry, len(changesOf(q))), err)
}

func (h *heeding) set(fail func() (bool, error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail = fail
}

func (h *heeding) now() map[string]changeKind {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.has)
}

// soon waits until cond holds.
func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	eventually.Holds(t, 20*time.Second, what, cond)
}

// rest waits until the directory has nothing more to say.
func rest(t *testing.T, d *Directory) {
	t.Helper()
	soon(t, "all updates are acknowledged", func() bool { n, _ := d.Unacknowledged(); return n == 0 })
}

// TestUpdatesAreAcknowledged: what a node says while its lease is out, or the leader fails for a while, is heard later; what cannot
// be is not said for ever.
func TestUpdatesAreAcknowledged(t *testing.T) {
	for what, err := range map[string]error{
		"away": nil, "suspended": raysys.ErrSuspended, "no leader": raysys.ErrUnreachable, "busy": raysys.ErrOverloaded,
		"unknown": raysys.ErrOutcomeUnknown,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var h heeding
			tries := make(chan bool, 1)
			h.set(func() (bool, error) {
				select {
				case tries <- true:
				default:
				}
				return false, err
			})
			e, d := newElsewhere(t, h.asked)
			e.away.Store(err == nil)
			for i := range 3000 { // more than one alarm sends
				d.Update(Change{kind: changeCopy, key: fmt.Sprint("o/", i)})
			}
			if err != nil {
				<-tries
			}
			for i := range 3000 {
				if i%3 == 0 {
					d.Update(Change{kind: changeGone, key: fmt.Sprint("o/", i)})
				}
			}
			h.set(nil)
			e.away.Store(false)
			rest(t, d)
			has := h.now()
			for i := range 3000 {
				want := changeCopy
				if i%3 == 0 {
					want = changeGone
				}
				if got := has[fmt.Sprint("o/", i)]; got != want {
					t.Fatalf("object %d: %d, not %d", i, got, want)
				}
			}
		})
	}
	var h heeding
	h.set(func() (bool, error) { return false, errors.New("never") })
	_, d := newElsewhere(t, h.asked)
	d.Update(Change{kind: changeCopy, key: "o/x"})
	rest(t, d)
}

// TestNewestUpdateIsHeardLast: whatever fails on the way, the leader has last what the node said last of each object.
func TestNewestUpdateIsHeardLast(t *testing.T) {
	var h heeding
	r := rand.New(rand.NewPCG(1, 2)) // used with h.mu held
	h.set(func() (bool, error) {
		err := []error{nil, raysys.ErrSuspended, raysys.ErrOutcomeUnknown}[r.IntN(3)]
		return err == nil || r.IntN(2) == 0, err
	})
	inner := h.asked
	var late sync.WaitGroup
	_, d := newElsewhere(t, func(q *asked[[]Entry]) { late.Go(func() { inner(q) }) }) // requests pass each other
	last := make([]changeKind, 20)
	var told sync.WaitGroup
	for i := range last {
		told.Go(func() {
			kinds := []changeKind{changeCopy, changeGone}
			for j := range 50 + i {
				last[i] = kinds[j%2]
				d.Update(Change{kind: last[i], key: fmt.Sprint("o/", i)})
			}
		})
	}
	told.Wait()
	h.set(nil)
	rest(t, d)
	late.Wait()
	has := h.now()
	for i, want := range last {
		if got := has[fmt.Sprint("o/", i)]; got != want {
			t.Errorf("object %d: %d, not %d", i, got, want)
		}
	}
}

// TestKeptAfterAll: that a copy was gone is not said once the node keeps another.
func TestKeptAfterAll(t *testing.T) {
	var h heeding
	e, d := newElsewhere(t, h.asked)
	e.away.Store(true)
	d.Update(Change{kind: changeGone, key: "o/x"})
	d.Update(Change{kind: changeGone, key: "o/y"})
	soon(t, "both were refused", func() bool { _, late := d.Unacknowledged(); return late == 2 })
	e.away.Store(false)
	if _, err := d.ChangeWait(t.Context(), Change{kind: changeCopy, key: "o/x", kept: true}); err != nil {
		t.Fatal(err)
	}
	rest(t, d)
	if has := h.now(); !maps.Equal(has, map[string]changeKind{"o/x": changeCopy, "o/y": changeGone}) {
		t.Error(has)
	}
}

// TestUpdatesAreBounded: what is kept of them is, and those beyond are said once.
func TestUpdatesAreBounded(t *testing.T) {
	var h heeding
	h.set(func() (bool, error) { return false, raysys.ErrUnreachable })
	_, d := newElsewhere(t, h.asked)
	for i := range maxUpdates + 100 {
		d.Update(Change{kind: changeCopy, key: fmt.Sprint("o/", i)})
	}
	if n, _ := d.Unacknowledged(); n != maxUpdates {
		t.Error(n)
	}
}
