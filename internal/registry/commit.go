package registry

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// commit stores what turns of a durable grain changed, with their replies, as one batch on two conditions: the token is
// that of the placement, and the version that of the grain's counter, which every commit writes. The current activation
// may ask. A commit whose outcome is unknown is not repeated: its asker restores the counter.
type commit struct {
	grain
	graindir.Commit
}

// Commit stores c if token is current and c.After is the version of the grain's counter. See graindir.States for its
// errors.
func (r *Registry) Commit(id graindir.ID, token graindir.Token, c graindir.Commit, done func(graindir.ETag, error)) {
	ask(r, &commit{grain{r.cfg.Namespace, id, token}, c}, done)
}

func (*commit) code() code { return codeCommit }

func (o *commit) append(dst []byte) []byte {
	dst = o.Counter.Append(wire.AppendStamp(o.grain.append(dst), o.After))
	dst = wire.AppendUvarint(dst, uint64(len(o.States)))
	for _, s := range o.States {
		dst = wire.AppendBytes(dst, s.Name)
		if s.Data == nil {
			dst = append(dst, 0)
			continue
		}
		dst = wire.AppendBytes(append(dst, 1), s.Data)
	}
	dst = appendReplies(dst, o.Replies)
	dst = wire.AppendUvarint(dst, uint64(len(o.Forget)))
	for _, id := range o.Forget {
		dst = wire.AppendID(dst, id)
	}
	return dst
}

func (o *commit) read(r *wire.Reader) error {
	if err := o.grain.read(r); err != nil {
		return err
	}
	o.After, o.Counter = wire.ReadStamp[graindir.ETag](r), graindir.ReadCounter(r)
	for range r.Count(2) {
		s := graindir.StateChange{Name: r.String()}
		if r.Byte() != 0 {
			s.Data = append([]byte{}, r.Bytes()...)
		}
		o.States = append(o.States, s)
	}
	o.Replies = readReplies(r)
	for range r.Count(16) {
		o.Forget = append(o.Forget, r.ID())
	}
	return r.Err()
}

func appendReplies(dst []byte, list []graindir.StoredReply) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(list)))
	for _, p := range list {
		dst = wire.AppendBytes(wire.AppendID(dst, p.Call), p.Data)
	}
	return dst
}

func readReplies(r *wire.Reader) (list []graindir.StoredReply) {
	for range r.Count(17) {
		list = append(list, graindir.StoredReply{Call: r.ID(), Data: append([]byte{}, r.Bytes()...)})
	}
	return list
}

func (*commit) appendAnswer(dst []byte, v graindir.ETag) []byte { return wire.AppendStamp(dst, v) }

func (*commit) readAnswer(r *wire.Reader) (graindir.ETag, error) {
	return wire.ReadStamp[graindir.ETag](r), nil
}

// batch is the commit as the shard has it; the counter is its first put.
func (o *commit) batch() shardlog.Batch {
	b := shardlog.Batch{Puts: []shardlog.Put{{Key: o.counterKey(), Value: appendCounter(o.Counter)}}}
	if o.token != (graindir.Token{}) {
		// The first condition that does not hold is reported: an activation that is not current hears raysys.ErrMoved.
		b.Checks = append(b.Checks, shardlog.Check{Key: o.placementKey(), Version: shardlog.Version(o.token)})
	}
	b.Checks = append(b.Checks, shardlog.Check{Key: o.counterKey(), Version: shardlog.Version(o.After)})
	for _, s := range o.States {
		if s.Data == nil {
			b.Deletes = append(b.Deletes, o.stateKey(s.Name))
		} else {
			b.Puts = append(b.Puts, shardlog.Put{Key: o.stateKey(s.Name), Value: s.Data})
		}
	}
	for _, id := range o.Forget {
		b.Deletes = append(b.Deletes, o.replyKey(id))
	}
	for _, p := range o.Replies {
		b.Puts = append(b.Puts, shardlog.Put{Key: o.replyKey(p.Call), Value: p.Data})
	}
	return b
}

func (o *commit) serve(l *leader, q *asked[graindir.ETag]) {
	if err := l.authorize(&o.grain, q.from); err != nil {
		q.fail(err)
		return
	}
	l.propose(o.batch(), func(res shardlog.Result, err error) {
		var conflict *shardlog.ConflictError
		switch {
		case err == nil:
			for _, s := range o.States {
				l.post(stateSaved(o.stateKey(s.Name))) // nodes that retain objects for the State read its record again
			}
			q.answer(graindir.ETag(res.Version(0)), nil)
		case !errors.As(err, &conflict):
			q.fail(outcome(err))
		case conflict.Check.Key == o.counterKey():
			q.fail(fmt.Errorf("%w: turn %d of %s is not the one after the last that was committed", graindir.ErrETag, o.Counter.Turn, o.id))
		default:
			q.fail(o.stale(graindir.Place{}))
		}
	})
}
