package groups

import (
	"context"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/groupengine"
	"github.com/raysys/raysys/placement"
)

// Group is a placement group. The zero Group is none.
type Group struct{ key string }

// Option changes a group that is made.
type Option func(*creation) error

type creation struct{ spec groupengine.Spec }

// Named gives the group a name of up to 512 bytes in the namespace of the program, by which Lookup finds it. While another group has the
// name, Create fails with raysys.ErrNameTaken.
func Named(name string) Option {
	return func(c *creation) error {
		if name == "" || len(name) > groupengine.MaxName || name[0] == 0 {
			return fmt.Errorf("%w: Named(%.64q): give 1 to %d bytes, the first of which is not zero", raysys.ErrBadOption, name, groupengine.MaxName)
		}
		c.spec.Name = name
		return nil
	}
}

// Detached has the group stay when the node that it would go with ends, until it is removed. It stands beside Named: without a name nothing
// could find the group.
func Detached() Option {
	return func(c *creation) error {
		c.spec.Detached = true
		return nil
	}
}

// Create makes a group of up to 256 bundles. It returns before the bundles have room: see Wait. Its errors match
// raysys.ErrNoCapacity for a group that no state of the nodes has room for (with system.Config.WaitForResources it waits), raysys.ErrNameTaken, and raysys.ErrBadOption.
// While nodes join, of which some may have the room, such a group is made all the same; if they have not, what waits for it fails so.
func Create(ctx context.Context, strategy placement.GroupStrategy, bundles []raysys.Resources, opts ...Option) (Group, error) {
	t, c, err := of(ctx)
	if err != nil {
		return Group{}, err
	}
	made := creation{groupengine.Spec{Strategy: strategy, Bundles: bundles}}
	for _, o := range opts {
		if o == nil {
			return Group{}, fmt.Errorf("make a group: %w: nil Option", raysys.ErrBadOption)
		}
		if err := o(&made); err != nil {
			return Group{}, fmt.Errorf("make a group: %w", err)
		}
	}
	if made.spec.Detached && made.spec.Name == "" {
		return Group{}, fmt.Errorf("make a group: %w: Detached without Named: nothing could find the group, to remove it", raysys.ErrBadOption)
	}
	key, err := c.Create(ctx, t, made.spec)
	return Group{key}, err
}

// Lookup finds the group of a name; raysys.ErrNotFound when there is none.
func Lookup(ctx context.Context, name string) (Group, error) {
	t, c, err := of(ctx)
	if err != nil {
		return Group{}, err
	}
	key, err := c.Lookup(ctx, t, name)
	return Group{key}, err
}

// Wait returns when every bundle is reserved; raysys.ErrGroupRemoved when the group goes before, raysys.ErrNoCapacity when the nodes that
// joined while it was made are there and none could ever hold it.
func (g Group) Wait(ctx context.Context) error {
	_, err := g.Nodes(ctx)
	return err
}

// Nodes is Wait, and the node of each bundle.
func (g Group) Nodes(ctx context.Context) ([]raysys.NodeID, error) {
	t, c, err := g.of(ctx)
	if err != nil {
		return nil, err
	}
	return c.Wait(ctx, t, g.key)
}

// Ready is Nodes as a reference, at once: to wait for with other references, or to be an argument of the first task of the group.
func (g Group) Ready(ctx context.Context) raysys.Ref[[]raysys.NodeID] {
	t, c, err := g.of(ctx)
	if err != nil {
		return raysys.Ref[[]raysys.NodeID](core.FailedRef[[]raysys.NodeID](err))
	}
	return raysys.Ref[[]raysys.NodeID](c.Ready(t, g.key))
}

// Remove removes the group: what waits or runs in it is cancelled, and once that has returned the room is free and Remove returns.
// To remove a group that is gone is no error.
func (g Group) Remove(ctx context.Context) error {
	t, c, err := g.of(ctx)
	if err != nil {
		return err
	}
	return c.Remove(ctx, t, g.key)
}

// Bundle puts work into a bundle of the group, counted from 0. For tasks and for calls of grains: a call puts the grain there if it
// is the one that has it activated.
func (g Group) Bundle(index int) raysys.Option {
	if index < 0 || index >= groupengine.MaxBundles {
		return func(o *core.Options) {
			o.Fail(fmt.Errorf("%w: bundle %d: bundles count from 0", raysys.ErrBadOption, index))
		}
	}
	return in(g.key, index)
}

// AnyBundle puts work into a bundle of the group that has what it asks for: the next that has room, as far as its node knows, else the
// next. Work that waits in one goes to another as soon as that has room. For tasks and for calls of grains, as Bundle.
func (g Group) AnyBundle() raysys.Option { return in(g.key, core.AnyBundle) }

func in(key string, index int) raysys.Option {
	return func(o *core.Options) {
		if key == "" {
			o.Fail(errNone)
			return
		}
		o.Bundle = core.Bundle{Group: key, Index: index, Captures: o.Bundle.Captures}
	}
}

// CaptureChildren puts the tasks that a task or a grain in a group submits into the group too, in any bundle, and those that these
// submit, unless they are given a group or conditions (raysys.OnNode, raysys.Label). It stands beside Group.Bundle and Group.AnyBundle. For tasks and for calls of grains, where
// it counts with the bundle.
func CaptureChildren() raysys.Option {
	return func(o *core.Options) { o.Bundle.Captures = true }
}

var errNone = fmt.Errorf("%w: the zero Group: make one with groups.Create", raysys.ErrBadOption)

func of(ctx context.Context) (*core.Turn, *groupengine.Client, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return nil, nil, err
	}
	return t, t.Runtime().(groupengine.Runtime).Groups(), nil
}

func (g Group) of(ctx context.Context) (*core.Turn, *groupengine.Client, error) {
	if g.key == "" {
		return nil, nil, errNone
	}
	return of(ctx)
}
