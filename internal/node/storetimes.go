package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/store"
)

// StoreTimes is a store that counts and times what is done with it. Of a Watch, which waits for changes, it counts nothing.
type StoreTimes struct {
	store.KV
	get, list, keys, txn, session storeTime
}

// StoreTime says how often something was done with a store, how long that took in all, and how often the store failed. That a condition of
// a transaction did not hold, or that there is no such key, is no failure.
type StoreTime struct {
	Count, Errors uint64
	Took          time.Duration
}

type storeTime struct {
	count, errors atomic.Uint64
	took          atomic.Int64
}

func (t *storeTime) add(began time.Time, err error) {
	t.count.Add(1)
	t.took.Add(int64(time.Since(began)))
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		t.errors.Add(1)
	}
}

// Times are those of this process, by what was done.
func (s *StoreTimes) Times() map[string]StoreTime {
	m := map[string]StoreTime{}
	for name, t := range map[string]*storeTime{"get": &s.get, "list": &s.list, "keys": &s.keys, "txn": &s.txn, "session": &s.session} {
		m[name] = StoreTime{Count: t.count.Load(), Errors: t.errors.Load(), Took: time.Duration(t.took.Load())}
	}
	return m
}

// Get implements store.KV.
func (s *StoreTimes) Get(ctx context.Context, key string) (p store.Pair, err error) {
	defer func(began time.Time) { s.get.add(began, err) }(time.Now())
	return s.KV.Get(ctx, key)
}

// List implements store.KV.
func (s *StoreTimes) List(ctx context.Context, prefix string, mode store.ReadMode) (p []store.Pair, index uint64, err error) {
	defer func(began time.Time) { s.list.add(began, err) }(time.Now())
	return s.KV.List(ctx, prefix, mode)
}

// Keys implements store.KV.
func (s *StoreTimes) Keys(ctx context.Context, prefix string) (k []string, err error) {
	defer func(began time.Time) { s.keys.add(began, err) }(time.Now())
	return s.KV.Keys(ctx, prefix)
}

// Txn implements store.KV.
func (s *StoreTimes) Txn(ctx context.Context, ops []store.Op) (p []store.Pair, err error) {
	defer func(began time.Time) { s.txn.add(began, err) }(time.Now())
	return s.KV.Txn(ctx, ops)
}

// NewSession implements store.KV.
func (s *StoreTimes) NewSession(ctx context.Context, name string, ttl time.Duration) (id string, err error) {
	defer func(began time.Time) { s.session.add(began, err) }(time.Now())
	return s.KV.NewSession(ctx, name, ttl)
}

// Renew implements store.KV.
func (s *StoreTimes) Renew(ctx context.Context, session string) (err error) {
	defer func(began time.Time) { s.session.add(began, err) }(time.Now())
	return s.KV.Renew(ctx, session)
}
