package embedded

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys/store"
)

// watcher waits for a change under prefix.
type watcher struct {
	prefix string
	woken  chan struct{} // closed by wake
}

// wake ends the wait, with mu held.
func (w *watcher) wake(s *Store) {
	delete(s.watchers, w)
	close(w.woken)
}

// deletions remembers the keys deleted lately, because a deletion leaves no record that a watch could find.
type deletions struct {
	last  []deletion // oldest first
	floor uint64     // deletions up to this index are forgotten
}

type deletion struct {
	key   string
	index uint64
}

// maxGraves bounds the memory of deletions. A watch from before it returns at once, unchanged at worst.
const maxGraves = 4096

func (g *deletions) add(key string, index uint64) {
	if len(g.last) == maxGraves {
		g.floor = g.last[maxGraves/2-1].index
		g.last = slices.Delete(g.last, 0, maxGraves/2)
	}
	g.last = append(g.last, deletion{key, index})
}

func (g *deletions) since(prefix string, after uint64) bool {
	if after < g.floor {
		return true
	}
	for _, x := range slices.Backward(g.last) {
		if x.index <= after {
			return false
		}
		if strings.HasPrefix(x.key, prefix) {
			return true
		}
	}
	return false
}

// announce tells watches of the changes up to index, with mu held.
func (s *Store) announce(changes []change, index uint64) {
	for _, c := range changes {
		if c.ended == nil && c.after == nil {
			s.deletions.add(c.key, index)
		}
	}
	for w := range s.watchers {
		if changed(changes, w.prefix) {
			w.wake(s)
		}
	}
}

// Watch implements store.KV.
func (s *Store) Watch(ctx context.Context, prefix string, after uint64) ([]store.Pair, uint64, error) {
	for {
		if ctx.Err() != nil {
			return nil, 0, fmt.Errorf("watch %s: %w", prefix, context.Cause(ctx))
		}
		w, pairs, index, err := s.pairsOrWatcher(prefix, after)
		if w == nil {
			return pairs, index, err
		}
		select {
		case <-w.woken:
		case <-ctx.Done():
			s.mu.Lock()
			delete(s.watchers, w)
			s.mu.Unlock()
		}
	}
}

// pairsOrWatcher returns the pairs under prefix if they changed after index after, else a watcher that waits for a change.
func (s *Store) pairsOrWatcher(prefix string, after uint64) (*watcher, []store.Pair, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, nil, 0, fmt.Errorf("watch %s: %w", prefix, err)
	}
	pairs := s.st.list(prefix)
	fresh := after == 0 || after > s.st.index || s.deletions.since(prefix, after) ||
		slices.ContainsFunc(pairs, func(p store.Pair) bool { return p.Modify > after })
	if fresh {
		return nil, pairs, s.st.index, nil
	}
	w := &watcher{prefix: prefix, woken: make(chan struct{})}
	s.watchers[w] = struct{}{}
	return w, nil, 0, nil
}
