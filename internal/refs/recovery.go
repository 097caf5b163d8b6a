package refs

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// recovery is one question to the submitter of a value that its owner has lost, and of which no copy is found: where is it
// now? The submitter has it made again if it knows of no other place.
type recovery struct {
	at    *RemoteSource // the submitter's future
	lost  exportKey     // the future of the node that has lost the value
	cause error         // how it was found lost
	done  func(core.Source, error)
}

var (
	_ core.Remaker = (*RemoteSource)(nil)
	_ core.Viewer  = (*localSource)(nil)
	_ core.Located = (*localSource)(nil)
	_ core.Alias   = (*localSource)(nil)
)

// Remake implements core.Remaker.
func (s *RemoteSource) Remake(_ *core.Future, lost error, done func(core.Source, error)) {
	s.Recover(s.Owner, lost, done)
}

// Recover asks the submitter for a value that owner has lost.
func (s *RemoteSource) Recover(owner core.NodeKey, lost error, done func(core.Source, error)) {
	r := &recovery{at: s.submitter.Load(), lost: exportKey{owner: owner}, cause: lost, done: done}
	if owner == s.Owner {
		r.lost.number = s.Number
	}
	if r.at == nil && s.Number == 0 && s.run.Load() != 0 { // the task's record knows the submitter
		s.succeed(lost, done)
		return
	}
	if next := s.successor.Load(); r.at == nil && next != nil { // which has said where the value was
		if by, ok := (*next).(core.Remaker); ok {
			by.Remake(nil, lost, done)
			return
		}
	}
	if r.at == nil { // the node that exports it is the submitter
		if r.at = s; s.Number == 0 || owner == s.Owner && !s.refs.mesh.Alive(owner) {
			s.succeed(lost, done)
			return
		}
	}
	r.begin()
}

func (r *recovery) begin() { r.at.refs.mesh.Connect(r.at.Owner, r.connected) }

func (r *recovery) connected(p *mesh.Peer, err error) {
	if err != nil {
		r.unanswered(err)
		return
	}
	p.Questions.Ask(wire.Requests, wire.KindAwait, func(dst []byte) []byte {
		dst = wire.AppendNode(wire.AppendUvarint(dst, r.at.Number), r.lost.owner)
		return wire.AppendUvarint(dst, r.lost.number)
	}, func(in *wire.Reader, err error) error {
		switch {
		case mesh.Undelivered(err), mesh.Unknown(err): // to ask twice is to ask once: a rebuild is shared
			r.at.refs.mesh.Connect(r.at.Owner, func(next *mesh.Peer, bad error) {
				if next == p {
					bad = err
				}
				if bad != nil {
					r.unanswered(bad)
					return
				}
				r.connected(next, nil)
			})
			return nil
		case err != nil:
			r.unanswered(err)
			return nil
		}
		return r.answered(Of(p), in)
	})
}

// unanswered ends the question when the submitter cannot be asked, now or for ever.
func (r *recovery) unanswered(err error) {
	if r.at.refs.mesh.Alive(r.at.Owner) {
		r.done(nil, fmt.Errorf("%w: its submitter %s may have it made again later: %w (%v)", raysys.ErrUnreachable, r.at.Owner, err, r.cause))
		return
	}
	r.at.succeed(fmt.Errorf("%w; its submitter %s, which could have it made again, is dead", r.cause, r.at.Owner), r.done)
}

func (r *recovery) answered(p *Session, in *wire.Reader) error {
	src, err := p.readAnswer(in, r.at)
	if err != nil {
		r.unanswered(err)
		return err
	}
	inline, small := src.(*inlineSource)
	s, remote := src.(standsFor)
	switch {
	case small && inline.err != nil && !errors.Is(inline.err, raysys.ErrObjectLost):
		// It does not have it made again now, and may later: this must not match ErrObjectLost, which stays.
		r.done(nil, fmt.Errorf("its submitter %s answers: %w (%v)", r.at.Owner, inline.err, r.cause))
	case small && inline.err != nil:
		r.done(nil, inline.err)
	case remote && s.Remote().Owner == r.lost.owner && s.Remote().Number == r.lost.number && s.Remote() != r.at:
		r.done(nil, fmt.Errorf("%w; its submitter %s knows of no other place", r.cause, r.at.Owner))
	default:
		r.done(src, nil)
	}
	return nil
}
