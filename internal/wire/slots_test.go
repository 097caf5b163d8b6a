package wire_test

import (
	"sync"
	"testing"

	"github.com/raysys/raysys/internal/wire"
)

func TestSlots(t *testing.T) {
	var s wire.Slots[string]
	a, _ := s.Put("a")
	b, _ := s.Put("b")
	if v, ok := s.Take(a); v != "a" || !ok {
		t.Error(v, ok)
	}
	if _, ok := s.Take(a); ok {
		t.Error("an answer was taken twice")
	}
	c, _ := s.Put("c") // uses a's slot again
	if _, ok := s.Take(a); ok {
		t.Error("a late answer to a took what follows it")
	}
	if s.Len() != 2 {
		t.Error(s.Len())
	}
	if v, ok := s.Take(c); v != "c" || !ok {
		t.Error(v, ok)
	}
	if _, ok := s.Take(1 << 40); ok {
		t.Error("a number that nobody gave")
	}
	if all := s.Drain(); len(all) != 1 || all[0] != "b" {
		t.Error(all)
	}
	if _, ok := s.Put("d"); ok {
		t.Error("a drained table takes more")
	}
	if _, ok := s.Take(b); ok {
		t.Error("what was drained is taken")
	}
}

func TestSlotsOnce(t *testing.T) {
	var s wire.Slots[int]
	var mu sync.Mutex
	seen := map[int]int{}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 500 {
				n, ok := s.Put(g*1000 + i)
				if !ok {
					return
				}
				var pair sync.WaitGroup
				for range 2 { // an answer and its duplicate
					pair.Add(1)
					go func() {
						defer pair.Done()
						if v, ok := s.Take(n); ok {
							mu.Lock()
							seen[v]++
							mu.Unlock()
						}
					}()
				}
				pair.Wait()
			}
		}()
	}
	wg.Wait()
	if len(seen) != 4000 {
		t.Error(len(seen))
	}
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%d was taken %d times", v, n)
		}
	}
}
