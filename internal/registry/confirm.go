package registry

import "github.com/raysys/raysys/internal/graindir"

// confirm asks where a grain is, without placing it. A node that gets a call for the grain asks, and compares the
// call's token with the answer. Every node may ask: the answer confirms the token to the node that it names, and tells
// other nodes where the grain is.
type confirm struct {
	grain
	placeAnswer
}

// Confirm returns where a grain is now, the zero place when it is nowhere.
func (r *Registry) Confirm(id graindir.ID, token graindir.Token, done func(graindir.Placed, error)) {
	ask(r, &confirm{grain: grain{r.cfg.Namespace, id, token}}, done)
}

func (*confirm) code() code { return codeConfirm }

func (o *confirm) serve(l *leader, q *asked[graindir.Placed]) {
	p, _, ok := l.current(o.placementKey())
	if !ok {
		p = graindir.Placed{}
	}
	q.answer(p, nil)
}
