package grains

import (
	"iter"

	"github.com/raysys/raysys/internal/entries"
)

// Bounds of Maps: of a key, of a value, encoded, and of all Maps of one grain together.
const (
	MaxMapKey     = 512
	MaxMapValue   = 64 << 10
	MaxMapEntries = 65_536
	MaxMapBytes   = 16 << 20
)

// The engine enforces those numbers, as it does MaxState.
var (
	_ [MaxMapKey]struct{}     = [entries.MaxKey]struct{}{}
	_ [MaxMapValue]struct{}   = [entries.MaxValue]struct{}{}
	_ [MaxMapEntries]struct{} = [entries.MaxEntries]struct{}{}
	_ [MaxMapBytes]struct{}   = [entries.MaxBytes]struct{}{}
)

// MapKey is what the keys of a Map are: strings or integers, of named types too.
type MapKey interface {
	~string | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Map is a map that is stored by entries. Make it a field of the struct of a Durable kind, beside States or without;
// its name is the field's, or the tag's:
//
//	type Cart struct{ Lines grains.Map[string, Line] }
//
// A turn stores the entries that it changed, and nothing of the others, where a State is stored whole. An error or a
// panic gives the Map back what it held when the turn began, as it does with States: see Durable. All entries are in
// memory while the grain is active, and encoded: Get returns a copy, and what was got is changed by Set alone.
//
// V must be encodable and hold no references; fields may be added to it and taken away between versions of the program.
// K may get a wider type. Another one makes the activation fail with ErrUnreadable, as a narrower one does that cannot
// hold a key. The entries of a field that goes stay stored, and are there again when it is back.
//
// A key has at most MaxMapKey bytes and a value MaxMapValue, encoded; all Maps of a grain have MaxMapEntries entries of
// MaxMapBytes together. One turn changes about 128 KiB, of which each entry takes its key, its value, the name of the
// grain and 64 bytes. Beyond that the turn is taken back, and the call fails with raysys.ErrTooLarge.
//
// The methods belong to the grain's own turns and hooks. A Map that is no field of an active grain is as a nil map: it
// is empty, and Set panics.
type Map[K MapKey, V any] struct{ mapLink[K, V] }

// mapLink joins a Map to its activation, as link does a State.
type mapLink[K MapKey, V any] = entries.Link[K, V]

// Get returns a copy of the entry of k, and whether there is one. It panics with an error that is ErrUnreadable where
// that is stored as another type than V.
func (m *Map[K, V]) Get(k K) (V, bool) { return m.mapLink.Get(k) }

// Set sets the entry of k to a copy of v. It panics in a turn of a ReadOnly method, and outside of the turns and hooks
// of the grain. A v that is encoded as what is there is no change. A v that cannot be encoded, and what is beyond a
// bound, make the turn fail when it ends.
func (m *Map[K, V]) Set(k K, v V) { m.mapLink.Set(k, v) }

// Delete removes the entry of k, if there is one. It panics where Set does.
func (m *Map[K, V]) Delete(k K) { m.mapLink.Delete(k) }

// Len returns how many entries there are.
func (m *Map[K, V]) Len() int { return m.mapLink.Len() }

// All gives the entries that were there when the loop began, in the order of their keys: strings by their bytes,
// integers by their value. The loop may change the Map: an entry that it sets comes with its new value, one that it
// deletes does not come, and a new one does not either. All panics where Get does.
func (m *Map[K, V]) All() iter.Seq2[K, V] { return m.mapLink.All() }
