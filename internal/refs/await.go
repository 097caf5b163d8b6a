package refs

import (
	"errors"
	"slices"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// await is one question for an outcome: to the owner, then to each lender in turn, then to the objects, which look for
// copies.
type await struct {
	source *RemoteSource
	at     exportKey // the node that is asked, and the number there
	into   any
	done   func(error)
	failed error // the first error
	open   error // the first error of a node that lives, and did not answer that it does not know the future
	tried  []exportKey
}

func (a *await) begin() {
	a.source.refs.mesh.Connect(a.at.owner, func(p *mesh.Peer, err error) {
		if err != nil {
			a.next(err)
			return
		}
		a.ask(p)
	})
}

// next asks the next lender, when the node that was asked cannot answer; after the last one it asks for copies.
func (a *await) next(err error) {
	if a.failed == nil {
		a.failed = err
	}
	denied := errors.Is(err, errUnknownRef) || errors.Is(err, raysys.ErrNodeDead)
	if a.open == nil && !denied && a.source.refs.mesh.Alive(a.at.owner) {
		a.open = err
	}
	a.tried = append(a.tried, a.at)
	for _, l := range a.source.refs.table.lenders(a.source.borrow) {
		if !slices.Contains(a.tried, l) {
			a.at = l
			a.begin()
			return
		}
	}
	end := a.source.lost(a.failed)
	if a.open != nil {
		end = a.source.Unreachable(a.open)
	}
	a.source.refs.objects.FindCopies(a.source, end, func(err error) {
		if e := (*core.Elsewhere)(nil); errors.As(err, &e) || a.open != nil {
			a.done(err)
			return
		}
		a.source.succeed(err, func(next core.Source, err error) {
			if err != nil {
				a.done(err)
				return
			}
			next.Fetch(a.into, a.done)
		})
	})
}

func (a *await) ask(p *mesh.Peer) {
	p.Questions.Ask(wire.Requests, wire.KindAwait, func(dst []byte) []byte {
		return wire.AppendUvarint(dst, a.at.number)
	}, func(r *wire.Reader, err error) error {
		switch {
		case mesh.Undelivered(err), mesh.Unknown(err):
			a.lost(p, err)
			return nil
		case err != nil:
			a.done(err)
			return nil
		}
		if err := a.answered(Of(p), r); err != nil {
			a.done(a.source.Unreachable(err))
			return err
		}
		return nil
	})
}

// lost is called when the connection to the node that was asked broke. The node may live: then it is asked again.
func (a *await) lost(p *mesh.Peer, cause error) {
	a.source.refs.mesh.Connect(a.at.owner, func(next *mesh.Peer, err error) {
		switch {
		case err != nil:
			a.next(err)
		case next == p:
			a.next(cause)
		default:
			a.ask(next)
		}
	})
}

// answered handles an answer.
func (a *await) answered(p *Session, r *wire.Reader) error {
	src, err := p.readAnswer(r, a.source)
	if err != nil {
		return err
	}
	in, inline := src.(*inlineSource)
	s, remote := src.(standsFor)
	switch {
	case inline && errors.Is(in.err, errUnknownRef):
		a.next(in.err)
	case inline:
		in.Fetch(a.into, a.done)
	case remote && s == standsFor(a.source): // the answer names the owner again, which does not answer
		a.next(raysys.ErrNodeDead)
	default:
		a.done(&core.Elsewhere{Source: src})
	}
	return nil
}

// errUnknownRef: the node that was asked does not hold the future.
var (
	errUnknownRef = errors.New("the reference is not held any more")
	_             = raysys.RegisterError("raysys.unknown-ref", errUnknownRef)
)

// valueWait waits until the value of a future is here.
type valueWait struct {
	core.Waiter
	future *core.Future
	tell   func(v any, err error)
}

// WhenHere is whenHere for a caller that keeps the value as an object.
func WhenHere(c *core.Future, tell func(v any, err error)) { whenHere(c, tell) }

// whenHere calls tell with a pointer to the value of c, which must only be read, once c has settled and its value is
// here, or with its failure. The caller has pinned c, and unpins it when it does not read the value any more.
func whenHere(c *core.Future, tell func(v any, err error)) {
	a := &valueWait{future: c, tell: tell}
	if !c.Subscribe(&a.Waiter, a) {
		a.look(c)
	}
}

// Resolved implements core.Resolved.
func (a *valueWait) Resolved(w *core.Waiter) { a.look(w.Future()) }

// look is called when at has settled: the future itself, or the one that fetches its value.
func (a *valueWait) look(at *core.Future) {
	for !at.Follow(&a.Waiter, a) {
		v, err := a.future.Outcome()
		lost := a.future.Failure()
		if err == nil || lost != nil || !a.future.Absent() {
			if lost != nil {
				err = lost
			}
			a.tell(v, err)
			return
		}
		at = a.future // the value was evicted in this moment
	}
}
