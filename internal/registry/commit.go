package registry

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/placement"
)

// commit stores what turns of a durable grain changed, with their replies, as one batch on two conditions: the token is
// that of the placement, and the version that of the grain's counter, which every commit writes. The current activation
// may ask. A commit whose outcome is unknown is not repeated: its asker restores the counter.
type commit struct {
	grain
	graindir.Commit
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
	if len(o.Sides) > 0 {
		dst = appendSides(dst, o.Sides)
	}
	return dst
}

func (o *commit) read(r *wire.Reader) (err error) {
	if err = o.grain.read(r); err != nil {
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
	if r.Len() > 0 {
		o.Sides, err = readSides(r)
	}
	return err
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
	for _, s := range o.Sides {
		if key := o.sidePrefix(s.Family) + s.Name; s.Data == nil {
			b.Deletes = append(b.Deletes, key)
		} else {
			b.Puts = append(b.Puts, shardlog.Put{Key: key, Value: s.Data})
		}
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

// recordTable has a leader's open requests about records of objects and tasks, which lie in the shard's table. When the
// leader ends, the askers ask the next one.
type recordTable struct {
	changing map[string][]request    // by keys whose change is being committed: the requests that wait for its outcome
	watching map[string][]request    // by key: the requests that wait for a change
	open     map[request]*committing // the requests whose changes are being committed
}

func newRecordTable() recordTable {
	return recordTable{map[string][]request{}, map[string][]request{}, map[request]*committing{}}
}

// recordBatch is a batch that changes the records of keys.
type recordBatch struct {
	shardlog.Batch
	keys      []string
	committed func(shardlog.Result) // is called on the shard's own goroutine, or nil
}

// committing is a request whose changes are being committed.
type committing struct {
	left   int   // batches without an outcome
	err    error // of the first that was refused
	answer func()
}

// changed is the outcome of committing a recordBatch.
type changed struct {
	q    request // nil for a reaping
	keys []string
	err  error
}

// Conditions are conditions as placement takes them.
func Conditions(list []core.NodeCondition) (out []placement.Condition) {
	for _, c := range list {
		out = append(out, placement.Condition(c))
	}
	return out
}

// maxConditions bounds the conditions of one request, and the values and nodes of one of them.
const maxConditions = 1024

const (
	conditionNot = 1 << iota
	conditionSoft
)

func appendConditions(dst []byte, list []placement.Condition) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(list)))
	for _, c := range list {
		flags := uint64(0)
		if c.Not {
			flags |= conditionNot
		}
		if c.Soft {
			flags |= conditionSoft
		}
		dst = wire.AppendBytes(wire.AppendBytes(wire.AppendUvarint(dst, flags), c.Label), c.About)
		dst = appendNames(appendNames(dst, c.Values), c.Nodes)
	}
	return dst
}

func appendNames[S ~string](dst []byte, list []S) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = wire.AppendBytes(dst, s)
	}
	return dst
}

func readConditions(r *wire.Reader) ([]placement.Condition, error) {
	n := r.Count(5)
	if n > maxConditions {
		return nil, fmt.Errorf("%w: %d conditions", wire.ErrCorrupt, n)
	}
	if n == 0 {
		return nil, r.Err()
	}
	list := make([]placement.Condition, n)
	for i := range list {
		flags := r.Uvarint()
		c := &list[i]
		c.Not, c.Soft = flags&conditionNot != 0, flags&conditionSoft != 0
		c.Label, c.About = r.String(), r.String()
		c.Values, c.Nodes = readNames[string](r), readNames[raysys.NodeID](r)
	}
	return list, r.Err()
}

func readNames[S ~string](r *wire.Reader) (list []S) {
	for range r.Count(1) {
		list = append(list, S(r.String()))
	}
	return list
}
