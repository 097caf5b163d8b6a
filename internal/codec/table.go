package codec

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// table is a map. Entries are in the order of their encoded keys.
type table struct {
	typ       reflect.Type
	key, elem *node
}

func tableNode(t reflect.Type, key, elem *node) *node {
	m := &table{t, key, elem}
	n := &node{shape: m, nullable: true, sizer: m}
	if elem.referrer != nil {
		n.referrer = m
	}
	return n
}

// entries are a copy of a map that can be addressed, with the encoded keys, and the order in which they travel.
type entries struct {
	keys, elems reflect.Value // slices
	coded       [][]byte
	order       []int
}

func (t *table) entries(m reflect.Value) entries {
	n := m.Len()
	es := entries{
		keys:  reflect.MakeSlice(reflect.SliceOf(t.typ.Key()), n, n),
		elems: reflect.MakeSlice(reflect.SliceOf(t.typ.Elem()), n, n),
		coded: make([][]byte, 0, n),
		order: make([]int, n),
	}
	var buf []byte
	for iter, i := m.MapRange(), 0; iter.Next(); i++ {
		es.keys.Index(i).SetIterKey(iter)
		es.elems.Index(i).SetIterValue(iter)
		start := len(buf)
		buf, _ = t.key.append(buf, es.keys.Index(i).Addr().UnsafePointer(), pass{}) // a scalar cannot fail
		es.coded = append(es.coded, buf[start:])                                    // stays right when buf moves: what is written does not change
		es.order[i] = i
	}
	slices.SortFunc(es.order, func(a, b int) int { return bytes.Compare(es.coded[a], es.coded[b]) })
	return es
}

func (es entries) elem(i int) unsafe.Pointer { return es.elems.Index(i).Addr().UnsafePointer() }

func (es entries) step(i int) string { return step(es.keys.Index(i)) }

func step(key reflect.Value) string {
	if key.Kind() == reflect.String {
		return fmt.Sprintf("[%.64q]", key)
	}
	return fmt.Sprintf("[%.64s]", fmt.Sprint(key))
}

func (t *table) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	m := reflect.NewAt(t.typ, p).Elem()
	if m.IsNil() {
		return append(dst, cborNull), nil
	}
	es := t.entries(m)
	dst = appendHead(dst, majorMap, uint64(len(es.order)))
	for _, i := range es.order {
		var err error
		if dst, err = t.elem.append(append(dst, es.coded[i]...), es.elem(i), e); err != nil {
			return nil, at(err, es.step(i))
		}
		if e.split != nil {
			dst = e.split.pass(dst)
		}
	}
	return dst, nil
}

func (t *table) decode(d *decoder, p unsafe.Pointer) error {
	if d.null() {
		return nil
	}
	n, err := d.count(majorMap, "a map", 1+t.elem.least())
	if err != nil {
		return err
	}
	if err := d.room(n, int(t.key.typ.Size()+t.elem.typ.Size())); err != nil {
		return err
	}
	m := reflect.MakeMapWithSize(t.typ, n)
	key, elem := reflect.New(t.typ.Key()), reflect.New(t.typ.Elem())
	var last []byte
	for range n {
		start := d.off
		key.Elem().SetZero()
		elem.Elem().SetZero()
		if err := t.key.decode(d, key.UnsafePointer()); err != nil {
			return at(err, "[key]")
		}
		coded := d.data[start:d.off]
		if bytes.Compare(last, coded) >= 0 {
			d.off = start
			return d.fail("key %s is out of order, or comes twice", step(key.Elem()))
		}
		last = coded
		if err := t.elem.decode(d, elem.UnsafePointer()); err != nil {
			return at(err, step(key.Elem()))
		}
		m.SetMapIndex(key.Elem(), elem.Elem())
	}
	if m.Len() != n { // keys that differ in a field this version lacks
		return d.fail("%d keys are %d here: the sender's type %s has a field more", n, m.Len(), t.key.typ)
	}
	reflect.NewAt(t.typ, p).Elem().Set(m)
	return nil
}

// size takes no account of the map's spare room, which nothing tells.
func (t *table) size(p unsafe.Pointer, at measure) int {
	m := reflect.NewAt(t.typ, p).Elem()
	sum := m.Len() * int(t.key.typ.Size()+t.elem.typ.Size())
	if m.Len() == 0 || t.key.sizer == nil && t.elem.sizer == nil {
		return sum
	}
	key, elem := reflect.New(t.typ.Key()), reflect.New(t.typ.Elem())
	for iter := m.MapRange(); iter.Next(); {
		if t.key.sizer != nil {
			key.Elem().SetIterKey(iter)
			sum += t.key.sizer.size(key.UnsafePointer(), at)
		}
		if t.elem.sizer != nil {
			elem.Elem().SetIterValue(iter)
			sum += t.elem.sizer.size(elem.UnsafePointer(), at)
		}
	}
	return sum
}

// refs visits copies, because what is in a map has no address, and puts a copy back where the visitor changed it.
func (t *table) refs(p unsafe.Pointer, visit func(core.RefValue)) {
	m := reflect.NewAt(t.typ, p).Elem()
	if m.Len() == 0 {
		return
	}
	es := t.entries(m)
	for _, i := range es.order {
		changed := false
		t.elem.referrer.refs(es.elem(i), func(r core.RefValue) {
			before := r.RefFuture()
			visit(r)
			changed = changed || r.RefFuture() != before
		})
		if changed {
			m.SetMapIndex(es.keys.Index(i), es.elems.Index(i))
		}
	}
}

func (t *table) describe(s *schema) {
	s.write("map[")
	t.key.describe(s)
	s.write("]")
	t.elem.describe(s)
}
