package shardlog

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/store"
)

// Limits of a shard's records.
const (
	MaxValueBytes = 128 << 10
	MaxBatchBytes = maxSegmentRaw // all of a batch, encoded: it must fit a segment
)

// Record is what a shard holds for a key. Its Value must not be changed.
type Record struct {
	Value   []byte
	Version Version
}

// Batch is a set of changes that happen together or not at all.
type Batch struct {
	Checks  []Check
	Deletes []string // an absent key is fine
	Puts    []Put    // made after the deletes
}

// Check is a condition: the key's record has this Version; the zero Version means that there must be none.
type Check struct {
	Key     string
	Version Version
}

// Put sets a key. The Value is handed over: it must not be changed afterwards.
type Put struct {
	Key   string
	Value []byte
}

// Result is what a batch that was committed got.
type Result struct {
	first Version
	puts  int
}

// Version returns the Version of the batch's put number i.
func (r Result) Version(i int) Version {
	if i < 0 || i >= r.puts {
		panic(fmt.Sprintf("store: put %d of a batch of %d", i, r.puts))
	}
	return Version{r.first.Epoch, r.first.Seq + uint64(i)}
}

// ErrConflict: a check of the batch does not hold; nothing was done. The error is a ConflictError.
var ErrConflict = errors.New("conflict")

// ConflictError names the check that did not hold, and the current record.
type ConflictError struct {
	Check   Check
	Current Record // the key's record; the zero Record when there is none
}

func (e *ConflictError) Error() string {
	want, have := "to be absent", "it is absent"
	if !e.Check.Version.IsZero() {
		want = "at version " + e.Check.Version.String()
	}
	if !e.Current.Version.IsZero() {
		have = "it is at " + e.Current.Version.String()
	}
	return fmt.Sprintf("conflict: %q was expected %s, %s", e.Check.Key, want, have)
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// check says what is wrong with the batch whatever the shard holds, and how many bytes its changes take in a segment.
func (b *Batch) check() (size int, err error) {
	for _, c := range b.Checks {
		if err := checkRecordKey(c.Key); err != nil {
			return 0, fmt.Errorf("check: %w", err)
		}
	}
	for _, key := range b.Deletes {
		if err := checkRecordKey(key); err != nil {
			return 0, fmt.Errorf("delete: %w", err)
		}
		size += maxFrame + len(key)
	}
	for _, p := range b.Puts {
		if err := checkRecordKey(p.Key); err != nil {
			return 0, fmt.Errorf("put: %w", err)
		}
		if len(p.Value) > MaxValueBytes {
			return 0, fmt.Errorf("put %q: %w: the value has %d bytes, at most %d may be: keep it as an object and put its id", p.Key, store.ErrTooLarge, len(p.Value), MaxValueBytes)
		}
		size += maxFrame + maxUvarint + len(p.Key) + len(p.Value)
	}
	if size > MaxBatchBytes {
		return 0, fmt.Errorf("%w: the batch has %d bytes, at most %d may be", store.ErrTooLarge, size, MaxBatchBytes)
	}
	return size, nil
}

// maxRecordKey bounds a record's key, which unlike a store's key may be any string: it holds what users chose.
const maxRecordKey = 4 << 10

func checkRecordKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", store.ErrBadKey)
	}
	if len(key) > maxRecordKey {
		return fmt.Errorf("%w: %.40q... has %d bytes, at most %d may be", store.ErrBadKey, key, len(key), maxRecordKey)
	}
	return nil
}
