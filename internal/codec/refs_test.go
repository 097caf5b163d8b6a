package codec_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
)

type pipeline struct {
	Weights raysys.Ref[[]float32]
	Next    raysys.Handle[int]
	Batches []raysys.Ref[int]
	Named   map[string]raysys.Ref[int]
	Groups  map[int]stage
	Spare   *raysys.Ref[int]
	Pair    [2]raysys.Ref[int]
	Steps   int
}

type stage struct {
	In  raysys.Ref[int]
	Out []raysys.Handle[int]
}

// newPipeline returns a value and its references in the order of the encoding: fields by name length, then name.
func newPipeline() (p pipeline, order []*core.Future) {
	refs := make([]raysys.Ref[int], 10)
	for i := range refs {
		refs[i] = raysys.Ready(i)
	}
	spare := refs[4]
	p = pipeline{
		Next: refs[0].Handle(), Pair: [2]raysys.Ref[int]{refs[1], {}},
		Named:   map[string]raysys.Ref[int]{"b": refs[2], "aa": refs[3], "c": {}},
		Spare:   &spare,
		Groups:  map[int]stage{-1: {In: refs[6]}, 2: {In: refs[5], Out: []raysys.Handle[int]{refs[5].Handle()}}},
		Weights: raysys.Ready([]float32{1}), Batches: []raysys.Ref[int]{refs[7], refs[8]}, Steps: 3,
	}
	future := func(i int) *core.Future { return core.FutureOf(refs[i].Link) }
	return p, []*core.Future{
		future(0), future(1), nil, future(2), nil, future(3), future(4), future(5), future(5), future(6), future(7), future(8), core.FutureOf(p.Weights.Link),
	}
}

func planOf[T any](t testing.TB) *codec.Plan {
	t.Helper()
	p, err := codec.PlanOf(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// comparable pointers: cores are told apart by address.
var cores = cmp.Comparer(func(a, b *core.Future) bool { return a == b })

func visited[T any](t testing.TB, v *T) (all []*core.Future) {
	t.Helper()
	planOf[T](t).RefsAt(unsafe.Pointer(v), func(r core.RefValue) { all = append(all, r.RefFuture()) })
	return all
}

func TestRefsVisitsEncodingOrder(t *testing.T) {
	v, want := newPipeline()
	for range 20 { // maps iterate differently each time
		if diff := cmp.Diff(want, visited(t, &v), cores); diff != "" {
			t.Fatal(diff)
		}
	}
	var all []*core.Future
	planOf[pipeline](t).Refs(reflect.ValueOf(v), func(r core.RefValue) { all = append(all, r.RefFuture()) })
	if diff := cmp.Diff(want, all, cores); diff != "" {
		t.Error("a value without address:", diff)
	}
}

func TestRefsMayBeReplaced(t *testing.T) {
	v, _ := newPipeline()
	other := raysys.Ready(99)
	planOf[pipeline](t).Refs(reflect.ValueOf(&v).Elem(), func(r core.RefValue) {
		if r.RefFuture() == nil || r.SetRefFuture(core.FutureOf(other.Link)) == nil {
			return
		}
		if r.Type() != reflect.TypeFor[[]float32]() {
			t.Errorf("a reference to %v refused its own type", r.Type())
		}
	})
	for i, c := range visited(t, &v) {
		if c != nil && c != core.FutureOf(other.Link) && c != core.FutureOf(v.Weights.Link) {
			t.Errorf("reference %d was not replaced", i)
		}
	}
	if len(v.Named) != 3 || len(v.Groups) != 2 {
		t.Errorf("the maps changed their keys: %d and %d", len(v.Named), len(v.Groups))
	}
}

func TestHasRefs(t *testing.T) {
	for _, tt := range []struct {
		plan *codec.Plan
		want bool
	}{
		{planOf[int](t), false},
		{planOf[rich](t), false},
		{planOf[raysys.Ref[int]](t), true},
		{planOf[*[]map[string][1]raysys.Handle[int]](t), true},
		{planOf[envelope](t), true},
		{planOf[pipeline](t), true},
	} {
		if got := tt.plan.HasRefs(); got != tt.want {
			t.Errorf("%s: %v", tt.plan.Type(), got)
		}
	}
	var v rich
	if n := testing.AllocsPerRun(100, func() { planOf[rich](t).RefsAt(unsafe.Pointer(&v), nil) }); n > 0 {
		t.Errorf("a plan without references allocates %v times", n)
	}
}

func TestRefsTravelBeside(t *testing.T) {
	v, order := newPipeline()
	before := raysys.Ready("before")
	refs := []*core.Future{core.FutureOf(before.Link)}
	data, err := codec.Append(nil, &v, &refs)
	if err != nil {
		t.Fatal(err)
	}
	want := []*core.Future{core.FutureOf(before.Link)}
	for _, c := range order {
		if c != nil {
			want = append(want, c)
		}
	}
	if diff := cmp.Diff(want, refs, cores); diff != "" {
		t.Error(diff)
	}
	var got pipeline
	if err := codec.Decode(data, &got, refs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(order, visited(t, &got), cores); diff != "" {
		t.Error(diff)
	}
	if got.Steps != 3 {
		t.Errorf("steps %d, want 3", got.Steps)
	}
}

func TestEmbeddedRefKeepsItsNeighbours(t *testing.T) {
	in := envelope{raysys.Ready(1), "kept"}
	var refs []*core.Future
	data, err := codec.Append(nil, &in, &refs)
	if err != nil {
		t.Fatal(err)
	}
	var out envelope
	if err := codec.Decode(data, &out, refs); err != nil {
		t.Fatal(err)
	}
	if out.Note != "kept" || core.FutureOf(out.Link) != core.FutureOf(in.Link) {
		t.Errorf("got %q and %p, want %q and %p", out.Note, core.FutureOf(out.Link), in.Note, core.FutureOf(in.Link))
	}
}

func TestBadRefs(t *testing.T) {
	in := []raysys.Ref[int]{{}, raysys.Ready(1)}
	var refs []*core.Future
	data, err := codec.Append(nil, &in, &refs)
	if err != nil {
		t.Fatal(err)
	}
	words := raysys.Ready("words")
	for _, tt := range []struct {
		name   string
		refs   []*core.Future
		reason string
	}{
		{"none", nil, "not among the 0"},
		{"nil", []*core.Future{nil}, "not among the 1"},
		{"type", []*core.Future{core.FutureOf(words.Link)}, "another type"},
	} {
		out := []raysys.Ref[int]{raysys.Ready(5)}
		err := codec.Decode(data, &out, tt.refs)
		var bad *codec.DecodeError
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if bad.Path != "[1]" || bad.Offset != 4 || !strings.Contains(bad.Reason, tt.reason) {
			t.Errorf("%s: %+v", tt.name, bad)
		}
		if out != nil {
			t.Errorf("%s: the value is %v, want nil", tt.name, out)
		}
	}
	if err := codec.Decode(data, &in, []*core.Future{core.FutureOf(words.Link)}); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Errorf("%v does not match its cause", err)
	}
	var handles []raysys.Handle[int]
	if err := codec.Decode(data, &handles, refs); err == nil {
		t.Error("a Ref was read as a Handle")
	}
}

func TestRefsRefused(t *testing.T) {
	in := []raysys.Ref[int]{{}, raysys.Ready(1)}
	_, err := codec.Append(nil, &in, nil)
	var bad *codec.EncodeError
	if !errors.As(err, &bad) || bad.Path != "[1]" || !errors.Is(err, raysys.ErrEncode) {
		t.Errorf("without a side list: %v", err)
	}
	mixed := struct {
		A raysys.Ref[int]
		B shape
	}{raysys.Ready(1), stranger{}}
	had := raysys.Ready(2)
	refs := []*core.Future{core.FutureOf(had.Link)}
	if out, err := codec.Append([]byte("pre"), &mixed, &refs); err == nil || string(out) != "pre" || len(refs) != 1 {
		t.Errorf("after an error dst is %q, with %d refs, and err %v", out, len(refs), err)
	}
}
