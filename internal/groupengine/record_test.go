package groupengine

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

func exampleRecord() Record {
	return Record{
		ID: core.TaskID{Hi: 1 << 60, Lo: 2}, Namespace: "prog", Strategy: placement.StrictSpread, Owner: core.NodeKey{Node: "driver", Incarnation: 77},
		Attempt: 300, Removing: true,
		Bundles: []Bundle{
			{Needs: raysys.Resources{CPU: 1, GPU: 4, GPUMemory: 1 << 30, GPUModel: "H100", Memory: 1 << 40}, At: core.NodeKey{Node: "w1", Incarnation: 5}, Attempt: 300},
			{Needs: raysys.Resources{CPU: 0.5, Custom: map[string]float64{"licence": 2}}, At: core.NodeKey{Node: "w2", Incarnation: 6}, Attempt: 299, Held: true},
			{Needs: raysys.Resources{CPU: 8}},
		},
	}
}

// TestStoredForm: the bytes of a record, of a question and of an ask never change, since nodes of the next version read them.
func TestStoredForm(t *testing.T) {
	rec := exampleRecord()
	check := func(name string, now []byte, read func(r *wire.Reader) (any, error), want any) {
		t.Helper()
		stored := golden.Hex(t, "v1-"+name+".hex", now)
		if diff := cmp.Diff(stored, now); diff != "" {
			t.Errorf("%s is written as another:\n%s", name, diff)
		}
		r := wire.NewReader(stored)
		got, err := read(&r)
		if err != nil || r.Len() != 0 {
			t.Fatalf("%s: %v, %d bytes are left", name, err, r.Len())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s is read as another:\n%s", name, diff)
		}
	}
	check("record", rec.Append(nil), func(r *wire.Reader) (any, error) { return Read(r) }, rec)
	waits := exampleRecord()
	waits.Waits = true
	check("record-waits", waits.Append(nil), func(r *wire.Reader) (any, error) { return Read(r) }, waits)
	ask := Ask{Verb: Prepare, Group: NameKey("prog", "training"), ID: rec.ID, Attempt: 300, Bundles: []Asked{{0, rec.Bundles[0].Needs}, {2, rec.Bundles[2].Needs}}}
	check("prepare", ask.Append(nil), func(r *wire.Reader) (any, error) { return ReadAsk(r) }, ask)
	room := Ask{Verb: MakeRoom, Bundles: ask.Bundles} // for work that is in no group
	check("make-room", room.Append(nil), func(r *wire.Reader) (any, error) { return ReadAsk(r) }, room)
	gather := Ask{Verb: Gather, Group: ask.Group, ID: rec.ID, Attempt: 300, Bundles: ask.Bundles, Made: 1 << 60}
	check("gather", gather.Append(nil), func(r *wire.Reader) (any, error) { return ReadAsk(r) }, gather)
	made := rec
	made.Left, made.Made = []core.NodeKey{rec.Bundles[0].At}, 1<<60
	check("record-made", made.Append(nil), func(r *wire.Reader) (any, error) { return Read(r) }, made)
	never := exampleRecord()
	never.Hopes, never.Never = true, "bundle 0 asks for CPU 9"
	check("record-never", never.Append(nil), func(r *wire.Reader) (any, error) { return Read(r) }, never)
	create := Question{Op: Create, Key: NameKey("prog", "training"), Record: rec}
	question := func(r *wire.Reader) (any, error) {
		var q Question
		err := q.Read(r)
		return q, err
	}
	check("create", create.Append(nil), question, create)
	await := Question{Op: Await, Key: NameKey("prog", "training")}
	await.Seen.Epoch, await.Seen.Seq = 300, 7
	check("await", await.Append(nil), question, await)
	entry := Entry{Exists: true, Record: rec, Version: await.Seen}
	check("entry", entry.Append(nil), func(r *wire.Reader) (any, error) { return ReadEntry(r) }, entry)
}

// FuzzRead: whatever bytes there are, reading them ends in a record that is written as it was read, or in an error.
func FuzzRead(f *testing.F) {
	rec := exampleRecord()
	f.Add(rec.Append(nil))
	rec.Made = 1 << 60
	f.Add(rec.Append(nil))
	rec.Hopes, rec.Never = true, "bundle 0 asks for CPU 9"
	f.Add(rec.Append(nil))
	f.Add([]byte{recordVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		in := wire.NewReader(b)
		got, err := Read(&in)
		if err != nil {
			return
		}
		again := wire.NewReader(got.Append(nil))
		if back, err := Read(&again); err != nil || !reflect.DeepEqual(got, back) {
			t.Fatalf("a record that was read is written as another: %v\n%s", err, cmp.Diff(got, back))
		}
	})
}

// FuzzReadAsk: whatever a leader sends, reading it ends in a question that is written as it was read, or in an error; what it asks for
// can be meant.
func FuzzReadAsk(f *testing.F) {
	rec := exampleRecord()
	whole := Ask{Verb: Prepare, Group: NameKey("prog", "training"), ID: rec.ID, Attempt: 300, Bundles: []Asked{{0, rec.Bundles[0].Needs}, {2, rec.Bundles[2].Needs}}}
	f.Add(whole.Append(nil))
	release := Ask{Verb: Release, Group: whole.Group, ID: rec.ID, Attempt: 1}
	f.Add(release.Append(nil))
	gather := Ask{Verb: Gather, Group: whole.Group, ID: rec.ID, Attempt: 1, Bundles: whole.Bundles, Made: 1 << 60}
	f.Add(gather.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := wire.NewReader(b)
		got, err := ReadAsk(&in)
		if err != nil {
			return
		}
		for _, b := range got.Bundles {
			if err := core.Resources(b.Needs).ValidateWanted(); err != nil || b.Index < 0 || b.Index >= MaxBundles {
				t.Fatalf("bundle %d of %v was read: %v", b.Index, b.Needs, err)
			}
		}
		again := wire.NewReader(got.Append(nil))
		if back, err := ReadAsk(&again); err != nil || !reflect.DeepEqual(got, back) {
			t.Fatalf("a question that was read is written as another: %v\n%s", err, cmp.Diff(got, back))
		}
	})
}

// TestBadRecords: what no version writes is an error.
func TestBadRecords(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"no bundles":     func(r *Record) { r.Bundles = nil },
		"many bundles":   func(r *Record) { r.Bundles = make([]Bundle, MaxBundles+1) },
		"strategy":       func(r *Record) { r.Strategy = "SIDEWAYS" },
		"absurd amounts": func(r *Record) { r.Bundles[0].Needs.GPU = -1 },
	} {
		rec := exampleRecord()
		change(&rec)
		r := wire.NewReader(rec.Append(nil))
		if _, err := Read(&r); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rec := exampleRecord()
	whole := rec.Append(nil)
	for n := range whole {
		r := wire.NewReader(whole[:n])
		if _, err := Read(&r); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("%d bytes of it: %v", n, err)
		}
	}
	r := wire.NewReader([]byte{recordVersion + 1})
	if _, err := Read(&r); !errors.Is(err, wire.ErrCorrupt) {
		t.Errorf("a later version: %v", err)
	}
}
