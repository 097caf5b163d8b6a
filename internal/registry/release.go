package registry

import (
	"errors"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// release removes the placement of a grain if the token is current. The node that the grain is placed on may ask.
type release struct{ grain }

// Release removes the placement of a grain if token is current. A token that is not current is no error.
func (r *Registry) Release(id graindir.ID, token graindir.Token, done func(error)) {
	ask(r, &release{grain{r.cfg.Namespace, id, token}}, func(_ struct{}, err error) { done(err) })
}

func (*release) code() code                                         { return codeRelease }
func (*release) appendAnswer(dst []byte, _ struct{}) []byte         { return dst }
func (*release) readAnswer(*wire.Reader) (none struct{}, err error) { return none, nil }

func (o *release) serve(l *leader, q *asked[struct{}]) {
	key := o.placementKey()
	if rec, ok := l.shard.Get(key); ok && graindir.Token(rec.Version) == o.token {
		if p, err := readPlacement(rec); err == nil && p.NodeKey != q.from {
			q.fail(o.elsewhere(p.Place, q.from))
			return
		}
	}
	b := shardlog.Batch{Checks: []shardlog.Check{{Key: key, Version: shardlog.Version(o.token)}}, Deletes: []string{key}}
	l.propose(b, func(_ shardlog.Result, err error) {
		switch {
		case errors.Is(err, shardlog.ErrConflict): // another placement is current: there is nothing to release
			err = nil
		case err == nil:
			l.post(&released{q.from})
		}
		q.answer(struct{}{}, outcome(err))
	})
}
