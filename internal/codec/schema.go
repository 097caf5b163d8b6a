package codec

import (
	"reflect"
	"slices"
	"strconv"
)

// schema writes the canonical description of a type:
//
//	bool int8 float64 complex64 string ...   a kind
//	[]T [4]T map[K]T *T                      made of others
//	{A:T;B:T}                                a struct, its fields in the order they travel
//	binary(Time) text(Int) proto(pkg.Msg)    a type that encodes itself
//	interface(shape)                         an interface by its registered name
//	ref(T) handle(T)                         a reference; ref(^0) where T is described already
//
// Names of packages, of plain types and the order in the source do not show.
type schema struct {
	text []byte
	open []reflect.Type // the root, and the targets of references being described
}

func schemaOf(root *node) string {
	s := &schema{open: []reflect.Type{root.typ}}
	root.describe(s)
	return string(s.text)
}

func (s *schema) write(text string) { s.text = append(s.text, text...) }

func (s *schema) bracket(array bool, length int) {
	if array {
		s.write("[" + strconv.Itoa(length) + "]")
	} else {
		s.write("[]")
	}
}

// target describes t, which a reference points at. Only here can types be recursive.
func (s *schema) target(t reflect.Type) {
	if i := slices.Index(s.open, t); i >= 0 {
		s.write("^" + strconv.Itoa(i))
		return
	}
	plan, err := PlanOf(t)
	if err != nil {
		s.write("?") // encoding such a value reports it
		return
	}
	s.open = append(s.open, t)
	plan.root.describe(s)
	s.open = s.open[:len(s.open)-1]
}

// Fingerprint returns a number that is the same in every build on every platform exactly when the schema is the same,
// but for a chance of 2^-64 per pair.
func (p *Plan) Fingerprint() uint64 { return p.print() }

// fnv1a is FNV-1a with 64 bits.
func fnv1a(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return h
}
