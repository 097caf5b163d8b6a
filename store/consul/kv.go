package consul

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/raysys/raysys/internal/backoff"
	"github.com/raysys/raysys/store"
)

// base returns what all keys begin with in Consul. That is Config.Prefix, escaped, unless an earlier version, which did not
// escape it, has made a cluster there.
func (s *Store) base(ctx context.Context) (string, error) {
	if at := s.at.Load(); at != nil {
		return *at, nil
	}
	at := escape(s.cfg.Prefix)
	if at != s.cfg.Prefix {
		old, err := s.getRaw(ctx, s.cfg.Prefix+"config") // what each cluster has
		if err != nil && !errors.Is(err, store.ErrDenied) {
			return "", err
		}
		if old != nil {
			at = s.cfg.Prefix
		}
	}
	s.at.Store(&at)
	return at, nil
}

// getRaw reads a key by its name in Consul, whatever that is: Consul's rule for names has no part in transactions.
func (s *Store) getRaw(ctx context.Context, name string) (found *api.KVPair, err error) {
	c := call{what: "get " + name, lane: dataLane}
	err = s.do(ctx, c, func(ctx context.Context, client *api.Client) error {
		ops := api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: name}}}
		ok, resp, _, err := client.Txn().Txn(ops, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		if err != nil {
			return err
		}
		if !ok {
			return refusal([]store.Op{store.Read(name)}, resp.Errors)
		}
		if len(resp.Results) == 1 && resp.Results[0].KV.CreateIndex != 0 {
			found = resp.Results[0].KV
		}
		return nil
	})
	return found, err
}

func pairOf(base string, p *api.KVPair) store.Pair {
	return store.Pair{
		Key:     unescapeKey(strings.TrimPrefix(p.Key, base)),
		Value:   p.Value,
		Create:  p.CreateIndex,
		Modify:  p.ModifyIndex,
		Session: p.Session,
	}
}

// pairsOf are those that begin with prefix, in the order of their keys, which need not be that of their names.
func pairsOf(base, prefix string, list api.KVPairs) []store.Pair {
	var out []store.Pair
	for _, p := range list {
		if pair := pairOf(base, p); strings.HasPrefix(pair.Key, prefix) {
			out = append(out, pair)
		}
	}
	slices.SortStableFunc(out, func(a, b store.Pair) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Get implements store.KV.
func (s *Store) Get(ctx context.Context, key string) (p store.Pair, err error) {
	if err := store.CheckKey(key); err != nil {
		return p, fmt.Errorf("get: %w", err)
	}
	base, err := s.base(ctx)
	if err != nil {
		return p, err
	}
	name := escapeKey(key)
	var found *api.KVPair
	err = s.do(ctx, call{what: "get " + key, lane: dataLane}, func(ctx context.Context, c *api.Client) (err error) {
		found, _, err = c.KV().Get(base+name, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		return err
	})
	if err == nil && found == nil && name != key {
		// A node of an earlier version holds its record under the name itself. What no session holds there counts for nothing.
		if found, err = s.getRaw(ctx, base+key); found != nil && found.Session == "" {
			found = nil
		}
	}
	if err != nil {
		return p, err
	}
	if found == nil {
		return p, fmt.Errorf("get %s: %w", key, store.ErrNotFound)
	}
	return pairOf(base, found), nil
}

// List implements store.KV.
func (s *Store) List(ctx context.Context, prefix string, mode store.ReadMode) ([]store.Pair, uint64, error) {
	base, err := s.base(ctx)
	if err != nil {
		return nil, 0, err
	}
	var pairs []store.Pair
	var index uint64
	err = s.do(ctx, call{what: "list " + prefix, lane: dataLane}, func(ctx context.Context, c *api.Client) error {
		q := &api.QueryOptions{RequireConsistent: mode == store.Consistent, AllowStale: mode == store.Stale}
		list, meta, err := c.KV().List(base+escapePrefix(prefix), q.WithContext(ctx))
		if err != nil {
			return err
		}
		pairs, index = pairsOf(base, prefix, list), meta.LastIndex
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	s.remember(prefix, index, pairs)
	return pairs, index, nil
}

// Keys implements store.KV.
func (s *Store) Keys(ctx context.Context, prefix string) (keys []string, err error) {
	base, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	err = s.do(ctx, call{what: "list keys " + prefix, lane: dataLane}, func(ctx context.Context, c *api.Client) (err error) {
		names, _, err = c.KV().Keys(base+escapePrefix(prefix), "", (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
		return err
	})
	for _, name := range names {
		if key := unescapeKey(strings.TrimPrefix(name, base)); strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, err
}

// verbs are Consul's names, and whether it answers such an operation with a pair.
var verbs = map[store.Verb]struct {
	op     api.KVOp
	paired bool
}{
	store.VerbRead:           {api.KVGetOrEmpty, true},
	store.VerbCheckSession:   {api.KVCheckSession, true},
	store.VerbCheckIndex:     {api.KVCheckIndex, true},
	store.VerbCheckNotExists: {api.KVCheckNotExists, false},
	store.VerbSet:            {api.KVSet, true},
	store.VerbCheckAndSet:    {api.KVCAS, true},
	store.VerbDelete:         {api.KVDelete, false},
	store.VerbDeleteCAS:      {api.KVDeleteCAS, false},
	store.VerbDeleteTree:     {api.KVDeleteTree, false},
	store.VerbLock:           {api.KVLock, true},
	store.VerbUnlock:         {api.KVUnlock, true},
}

// errLockDelay: the session that held the key ended less than its lock delay ago.
var errLockDelay = errors.New("lock delay")

// lockDelay is the shortest that Consul's client can ask for: 0 would mean 15 s. Txn waits it out.
const lockDelay = time.Millisecond

// Txn implements store.KV.
func (s *Store) Txn(ctx context.Context, ops []store.Op) ([]store.Pair, error) {
	if err := store.CheckOps(ops); err != nil {
		return nil, fmt.Errorf("transaction: %w", err)
	}
	base, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	body := make(api.TxnOps, len(ops))
	c := call{what: "transaction", lane: dataLane}
	for i, op := range ops {
		name := escapeKey(op.Key)
		if op.Verb == store.VerbDeleteTree {
			name = escape(op.Key) // a prefix
		}
		kv := &api.KVTxnOp{Verb: verbs[op.Verb].op, Key: base + name, Value: op.Value, Index: op.Index, Session: op.Session}
		body[i] = &api.TxnOp{KV: kv}
		c.writes = c.writes || op.Verb.Writes()
	}
	for tries := 0; ; tries++ {
		var pairs []store.Pair
		err := s.do(ctx, c, func(ctx context.Context, client *api.Client) (err error) {
			// A transaction that only reads is not written to Consul's log, so it must ask for consistency.
			ok, resp, _, err := client.Txn().Txn(body, (&api.QueryOptions{RequireConsistent: !c.writes}).WithContext(ctx))
			if err != nil {
				return err
			}
			if !ok {
				return refusal(ops, resp.Errors)
			}
			pairs, err = results(base, ops, resp.Results)
			return err
		})
		if !errors.Is(err, errLockDelay) {
			return pairs, err
		}
		if tries == 100 {
			return nil, fmt.Errorf("%w: consul refuses the lock for its lock delay: %w", store.ErrUnavailable, err)
		}
		if !backoff.Wait(ctx, 2*lockDelay) {
			return nil, fmt.Errorf("transaction: %w", context.Cause(ctx))
		}
	}
}

// refusal turns Consul's reasons into an error. Of several the first counts.
func refusal(ops []store.Op, errs api.TxnErrors) error {
	if len(errs) == 0 || errs[0].OpIndex < 0 || errs[0].OpIndex >= len(ops) {
		return fmt.Errorf("%w: a refusal without a reason", store.ErrBadOp)
	}
	op := ops[errs[0].OpIndex]
	op.Value = nil
	why := errs[0].What
	switch {
	case strings.Contains(why, "lock delay"):
		return errLockDelay
	case strings.Contains(why, "Permission denied"), strings.Contains(why, "ACL not found"):
		return fmt.Errorf("%w: %v: %s: check the ACL token", store.ErrDenied, op, why)
	}
	return &store.RefusedError{Index: errs[0].OpIndex, Op: op, Why: why}
}

// results matches Consul's answers, which leave operations without a pair out, to the operations.
func results(base string, ops []store.Op, results api.TxnResults) ([]store.Pair, error) {
	pairs := make([]store.Pair, len(ops))
	n := 0
	for i, op := range ops {
		pairs[i].Key = op.Key
		if !verbs[op.Verb].paired {
			continue
		}
		if n == len(results) || results[n].KV == nil || results[n].KV.Key != base+escapeKey(op.Key) {
			return nil, fmt.Errorf("%w: %v is not in the answer: the ACL token must allow to read the key", store.ErrDenied, op)
		}
		pairs[i] = pairOf(base, results[n].KV)
		if op.Verb != store.VerbRead || pairs[i].Create == 0 {
			pairs[i].Value = nil
		}
		n++
	}
	return pairs, nil
}
