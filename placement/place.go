package placement

import (
	"fmt"
	"maps"
	"slices"

	"github.com/raysys/raysys"
)

// Place chooses the node for r. The error is a *NoNodeError, or matches raysys.ErrBadOption when the strategy is unknown
// or chose nothing.
func Place(v *View, r Request) (Decision, error) { return v.place(&r) }

func (v *View) place(r *Request) (out Decision, err error) {
	strategy := r.Strategy
	if strategy == "" {
		strategy = raysys.Balanced
	}
	own := r.Custom[strategy]
	if own == nil && !slices.Contains(builtin[:], strategy) {
		return out, unknown(r)
	}
	d := draw(r.Seed)
	drawn := pair{-1, -1}
	var chosen, looked, met int
	var list []int
	soft := 0
	if len(r.Conditions) > 0 {
		if soft = r.soft(); soft > 0 {
			list, met = v.preferred(r, strategy, &d)
		}
	}
	switch {
	case len(list) > 0:
		if chosen, err = v.among(r, strategy, list); err != nil {
			return out, err
		}
	case strategy == raysys.Balanced || strategy == raysys.PreferLocal:
		if strategy == raysys.Balanced && r.moves() {
			c, err := v.eligible(r)
			if err != nil {
				return out, err
			}
			var buf [maxLooked]int
			list := v.look(r, c, &d, buf[:0])
			chosen, looked = v.soonest(r, list), len(list)
			break
		}
		var ok bool
		if drawn, ok = v.sample(r, &d); !ok {
			c, err := v.eligible(r)
			if err != nil {
				return out, err
			}
			drawn = v.two(c, &d)
		}
		chosen = v.better(drawn, r)
		if strategy == raysys.PreferLocal {
			chosen = v.stay(r, chosen)
		}
	default:
		c, err := v.eligible(r)
		if err != nil {
			return out, err
		}
		switch {
		case strategy == raysys.ByHash:
			chosen = v.hashed(r.Key, c)
		case strategy == raysys.Spread:
			chosen = v.spread(r, c)
		default:
			if chosen, err = v.ask(own, *r, c.list(nil)); err != nil {
				return out, err
			}
		}
	}
	v.refresh(chosen)
	if strategy == raysys.Spread && r.Kind == Task && v.Refresh != nil {
		v.counts[r.Kind][chosen]++ // until it is read again
	}
	n := &v.nodes[chosen]
	out = Decision{
		Node: n.ID, Incarnation: n.Incarnation, Wait: n.Wait(r.Needs), Move: n.Move(r.Inputs), Account: v.account(r, strategy, drawn, looked, chosen),
	}
	out.Account.Soft, out.Account.Met = soft, met
	if r.Explain {
		out.Reasons = v.explain(r, &out)
	}
	return out, nil
}

// ask calls a strategy of the program. It runs inside a shard's leader, which must outlive its mistakes.
func (v *View) ask(own Strategy, r Request, list []int) (chosen int, err error) {
	v.refresh(list...)
	nodes := make([]*Node, len(list))
	for k, i := range list {
		n := v.nodes[i] // a copy, so that the view stays as it is
		nodes[k] = &n
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("strategy %q: %w", r.Strategy, &raysys.PanicError{Value: p})
		}
	}()
	k := own(r, nodes)
	if k < 0 || k >= len(list) {
		return 0, fmt.Errorf("%w: strategy %q chose %d of %d nodes: it must return an index into them", raysys.ErrBadOption, r.Strategy, k, len(list))
	}
	return list[k], nil
}

func (v *View) noNode(r *Request, s *shape) error {
	there := s.have(v)
	err := &NoNodeError{Request: *r, Most: there.most, nodes: s.tally, there: there}
	if len(r.Conditions) > 0 {
		n := v.named(r.Conditions)
		err.nodes = n.tally(s)
	}
	if r.Explain {
		err.Reasons = v.explain(r, nil)
	}
	return err
}

func unknown(r *Request) error {
	known := slices.Concat(builtin[:], slices.Sorted(maps.Keys(r.Custom)))
	return fmt.Errorf("%w: no strategy %q: there are %q", raysys.ErrBadOption, r.Strategy, known)
}
