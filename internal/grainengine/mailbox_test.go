package grainengine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/raysys/raysys/internal/goroutines"
)

// reader stands for the actor of a mailbox: it checks that one goroutine reads at a time, and counts.
type reader struct {
	reading atomic.Int32
	overlap atomic.Bool
	sum     map[int]int // of each sender: its last number
	swapped int
	seen    atomic.Int64
	system  atomic.Int64
	failed  atomic.Int64
	on      func(msg any)
}

type sent struct{ sender, number int }

func (r *reader) InvokeUserMessage(msg any) {
	if r.reading.Add(1) != 1 {
		r.overlap.Store(true)
	}
	defer r.reading.Add(-1)
	defer r.seen.Add(1)
	if s, ok := msg.(sent); ok {
		if last, ok := r.sum[s.sender]; ok && s.number != last+1 {
			r.swapped++
		}
		r.sum[s.sender] = s.number
	}
	if r.on != nil {
		r.on(msg)
	}
}

func (r *reader) InvokeSystemMessage(any) {
	if r.reading.Add(1) != 1 {
		r.overlap.Store(true)
	}
	r.reading.Add(-1)
	r.system.Add(1)
}

func (r *reader) EscalateFailure(any, any) { r.failed.Add(1) }

func newBox(t *testing.T) (*mailbox, *reader) {
	pool := goroutines.New(4)
	t.Cleanup(pool.Close)
	a := &activation{kind: &boundKind{engine: NewEngine(Config{Pool: pool}), def: &kind{}}}
	r := &reader{sum: map[int]int{}}
	a.mailbox.init(a)
	a.RegisterHandlers(r, nil)
	a.Start()
	return &a.mailbox, r
}

// until waits for a fact that nothing announces, and says how far the mailbox and its reader have come when it never
// is. The limit is for a reader that hangs: a busy machine takes seconds.
func until(t *testing.T, what string, m *mailbox, r *reader, cond func() bool) {
	t.Helper()
	for begin := time.Now(); !cond(); runtime.Gosched() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("never: %s; %d messages and %d system messages were read, %d and %d wait, a goroutine reads: %v",
				what, r.seen.Load(), r.system.Load(), m.UserMessageCount(), m.sysCount.Load(), m.busy.Load())
		}
	}
}

// TestMailboxLosesNothing: many senders that pause race a reader that empties the queue, forgets its last entry and
// goes; every message is read once, each sender's in order, by one goroutine at a time.
func TestMailboxLosesNothing(t *testing.T) {
	for round := range 60 {
		m, r := newBox(t)
		const senders, count = 4, 500
		var wg sync.WaitGroup
		for s := range senders {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range count {
					if (i+s+round)%7 == 0 {
						m.PostSystemMessage(i)
					}
					m.PostUserMessage(sent{s, i})
					for range (i + s) % (round%5 + 1) {
						runtime.Gosched()
					}
				}
			}()
		}
		wg.Wait()
		until(t, "every message is read, and the reader goes", m, r, func() bool { return r.seen.Load() == senders*count && !m.busy.Load() })
		if r.overlap.Load() || r.swapped > 0 {
			t.Fatalf("overlap %v, %d out of order", r.overlap.Load(), r.swapped)
		}
		if n := m.UserMessageCount(); n != 0 {
			t.Fatalf("%d messages left", n)
		}
		until(t, "every system message is read", m, r, func() bool { return r.system.Load() > 0 && m.sysCount.Load() == 0 })
		if m.head.Load() != &m.stub || m.tail.Load() != &m.stub {
			t.Fatal("an empty mailbox holds its last entry")
		}
	}
}

// TestMailboxGoesOn: a panic is handed to supervision, and the end of a goroutine loses nothing.
func TestMailboxGoesOn(t *testing.T) {
	m, r := newBox(t)
	r.on = func(msg any) {
		switch msg.(sent).number % 10 {
		case 3:
			panic("boom")
		case 7:
			runtime.Goexit()
		}
	}
	for i := range 1000 {
		m.PostUserMessage(sent{0, i})
	}
	until(t, "every message is read, and every panic reaches supervision, whatever ended the goroutine", m, r, func() bool { return r.seen.Load() == 1000 && r.failed.Load() == 100 })
	if r.swapped > 0 {
		t.Errorf("%d out of order", r.swapped)
	}
}

// TestMailboxSuspends: supervision may stop and start the reading at any moment; nothing is lost, and nobody but the
// reader knows of it.
func TestMailboxSuspends(t *testing.T) {
	for range 30 {
		m, r := newBox(t)
		const count = 500
		var wg sync.WaitGroup
		wg.Add(2)
		go func() {
			defer wg.Done()
			for range count {
				m.PostSystemMessage(&actor.SuspendMailbox{})
				runtime.Gosched()
				m.PostSystemMessage(&actor.ResumeMailbox{})
			}
		}()
		go func() {
			defer wg.Done()
			for i := range count {
				m.PostUserMessage(sent{0, i})
				if i%3 == 0 {
					runtime.Gosched()
				}
			}
		}()
		wg.Wait()
		until(t, "every message is read after the last resume", m, r, func() bool { return r.seen.Load() == count })
		if r.overlap.Load() || r.swapped > 0 {
			t.Fatalf("overlap %v, %d out of order", r.overlap.Load(), r.swapped)
		}
		m.PostSystemMessage(&actor.SuspendMailbox{})
		quiet := func() bool { return m.sysCount.Load() == 0 && !m.busy.Load() }
		until(t, "the reader takes the suspension", m, r, quiet)
		m.PostUserMessage(sent{0, count})
		until(t, "the reader goes while the mailbox is suspended", m, r, quiet)
		if n := m.UserMessageCount(); n != 1 {
			t.Fatalf("%d messages wait in a suspended mailbox, want 1", n)
		}
	}
}

// TestMailboxBound: reserve admits exactly limit messages, from any number of senders, and none once it is closed.
func TestMailboxBound(t *testing.T) {
	a := &activation{kind: &boundKind{engine: NewEngine(Config{}), def: &kind{}}}
	m := &a.mailbox
	m.init(a)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	const limit = 100
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 200 {
				if ok, _ := m.reserve(limit); ok {
					admitted.Add(1)
				}
			}
		}()
	}
	wg.Wait()
	if n := admitted.Load(); n != limit {
		t.Errorf("%d admitted, want %d", n, limit)
	}
	m.pushed.Or(closedBit)
	if ok, closed := m.reserve(1 << 40); ok || !closed {
		t.Error("a closed mailbox admits")
	}
}
