package objects

import (
	"errors"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/wire"
)

// pipe is a connection whose other end is a function.
type pipe func(frame []byte) error

func (p pipe) Send(_ wire.Class, _ wire.Kind, frame []byte) error { return p(frame) }
func (p pipe) SendLarge(_ wire.Kind, frame []byte) error          { return p(frame) }
func (p pipe) Flush()                                             {}

// asking returns the connection of a peer, whose questions o serves.
func asking(o *Objects) *mesh.Questions {
	var peer, here mesh.Questions
	later := func(f func()) { f() }
	peer.Start(pipe(func(frame []byte) error {
		return here.Serve(wire.Requests, frame, func(r *wire.Reader, to mesh.Reply) error { return o.Serve(nil, r, to) })
	}), later)
	here.Start(pipe(peer.Answered), later)
	return &peer
}

// TestHostileKeys: a peer that asks with a key of no record that the operation is about gets an error. Else that key would
// decide which record of the shard this node reads and changes, in whose shard, and whether it can be cut.
func TestHostileKeys(t *testing.T) {
	o := alone(t)
	peer := asking(o)
	object, name := registry.ObjectKey(raysys.TaskID{Lo: 1}), registry.NameKey("test", "n")
	state := registry.StateKey("test", graindir.ID{Kind: "kind", Key: "key"}, "n")
	for op, keys := range map[objectOp][]string{
		opRetain:    {"", "s/", "s/kind", "s/a\x00b\x00c", "x", object, name, "t/12345678", "g/a\x00b\x00c"},
		opCopyState: {"", "s/", "s/a\x00b\x00c", object, name},
		opRestore:   {"", "s/", "s/a\x00b\x00c", "n/name", object, "t/12345678"},
		opCopy:      {"s/", "n/name", state, object, "x"},
		opCopyFile:  {"", "s/", "n/name", state, object, "x"},
	} {
		for _, key := range keys {
			_, err := runner.Wait(t.Context(), func(done func(struct{}, error)) {
				mesh.Ask(peer, wire.Requests, wire.KindKeep, func(dst []byte) []byte {
					return wire.AppendBytes(wire.AppendID(append(dst, byte(op)), raysys.TaskID{Lo: 1}), key)
				}, func(*wire.Reader) (struct{}, error) { return struct{}{}, nil }, done)
			})
			if !errors.Is(err, raysys.ErrInvalidRef) {
				t.Errorf("operation %d with key %q: %v; want ErrInvalidRef", op, key, err)
			}
		}
	}
}
