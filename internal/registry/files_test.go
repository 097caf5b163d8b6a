package registry

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// The records of both versions, as they lie in stores.
var storedRecords = map[string]Record{
	"0101000000000000000200000000000000016107640302020101610701": {
		ID: raysys.TaskID{Hi: 1, Lo: 2}, Owner: core.NodeKey{Node: "a", Incarnation: 7}, Size: 100, Attempt: 3, Nonce: 2, Replicas: 2,
		At: []Location{{core.NodeKey{Node: "a", Incarnation: 7}, true}},
	},
	"0201000000000000000200000000000000016107640302020101610701020161026262": {
		ID: raysys.TaskID{Hi: 1, Lo: 2}, Owner: core.NodeKey{Node: "a", Incarnation: 7}, Size: 100, Attempt: 3, Nonce: 2, Replicas: 2,
		At: []Location{{core.NodeKey{Node: "a", Incarnation: 7}, true}}, Files: []raysys.NodeID{"a", "bb"},
	},
}

// TestStoredRecords: records of each version are read for ever, and one without files is still written as before.
func TestStoredRecords(t *testing.T) {
	for text, want := range storedRecords {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		r := wire.NewReader(b)
		if got, err := readRecord(&r); err != nil || r.Len() != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, %v", text, got, err)
		}
		if got := hex.EncodeToString(want.append(nil)); got != text {
			t.Errorf("%+v is written as %s, not %s", want, got, text)
		}
	}
}

// FuzzRecord reads any bytes as the record of an object: what is accepted says the same when it is written again.
func FuzzRecord(f *testing.F) {
	for text := range storedRecords {
		b, _ := hex.DecodeString(text)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		first, err := readRecord(&r)
		if err != nil {
			return
		}
		r = wire.NewReader(first.append(nil))
		if again, err := readRecord(&r); err != nil || !reflect.DeepEqual(again, first) {
			t.Fatalf("%+v is written and read as %+v, %v", first, again, err)
		}
	})
}

// TestFilesOfARecord: a node enters its own file, of the bytes that the record is of, and a dead node's file stays.
func TestFilesOfARecord(t *testing.T) {
	back := core.NodeKey{Node: "dead", Incarnation: 9}
	living := func(k core.NodeKey) bool { return k != deadNode }
	rec := Record{ID: raysys.TaskID{Lo: 1}, Owner: deadNode, Size: 5, Attempt: 1, Nonce: 6, At: []Location{{deadNode, true}}, Files: []raysys.NodeID{"dead"}}
	other := rec
	other.Nonce++
	for name, c := range map[string]struct {
		change Change
		exists bool
		by     core.NodeKey
		files  []raysys.NodeID
		at     int
		ok     bool
	}{
		"another node with a file":         {AddNamedFile("n/k", rec), true, aliveNode, []raysys.NodeID{"dead", "alive"}, 2, true},
		"another node without":             {AddNamedCopy("n/k", rec), true, aliveNode, []raysys.NodeID{"dead"}, 2, true},
		"the same node again":              {AddNamedFile("n/k", rec), true, back, []raysys.NodeID{"dead"}, 2, true},
		"a file of other bytes":            {AddNamedFile("n/k", other), true, back, []raysys.NodeID{"dead"}, 1, false},
		"a file of a name that is no more": {AddNamedFile("n/k", rec), false, back, []raysys.NodeID{"dead"}, 1, false},
		"a node that died after it asked":  {AddNamedFile("n/k", rec), true, deadNode, []raysys.NodeID{"dead"}, 1, false},
	} {
		read := Change{}
		r := wire.NewReader(c.change.append(nil))
		if err := read.read(&r); err != nil || !reflect.DeepEqual(read, c.change) {
			t.Errorf("%s: %+v is read as %+v, %v", name, c.change, read, err)
		}
		after, _, ok := read.apply(rec, c.exists, c.by, living)
		if ok != c.ok || !reflect.DeepEqual(after.Files, c.files) || len(after.At) != c.at {
			t.Errorf("%s: made %v, %+v", name, ok, after)
		}
		if len(rec.Files) != 1 || len(rec.At) != 1 {
			t.Fatalf("%s: the record before it was changed: %+v", name, rec)
		}
	}
	after := rec
	if !after.reap(living) || len(after.At) != 0 || !reflect.DeepEqual(after.Files, []raysys.NodeID{"dead"}) {
		t.Errorf("reaping the dead leaves %+v: the file of a node that may come back must stay", after)
	}
}
