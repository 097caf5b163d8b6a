package grains

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
)

// Kind is a typed handle of a grain kind: the struct G under a stable name. Make it once, in a package variable.
type Kind[G any] struct {
	_ [0]*G
	k grainengine.Kind
}

// Define makes G a kind of grain under name, in the process-wide table. G is any struct; its methods become callable
// with Method and its siblings. A bad definition is reported by system.New with its file and line.
func Define[G any](name string, opts ...Option) Kind[G] {
	return Kind[G]{k: grainengine.Define[G](core.DefaultTable, name, opts)}
}

// DefineIn is Define in a table of your own, for tests; give the table to system.Config.Table.
func DefineIn[G any](t *raysys.Table, name string, opts ...Option) Kind[G] {
	return Kind[G]{k: grainengine.Define[G](t, name, opts)}
}

// Name returns the kind's name.
func (k Kind[G]) Name() string { return k.k.Name() }

// Get returns the grain of this kind with the given key: any bytes, 1,024 of them at most. A call of one with a longer key
// fails with ErrTooLarge. The grain exists always; the first call activates it.
func (k Kind[G]) Get(key string) Grain[G] { return Grain[G]{ID{Kind: k.Name(), Key: key}} }

// Self returns the grain whose method or hook runs under ctx, when it is of this kind.
func (k Kind[G]) Self(ctx context.Context) (Grain[G], bool) {
	id, ok := Self(ctx)
	if !ok || id.Kind != k.Name() {
		return Grain[G]{}, false
	}
	return Grain[G]{id}, true
}

// Activator is implemented by a grain that prepares itself: OnActivate runs before the first call, on the same
// turn-by-turn terms as a call. An error fails the calls that wait, and the next call tries again.
type Activator interface {
	OnActivate(ctx context.Context) error
}

// Deactivator is implemented by a grain that cleans up: OnDeactivate runs after the last call, before another
// activation of the grain may start. It does not run when the process dies.
type Deactivator interface {
	OnDeactivate(ctx context.Context) error
}

// MailboxOf is how many calls may wait for one activation of the kind: see Mailbox.
func MailboxOf[G any](k Kind[G]) int { return k.k.Mailbox() }
