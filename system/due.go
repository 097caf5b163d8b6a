package system

import (
	"cmp"
	"context"

	"go.uber.org/zap"

	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/registry"
)

func init() {
	due.RegisterStore(func(node any) (due.Store, error) {
		r, err := node.(*Node).registry()
		if err != nil {
			return nil, err
		}
		return registry.Dues(r), nil
	})
}

// takeDue gives what is due to package schedule.
func takeDue(n *Node, list []due.Item) error {
	if list = wakeGrains(n, list); len(list) == 0 {
		return nil
	}
	s := due.Registered()
	if s == nil {
		return due.ErrNoSchedules
	}
	s.Take(n, list)
	return nil
}

// wakeGrains calls the grains that are always on, and returns the other items.
func wakeGrains(n *Node, list []due.Item) (rest []due.Item) {
	var ctx context.Context
	var why error
	bad := 0
	for i := range list {
		kind, key, ok := list[i].Wakes()
		switch {
		case !ok:
			rest = append(rest, list[i])
			continue
		case ctx == nil:
			ctx = n.Context(context.Background())
		}
		// The leader looks what has come of it.
		if err := grainengine.Wake(ctx, n.cfg.Table, graindir.ID{Kind: kind, Key: key}); err != nil {
			why = cmp.Or(why, err)
			bad++
		}
	}
	if bad > 0 {
		n.log.Warn("cannot wake grains: what they have told others stays stored until their kind is Durable here again, "+
			"or always on", zap.Int("grains", bad), zap.Error(why))
	}
	return rest
}
