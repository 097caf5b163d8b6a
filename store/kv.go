package store

import (
	"context"
	"time"
)

// Limits of a key and of a transaction. They are Consul's own, less what its JSON form adds: a request body may have
// 512 KiB, in which every value is a third longer.
const (
	MaxKeyBytes = 512
	MaxTxnOps   = 64
	MaxTxnBytes = 352 << 10 // keys and values of all operations together
)

// Pair is a key with its value. Create and Modify are indexes of the whole store, which grow with every change, so
// that the Create of a key that was deleted and made again is larger than before (C9).
type Pair struct {
	Key     string
	Value   []byte
	Create  uint64
	Modify  uint64
	Session string // the session that holds the key, "" for none
}

// ReadMode says how much a read may lag behind.
type ReadMode int

const (
	// Consistent reads see every write that was acknowledged before they began.
	Consistent ReadMode = iota
	// Stale reads may be answered by any server from its copy.
	Stale
)

func (m ReadMode) String() string {
	if m == Stale {
		return "stale"
	}
	return "consistent"
}

// KV is the key-value store under the shards: store/consul and store/embedded implement it. Keys are relative to the
// cluster's prefix. Values handed in and given out must not be changed afterwards.
//
// Errors: ErrUnavailable when the store cannot be reached and nothing was done, ErrUnknownOutcome when a change may or
// may not have been made, a RefusedError when a condition of a transaction does not hold. They can be told apart with
// errors.Is and errors.As.
type KV interface {
	// Get reads one key, consistently. ErrNotFound when there is none.
	Get(ctx context.Context, key string) (Pair, error)
	// List reads all keys that begin with prefix, in their order, and the index to hand to Watch.
	List(ctx context.Context, prefix string, mode ReadMode) ([]Pair, uint64, error)
	// Keys lists the keys that begin with prefix, in their order, without the values.
	Keys(ctx context.Context, prefix string) ([]string, error)
	// Txn applies all operations or none, and returns one Pair for each, in order: as it is after the transaction,
	// its Value only for a Read. Where an operation leaves no key, only Key is set.
	Txn(ctx context.Context, ops []Op) ([]Pair, error)
	// Watch returns the pairs of List as soon as they differ from those at index after; at once when after is 0, and
	// within half a minute when it belongs to another life of the store. It may, rarely, return unchanged pairs with
	// a newer index.
	Watch(ctx context.Context, prefix string, after uint64) ([]Pair, uint64, error)

	// NewSession makes a session that is gone, with all keys that it holds, once it was not renewed for ttl (Consul:
	// up to twice that, and at least 10 s).
	NewSession(ctx context.Context, name string, ttl time.Duration) (string, error)
	// Renew begins the session's TTL anew. ErrSessionGone when it is no more.
	Renew(ctx context.Context, session string) error
	// Destroy ends a session and deletes the keys that it holds. Destroying one that is gone is no error.
	Destroy(ctx context.Context, session string) error
	// Session reports whether the session is alive, consistently.
	Session(ctx context.Context, session string) (bool, error)

	// Close ends watches and frees what the store holds. Later calls return ErrClosed.
	Close() error
}
