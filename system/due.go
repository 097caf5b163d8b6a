package system

import "github.com/raysys/raysys/internal/due"

func init() {
	due.RegisterStore(func(node any) (due.Store, error) {
		r, err := node.(*Node).registry()
		if err != nil {
			return nil, err
		}
		return r.Dues(), nil
	})
}

// takeDue gives what is due to package schedule.
func (n *Node) takeDue(list []due.Item) error {
	s := due.Registered()
	if s == nil {
		return due.ErrNoSchedules
	}
	s.Take(n, list)
	return nil
}
