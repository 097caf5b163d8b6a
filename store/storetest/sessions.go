package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/raysys/raysys/store"
)

// epochs takes a key over 100 times, as leaders do, by every way in which one loses it: its Create must grow (C9).
func (s *suite) epochs() {
	var last uint64
	for i := range 100 {
		ses := s.session(fmt.Sprint("leader ", i))
		p := s.txn(store.CheckNotExists("leaders/00"), store.Lock("leaders/00", value(i), ses))[1]
		if p.Create <= last {
			s.Fatalf("take-over %d has epoch %d, after %d", i, p.Create, last)
		}
		last = p.Create
		if held := s.get("leaders/00"); held.Create != last || held.Session != ses {
			s.Fatalf("take-over %d: the key is %+v, the transaction said epoch %d", i, held, last)
		}
		switch i % 3 {
		case 0:
			s.destroy(ses)
		case 1:
			s.txn(store.CheckSession("leaders/00", ses), store.Delete("leaders/00"))
		case 2:
			s.txn(store.DeleteTree("leaders/"))
		}
		s.absent("leaders/00")
	}
}

// fencing is the shards' fence: a node that lost the key cannot write any more, whichever node has it now.
func (s *suite) fencing() {
	old, next := s.session("old"), s.session("next")
	s.txn(store.Lock("leaders/00", nil, old))
	s.txn(store.CheckSession("leaders/00", old), store.CheckNotExists("log/1"), store.Set("log/1", nil))
	s.destroy(old)
	s.refused(0, store.CheckSession("leaders/00", old), store.CheckNotExists("log/2"), store.Set("log/2", []byte("old")))
	s.txn(store.CheckNotExists("leaders/00"), store.Lock("leaders/00", nil, next))
	s.refused(0, store.CheckSession("leaders/00", old), store.CheckNotExists("log/2"), store.Set("log/2", []byte("old")))
	s.refused(0, store.Lock("leaders/00", nil, old))
	s.absent("log/2")
	s.txn(store.CheckSession("leaders/00", next), store.CheckNotExists("log/2"), store.Set("log/2", []byte("next")))
	s.refused(1, store.CheckSession("leaders/00", next), store.CheckNotExists("log/2"), store.Set("log/2", nil))
}

// oneWinner has many take the same key at once.
func (s *suite) oneWinner() {
	for round := range 10 {
		key := fmt.Sprintf("leaders/%02d", round)
		var wg sync.WaitGroup
		won := make(chan string, 4)
		for i := range cap(won) {
			ses := s.session(fmt.Sprint("contender ", i))
			wg.Go(func() {
				_, err := s.kv.Txn(s.ctx, []store.Op{store.CheckNotExists(key), store.Lock(key, nil, ses)})
				switch {
				case err == nil:
					won <- ses
				case !errors.Is(err, store.ErrRefused):
					s.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			s.Fatalf("%d winners", len(won))
		}
		if p, ses := s.get(key), <-won; p.Session != ses {
			s.Fatalf("%s won, the key says %s", ses, p.Session)
		}
	}
}

func (s *suite) sessionKeys() {
	ses, other := s.session("one"), s.session("other")
	if alive, err := s.kv.Session(s.ctx, ses); err != nil || !alive {
		s.Fatalf("new session: %v, %v", alive, err)
	}
	s.txn(store.Lock("a", nil, ses), store.Lock("b/c", nil, ses), store.Lock("d", nil, other), store.Set("e", nil),
		store.Lock("f", nil, ses), store.Lock("g", nil, ses))
	s.txn(store.Unlock("f", nil, ses), store.Delete("g"))
	s.txn(store.Set("g", nil))
	s.destroy(ses)
	s.wantKeys("", "d", "e", "f", "g")
	if alive, err := s.kv.Session(s.ctx, ses); err != nil || alive {
		s.Fatalf("destroyed session: %v, %v", alive, err)
	}
	if err := s.kv.Renew(s.ctx, ses); !errors.Is(err, store.ErrSessionGone) {
		s.Fatalf("renew a destroyed session: %v, want ErrSessionGone", err)
	}
	s.destroy(ses)
	if err := s.kv.Renew(s.ctx, other); err != nil {
		s.Fatal(err)
	}
	// No lock delay to speak of: the next holder has it at once.
	start := time.Now()
	s.txn(store.Lock("a", nil, other))
	if d := time.Since(start); d > 2*time.Second {
		s.Fatalf("the next lock took %v", d)
	}
}

func (s *suite) expiry() {
	ses := s.session("silent")
	p := s.txn(store.Lock("held", nil, ses), store.Set("not held", nil))[0]
	start := time.Now()
	_, index, err := s.kv.Watch(s.ctx, "held", 0)
	for err == nil {
		var pairs []store.Pair
		if pairs, index, err = s.kv.Watch(s.ctx, "held", index); err == nil && len(pairs) == 0 {
			break
		}
	}
	if err != nil {
		s.Fatalf("waiting for %+v to go: %v", p, err)
	}
	if d := time.Since(start); d < s.TTL*9/10 || d > s.TTL+s.Gone {
		s.Errorf("the session ended after %v, its TTL is %v", d, s.TTL)
	}
	s.absent("held")
	s.get("not held")
	if err := s.kv.Renew(s.ctx, ses); !errors.Is(err, store.ErrSessionGone) {
		s.Fatalf("renew an expired session: %v, want ErrSessionGone", err)
	}
}

// renewal keeps a session for as long as one that is not renewed takes to end, and then some.
func (s *suite) renewal() {
	ses := s.session("renewed")
	silent := s.session("silent")
	s.txn(store.Lock("held", nil, ses), store.Lock("silent", nil, silent))
	tick := time.NewTicker(max(s.TTL/5, time.Millisecond))
	defer tick.Stop()
	for renewals, gone := 0, 0; gone < 2; {
		<-tick.C
		if err := s.kv.Renew(s.ctx, ses); err != nil {
			s.Fatalf("renewal %d: %v", renewals, err)
		}
		renewals++
		if _, err := s.kv.Get(s.ctx, "silent"); errors.Is(err, store.ErrNotFound) {
			gone++
		} else if err != nil {
			s.Fatal(err)
		}
	}
	s.txn(store.CheckSession("held", ses))
}
