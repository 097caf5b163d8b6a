package placement

import (
	"slices"

	"github.com/raysys/raysys"
)

// preferred returns the nodes among which a request with soft conditions is placed, and how many of these they meet: sound nodes where it
// begins at once, and of those the ones that meet the first condition which any meets, of these the second, and so on. None is returned
// where it would wait, or every node is to be avoided: then soft conditions do not count.
func (v *View) preferred(r *Request, s raysys.Strategy, d *draw) (list []int, met int) {
	q := r.weighs(s)
	q.Conditions = r.hard()
	for _, c := range r.Conditions {
		if !c.Soft {
			continue
		}
		c.Soft = false
		q.Conditions = append(q.Conditions, c)
		if better := v.atOnce(&q, s, d); len(better) > 0 {
			list = better
			met++
		} else {
			q.Conditions = q.Conditions[:len(q.Conditions)-1]
		}
	}
	if list == nil {
		list = v.atOnce(&q, s, d)
	}
	return list, met
}

// atOnce returns nodes that are sound and not to be avoided, on which r begins at once. Where Balanced or PreferLocal choose it is some
// of them, else all.
func (v *View) atOnce(r *Request, s raysys.Strategy, d *draw) []int {
	c, ok := v.sound(r)
	if !ok {
		return nil
	}
	balances, own := s == raysys.Balanced || s == raysys.PreferLocal, v.asks(r)
	switch {
	case s == raysys.PreferLocal && r.Kind == Grain && own >= 0 && c.has(own):
		return []int{own}
	case balances && r.Kind == Grain:
		if p := v.two(c, d); p.b >= 0 {
			return []int{p.a, p.b}
		} else {
			return []int{p.a}
		}
	case r.Kind == Grain:
		return c.list(nil)
	}
	var list []int
	if balances {
		list = v.look(r, c, d, nil)
	} else {
		list = c.list(nil)
	}
	v.refresh(list...)
	waits := func(i int) bool {
		n := &v.nodes[i]
		return n.Wait(r.Needs) > 0 || r.moves() && n.Move(r.Inputs) > taskSlack
	}
	all := c.n == len(list)
	if list = slices.DeleteFunc(list, waits); all || len(list) > 0 {
		return list
	}
	now := *r
	now.Now = true
	for range tries {
		c, ok := v.sound(&now)
		if !ok {
			return nil
		}
		i := c.one(d)
		if v.refresh(i); !waits(i) {
			return []int{i}
		}
		v.changed(i)
	}
	return nil
}

// sound returns the nodes that fit, where some of them are sound and not to be avoided.
func (v *View) sound(r *Request) (c *set, ok bool) {
	if c, ok = v.candidates(r, v.shapeOf(r)); ok {
		ok = v.reserve(c.at(0), r.Avoid) == 0
	}
	return c, ok
}

// weighs returns r without inputs where they do not count.
func (r *Request) weighs(s raysys.Strategy) Request {
	q := *r
	if s != raysys.Balanced || !r.moves() {
		q.Inputs = Inputs{}
	}
	return q
}

// among chooses among nodes on which r begins at once.
func (v *View) among(r *Request, s raysys.Strategy, list []int) (int, error) {
	switch {
	case s == raysys.ByHash:
		return v.hashed(r.Key, v.setOf(list)), nil
	case s == raysys.Spread:
		return v.spread(r, v.setOf(list)), nil
	case s == raysys.PreferLocal && slices.Contains(list, v.asks(r)):
		return v.asks(r), nil
	case s != raysys.Balanced && s != raysys.PreferLocal:
		return v.ask(r.Custom[s], *r, list)
	case r.Kind == Task:
		q := r.weighs(s)
		return v.soonest(&q, list), nil
	case len(list) == 1:
		return list[0], nil
	}
	return v.better(pair{list[0], list[1]}, r), nil
}
