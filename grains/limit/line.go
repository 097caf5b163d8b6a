package limit

import "container/list"

// line is who gets units next: the tenants that wait in turn, and of each the call that came first.
type line struct {
	turn    list.List // of *tenant
	tenants map[string]*tenant
	n       int
}

// tenant has the calls of one that waits, in the order in which they came.
type tenant struct {
	waits list.List // of *taker, never empty
	at    *list.Element
}

// add puts k at the end of its tenant's calls.
func (q *line) add(k *taker) {
	t := q.tenants[k.Tenant]
	if t == nil {
		t = &tenant{}
		t.at = q.turn.PushBack(t)
		q.tenants[k.Tenant] = t
	}
	k.at = t.waits.PushBack(k)
	q.n++
}

// first is who is next, nil for nobody.
func (q *line) first() *taker {
	if q.n == 0 {
		return nil
	}
	return q.turn.Front().Value.(*tenant).waits.Front().Value.(*taker)
}

// leave takes k out, if it is there. Where it was granted its tenant's next turn comes after those of the others.
func (q *line) leave(k *taker, granted bool) {
	if k.at == nil {
		return
	}
	t := q.tenants[k.Tenant]
	t.waits.Remove(k.at)
	k.at = nil
	q.n--
	if t.waits.Len() == 0 {
		q.turn.Remove(t.at)
		delete(q.tenants, k.Tenant)
	} else if granted {
		q.turn.MoveToBack(t.at)
	}
}
