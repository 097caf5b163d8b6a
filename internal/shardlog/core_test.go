package shardlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raysys/raysys/store"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// recordsOf returns a machine's table in a form that can be compared.
func recordsOf(m *machine) map[string]string {
	out := map[string]string{}
	for k, r := range m.records {
		out[k] = fmt.Sprintf("%v %.40q %d %08x", r.Version, r.Value, len(r.Value), crc32.Checksum(r.Value, castagnoli))
	}
	keys := slices.Collect(m.keys.Prefix(""))
	if !slices.Equal(keys, slices.Sorted(maps.Keys(out))) {
		out["keys"] = fmt.Sprint(keys)
	}
	for v, k := range m.kept {
		out[fmt.Sprintf("kept %v", v)] = fmt.Sprintf("%d %q", k.typ, k.body)
	}
	return out
}

// again encodes and decodes.
func again(t interface{ Fatal(...any) }, b *block) *block {
	got, err := decodeBlock(b.kind, b.encode())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// noise does not pack.
var noise = func() []byte {
	b := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

// A change that waits behind the commit of an older one to the same key is what conditions are judged against: else two
// writers that read the older one would both be let through.
func TestCommitKeepsNewerChange(t *testing.T) {
	c := newCore(newMachine(), 3)
	propose := func(b Batch) (err *error) {
		size, bad := b.check()
		if bad != nil {
			t.Fatal(bad)
		}
		err = new(error)
		c.propose(b, size, func(_ Result, e error) { *err = e })
		return err
	}
	commit := func(d *draft) {
		c.commit(d)
		for _, it := range d.items {
			it.done(it.result, it.err)
		}
	}
	propose(Batch{Puts: []Put{{"k", []byte("first")}}})
	first := c.take()
	propose(Batch{Puts: []Put{{"k", []byte("second")}}})
	commit(first)
	read := c.machine.records["k"].Version // what a reader sees now
	err := propose(Batch{Checks: []Check{{"k", read}}, Puts: []Put{{"k", []byte("third")}}})
	commit(c.take())
	if !errors.Is(*err, ErrConflict) {
		t.Errorf("a write on condition of the first version came after the second: %v, want ErrConflict: the second is lost", *err)
	}
	if got := c.machine.records["k"].Value; string(got) != "second" {
		t.Errorf("the record is %q", got)
	}
}

// The core against a model that knows no drafts: a batch sees all batches before it, whether committed or not; the
// machine shows exactly the committed ones; and what the segments say, through any snapshot taken in between, is the
// machine.
func TestCoreModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type answer struct {
			err  error
			want bool // must conflict
		}
		keyGen := rapid.SampledFrom([]string{"a", "a/b", "a/c", "b", "\xff", "a/b\x00"})
		model := map[string]Record{} // as after everything proposed
		var log []*block             // since the beginning
		var snapshot []*block        // of the last snapshot begun, and the first segment it lacks
		var snapNext uint64
		var snap *cursor
		m := newMachine()
		c := newCore(m, 3)
		committed := []map[string]Record{{}} // the model after each proposal; the first is empty
		proposed, answered := 0, 0
		var answers []answer
		oldest := Version{}
		var taken *draft // being appended, while others are proposed

		commit := func(d *draft) {
			if len(d.raw) > 0 {
				log = append(log, c.block(d, nonce{}))
			}
			c.commit(d)
			for _, it := range d.items {
				it.done(it.result, it.err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"propose": func(t *rapid.T) {
				var b Batch
				conflict := false
				for _, key := range rapid.SliceOfN(keyGen, 0, 2).Draw(t, "checks") {
					v := model[key].Version
					switch rapid.IntRange(0, 5).Draw(t, "kind") {
					case 0:
						v = Version{}
					case 1:
						v = oldest
					case 2: // committed, but perhaps superseded by what is on its way
						v = m.records[key].Version
					}
					conflict = conflict || v != model[key].Version
					b.Checks = append(b.Checks, Check{key, v})
				}
				b.Deletes = rapid.SliceOfN(keyGen, 0, 2).Draw(t, "deletes")
				for _, key := range rapid.SliceOfN(keyGen, 0, 3).Draw(t, "puts") {
					n := rapid.SampledFrom([]int{0, 1, 5, 600, 100 << 10}).Draw(t, "size")
					b.Puts = append(b.Puts, Put{key, noise[proposed%7 : proposed%7+n]})
				}
				size, err := b.check()
				if err != nil {
					if !errors.Is(err, store.ErrTooLarge) {
						t.Fatal(err)
					}
					return
				}
				i := proposed
				proposed++
				answers = append(answers, answer{want: conflict})
				seq := c.seq
				if !conflict {
					for _, key := range b.Deletes {
						delete(model, key)
						seq++
					}
					for _, p := range b.Puts {
						model[p.Key] = Record{p.Value, Version{3, seq}}
						seq++
					}
				}
				committed = append(committed, maps.Clone(model))
				c.propose(b, size, func(r Result, err error) {
					if i != answered {
						t.Fatalf("proposal %d answered after %d others", i, answered)
					}
					answered++
					answers[i].err = err
					for j := range b.Puts {
						if err == nil && r.Version(j) != (Version{3, seq - uint64(len(b.Puts)-j)}) {
							t.Fatalf("put %d got %v", j, r.Version(j))
						}
					}
				})
				if oldest.IsZero() && len(b.Puts) > 0 {
					oldest = Version{3, seq - 1}
				}
			},
			"take": func(*rapid.T) {
				if taken == nil {
					taken = c.take()
				}
			},
			"commit": func(*rapid.T) {
				if taken != nil {
					commit(taken)
				}
				taken = nil
			},
			"begin snapshot": func(*rapid.T) {
				snap, snapshot, snapNext = &cursor{}, nil, m.next
			},
			"go on with the snapshot": func(t *rapid.T) {
				if snap == nil {
					return
				}
				if raw := m.part(snap); raw != nil {
					snapshot = append(snapshot, again(t, &block{kind: blockPart, seq: uint64(len(snapshot)), raw: raw}))
				}
			},
			"": func(t *rapid.T) {
				same := func(a, b Record) bool { return a.Version == b.Version && len(a.Value) == len(b.Value) }
				if !maps.EqualFunc(committed[answered], m.records, same) {
					t.Fatalf("the machine is not as after %d proposals: %v, want %v", answered, m.records, committed[answered])
				}
				for i, a := range answers[:answered] {
					if e, ok := errors.AsType[*ConflictError](a.err); a.want != ok {
						t.Fatalf("proposal %d: %v, want a conflict: %v", i, a.err, a.want)
					} else if ok && e.Current.Version == e.Check.Version {
						t.Fatalf("proposal %d: %v", i, e)
					}
				}
				waiting := 0
				if taken != nil {
					waiting = len(taken.items)
				}
				for _, d := range c.drafts {
					waiting += len(d.items)
					if len(d.raw) > maxSegmentRaw {
						t.Fatalf("a draft of %d bytes", len(d.raw))
					}
				}
				if c.items != proposed-answered || waiting != c.items {
					t.Fatalf("%d items counted, %d in drafts, %d are not answered", c.items, waiting, proposed-answered)
				}
			},
		})

		if taken != nil {
			commit(taken)
		}
		for d := c.take(); d != nil; d = c.take() {
			commit(d)
		}
		if c.items != 0 || c.bytes != 0 || len(c.overlay) != 0 {
			t.Fatalf("left behind: %d items, %d bytes, overlay %v", c.items, c.bytes, c.overlay)
		}
		replayed := newMachine()
		for _, b := range log {
			if err := replayed.apply(again(t, b)); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(recordsOf(m), recordsOf(replayed)); d != "" {
			t.Fatalf("replayed from the log (-want +got):\n%s", d)
		}
		if m.bytes != replayed.bytes || m.next != replayed.next {
			t.Fatalf("replayed: %d bytes, next %d; want %d, %d", replayed.bytes, replayed.next, m.bytes, m.next)
		}
		if snap == nil {
			return
		}
		for raw := m.part(snap); raw != nil; raw = m.part(snap) {
			snapshot = append(snapshot, &block{kind: blockPart, raw: raw})
		}
		restored := newMachine()
		for _, b := range snapshot {
			if err := restored.load(b); err != nil {
				t.Fatal(err)
			}
		}
		restored.next = snapNext
		for _, b := range log[snapNext-1:] {
			if err := restored.apply(b); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(recordsOf(m), recordsOf(restored)); d != "" {
			t.Fatalf("restored from a snapshot before segment %d (-want +got):\n%s", snapNext, d)
		}
	})
}

// Records of types that this program does not know are passed over, and live on through snapshots.
func TestUnknownRecordsAreKept(t *testing.T) {
	raw := appendPut(nil, "a", []byte("1"))
	raw = append(appendFrame(raw, 77, 3), "new"...)
	raw = appendPut(raw, "b", []byte("2"))
	raw = append(appendFrame(raw, 78, 0), ""...)
	m := newMachine()
	if err := m.apply(again(t, &block{kind: blockSegment, epoch: 5, seq: 1, first: 10, raw: raw})); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a": `5.10 "1" 1 90f599e3`, "b": `5.12 "2" 1 83a56a17`,
		"kept 5.11": `77 "new"`, "kept 5.13": `78 ""`,
	}
	if d := cmp.Diff(want, recordsOf(m)); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
	foreign := append(appendFrame(nil, 99, 4), "beta"...)
	if err := m.load(&block{kind: blockPart, raw: foreign}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a snapshot of a snapshot
		c, next := cursor{}, newMachine()
		for raw := m.part(&c); raw != nil; raw = m.part(&c) {
			if err := next.load(again(t, &block{kind: blockPart, raw: raw})); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(want, recordsOf(next)); d != "" {
			t.Fatalf("after a snapshot (-want +got):\n%s", d)
		}
		if len(next.foreign) != 1 || next.foreign[0] != (kept{99, "beta"}) {
			t.Fatalf("foreign records: %v", next.foreign)
		}
		if next.bytes != m.bytes {
			t.Fatalf("%d bytes after a snapshot, %d before", next.bytes, m.bytes)
		}
		m = next
	}
}

// Snapshots are cut into parts that fit, also when records of unknown types fill several, or one fills more than one.
func TestPartsFit(t *testing.T) {
	m := newMachine()
	for i := range 5 {
		m.keep(Version{1, uint64(i)}, kept{70, string(make([]byte, maxSegmentRaw-maxFrame))})
		m.put(fmt.Sprint("big", i), Record{make([]byte, MaxValueBytes), Version{2, uint64(i)}})
	}
	for i := range 20000 {
		m.put(fmt.Sprint("small", i), Record{[]byte{1}, Version{1 << 60, 1 << 60}})
	}
	c, next, parts := cursor{}, newMachine(), 0
	for raw := m.part(&c); raw != nil; raw = m.part(&c) {
		parts++
		if err := next.load(again(t, &block{kind: blockPart, raw: raw})); err != nil {
			t.Fatalf("part %d of %d bytes: %v", parts, len(raw), err)
		}
	}
	if d := cmp.Diff(recordsOf(m), recordsOf(next)); d != "" {
		t.Fatal("the snapshot is not the machine")
	}
	if parts < 8 || parts > 12 {
		t.Errorf("%d parts", parts)
	}
}

func TestApplyRefusesGapsAndOldEpochs(t *testing.T) {
	m := newMachine()
	seg := func(epoch, seq uint64) *block { return &block{kind: blockSegment, epoch: epoch, seq: seq} }
	for _, b := range []*block{seg(5, 1), seg(5, 2), seg(9, 3)} {
		if err := m.apply(b); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range []*block{seg(9, 3), seg(9, 5), seg(8, 4)} {
		if err := m.apply(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("segment %d of epoch %d after 3 of 9: %v, want ErrCorrupt", b.seq, b.epoch, err)
		}
	}
}
