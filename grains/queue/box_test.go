package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/items"
	"github.com/raysys/raysys/internal/nodetest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// TestSettleFails: what a take gets whose caller is gone by the moment of its answer goes back, in its order, and a put that ends so is not in.
func TestSettleFails(t *testing.T) {
	b := &box{d: &definition{size: 10, bytes: 10}}
	three := items.Chunk{Data: []byte("abc"), Ends: []uint32{1, 2, 3}}
	take := &waiting[items.Chunk]{later: &grains.Later[items.Chunk]{}, ask: ask{ID: 1, N: 2}, line: &b.taking} // a Later of no call: its Settle fails
	take.at = b.taking.PushBack(take)
	b.append(batch{ID: 2, Items: three})
	put := &waiting[int]{later: &grains.Later[int]{}, put: batch{ID: 3, Items: three}, line: &b.putting}
	put.at = b.putting.PushBack(put)
	b.pump()
	if b.count != 3 || b.taking.Len() != 0 || b.putting.Len() != 0 {
		t.Error(b.count, "items,", b.taking.Len(), b.putting.Len(), "calls")
	}
	if c := b.remove(3); string(c.Data) != "abc" {
		t.Errorf("%q", c.Data)
	}
	if _, in := b.puts.Get(3); in {
		t.Error("a put whose caller was told that it failed counts")
	}
	if _, known := b.takes.Get(1); known {
		t.Error("a take that got nothing counts")
	}
}

// TestBytesThatWait: the Puts that wait hold as many bytes as the queue may, or one that is larger. Others ask, keep their place in the line, and
// hold nothing.
func TestBytesThatWait(t *testing.T) {
	d := &definition{size: 1000, bytes: 100, most: 100}
	one := func(size int) items.Chunk { return items.Chunk{Data: make([]byte, size), Ends: []uint32{uint32(size)}} }
	for name, c := range map[string]struct {
		sizes []int  // of Puts; -n asks for room for n bytes
		want  []bool // they wait
		held  int
	}{
		"as many as fit":       {[]int{40, 60, 1, 0}, []bool{true, true, false, true}, 100},
		"one large waits":      {[]int{500, 1}, []bool{true, false}, 500},
		"no large behind some": {[]int{1, 500}, []bool{true, false}, 1},
		"asks hold nothing":    {[]int{-500, 40, -40, 60, -1}, []bool{true, true, true, true, true}, 100},
	} {
		b := &box{d: d}
		b.append(batch{ID: 1, Items: one(50)})
		b.append(batch{ID: 2, Items: one(50)})
		for i, size := range c.sizes {
			p := batch{ID: uint64(10 + i), Items: one(max(size, 0))}
			if size < 0 {
				p = batch{ID: p.ID, N: 1, Bytes: -size}
			}
			err := b.put(d, p, &grains.Later[int]{})
			if waits := err == nil; waits != c.want[i] || !waits && (!errors.Is(err, errAskFirst) || !errors.Is(err, raysys.ErrOverloaded)) {
				t.Errorf("%s: put %d: %v", name, i, err)
			}
		}
		if b.waits != c.held || b.size != 100 {
			t.Errorf("%s: %d bytes wait, %d are in", name, b.waits, b.size)
		}
		b.closed = true
		if b.pump(); b.waits != 0 || b.putting.Len() != 0 {
			t.Errorf("%s: %d bytes wait after the end", name, b.waits)
		}
	}
}

// TestAsksAreLetInOneByOne: room that comes goes to one of those that ask, in their order, since its items are still to come.
func TestAsksAreLetInOneByOne(t *testing.T) {
	table := raysys.NewTable()
	q := DefineIn[string](table, "jobs", Size(1)).Get("a")
	ctx := testkit.New(t, testkit.Table(table)).Context()
	if err := q.Put(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	asks := make([]raysys.Ref[int], 3)
	for i := range asks {
		asks[i] = q.q.d.put.Call(ctx, q.q.box(), batch{ID: uint64(i + 1), N: 1, Bytes: 10})
	}
	if v, err := q.Take(ctx); v != "a" || err != nil {
		t.Fatal(v, err)
	}
	for i := range asks {
		if _, err := asks[i].Get(ctx); err != nil {
			t.Fatal(i, err)
		}
		if n, err := q.Len(ctx); n != 0 || err != nil {
			t.Fatal(n, err)
		}
		for _, later := range asks[i+1:] {
			if core.FutureOf(later.Link).Settled() {
				t.Fatal("one ask more was let in than ", i+1)
			}
		}
		var b batch
		if b.ID, b.Asked = uint64(i+1), true; q.q.d.codec.Append(&b.Items, unsafe.Pointer(&[]string{"b"}[0])) != nil {
			t.Fatal("no item")
		}
		if _, err := q.q.d.put.Call(ctx, q.q.box(), b).Get(ctx); err != nil { // before the asks that wait
			t.Fatal(err)
		}
		if v, err := q.Take(ctx); v != "b" || err != nil {
			t.Fatal(v, err)
		}
	}
}

// TestBrokenItems: a list of items from another node that is none is refused, and the queue has what it had.
func TestBrokenItems(t *testing.T) {
	table := raysys.NewTable()
	q := DefineIn[string](table, "jobs").Get("a")
	ctx := testkit.New(t, testkit.Table(table)).Context()
	if err := q.Put(ctx, "a", "b"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []items.Chunk{
		{Data: []byte("ab"), Ends: []uint32{1, 3}},
		{Data: []byte("ab"), Ends: []uint32{2, 1}},
		{Data: []byte("ab"), Ends: []uint32{1}},
		{Data: []byte("ab"), Ends: []uint32{2, 1, 2}},
		{Data: []byte("ab")},
		{Ends: []uint32{1 << 31}},
	} {
		if _, err := q.q.d.put.Call(ctx, q.q.box(), batch{ID: 1, Items: c}).Get(ctx); err == nil {
			t.Errorf("put %v: %v", c, err)
		}
		if _, err := q.q.d.back.Call(ctx, q.q.box(), rest{ID: 2, Items: c}).Get(ctx); err == nil {
			t.Errorf("back %v", c)
		}
	}
	if list, err := q.TakeUpTo(ctx, 10); err != nil || !slices.Equal(list, []string{"a", "b"}) {
		t.Error(list, err)
	}
}

// TestClosedIsNoFailure: a Take and a Put of a closed queue are no failures of the queue. They are those of a method that returns their error.
func TestClosedIsNoFailure(t *testing.T) {
	table := raysys.NewTable()
	q := DefineIn[string](table, "jobs").Get("a")
	reader := grains.DefineIn[struct{}](table, "reader")
	read := grains.Method0(reader, "read", func(_ *struct{}, ctx context.Context) (string, error) { return q.Take(ctx) })
	n, ctx := nodetest.Start(t, system.Config{Table: table})
	if err := q.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Take(ctx); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := q.Put(ctx, "late"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := read.Call(ctx, reader.Get("x")).Get(ctx); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	all, err := n.Functions(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]string{}
	for _, f := range all.Functions {
		ended[f.Name] = fmt.Sprint(f.Ended)
	}
	want := map[string]string{"jobs.take": "map[ok:2]", "jobs.put": "map[ok:1]", "jobs.close": "map[ok:1]", "reader.read": "map[error:1]"}
	if !maps.Equal(ended, want) {
		t.Errorf("ended: %v", ended)
	}
}
