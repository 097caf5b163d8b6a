package entries

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
)

// Link ties a grains.Map to its table. A Map embeds it: by the promoted methods the engine finds it, out of sight of go
// doc. A Map without a table is empty, as a nil map is.
type Link[K comparable, V any] struct{ table *Table }

// Get is grains.Map.Get.
func (l *Link[K, V]) Get(k K) (v V, ok bool) {
	if l.table == nil {
		return v, false
	}
	ok = l.table.read(l.table.key.bytesOf(unsafe.Pointer(&k)), unsafe.Pointer(&v))
	return v, ok
}

// Set is grains.Map.Set.
func (l *Link[K, V]) Set(k K, v V) { l.table.set(unsafe.Pointer(&k), unsafe.Pointer(&v)) }

// Delete is grains.Map.Delete.
func (l *Link[K, V]) Delete(k K) { l.table.remove(unsafe.Pointer(&k)) }

// Len is grains.Map.Len.
func (l *Link[K, V]) Len() int {
	if l.table == nil {
		return 0
	}
	return len(l.table.data)
}

// All is grains.Map.All.
func (l *Link[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if l.table == nil {
			return
		}
		for _, key := range l.table.keys() {
			var k K
			var v V
			if !l.table.read(key, unsafe.Pointer(&v)) {
				continue // the loop has deleted it
			}
			l.table.key.setTo(key, unsafe.Pointer(&k))
			if !yield(k, v) {
				return
			}
		}
	}
}

func (l *Link[K, V]) each(yield func(k, v any)) {
	for k, v := range l.All() {
		yield(k, v)
	}
}

func (l *Link[K, V]) bind(t *Table) { l.table = t }

func (l *Link[K, V]) types() (key, value reflect.Type) {
	return reflect.TypeFor[K](), reflect.TypeFor[V]()
}

// Field is a Map to code that does not know its types: pointers to it implement this by the Link that it embeds.
type Field interface {
	bind(t *Table)
	types() (key, value reflect.Type)
	each(yield func(k, v any))
}

// AsJSON makes an object of JSON of a Map: its keys are strings there.
func AsJSON(f Field) json.Marshaler { return shown{f} }

type shown struct{ Field }

// MarshalJSON implements json.Marshaler. It panics where Link.All does. A key that is no UTF-8 is an error: in JSON it
// may be equal to another.
func (s shown) MarshalJSON() ([]byte, error) {
	all := map[string]any{}
	var bad error
	s.each(func(k, v any) {
		text := keyText(k)
		if all[text] = v; !utf8.ValidString(text) {
			bad = fmt.Errorf("its key %q is no UTF-8", text)
		}
	})
	if bad != nil {
		return nil, bad
	}
	return json.Marshal(all)
}

// String implements fmt.Stringer, for what JSON cannot say.
func (s shown) String() string {
	all := map[string]any{}
	s.each(func(k, v any) { all[strconv.Quote(keyText(k))] = v })
	return fmt.Sprint(all)
}

// keyText is a key without its type's own String, which may give two keys one text.
func keyText(k any) string {
	if v := reflect.ValueOf(k); v.Kind() == reflect.String {
		return v.String()
	}
	return fmt.Sprintf("%d", k)
}

// Check says what is wrong with the types of a Map.
func Check(f Field) error {
	k, v := f.types()
	_, err := keyTypeOf(k)
	if err != nil {
		return err
	}
	p, err := codec.PlanOf(v)
	switch {
	case err != nil:
		return err
	case p.HasRefs():
		return fmt.Errorf("its values, %s, may hold references, and no entry may: put them into a grains.State", v)
	case p.Fixed() && v.Size() > MaxValue:
		return fmt.Errorf("%w: every %s has %d bytes, and a value has at most %d",
			raysys.ErrTooLarge, v, v.Size(), MaxValue)
	}
	return nil
}
