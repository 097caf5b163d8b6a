package grains

import (
	"context"

	"github.com/raysys/raysys/internal/grainengine"
)

// MaxState is the most that one State holds, encoded: 64 MiB.
const MaxState = 64 << 20

// The engine enforces that number. It is written here too because programs read it here; they differ in no build.
var _ [MaxState]struct{} = [grainengine.MaxState]struct{}{}

// MaxReply is the most that a result of a Durable grain holds, encoded: 64 KiB.
const MaxReply = 64 << 10

var _ [MaxReply]struct{} = [grainengine.MaxReply]struct{}{}

// State is a value that outlives its grain's activation, its node and its process. Make it a field of the grain's struct,
// exported or not; its name is the field's, or the tag's:
//
//	type Account struct {
//		balance grains.State[int] `raysys:"balance"`
//	}
//
// All States of a grain are loaded before OnActivate. Value is memory: change it and call Write, which returns when it is
// stored; a change that is not written is seen by later turns and goes with the activation. After a Write that failed
// the next turn begins with what is stored. T must be encodable; fields may be added to it and
// taken away between versions of the program. A State of more than 128 KiB, encoded, is an object: Write returns when it is
// in files of two nodes, of the grain's own and of another, and then in the store. These nodes need a name and a directory
// that stay, as for raysys.OnDisk; a cluster of one worker has one file. While both nodes are away the grain's calls fail
// with raysys.ErrUnreachable, and when both files are lost with ErrUnreadable. A reference in it holds what it refers to while it is stored: Write waits
// until that is ready. What is lost with its node is lost here too, and Get says so: raysys.Replicas keeps it.
//
// A grain with States is linearizable: no reply leaves before it is sure that no other activation has answered or
// committed since. The grains of a Durable kind commit whole turns instead. The methods belong to the grain's own turns and hooks.
type State[T any] struct {
	Value T
	link[T]
}

// link joins a State to its activation. The name keeps the link's own methods out of the documentation; they are promoted, and
// by them the engine finds the States of a struct.
type link[T any] = grainengine.StateLink[T]

// Read replaces Value by what is stored: the zero T if nothing is.
func (s *State[T]) Read(ctx context.Context) error { return s.link.Read(ctx) }

// Write stores Value, and returns nil when that will survive every crash. It fails with ErrETag when what is stored is
// not the version that was read, with raysys.ErrTooLarge above MaxState, with raysys.ErrNoStore, raysys.ErrStoreFull or
// raysys.ErrNoCapacity when no file can be made of a State that is an object, and with raysys.ErrMoved when the grain is
// active elsewhere by now: then this activation ends, and its caller gets ErrMoved whatever the method returns. Other
// calls wait meanwhile, also where the kind is Reentrant. It does not end before the outcome is known, also when ctx does.
func (s *State[T]) Write(ctx context.Context) error { return s.link.Write(ctx) }

// Clear removes what is stored, and sets Value to the zero T. It fails like Write.
func (s *State[T]) Clear(ctx context.Context) error { return s.link.Clear(ctx) }

// ETag names the version that was read or written last; it is empty before the first. It is for comparing, and for
// handing to clients.
func (s *State[T]) ETag() string { return s.link.ETag() }

// Exists reports whether something was stored when it was read or written last.
func (s *State[T]) Exists() bool { return s.link.Exists() }
