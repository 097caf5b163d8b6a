package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Verb is what an operation of a transaction does.
type Verb int

// The verbs of a transaction. Those from VerbRead to VerbCheckNotExists change nothing.
const (
	VerbRead Verb = iota + 1
	VerbCheckSession
	VerbCheckIndex
	VerbCheckNotExists
	VerbSet
	VerbCheckAndSet
	VerbDelete
	VerbDeleteCAS
	VerbDeleteTree
	VerbLock
	VerbUnlock
)

var verbNames = [...]string{"", "read", "check-session", "check-index", "check-not-exists", "set", "check-and-set", "delete", "delete-cas", "delete-tree", "lock", "unlock"}

func (v Verb) String() string {
	if v <= 0 || int(v) >= len(verbNames) {
		return fmt.Sprintf("verb %d", int(v))
	}
	return verbNames[v]
}

// Writes reports whether the verb changes the store.
func (v Verb) Writes() bool { return v > VerbCheckNotExists }

// Op is one operation of a transaction. Make it with the functions below.
type Op struct {
	Verb    Verb
	Key     string
	Value   []byte
	Index   uint64
	Session string
}

func (o Op) String() string { return o.Verb.String() + " " + o.Key }

// Read returns the pair as it is when the transaction runs; an absent key is a Pair with only its Key.
func Read(key string) Op { return Op{Verb: VerbRead, Key: key} }

// CheckSession holds while session holds the key.
func CheckSession(key, session string) Op {
	return Op{Verb: VerbCheckSession, Key: key, Session: session}
}

// CheckIndex holds while the key exists and was last changed at index.
func CheckIndex(key string, index uint64) Op {
	return Op{Verb: VerbCheckIndex, Key: key, Index: index}
}

// CheckNotExists holds while there is no such key.
func CheckNotExists(key string) Op { return Op{Verb: VerbCheckNotExists, Key: key} }

// Set writes the key, whatever is there. It leaves the session that holds the key alone.
func Set(key string, value []byte) Op { return Op{Verb: VerbSet, Key: key, Value: value} }

// CheckAndSet writes the key if it was last changed at index; 0 means that it must not exist.
func CheckAndSet(key string, value []byte, index uint64) Op {
	return Op{Verb: VerbCheckAndSet, Key: key, Value: value, Index: index}
}

// Delete removes the key; an absent one is fine.
func Delete(key string) Op { return Op{Verb: VerbDelete, Key: key} }

// DeleteCAS removes the key if it was last changed at index; an absent one is fine.
func DeleteCAS(key string, index uint64) Op { return Op{Verb: VerbDeleteCAS, Key: key, Index: index} }

// DeleteTree removes all keys that begin with prefix.
func DeleteTree(prefix string) Op { return Op{Verb: VerbDeleteTree, Key: prefix} }

// Lock writes the key and makes session its holder. It holds while no other session is the holder and this one lives.
// The key goes with the session; a key that was unlocked and locked again keeps its Create.
func Lock(key string, value []byte, session string) Op {
	return Op{Verb: VerbLock, Key: key, Value: value, Session: session}
}

// Unlock writes the key and leaves it without a holder. It holds while session is the holder.
func Unlock(key string, value []byte, session string) Op {
	return Op{Verb: VerbUnlock, Key: key, Value: value, Session: session}
}

// CheckKey returns an error for a bad key: empty, too long, not UTF-8, beginning with a slash, or with a part that a
// path must not have: keys travel in URLs.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("%w: %.40q... has %d bytes, at most %d may be", ErrBadKey, key, len(key), MaxKeyBytes)
	case key[0] == '/':
		return fmt.Errorf("%w: %q begins with a slash", ErrBadKey, key)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: %q is not UTF-8", ErrBadKey, key)
	}
	for rest := key; ; {
		part, after, more := strings.Cut(rest, "/")
		if part == "." || part == ".." || part == "" && more {
			return fmt.Errorf("%w: %q has a part %q", ErrBadKey, key, part)
		}
		if rest = after; !more {
			return nil
		}
	}
}

// CheckOps says why no store would take these operations: their keys, their number, their size. Every KV calls it
// before it does anything, so that what works on one works on the other.
func CheckOps(ops []Op) error {
	if len(ops) == 0 || len(ops) > MaxTxnOps {
		return fmt.Errorf("%w: a transaction has 1 to %d operations, not %d", ErrTooLarge, MaxTxnOps, len(ops))
	}
	size := 0
	for _, o := range ops {
		if err := CheckKey(o.Key); err != nil {
			return fmt.Errorf("%v: %w", o.Verb, err)
		}
		if o.Verb < VerbRead || o.Verb > VerbUnlock {
			return fmt.Errorf("%w: %v of %q", ErrBadOp, o.Verb, o.Key)
		}
		if (o.Verb == VerbLock || o.Verb == VerbUnlock || o.Verb == VerbCheckSession) && o.Session == "" {
			return fmt.Errorf("%w: %v without a session", ErrBadOp, o)
		}
		size += len(o.Key) + len(o.Value)
	}
	if size > MaxTxnBytes {
		return fmt.Errorf("%w: the transaction has %d bytes, at most %d may be: write it in several", ErrTooLarge, size, MaxTxnBytes)
	}
	return nil
}
