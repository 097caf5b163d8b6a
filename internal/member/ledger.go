package member

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/store"
)

// ledger is this member's knowledge of when evictions happened. The store's ledger key says which there were; each eviction
// rewrites it with check-and-set, so that two evictions can never be decided on the same count (C17: never more than half the
// members in one lease). When they happened is judged by when this member first saw them, which is later than they were: no
// node's clock has to be trusted, and the bound errs on the side of evicting less.
type ledger struct {
	mu   sync.Mutex
	seen map[uint64]sighting // by incarnation evicted
}

// sighting is when this member first saw an eviction, by its monotonic clock, and whose it was.
type sighting struct {
	at   time.Duration
	node raysys.NodeID
}

type ledgerValue struct {
	V         int           `json:"v"`
	Evictions []ledgerEntry `json:"evictions"`
}

type ledgerEntry struct {
	Incarnation uint64        `json:"incarnation"`
	Node        raysys.NodeID `json:"node"`
}

// observe reads the ledger's value; a nil one is empty. It returns the evictions in it and those of the last lease that this
// member saw itself, which somebody may have destroyed. A value that cannot be read is an error and counts as empty: it must
// not keep dead nodes in the cluster.
func (l *ledger) observe(value []byte, now, lease time.Duration) ([]ledgerEntry, error) {
	var v ledgerValue
	var err error
	if value != nil {
		if err = json.Unmarshal(value, &v); err != nil {
			v, err = ledgerValue{}, fmt.Errorf("read %s: %w: %w", ledgerKey, store.ErrCorrupt, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := make(map[uint64]sighting, len(v.Evictions))
	for _, e := range v.Evictions {
		s, ok := l.seen[e.Incarnation]
		if !ok {
			s = sighting{now, e.Node}
		}
		kept[e.Incarnation] = s
	}
	entries := v.Evictions
	for id, s := range l.seen {
		if _, ok := kept[id]; !ok && now-s.at <= lease {
			kept[id] = s
			entries = append(entries, ledgerEntry{Incarnation: id, Node: s.node})
		}
	}
	l.seen = kept
	slices.SortFunc(entries, func(a, b ledgerEntry) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	return entries, err
}

// recent are the entries that may be less than a lease old.
func (l *ledger) recent(entries []ledgerEntry, now, lease time.Duration) []ledgerEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	var recent []ledgerEntry
	for _, e := range entries {
		if now-l.seen[e.Incarnation].at <= lease {
			recent = append(recent, e)
		}
	}
	return recent
}

// mayEvict says whether one more eviction keeps within half of the members, counted as they were before the recent ones.
func mayEvict(recent []ledgerEntry, members []Node) bool {
	gone := map[uint64]bool{}
	for _, e := range recent {
		gone[e.Incarnation] = true
	}
	evicted, before := len(gone), len(gone)
	for _, n := range members {
		if !gone[n.Incarnation] {
			before++
		}
	}
	return 2*(evicted+1) <= before
}

func encodeLedger(entries []ledgerEntry) ([]byte, error) {
	data, err := json.Marshal(ledgerValue{V: recordVersion, Evictions: entries})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ledgerKey, err)
	}
	return data, nil
}
