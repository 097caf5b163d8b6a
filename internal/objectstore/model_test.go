package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/objectstore"
)

// modelled is what the test knows of one object.
type modelled struct {
	object  *objectstore.Object
	value   *value // nil for what was received
	bytes   []byte
	pins    int
	maps    []*objectstore.Mapping
	chunks  []objectstore.Chunk
	primary bool
}

// model drives one store with random verbs, and knows what must come out.
type model struct {
	s       *objectstore.Store
	dir     string
	next    int
	live    []*modelled
	budget  int64
	largest int64
}

const modelChunk = 300 * kib // most objects are smaller than a chunk, some are several

func newModel(t *rapid.T, dir string) *model {
	m := &model{dir: dir, budget: int64(rapid.IntRange(1, 6).Draw(t, "budget") * mib)}
	warm := int64(rapid.SampledFrom([]int{-1, 0, mib}).Draw(t, "warm"))
	s, err := objectstore.Open(objectstore.Config{Budget: m.budget, Warm: warm, Dir: dir, Disk: 1 << 40, Pressure: func() {}})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.s = s
	return m
}

func (m *model) size(t *rapid.T) int {
	n := rapid.SampledFrom([]int{0, 1, 100, modelChunk, mib - 1, mib, mib + 1, 2*mib + 7, 7 * mib}).Draw(t, "size")
	m.largest = max(m.largest, int64(n)+64*kib)
	return n
}

func (m *model) pick(t *rapid.T) *modelled {
	if len(m.live) == 0 {
		t.Skip("nothing is there")
	}
	return rapid.SampledFrom(m.live).Draw(t, "object")
}

// gone reports whether err is what a dropped copy answers, and takes the copy out of the model.
func (m *model) gone(t *rapid.T, x *modelled, err error) bool {
	if err == nil {
		return false
	}
	if x.primary || !errors.Is(err, raysys.ErrObjectLost) || m.s.Lookup(x.object.ID()) == x.object {
		t.Fatalf("object %s (primary %v): %v", x.object.ID(), x.primary, err)
	}
	m.forget(x)
	return true
}

func (m *model) forget(x *modelled) {
	for _, p := range x.maps {
		p.Close()
	}
	for _, c := range x.chunks {
		c.Release()
	}
	for range x.pins {
		x.object.Unpin()
	}
	x.object.Release()
	m.live = slices.DeleteFunc(m.live, func(o *modelled) bool { return o == x })
}

func (m *model) actions() map[string]func(t *rapid.T) {
	ctx := context.Background()
	return map[string]func(t *rapid.T){
		"add": func(t *rapid.T) {
			m.next++
			v := newValue(content(m.next, m.size(t)))
			v.kept.Store(rapid.IntRange(0, 4).Draw(t, "kept") == 0)
			m.live = append(m.live, &modelled{object: add(t, m.s, m.next, v), value: v, bytes: v.bytes, primary: true})
		},
		"receive": func(t *rapid.T) {
			m.next++
			b := content(m.next, m.size(t))
			o := receive(t, m.s, m.next, b, rapid.SampledFrom(allForms).Draw(t, "form"))
			m.live = append(m.live, &modelled{object: o, bytes: b})
		},
		"give up": func(t *rapid.T) {
			m.next++
			b := content(m.next, m.size(t))
			in, err := m.s.Receive(ctx, version(m.next, b), rapid.SampledFrom(allForms).Draw(t, "form"))
			if err != nil {
				t.Fatalf("receive: %v", err)
			}
			for _, i := range in.Missing() {
				if i%2 == 0 {
					if err := come(in, i, b); err != nil {
						t.Fatalf("filled: %v", err)
					}
				}
			}
			in.Abort(nil)
			in.Object().Release()
		},
		"bytes": func(t *rapid.T) {
			x := m.pick(t)
			b, err := x.object.Bytes(ctx)
			if !m.gone(t, x, err) && !bytes.Equal(b, x.bytes) {
				t.Fatalf("other bytes")
			}
		},
		"revive": func(t *rapid.T) {
			x := m.pick(t)
			if x.value != nil && !x.value.gone.Load() {
				t.Skip("it lives")
			}
			b, err := x.object.Bytes(ctx)
			if m.gone(t, x, err) {
				return
			}
			x.value = newValue(b)
			x.object.Revive(x.value)
		},
		"map": func(t *rapid.T) {
			x := m.pick(t)
			p, err := x.object.Map(ctx)
			if m.gone(t, x, err) {
				return
			}
			if !bytes.Equal(p.Bytes(), x.bytes) {
				t.Fatalf("other bytes")
			}
			x.maps = append(x.maps, p)
		},
		"chunk": func(t *rapid.T) {
			x := m.pick(t)
			v, err := x.object.Version(ctx)
			if m.gone(t, x, err) || v.Size == 0 {
				return
			}
			i := rapid.IntRange(0, objectstore.Chunks(v.Size)-1).Draw(t, "chunk")
			c, err := x.object.Chunk(ctx, i)
			if m.gone(t, x, err) {
				return
			}
			x.chunks = append(x.chunks, c)
		},
		"share": func(t *rapid.T) {
			x := m.pick(t)
			_, err := x.object.Share(ctx)
			if !errors.Is(err, objectstore.ErrNotShareable) {
				m.gone(t, x, err)
			}
		},
		"end uses": func(t *rapid.T) {
			x := m.pick(t)
			for _, p := range x.maps {
				if !bytes.Equal(p.Bytes(), x.bytes) {
					t.Fatalf("what is mapped changed")
				}
				p.Close()
			}
			for _, c := range x.chunks {
				b := join(t, objectstore.Chunk{Pieces: c.Pieces, File: c.File, Offset: c.Offset, Size: c.Size})
				if sum, err := c.Sum(); err != nil || objectstore.Checksum(b) != sum {
					t.Fatalf("what is being sent changed: %v", err)
				}
				c.Release()
			}
			x.maps, x.chunks = nil, nil
		},
		"pin": func(t *rapid.T) { x := m.pick(t); x.pins++; x.object.Pin() },
		"unpin": func(t *rapid.T) {
			x := m.pick(t)
			if x.pins == 0 {
				t.Skip("not pinned")
			}
			x.pins--
			x.object.Unpin()
		},
		"primary": func(t *rapid.T) {
			x := m.pick(t)
			if m.s.Lookup(x.object.ID()) != x.object {
				t.Skip("dropped")
			}
			x.primary = rapid.Bool().Draw(t, "primary")
			x.object.SetPrimary(x.primary)
			if m.s.Lookup(x.object.ID()) != x.object {
				m.forget(x)
			}
		},
		"release": func(t *rapid.T) { m.forget(m.pick(t)) },
		"": func(t *rapid.T) {
			// In use, pinned and unwilling values may take the store above its budget; nothing else does.
			var held int64
			for _, i := range m.s.List() {
				held += i.Memory
			}
			st := m.s.Stats()
			if st.Used != held+st.Warm || st.Reserved != 0 {
				t.Fatalf("%d bytes are held and %d warm: %+v", held, st.Warm, st)
			}
			var stuck int64
			for _, x := range m.live {
				if x.pins > 0 || len(x.maps)+len(x.chunks) > 0 || x.value != nil && x.value.kept.Load() {
					stuck += 2 * (int64(len(x.bytes)) + 64*kib)
				}
			}
			if st.Used > m.budget+stuck+2*m.largest {
				t.Fatalf("%d bytes used of %d, with %d that cannot go", st.Used, m.budget, stuck)
			}
		},
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "object-model")
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer os.RemoveAll(dir)
		m := newModel(t, dir)
		defer m.s.Close()
		t.Repeat(m.actions())
		for len(m.live) > 0 {
			m.forget(m.live[0])
		}
		empty(t, m.s)
		if left := spillFilesIn(dir); left != 0 {
			t.Fatalf("%d spill files stayed", left)
		}
	})
}

// TestManyAtOnce does the same from many goroutines, for the race detector and for deadlocks.
func TestManyAtOnce(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 3 * mib, Disk: 64 * mib, Warm: mib, Pressure: func() {}})
	ctx := context.Background()
	shared := make([]*objectstore.Object, 6)
	for n := range shared {
		v := newValue(content(n, 700*kib+n))
		shared[n] = add(t, s, n, v)
	}
	rounds := long.Form(20, 60)
	var work sync.WaitGroup
	for g := range 8 {
		work.Go(func() {
			for i := range rounds {
				n := (g*7 + i*5) % len(shared)
				want := content(n, 700*kib+n)
				o := shared[n]
				switch (g + i) % 6 {
				case 0:
					b, err := o.Bytes(ctx)
					if err != nil || !bytes.Equal(b, want) {
						t.Errorf("bytes: %v", err)
					}
				case 1:
					m, err := o.Map(ctx)
					if err != nil || !bytes.Equal(m.Bytes(), want) {
						t.Errorf("map: %v", err)
						continue
					}
					m.Close()
				case 2:
					c, err := o.Chunk(ctx, 0)
					if err != nil || !bytes.Equal(join(t, c), want) {
						t.Errorf("chunk: %v", err)
					}
				case 3:
					k := 1000 + g*1000 + i
					mine := content(k, 500*kib)
					got := receive(t, s, k, mine, allForms[i%3])
					if b, err := got.Bytes(ctx); err == nil && !bytes.Equal(b, mine) || err != nil && !errors.Is(err, raysys.ErrObjectLost) {
						t.Errorf("received: %v", err)
					}
					got.Release()
				case 4:
					k := 1000 + g*1000 + i
					v := newValue(content(k, 400*kib))
					v.kept.Store(i%2 == 0)
					mine := add(t, s, k, v)
					same(t, mine, v.bytes)
					mine.Release()
				case 5:
					o.Pin()
					b, err := o.Bytes(ctx)
					if err != nil || !bytes.Equal(b, want) {
						t.Errorf("pinned: %v", err)
					} else {
						o.Revive(newValue(b))
					}
					o.Unpin()
				}
			}
		})
	}
	work.Wait()
	empty(t, s, shared...)
}
