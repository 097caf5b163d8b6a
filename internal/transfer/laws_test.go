package transfer

import (
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/objectstore"
	"github.com/raysys/raysys/internal/wire"
)

// nobody is a Link without nodes.
type nobody struct{ Link }

// deaf is a Peer that takes everything.
type deaf struct{ Peer }

func (deaf) Send(wire.Class, wire.Kind, []byte) error { return nil }
func (deaf) Flush()                                   {}

// TestWrongChunkIsItsSourcesFault: a chunk whose bytes are wrong is blamed on the source that it came from, and not on
// the one that the feed has turned to before that was seen.
func TestWrongChunkIsItsSourcesFault(t *testing.T) {
	store, err := objectstore.Open(objectstore.Config{Budget: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(Config{Self: func() core.NodeKey { return core.NodeKey{Node: "b", Incarnation: 1} }, Store: store, Link: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	defer e.Close()
	for _, turned := range []bool{false, true} {
		id := raysys.TaskID{Hi: 1, Lo: 1}
		if turned {
			id.Lo = 2
		}
		v := objectstore.Version{ID: id, Attempt: 1, Size: 3 * objectstore.ChunkSize, Nonce: 7}
		f := newFlight(e, v, objectstore.Heap)
		if f.in, err = store.Receive(t.Context(), v, objectstore.Heap); err != nil {
			t.Fatal(err)
		}
		f.version = v
		f.cargo.load(3)
		d := newFeed(f, core.NodeKey{Node: "a", Incarnation: 1})
		d.slot, d.peer, d.ready = 7, deaf{}, true
		l := f.landOne(d, 7, 0, objectstore.ChunkSize, objectstore.Checksum(make([]byte, objectstore.ChunkSize)))
		if l == nil {
			t.Fatal("the chunk was not wanted")
		}
		l.Memory()[5] = 1 // the sum is that of zeros
		if turned {
			d.slot = 8 // it talks to the next source
		}
		l.Landed(nil)
		var wrong *objectstore.ChunkError
		switch in := d.read(); {
		case turned && (in.wrong != nil || !d.ready):
			t.Errorf("the next source is blamed for the chunk of the one before: %v", in.wrong)
		case !turned && (!errors.As(in.wrong, &wrong) || d.ready):
			t.Errorf("the source of a wrong chunk is not blamed: %v", in.wrong)
		}
		if n := e.Stats().Corrupt; turned && n != 2 || !turned && n != 1 {
			t.Errorf("%d wrong chunks are counted", n)
		}
		f.in.Abort(errors.New("the test is over"))
	}
}
