package raysys

import (
	"context"
	"fmt"

	"github.com/raysys/raysys/internal/core"
)

// ObjectSize is the size of an encoding above which a value is an object: the node's object store keeps it, and
// readers fetch it from there. A smaller one travels along.
const ObjectSize = core.ObjectSize

// PutOption asks more of Put than that it makes an object. Only Put takes it.
type PutOption core.PutOption

// Replicas asks for n copies of the object on different nodes, the first included. They outlive the node that put it: what
// cannot be computed again should have two. Without a cluster more than one is ErrNoCapacity.
//
// A copy that is gone with its node is made again on another worker that has room, one after the other, while a copy is left: as long as
// the node lives that put the object, and of a Named object also after that. Until then a further death may take the last copy. OnDisk
// makes none again: a node that comes back offers its file.
func Replicas(n int) PutOption {
	return func(s *core.PutSpec) {
		if n < 1 {
			s.Err = fmt.Errorf("%w: Replicas(%d): an object has at least one copy", ErrBadOption, n)
		}
		s.Replicas = n
	}
}

// Named keeps the object under a name, by which every node of the cluster finds it with Lookup, until Forget. It outlives
// the program's references to it, and its node as far as it has replicas. A name that another object has is taken over.
func Named(name string) PutOption {
	return func(s *core.PutSpec) {
		if name == "" {
			s.Err = fmt.Errorf("%w: Named: the name is empty", ErrBadOption)
		}
		s.Name = name
	}
}

// OnDisk keeps the object of a Named in a file, on each node that Replicas asks for: a restart of the nodes brings it
// back, until Forget or until the name is taken over. Put returns when the bytes are in the files and these are synced.
// The nodes need a name and a directory of their own that stay the same (system.Config.Name, and ObjectConfig.Spill or,
// without a cluster, Config.Data): ErrNoStore where the node that puts has none, ErrStoreFull where its disk is full,
// and ErrNoCapacity when fewer nodes than Replicas took a copy. A value that holds references is ErrBadOption: what they
// stand for would not come back.
func OnDisk() PutOption { return func(s *core.PutSpec) { s.OnDisk = true } }

// Lookup returns a reference to the object that has the name, or to the task that was submitted under it with Detached(name),
// as it is now: when the name goes to another one later, the reference stays with this one. An object comes before a task. It
// asks the cluster, and waits for the answer. The reference fails with ErrNotFound when neither has the name, with ErrInvalidRef when it is of another type than T, and with ErrNoStore in a system without names. It
// fails with ErrUnreachable while all nodes that have the object, in memory or OnDisk, are down or do not answer.
func Lookup[T any](ctx context.Context, name string) Ref[T] { return Ref[T](core.Lookup[T](ctx, name)) }

// Forget takes the name from the object that has it; without other references the object is freed. If no object has it,
// Forget takes it from the task: its outcome goes, and one that runs is cancelled, wherever it runs. A name that neither has
// gives ErrNotFound.
func Forget(ctx context.Context, name string) error { return core.Forget(ctx, name) }
