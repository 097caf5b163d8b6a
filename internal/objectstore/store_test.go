package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/objectstore"
)

func TestAddReadRelease(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 64 * mib})
	for n, size := range []int{0, 1, 7, mib - 1, mib, mib + 1, 5*mib + 3} {
		b := content(n, size)
		o := add(t, s, n, newValue(b))
		if s.Lookup(id(n)) != o || !o.Primary() {
			t.Fatal("what was added is not found, or no primary")
		}
		same(t, o, b)
		o.Release()
		o.Release()
		if s.Lookup(id(n)) != nil {
			t.Error("what was released is found")
		}
		if _, err := o.Bytes(context.Background()); !errors.Is(err, raysys.ErrReleased) {
			t.Errorf("bytes of what was released: %v", err)
		}
	}
	empty(t, s)
}

func TestAddRefuses(t *testing.T) {
	s := open(t, objectstore.Config{Budget: mib})
	o := add(t, s, 1, newValue(content(1, 10)))
	defer o.Release()
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := s.Add(ctx, id(1), 2, newValue(nil)); !errors.Is(err, objectstore.ErrPresent) {
		t.Errorf("a second object under one id: %v", err)
	}
	if _, err := s.Add(ctx, raysys.TaskID{}, 1, newValue(nil)); !errors.Is(err, raysys.ErrInvalidRef) {
		t.Errorf("no id: %v", err)
	}
	cancel()
	if _, err := s.Add(ctx, id(2), 1, newValue(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v", err)
	}
	if _, err := objectstore.Open(objectstore.Config{Budget: -1}); err == nil {
		t.Error("a budget below zero")
	}
}

func TestMillionTiny(t *testing.T) {
	count := long.Form(50_000, 1_000_000)
	s := open(t, objectstore.Config{Budget: 4 * mib})
	b := []byte("tiny")
	list := make([]*objectstore.Object, count)
	for i := range list {
		v := newValue(b)
		v.kept.Store(true)
		list[i] = add(t, s, i, v)
	}
	if st := s.Stats(); st.Objects != count || st.Used != int64(4*count) {
		t.Fatalf("%+v", st)
	}
	same(t, list[count/2], b)
	empty(t, s, list...)
}

func TestSpillsLeastRecentlyUsedFirst(t *testing.T) {
	pressed := 0
	s := open(t, objectstore.Config{Budget: 10 * mib, Pressure: func() { pressed++ }})
	values := make([]*value, 4)
	objects := make([]*objectstore.Object, 4)
	for n := range 3 {
		values[n] = newValue(content(n, 3*mib))
		objects[n] = add(t, s, n, values[n])
	}
	c, err := objects[0].Chunk(context.Background(), 0) // the oldest was used last
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	values[3] = newValue(content(3, 3*mib))
	objects[3] = add(t, s, 3, values[3])
	gone := []bool{values[0].gone.Load(), values[1].gone.Load(), values[2].gone.Load(), values[3].gone.Load()}
	if want := []bool{false, true, false, false}; !slices.Equal(gone, want) {
		t.Errorf("evicted %v, want %v", gone, want)
	}
	if pressed != 1 {
		t.Errorf("asked for a collection %d times before the first spill", pressed)
	}
	if f := forms(objects[1]); !slices.Equal(f, []string{"file"}) {
		t.Errorf("the victim has the forms %v", f)
	}
	for n, o := range objects {
		same(t, o, values[n].bytes)
		if st := s.Stats(); st.Used > st.Budget {
			t.Errorf("%d bytes used of %d", st.Used, st.Budget)
		}
	}
	empty(t, s, objects...)
}

func TestEvictRefusedTakesTheNext(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	stays := newValue(content(1, 2*mib))
	stays.kept.Store(true)
	a := add(t, s, 1, stays)
	goes := newValue(content(2, 2*mib))
	b := add(t, s, 2, goes)
	c := add(t, s, 3, newValue(content(3, 2*mib)))
	if !goes.gone.Load() {
		t.Error("nobody was evicted")
	}
	if st := s.Stats(); st.Used != 4*mib {
		t.Errorf("%d bytes used", st.Used)
	}
	empty(t, s, a, b, c)
}

func TestTouchedStays(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	v, w := newValue(content(1, 2*mib)), newValue(content(2, 2*mib))
	a, b := add(t, s, 1, v), add(t, s, 2, w)
	a.Touch()
	c := add(t, s, 3, newValue(content(3, 2*mib)))
	if v.gone.Load() || !w.gone.Load() {
		t.Error("the touched one was evicted")
	}
	empty(t, s, a, b, c)
}

func TestCopyWhoseValueStays(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	o := receive(t, s, 1, content(1, 2*mib), objectstore.Heap)
	b, err := o.Bytes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	v := newValue(b)
	v.kept.Store(true)
	o.Revive(v)
	p := add(t, s, 2, newValue(content(2, 2*mib)))
	if f := forms(o); !slices.Equal(f, []string{"value"}) || s.Lookup(id(1)) != o || s.Stats().Spilled != 0 {
		t.Errorf("the copy has the forms %v; %+v", f, s.Stats())
	}
	same(t, o, b)
	empty(t, s, o, p)
}

func TestPinnedStays(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	v := newValue(content(1, 2*mib))
	a := add(t, s, 1, v)
	a.Pin()
	w := newValue(content(2, 3*mib))
	b := add(t, s, 2, w) // there is no room but for itself: on disk
	if v.gone.Load() || !w.gone.Load() {
		t.Errorf("evicted: the pinned %v, the new %v", v.gone.Load(), w.gone.Load())
	}
	a.Unpin()
	same(t, b, w.bytes)
	if !v.gone.Load() {
		t.Error("after Unpin it still stays")
	}
	same(t, a, v.bytes)
	a.Pin()
	a.Release()
	if s.Stats().Disk == 0 {
		t.Error("a pinned object lost its file")
	}
	a.Unpin()
	empty(t, s, b)
}

func TestCopiesGoFirst(t *testing.T) {
	var dropped []objectstore.Version
	s := open(t, objectstore.Config{Budget: 6 * mib, Hooks: objectstore.Hooks{Dropped: func(v objectstore.Version) { dropped = append(dropped, v) }}})
	primary := newValue(content(1, 2*mib))
	a := add(t, s, 1, primary)
	b := receive(t, s, 2, content(2, 2*mib), objectstore.Heap)
	c := receive(t, s, 3, content(3, 2*mib), objectstore.Segment)
	c.SetPrimary(true)
	d := add(t, s, 4, newValue(content(4, 2*mib)))
	if len(dropped) != 1 || dropped[0].ID != id(2) || s.Lookup(id(2)) != nil || primary.gone.Load() {
		t.Errorf("dropped %v", dropped)
	}
	if _, err := b.Bytes(context.Background()); !errors.Is(err, raysys.ErrObjectLost) {
		t.Errorf("bytes of a dropped copy: %v", err)
	}
	same(t, c, content(3, 2*mib))
	empty(t, s, a, b, c, d)
}

func TestRevive(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 3 * mib})
	first := newValue(content(1, 2*mib))
	a := add(t, s, 1, first)
	b := add(t, s, 2, newValue(content(2, 2*mib)))
	if !first.gone.Load() {
		t.Fatal("nothing was spilled")
	}
	data, err := a.Bytes(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	again := newValue(data)
	a.Revive(again)
	if f := forms(a); !slices.Equal(f, []string{"value", "heap", "file"}) {
		t.Errorf("forms %v", f)
	}
	// It goes again without a second write.
	c := add(t, s, 3, newValue(content(3, 2*mib)))
	if !again.gone.Load() || s.Stats().Spilled != 2 {
		t.Errorf("evicted %v after %d spills", again.gone.Load(), s.Stats().Spilled)
	}
	empty(t, s, a, b, c)
}

func TestReviveOfADroppedCopy(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 2 * mib})
	o := receive(t, s, 1, content(1, 2*mib), objectstore.Heap)
	p := add(t, s, 2, newValue(content(2, mib)))
	o.Revive(newValue(content(1, 2*mib)))
	if st := s.Stats(); st.Used != mib {
		t.Errorf("a copy that was dropped is charged: %+v", st)
	}
	empty(t, s, p)
}

func TestBytesAreSharedAndOutlive(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 8 * mib})
	want := content(1, 3*mib)
	o := add(t, s, 1, newValue(want))
	got := make(chan []byte, 8)
	for range cap(got) {
		go func() {
			b, err := o.Bytes(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- b
		}()
	}
	first := <-got
	for range cap(got) - 1 {
		if b := <-got; &b[0] != &first[0] {
			t.Error("two callers got two buffers")
		}
	}
	empty(t, s, o)
	if string(first) != string(want) {
		t.Error("the bytes changed after the end of the object")
	}
}

func TestMappingOutlivesReleaseAndClose(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 8 * mib})
	want := content(1, 2*mib)
	o := receive(t, s, 1, want, objectstore.Segment)
	m, err := o.Map(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	o.Release()
	other := receive(t, s, 2, content(2, 2*mib), objectstore.Segment)
	if string(m.Bytes()) != string(want) {
		t.Fatal("the mapped segment was used again")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if string(m.Bytes()) != string(want) {
		t.Fatal("the mapping ended with the store")
	}
	m.Close()
	m.Close()
	if m.Bytes() != nil {
		t.Error("bytes after Close")
	}
	if _, err := other.Bytes(context.Background()); !errors.Is(err, raysys.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := s.Add(context.Background(), id(3), 1, newValue(nil)); !errors.Is(err, raysys.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestList(t *testing.T) {
	at := time.Unix(7, 0)
	s := open(t, objectstore.Config{Budget: 8 * mib, Now: func() time.Time { return at }})
	a := add(t, s, 1, newValue(content(1, 10)))
	b := receive(t, s, 2, content(2, 20), objectstore.Heap)
	b.Pin()
	list := s.List()
	if len(list) != 2 || list[0].ID != id(2) || list[0].Why != "received" || list[0].Pins != 1 || list[0].Size != 20 || !list[0].Since.Equal(at) {
		t.Errorf("%+v", list)
	}
	if list[1].Why != "put" || !list[1].Primary || list[1].Memory != 10 {
		t.Errorf("%+v", list[1])
	}
	b.Unpin()
	a.Release()
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("Unpin without Pin went unnoticed")
		}
	}()
	b.Unpin()
}

func TestEncodingFails(t *testing.T) {
	s := open(t, objectstore.Config{Budget: mib})
	v := newValue(content(1, 100*kib))
	v.fail = errors.New("no bytes today")
	o := add(t, s, 1, v)
	if _, err := o.Version(context.Background()); !errors.Is(err, v.fail) || !errors.Is(err, raysys.ErrEncode) {
		t.Errorf("version: %v", err)
	}
	if _, err := o.Bytes(context.Background()); !errors.Is(err, v.fail) {
		t.Errorf("bytes: %v", err)
	}
	// It cannot be spilled, others can.
	other := newValue(content(2, 500*kib))
	b := add(t, s, 2, other)
	c := add(t, s, 3, newValue(content(3, 500*kib)))
	if v.gone.Load() || !other.gone.Load() {
		t.Error("the wrong one was evicted")
	}
	empty(t, s, o, b, c)
}

func TestChangedValueIsNoticed(t *testing.T) {
	s := open(t, objectstore.Config{Budget: mib})
	v := newValue(content(1, 600*kib))
	o := add(t, s, 1, v)
	if _, err := chunkSum(o, 0); err != nil { // it was sent
		t.Fatal(err)
	}
	objectstore.Thin(o) // the bytes beside the value go
	v.bytes[300*kib] ^= 1
	if _, err := o.Chunk(context.Background(), 0); !errors.Is(err, raysys.ErrEncode) {
		t.Errorf("chunk: %v", err)
	}
	if err := objectstore.Spill(o); !errors.Is(err, raysys.ErrEncode) || v.gone.Load() {
		t.Errorf("spill: %v", err)
	}
	v.bytes[300*kib] ^= 1
	same(t, o, v.bytes)
	if err := objectstore.Spill(o); err != nil || !v.gone.Load() {
		t.Errorf("spill: %v", err)
	}
	same(t, o, v.bytes)
	empty(t, s, o)
}

// streamed is a value that comes in blocks, and must not be asked for all of them at once.
type streamed struct {
	*value
	block   int
	streams int
}

func (v *streamed) Stream(emit func([]byte) error) error {
	v.streams++
	if v.fail != nil {
		return v.fail
	}
	for b := v.bytes; len(b) > 0; b = b[min(len(b), v.block):] {
		if err := emit(bytes.Clone(b[:min(len(b), v.block)])); err != nil {
			return err
		}
	}
	return nil
}

func TestLargeValuesAreStreamedToDisk(t *testing.T) {
	for _, block := range []int{99, 1000, 100 * kib, 3 * mib} {
		s := open(t, objectstore.Config{Budget: 4 * mib})
		v := &streamed{value: newValue(content(1, 2*mib+9)), block: block}
		o, err := s.Add(context.Background(), id(1), 1, v)
		if err != nil {
			t.Fatal(err)
		}
		if err := objectstore.Spill(o); err != nil {
			t.Fatal(err)
		}
		if v.streams != 2 || v.calls.Load() != 0 {
			t.Errorf("streamed %d times, asked for pieces %d times", v.streams, v.calls.Load())
		}
		same(t, o, v.bytes)
		o.Release()

		bad := &streamed{value: newValue(content(2, 2*mib)), block: block}
		bad.fail = errors.New("no bytes today")
		p, err := s.Add(context.Background(), id(2), 1, bad)
		if err != nil {
			t.Fatal(err)
		}
		if err := objectstore.Spill(p); !errors.Is(err, raysys.ErrEncode) || !errors.Is(err, bad.fail) {
			t.Errorf("%v", err)
		}
		empty(t, s, p)
	}
}

func TestStreamedValueThatChanges(t *testing.T) {
	f := newFaulty()
	s := open(t, objectstore.Config{Budget: 4 * mib, FS: f})
	v := &streamed{value: newValue(content(1, 2*mib)), block: mib}
	o, err := s.Add(context.Background(), id(1), 1, v)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(){
		func() { v.bytes[mib+3] ^= 1 },
		func() { v.bytes = v.bytes[:mib] },
		func() { v.bytes = append(v.bytes, v.bytes...) },
	} {
		f.fault = func(op, _ string) error {
			if op == "create" { // between the two readings
				change()
			}
			return nil
		}
		if err := objectstore.Spill(o); !errors.Is(err, raysys.ErrEncode) {
			t.Errorf("%v", err)
		}
		v.bytes = content(1, 2*mib)
	}
	f.fault = nil
	same(t, o, v.bytes)
	empty(t, s, o)
}
