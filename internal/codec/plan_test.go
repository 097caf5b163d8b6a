package codec_test

import (
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

type (
	hook   struct{ Fn func() }
	config struct{ Hooks []hook }
	linked struct {
		Value int
		Next  *linked
	}
	forest  struct{ Kids []raysys.Ref[forest] } // recursive through references only, which is fine
	loop    []loop
	knotted struct {
		Next *knotted
		To   raysys.Ref[int]
	}
	hidden struct {
		Shown int
		inner int
	}
	half       struct{ secret int }
	halfHolder struct{ H half }
	closed     struct{ ref raysys.Ref[int] }
	deepClosed struct {
		list []map[string]raysys.Handle[int]
	}
	anyHolder struct{ Any any }
	skips     struct {
		Kept    int
		Fn      func()   `raysys:"-"`
		private chan int `raysys:"-"`
		_       func()
	}
	partly struct {
		Kept, Left int `raysys:"-"`
	}
	mistagged struct {
		Kept int `raysys:"kept"`
	}
	stamped struct { // would lose Note if the embedded methods counted
		time.Time
		Note string
	}
	wrapped   struct{ time.Time }
	flavour   struct{ N int }
	tone      int
	recording []byte
	carried   struct{ raysys.Ref[int] }
	envelope  struct {
		raysys.Ref[int]
		Note string
	}
	smuggler   struct{ R raysys.Ref[int] }
	box[T any] struct{ Item T }
)

func (h half) MarshalBinary() ([]byte, error)      { return nil, nil }
func (f flavour) MarshalText() ([]byte, error)     { return []byte(strings.Repeat("x", f.N)), nil }
func (f *flavour) UnmarshalText(text []byte) error { f.N = len(text); return nil }

// These say less than the value.
func (tone) MarshalText() ([]byte, error)         { return []byte("a tone"), nil }
func (t *tone) UnmarshalText([]byte) error        { *t = 1; return nil }
func (recording) MarshalText() ([]byte, error)    { return []byte("a recording"), nil }
func (b *recording) UnmarshalText([]byte) error   { *b = nil; return nil }
func (s smuggler) MarshalBinary() ([]byte, error) { return nil, nil }
func (s *smuggler) UnmarshalBinary([]byte) error  { return nil }

// The unexported fields stand here to be refused.
var _ = []any{hidden{inner: 0}, half{secret: 0}, closed{}.ref, deepClosed{}.list}

func TestGoodTypes(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[complex64](), reflect.TypeFor[string](),
		reflect.TypeFor[[]byte](), reflect.TypeFor[[]time.Duration](), reflect.TypeFor[[4]uint16](), reflect.TypeFor[[][]bool](),
		reflect.TypeFor[map[time.Weekday][]string](), reflect.TypeFor[map[bool]struct{}](), reflect.TypeFor[***int](),
		reflect.TypeFor[time.Time](), reflect.TypeFor[*time.Time](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[big.Int](),
		reflect.TypeFor[*url.URL](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[*durationpb.Duration](),
		reflect.TypeFor[stamped](), reflect.TypeFor[wrapped](), reflect.TypeFor[flavour](), reflect.TypeFor[[]flavour](),
		reflect.TypeFor[raysys.Ref[int]](), reflect.TypeFor[raysys.Handle[chan int]](), reflect.TypeFor[forest](),
		reflect.TypeFor[carried](), reflect.TypeFor[envelope](), reflect.TypeFor[box[box[int]]](), reflect.TypeFor[struct{}](),
		reflect.TypeFor[shape](), reflect.TypeFor[[]shape](), reflect.TypeFor[rich](),
		reflect.TypeOf(skips{private: nil}),
		reflect.TypeFor[linked](), reflect.TypeFor[loop](), reflect.TypeFor[anyHolder](), reflect.TypeFor[map[[2]int]int](),
	} {
		p, err := codec.PlanOf(typ)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		if again, _ := codec.PlanOf(typ); again != p {
			t.Errorf("%s: two plans for one type", typ)
		}
	}
}

func TestBadTypes(t *testing.T) {
	for _, tt := range []struct {
		typ    reflect.Type
		path   string
		reason string // a part of it
	}{
		{reflect.TypeFor[config](), "config.Hooks[].Fn", "define a task"},
		{reflect.TypeFor[[]config](), "[].Hooks[].Fn", "define a task"},
		{reflect.TypeFor[map[string]*config](), "[].Hooks[].Fn", "define a task"},
		{reflect.TypeFor[box[config]](), "box[codec_test.config].Item.Hooks[].Fn", "define a task"},
		{reflect.TypeFor[chan int](), "", "pass the values"},
		{reflect.TypeFor[[3]chan int](), "[]", "pass the values"},
		{reflect.TypeFor[box[uintptr]](), "box[uintptr].Item", "address"},
		{reflect.TypeFor[box[[]uintptr]](), "box[[]uintptr].Item[]", "address"},
		{reflect.TypeFor[box[unsafe.Pointer]](), "box[unsafe.Pointer].Item", "address"},
		{reflect.TypeFor[knotted](), "knotted.Next", "contains itself and a reference"},
		{reflect.TypeFor[hidden](), "hidden.inner", "export it"},
		{reflect.TypeFor[box[sync.Mutex]](), "box[sync.Mutex].Item._", ""},
		{reflect.TypeFor[halfHolder](), "halfHolder.H.secret", "without UnmarshalBinary"},
		{reflect.TypeFor[closed](), "closed.ref", "neither be waited for"},
		{reflect.TypeFor[deepClosed](), "deepClosed.list", "neither be waited for"},
		{reflect.TypeFor[box[[]error]](), "box[[]error].Item[]", "raysys.Register[error]"},
		{reflect.TypeFor[mistagged](), "mistagged.Kept", `"kept"`},
		{reflect.TypeFor[map[float64]int](), "[key]", "slice of pairs"},
		{reflect.TypeFor[map[[2]float32]int](), "[key]", "slice of pairs"},
		{reflect.TypeFor[map[box[*int]]int](), "[key]", "slice of pairs"},
		{reflect.TypeFor[map[partly]int](), "[key]", "leaves the field"},
		{reflect.TypeFor[map[box[time.Time]]int](), "[key]", "encodes itself"},
		{reflect.TypeFor[map[hidden]int](), "[key].inner", "export it"},
		{reflect.TypeFor[box[map[flavour]int]](), "box[map[codec_test.flavour]int].Item[key]", "encodes itself"},
		{reflect.TypeFor[smuggler](), "smuggler", "hide the reference"},
		{reflect.TypeFor[[]smuggler](), "[]", "hide the reference"},
		{nil, "", "nil interface"},
	} {
		_, err := codec.PlanOf(tt.typ)
		var bad *codec.TypeError
		if !errors.As(err, &bad) {
			t.Errorf("%v: %v, want a TypeError", tt.typ, err)
			continue
		}
		path := bad.Path
		if strings.HasSuffix(tt.path, "_") { // a field of another package, whose name is not ours to pin
			path = path[:strings.LastIndex(path, ".")+1] + "_"
		}
		if path != tt.path || !strings.Contains(bad.Reason, tt.reason) || bad.Type != tt.typ {
			t.Errorf("%v: path %q, reason %q; want path %q, reason with %q", tt.typ, bad.Path, bad.Reason, tt.path, tt.reason)
		}
		if !errors.Is(err, raysys.ErrEncode) {
			t.Errorf("%v: does not match ErrEncode", tt.typ)
		}
	}
}

type late interface{ late() }

func TestRegistrationMayComeLate(t *testing.T) {
	if _, ok := core.RegisteredName(reflect.TypeFor[late]()); ok {
		t.Skip("a registration cannot be taken back, so that only the first run of a process shows it")
	}
	typ := reflect.TypeFor[box[late]]()
	if _, err := codec.PlanOf(typ); err == nil {
		t.Fatal("an unregistered interface passed")
	}
	raysys.Register[late]("codec_test.late")
	if _, err := codec.PlanOf(typ); err != nil {
		t.Fatal(err)
	}
}

func TestSize(t *testing.T) {
	type inner struct {
		Name string
		Data []float32
	}
	const word = int(unsafe.Sizeof(uintptr(0)))
	x := inner{Name: "abc", Data: make([]float32, 3, 4)}
	for _, tt := range []struct {
		v    any
		want int
	}{
		{7, 0},
		{[8]uint64{}, 0},
		{time.Time{}, 0},
		{raysys.Ready(1), 0},
		{"abc", 3},
		{make([]float32, 3, 4), 16},
		{[]string{"ab", "c"}, 2*word*2 + 3},
		{[2]string{"ab", "c"}, 3},
		{x, 3 + 16},
		{&x, int(unsafe.Sizeof(x)) + 3 + 16},
		{(*inner)(nil), 0},
		{map[int32]int32{1: 1, 2: 2}, 16},
		{map[string][]byte{"ab": {1, 2, 3}}, word*2 + word*3 + 2 + 3},
		{box[shape]{circle{2}}, 8},
		{box[shape]{&label{"four"}}, word + word*2 + 4},
		{box[shape]{}, 0},
	} {
		p, err := codec.PlanOf(reflect.TypeOf(tt.v))
		if err != nil {
			t.Errorf("%T: %v", tt.v, err)
			continue
		}
		if got := p.Size(reflect.ValueOf(tt.v)); got != tt.want {
			t.Errorf("%T: size %d, want %d", tt.v, got, tt.want)
		}
		if p.Fixed() && tt.want != 0 {
			t.Errorf("%T: fixed, but holds %d bytes", tt.v, tt.want)
		}
	}
}

func TestFixed(t *testing.T) {
	got := map[string]bool{}
	for _, typ := range []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[[3]box[float64]](), reflect.TypeFor[raysys.Ref[string]](),
		reflect.TypeFor[string](), reflect.TypeFor[[]int](), reflect.TypeFor[*int](), reflect.TypeFor[map[int]int](), reflect.TypeFor[box[shape]](),
	} {
		p, err := codec.PlanOf(typ)
		if err != nil {
			t.Fatal(err)
		}
		got[typ.String()] = p.Fixed()
	}
	want := map[string]bool{
		"int": true, "[3]codec_test.box[float64]": true, "raysys.Ref[string]": true,
		"string": false, "[]int": false, "*int": false, "map[int]int": false,
		"codec_test.box[github.com/raysys/raysys/internal/codec_test.shape]": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
