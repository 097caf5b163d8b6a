package consul

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/store"
)

// watchTime is how long Consul holds a watch open. It ends in time to notice a connection that died silently.
const watchTime = 30 * time.Second

// watchLimit is when no answer means that there will be none: Consul adds up to a sixteenth of watchTime.
const watchLimit = watchTime + watchTime/16 + 5*time.Second

// memo is what was last seen under a prefix. Consul's index of a prefix without keys is that of the whole store, so
// that it grows with every change elsewhere: what is returned is compared, too.
type memo struct {
	index uint64
	sum   uint64
}

// maxMemo bounds the prefixes that are remembered. Beyond it a watch may return unchanged pairs.
const maxMemo = 64

func summary(pairs []store.Pair) uint64 {
	h := fnv.New64a()
	for _, p := range pairs {
		_, _ = h.Write([]byte(p.Key))
		_, _ = h.Write(binary.BigEndian.AppendUint64([]byte{0}, p.Modify))
	}
	return h.Sum64()
}

func (s *Store) remember(prefix string, index uint64, pairs []store.Pair) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.memo[prefix]; known || len(s.memo) < maxMemo {
		s.memo[prefix] = memo{index, summary(pairs)}
	}
}

func (s *Store) recall(prefix string) memo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.memo[prefix]
}

// Watch implements store.KV. At most five run at once.
func (s *Store) Watch(ctx context.Context, prefix string, after uint64) ([]store.Pair, uint64, error) {
	s.mu.Lock()
	if s.watches == maxWatches {
		s.mu.Unlock()
		return nil, 0, fmt.Errorf("watch %s: %w: %d watches are running, each on a connection of its own", prefix, store.ErrBadOp, maxWatches)
	}
	s.watches++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.watches--
		s.mu.Unlock()
	}()

	base, err := s.base(ctx)
	if err != nil {
		return nil, 0, err
	}
	before := s.recall(prefix)
	wait := after
	for {
		var pairs []store.Pair
		var index uint64
		c := call{what: "watch " + prefix, lane: watchLane, limit: watchLimit}
		err := s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
			q := &api.QueryOptions{WaitIndex: wait, WaitTime: watchTime}
			list, meta, err := client.KV().List(base+escapePrefix(prefix), q.WithContext(ctx))
			if err != nil {
				return err
			}
			pairs, index = pairsOf(base, prefix, list), max(meta.LastIndex, 1)
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
		unchanged := index == wait || before.index == after && before.sum == summary(pairs)
		if after == 0 || !unchanged {
			s.remember(prefix, index, pairs)
			return pairs, index, nil
		}
		wait = index
	}
}
