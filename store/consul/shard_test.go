//go:build unix

package consul_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/consul"
)

// throne is the shard as clients find it: who leads it now.
type throne struct {
	mu    sync.Mutex
	shard *shardlog.Shard
	next  chan struct{} // closed when there is another
}

func (h *throne) set(s *shardlog.Shard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shard = s
	close(h.next)
	h.next = make(chan struct{})
}

func (h *throne) get() (*shardlog.Shard, chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shard, h.next
}

// The leader of a shard on a real Consul is killed again and again under load, in every way in which one goes: its
// session is destroyed by another, it hands over, or it is cut off first. Counters count each acknowledged increment
// once, and none that was refused.
func TestLeaderKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	kills := long.Form(12, 50)
	server := consultest.Start(t, consulserver.Options{Disk: true})
	cfg := consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	h := throne{next: make(chan struct{})}
	type counter struct{ acked, unclear int }
	counters := make([]counter, 8)
	var wg sync.WaitGroup
	_, crowned := h.get()
	for i := range counters {
		wg.Go(func() { // one client of each counter
			<-crowned
			key, c := fmt.Sprint("counter/", i), &counters[i]
			for ctx.Err() == nil {
				s, next := h.get()
				r, _ := s.Get(key)
				n, _ := strconv.Atoi(string(r.Value))
				_, err := s.Commit(ctx, shardlog.Batch{
					Checks: []shardlog.Check{{Key: key, Version: r.Version}},
					Puts:   []shardlog.Put{{Key: key, Value: []byte(strconv.Itoa(n + 1))}},
				})
				switch {
				case err == nil:
					c.acked++
				case errors.Is(err, shardlog.ErrConflict): // an unclear one of before was committed
				case errors.Is(err, store.ErrUnknownOutcome):
					c.unclear++
				case errors.Is(err, shardlog.ErrDeposed), errors.Is(err, store.ErrClosed):
					select {
					case <-next:
					case <-ctx.Done():
					}
				default:
					t.Errorf("commit: %v", err)
					return
				}
			}
		})
	}

	var worst time.Duration
	var old *shardlog.Shard
	var oldKV *consul.Store
	var oldSession string
	for i := range kills + 1 {
		kv := open(t, cfg)
		ses, err := kv.NewSession(within(t), fmt.Sprint("node ", i), consul.MinTTL)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		switch {
		case old == nil:
		case i%3 == 0: // a graceful handover
			if err := old.Release(within(t)); err != nil {
				t.Fatal(err)
			}
		case i%3 == 1: // killed: the session goes while appends are on their way
			if err := kv.Destroy(within(t), oldSession); err != nil {
				t.Fatal(err)
			}
		case i%3 == 2: // its connections break first, with outcomes unknown
			if err := errors.Join(oldKV.Close(), kv.Destroy(within(t), oldSession)); err != nil {
				t.Fatal(err)
			}
		}
		s, err := shardlog.Lead(within(t), shardlog.LeadConfig{KV: kv, Shard: 3, Session: ses, Node: fmt.Sprint("node ", i), CompactSegments: 64})
		if err != nil {
			t.Fatal(err)
		}
		if old != nil {
			worst = max(worst, time.Since(start))
			if s.Epoch() <= old.Epoch() {
				t.Fatalf("epoch %d after %d", s.Epoch(), old.Epoch())
			}
		}
		h.set(s)
		if old != nil {
			if err := old.Close(); err != nil {
				t.Fatal(err)
			}
		}
		old, oldKV, oldSession = s, kv, ses
		// Some commits by this leader before the next kill.
		for n := s.Stats().Commits; s.Stats().Commits < n+20; {
			if err := s.Fence(within(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	wg.Wait()
	if err := old.Fence(within(t)); err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, c := range counters {
		r, _ := old.Get(fmt.Sprint("counter/", i))
		n, _ := strconv.Atoi(string(r.Value))
		if n < c.acked || n > c.acked+c.unclear {
			t.Errorf("counter %d is %d after %d acknowledged and %d unclear increments", i, n, c.acked, c.unclear)
		}
		total += n
	}
	t.Logf("%d increments over %d changes of leader, the slowest %v", total, kills, worst)
	if err := errors.Join(old.Release(within(t)), old.Close()); err != nil {
		t.Fatal(err)
	}
}

// Consul dies under load and comes back: commits wait, nothing is lost, the leader stays the leader.
func TestConsulDiesUnderAShard(t *testing.T) {
	long.Only(t)
	t.Parallel()
	server := consultest.Start(t, consulserver.Options{Disk: true})
	kv := open(t, consul.Config{Addresses: []string{server.Address()}, Prefix: prefix()})
	ses, err := kv.NewSession(within(t), "node", consul.MinTTL)
	if err != nil {
		t.Fatal(err)
	}
	trouble := make(chan error, 1)
	s, err := shardlog.Lead(within(t), shardlog.LeadConfig{KV: kv, Session: ses, Node: "node", OnTrouble: func(err error) {
		select {
		case trouble <- err:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 400
	answers := make(chan error, n)
	for i := range n {
		if i == n/2 {
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		b := shardlog.Batch{Puts: []shardlog.Put{{Key: fmt.Sprint("k", i), Value: []byte("x")}}}
		if err := s.Propose(b, func(_ shardlog.Result, err error) { answers <- err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-trouble; !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("trouble: %v", err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != n {
		t.Errorf("%d records", s.Len())
	}
}
