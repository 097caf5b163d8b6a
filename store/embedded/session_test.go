package embedded_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

// clock is a Clock that stands until it is moved.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*timer
}

type timer struct {
	at time.Time
	f  func()
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &timer{c.now.Add(d), f}
	c.timers = append(c.timers, t)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.timers, t)
		if i >= 0 {
			c.timers = slices.Delete(c.timers, i, i+1)
		}
		return i >= 0
	}
}

// advance moves the clock and runs what falls due.
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	for {
		i := slices.IndexFunc(c.timers, func(t *timer) bool { return !t.at.After(c.now) })
		if i < 0 {
			break
		}
		f := c.timers[i].f
		c.timers = slices.Delete(c.timers, i, i+1)
		c.mu.Unlock()
		f()
		c.mu.Lock()
	}
	c.mu.Unlock()
}

func TestSessionsRunOnTheClock(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		c := &clock{now: time.Unix(1e9, 0)}
		s := open(t, embedded.Config{Clock: c, Dir: dir})
		ses, err := s.NewSession(t.Context(), "node", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Txn(t.Context(), []store.Op{store.Lock("held", nil, ses)}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			c.advance(9999 * time.Millisecond)
			if err := s.Renew(t.Context(), ses); err != nil {
				t.Fatal(err)
			}
		}
		c.advance(9999 * time.Millisecond)
		get(t, s, "held")
		c.advance(time.Millisecond)
		if _, err := s.Get(t.Context(), "held"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after its TTL: %v", err)
		}
		if err := s.Renew(t.Context(), ses); !errors.Is(err, store.ErrSessionGone) {
			t.Errorf("after its TTL: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if len(c.timers) != 0 {
			t.Errorf("%d timers left behind", len(c.timers))
		}
	}
}

// A session of which a renewal races with its end: either the renewal is refused or the session lives on.
func TestRenewalRacesWithExpiry(t *testing.T) {
	for i := range 200 {
		c := &clock{now: time.Unix(1e9, 0)}
		s := open(t, embedded.Config{Clock: c})
		ses, err := s.NewSession(t.Context(), "node", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Txn(t.Context(), []store.Op{store.Lock("held", nil, ses)}); err != nil {
			t.Fatal(err)
		}
		c.advance(9999 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() { c.advance(time.Millisecond) })
		renewed := s.Renew(t.Context(), ses)
		wg.Wait()
		_, err = s.Get(t.Context(), "held")
		if (renewed == nil) != (err == nil) {
			t.Fatalf("run %d: renewal %v, then the key: %v", i, renewed, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// In a bubble of synctest sessions run on its time.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, embedded.Config{})
		ses, err := s.NewSession(t.Context(), "node", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Txn(t.Context(), []store.Op{store.Lock("held", nil, ses)}); err != nil {
			t.Fatal(err)
		}
		_, index, err := s.List(t.Context(), "held", store.Consistent)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		pairs, _, err := s.Watch(t.Context(), "held", index)
		if d := time.Since(start); err != nil || len(pairs) != 0 || d != time.Hour {
			t.Errorf("after %v: %v, %v", d, pairs, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Deletions are remembered within bounds: a watch from before that returns at once instead of missing one.
func TestWatchFromLongAgo(t *testing.T) {
	s := open(t, embedded.Config{})
	set(t, s, "a/1", "")
	set(t, s, "a/2", "")
	_, index, err := s.List(t.Context(), "a/", store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Txn(t.Context(), []store.Op{store.Delete("a/1")}); err != nil {
		t.Fatal(err)
	}
	for i := range 10_000 {
		key := fmt.Sprint("log/", i)
		if _, err := s.Txn(t.Context(), []store.Op{store.Set(key, nil), store.Delete(key)}); err != nil {
			t.Fatal(err)
		}
	}
	if pairs, now, err := s.Watch(t.Context(), "a/", index); err != nil || len(pairs) != 1 || now <= index {
		t.Fatalf("watch from long ago: %v at %d, %v", pairs, now, err)
	}
}
