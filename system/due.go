package system

import (
	"github.com/raysys/raysys/internal/due"
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
	s := due.Registered()
	if s == nil {
		return due.ErrNoSchedules
	}
	s.Take(n, list)
	return nil
}
