package entries

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/staterecord"
)

// The bounds: of an entry, and of all Maps of one grain together.
const (
	MaxKey     = 512      // bytes of a key
	MaxValue   = 64 << 10 // of a value, encoded
	MaxEntries = 65_536
	MaxBytes   = 16 << 20 // of keys and values as they are stored
)

// Book is the entries of one grain.
type Book struct {
	mayChange func() error // says why no entry may be changed now
	tables    []*Table
	n, size   int // of all tables: entries, and their bytes

	// Of the turn in progress:
	before map[place][]byte // what it has changed, and what was there: nil for nothing
	failed error            // why it fails, whatever its method returns
}

// place is where an entry is.
type place struct {
	t   *Table
	key string
}

// Table is the entries of one Map.
type Table struct {
	book  *Book
	name  string // of the field
	key   keyType
	value *codec.Plan
	data  map[string][]byte // records by the bytes of their keys
	order []string          // the keys in order; nil once a key has come or gone since
}

// New returns a Book without Maps. mayChange is asked before each change; its error is what Set and Delete panic with.
func New(mayChange func() error) *Book { return &Book{mayChange: mayChange} }

// Add gives a Map its table, under the name of its field. The field has passed Check.
func (b *Book) Add(name string, f Field) error {
	t := &Table{book: b, name: name, data: map[string][]byte{}}
	k, v := f.types()
	var err error
	if t.key, err = keyTypeOf(k); err != nil {
		return err
	}
	if t.value, err = codec.PlanOf(v); err != nil {
		return err
	}
	b.tables = append(b.tables, t)
	f.bind(t)
	return nil
}

// Restore takes what is stored of a grain. It leaves out records of other families, and the entries of fields that the
// grain has no more. It fails with graindir.ErrUnreadable.
func (b *Book) Restore(stored []graindir.Side) error {
	for _, s := range stored {
		if s.Family != graindir.SideEntries {
			continue
		}
		field, letter, key, err := ReadName(s.Name)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(b.tables, func(t *Table) bool { return t.name == field })
		if i < 0 {
			continue
		}
		if err := b.tables[i].key.check(letter, key); err != nil {
			return fmt.Errorf("map %q: %w: %w", field, graindir.ErrUnreadable, err)
		}
		b.put(place{b.tables[i], key}, s.Data)
	}
	return nil
}

// put stores a record, or removes it where data is nil.
func (b *Book) put(p place, data []byte) {
	old, had := p.t.data[p.key]
	if had {
		b.n, b.size = b.n-1, b.size-len(p.key)-len(old)
	}
	if data == nil {
		delete(p.t.data, p.key)
	} else {
		p.t.data[p.key] = data
		b.n, b.size = b.n+1, b.size+len(p.key)+len(data)
	}
	if had != (data != nil) {
		p.t.order = nil
	}
}

// change is put by the turn in progress, which can be taken back. Beyond a bound nothing changes, and the turn fails.
func (b *Book) change(p place, data []byte) {
	old, had := p.t.data[p.key]
	if bytes.Equal(old, data) { // no record is empty
		return
	}
	more := len(data) - len(old) // bytes; an entry that gets no larger fits at the bound too, and beyond it
	if !had {
		more += len(p.key)
	}
	switch {
	case data == nil:
	case !had && b.n >= MaxEntries:
		b.fail(p, fmt.Errorf("%w: the grain has %d entries, which is the most: %s", raysys.ErrTooLarge, b.n, spread))
		return
	case more > 0 && b.size+more > MaxBytes:
		b.fail(p, fmt.Errorf("%w: the grain's entries have %d bytes, and may have %d: %s",
			raysys.ErrTooLarge, b.size, MaxBytes, spread))
		return
	}
	if _, again := b.before[p]; !again {
		if b.before == nil {
			b.before = map[place][]byte{}
		}
		b.before[p] = old
	}
	b.put(p, data)
}

const spread = "spread them over more grains"

func (b *Book) fail(p place, err error) {
	if b.failed == nil {
		b.failed = fmt.Errorf("map %q, entry %s: %w", p.t.name, p.t.key.shown(p.key), err)
	}
}

// Changes returns the records that differ from what they were when the turn in progress began, in no order. The error
// says why the turn fails.
func (b *Book) Changes() (list []graindir.Side, err error) {
	if b == nil || b.failed != nil {
		return nil, b.failure()
	}
	for p, old := range b.before {
		if now := p.t.data[p.key]; !bytes.Equal(now, old) {
			name := AppendName(p.t.name, p.t.key.letter, p.key)
			list = append(list, graindir.Side{Family: graindir.SideEntries, Name: name, Data: now})
		}
	}
	return list, nil
}

func (b *Book) failure() error {
	if b == nil {
		return nil
	}
	return b.failed
}

// Accept ends the turn in progress.
func (b *Book) Accept() {
	if b != nil {
		b.before, b.failed = nil, nil
	}
}

// TakeBack ends the turn in progress, whose changes never were.
func (b *Book) TakeBack() {
	if b == nil {
		return
	}
	for p, old := range b.before {
		b.put(p, old)
	}
	b.Accept()
}

// set sets the entry of the key at k to the value at v.
func (t *Table) set(k, v unsafe.Pointer) {
	t.mustChange("Set")
	p := place{t, t.key.bytesOf(k)}
	data, err := t.value.AppendAt(nil, v, nil)
	switch {
	case err != nil:
	case len(p.key) > MaxKey:
		err = fmt.Errorf("%w: the key has %d bytes, and may have %d", raysys.ErrTooLarge, len(p.key), MaxKey)
	case len(data) > MaxValue:
		err = fmt.Errorf("%w: the value has %d bytes encoded, and may have %d", raysys.ErrTooLarge, len(data), MaxValue)
	default:
		data, err = staterecord.Seal(staterecord.Typed{Type: t.value}, data, nil, nil)
	}
	if err != nil {
		t.book.fail(p, err)
		return
	}
	t.book.change(p, data)
}

// remove removes the entry of the key at k.
func (t *Table) remove(k unsafe.Pointer) {
	t.mustChange("Delete")
	t.book.change(place{t, t.key.bytesOf(k)}, nil)
}

// mustChange panics where no entry may be changed.
func (t *Table) mustChange(verb string) {
	if t == nil {
		panic(fmt.Errorf("%s of a grains.Map: it is no field of an active grain", verb))
	}
	if err := t.book.mayChange(); err != nil {
		panic(fmt.Errorf("%s of map %q: %w", verb, t.name, err))
	}
}

// read sets the zero value at v to the entry of the key; false where there is none. What cannot be read is a panic, by
// which the turn fails: a turn that went on without the entry would store what is wrong.
func (t *Table) read(key string, v unsafe.Pointer) bool {
	data, ok := t.data[key]
	if !ok {
		return false
	}
	if err := staterecord.Open(data, staterecord.Typed{Type: t.value, At: v}, nil); err != nil {
		panic(fmt.Errorf("map %q, entry %s: %w: %w", t.name, t.key.shown(key), graindir.ErrUnreadable, err))
	}
	return true
}

// keys returns the keys in order. The caller may keep the list, and not change it.
func (t *Table) keys() []string {
	if t.order == nil {
		t.order = make([]string, 0, len(t.data))
		for k := range t.data {
			t.order = append(t.order, k)
		}
		slices.Sort(t.order)
	}
	return t.order
}
