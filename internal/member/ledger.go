package member

import (
	"cmp"
	"encoding/json"
	"errors"
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

// decodeLedger reads the ledger's value; a nil one is empty. A value that cannot be read must not keep dead nodes in the cluster,
// so that verdicts takes its place.
func decodeLedger(value []byte) ([]ledgerEntry, error) {
	var v ledgerValue
	if value == nil {
		return nil, nil
	}
	err := json.Unmarshal(value, &v)
	if err == nil && v.V < 1 {
		err = errors.New("it has no version")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", ledgerKey, store.ErrCorrupt, err)
	}
	return v.Evictions, nil
}

// observe notes when this member saw each eviction first. It returns them, and those of the last lease that this
// member saw itself, which may have been removed from the ledger.
func (l *ledger) observe(entries []ledgerEntry, now, lease time.Duration) []ledgerEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := make(map[uint64]sighting, len(entries))
	for _, e := range entries {
		s, ok := l.seen[e.Incarnation]
		if !ok {
			s = sighting{now, e.Node}
		}
		kept[e.Incarnation] = s
	}
	entries = slices.Clone(entries)
	for id, s := range l.seen {
		if _, ok := kept[id]; !ok && now-s.at <= lease {
			kept[id] = s
			entries = append(entries, ledgerEntry{Incarnation: id, Node: s.node})
		}
	}
	l.seen = kept
	slices.SortFunc(entries, func(a, b ledgerEntry) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	return entries
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
