package codec

import (
	"reflect"
	"unsafe"

	"github.com/raysys/raysys/internal/core"
)

// union is an interface: null, or the registered name of the type that stands in it and the value.
type union struct {
	typ  reflect.Type
	name string // of the interface type
}

// anyType may hold the basic types without registration, and any other that is registered.
var anyType = reflect.TypeFor[any]()

// basicNames are the names on the wire of types that stand in interfaces without registration: they never change.
var basicNames = map[reflect.Type]string{
	reflect.TypeFor[bool](): "go:bool", reflect.TypeFor[string](): "go:string", reflect.TypeFor[[]byte](): "go:[]byte",
	reflect.TypeFor[int](): "go:int", reflect.TypeFor[int8](): "go:int8", reflect.TypeFor[int16](): "go:int16",
	reflect.TypeFor[int32](): "go:int32", reflect.TypeFor[int64](): "go:int64",
	reflect.TypeFor[uint](): "go:uint", reflect.TypeFor[uint8](): "go:uint8", reflect.TypeFor[uint16](): "go:uint16",
	reflect.TypeFor[uint32](): "go:uint32", reflect.TypeFor[uint64](): "go:uint64",
	reflect.TypeFor[float32](): "go:float32", reflect.TypeFor[float64](): "go:float64",
	reflect.TypeFor[[]any](): "go:[]any", reflect.TypeFor[map[string]any](): "go:map[string]any",
}

var basicTypes = func() map[string]reflect.Type {
	m := map[string]reflect.Type{}
	for t, name := range basicNames {
		m[name] = t
	}
	return m
}()

func unionNode(t reflect.Type, name string) *node {
	u := &union{t, name}
	return &node{shape: u, nullable: true, sizer: u}
}

func (u *union) append(dst []byte, p unsafe.Pointer, e pass) ([]byte, error) {
	v := reflect.NewAt(u.typ, p).Elem().Elem()
	if !v.IsValid() {
		return append(dst, cborNull), nil
	}
	t := v.Type()
	name, ok := core.RegisteredName(t)
	if !ok {
		name, ok = basicNames[t]
	}
	if !ok {
		return nil, unencodable(nil, "the %s in this interface is not registered: call raysys.Register[%s](name)", t, display(t))
	}
	plan, err := u.plan(t)
	if err != nil {
		return nil, unencodable(err, "the %s in this interface cannot travel", t)
	}
	if e.depth++; e.depth > maxDepth {
		return nil, unencodable(nil, "interface values nest more than %d deep: is there a cycle?", maxDepth)
	}
	dst = appendString(appendHead(dst, majorArray, 2), name)
	if dst, err = plan.root.append(dst, plan.pointer(v), e); err != nil {
		return nil, at(err, ".("+display(t)+")")
	}
	return dst, nil
}

func (u *union) decode(d *decoder, p unsafe.Pointer) error {
	if d.null() {
		return nil
	}
	if err := exactly(d, 2); err != nil {
		return err
	}
	start := d.off
	name, err := d.text()
	if err != nil {
		return err
	}
	t, ok := core.RegisteredType(string(name))
	if !ok {
		t, ok = basicTypes[string(name)]
	}
	if !ok || t.Kind() == reflect.Interface || !t.Implements(u.typ) {
		d.off = start
		return d.fail("%.64q is no type registered here that implements %s: call raysys.Register on this node too", name, u.typ)
	}
	plan, err := u.plan(t)
	if err != nil {
		d.off = start
		fail := d.fail("the type registered as %q cannot travel", name)
		fail.Err = err
		return fail
	}
	if d.depth++; d.depth > maxDepth {
		return d.fail("interface values nest more than %d deep", maxDepth)
	}
	if err := d.room(1, int(t.Size())); err != nil {
		return err
	}
	v := reflect.New(t)
	if err := plan.root.decode(d, v.UnsafePointer()); err != nil {
		return at(err, ".("+display(t)+")")
	}
	d.depth--
	reflect.NewAt(u.typ, p).Elem().Set(v.Elem())
	return nil
}

// plan returns the plan of a type that stands in the interface. Types do not show such references, so a task would
// not wait for them.
func (u *union) plan(t reflect.Type) (*Plan, error) {
	p, err := PlanOf(t)
	if err == nil && p.HasRefs() {
		return nil, &TypeError{Type: t, Reason: "it holds a reference, which a task does not wait for inside an interface: use a concrete type for the field"}
	}
	return p, err
}

func (u *union) size(p unsafe.Pointer, m measure) int {
	v := reflect.NewAt(u.typ, p).Elem().Elem()
	if !v.IsValid() {
		return 0
	}
	sum := int(v.Type().Size())
	if plan, err := u.plan(v.Type()); err == nil && plan.root.sizer != nil && m.depth < maxDepth {
		m.depth++
		sum += plan.root.sizer.size(plan.pointer(v), m)
	}
	return sum
}

func (u *union) describe(s *schema) { s.write("interface(" + u.name + ")") }
