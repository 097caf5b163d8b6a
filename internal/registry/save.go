package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/replies"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// save stores or removes one record of a grain's State, on two conditions: the token is that of the placement, the ETag
// that of the record. The current activation may ask. A save whose outcome is unknown is not repeated.
type save struct {
	grain
	name string
	etag graindir.ETag // zero: there is no record
	data []byte        // nil removes the record
}

func (*save) code() code { return codeSave }

func (o *save) append(dst []byte) []byte {
	dst = wire.AppendStamp(wire.AppendBytes(o.grain.append(dst), o.name), o.etag)
	if o.data == nil {
		return append(dst, 0)
	}
	return wire.AppendBytes(append(dst, 1), o.data)
}

func (o *save) read(r *wire.Reader) error {
	if err := o.grain.read(r); err != nil {
		return err
	}
	o.name, o.etag = r.String(), wire.ReadStamp[graindir.ETag](r)
	if r.Byte() != 0 {
		o.data = append([]byte{}, r.Bytes()...)
	}
	return nil
}

func (*save) appendAnswer(dst []byte, etag graindir.ETag) []byte {
	return wire.AppendStamp(dst, etag)
}

func (*save) readAnswer(r *wire.Reader) (graindir.ETag, error) {
	return wire.ReadStamp[graindir.ETag](r), nil
}

func (o *save) serve(l *leader, q *asked[graindir.ETag]) {
	if err := l.authorize(&o.grain, q.from); err != nil {
		q.fail(err)
		return
	}
	key := o.stateKey(o.name)
	state := shardlog.Check{Key: key, Version: shardlog.Version(o.etag)}
	b := shardlog.Batch{Checks: []shardlog.Check{state}}
	if o.token != (graindir.Token{}) {
		// The first condition that does not hold is reported: an activation that is not current hears raysys.ErrMoved.
		b.Checks = []shardlog.Check{{Key: o.placementKey(), Version: shardlog.Version(o.token)}, state}
	}
	if o.data == nil {
		b.Deletes = []string{key}
	} else {
		b.Puts = []shardlog.Put{{Key: key, Value: o.data}}
	}
	l.propose(b, func(res shardlog.Result, err error) {
		var conflict *shardlog.ConflictError
		switch {
		case err == nil:
			l.post(stateSaved(key)) // nodes that retain objects for the State read its record again
			var etag graindir.ETag
			if o.data != nil {
				etag = graindir.ETag(res.Version(0))
			}
			q.answer(etag, nil)
		case !errors.As(err, &conflict):
			q.fail(outcome(err))
		case conflict.Check.Key == key:
			q.fail(fmt.Errorf("%w: state %q of %s was written since it was read", graindir.ErrETag, o.name, o.id))
		default:
			q.fail(o.stale(graindir.Place{}))
		}
	})
}

// restore reads what is stored of a durable grain: States, the counter of its turns, and the replies that are kept, as
// much as a page has room for. The current activation may ask.
type restore struct {
	load
	after raysys.TaskID // earlier pages had the replies up to this one; zero for none
	last  graindir.Side // and all replies, with the Side records up to this one; its Data counts for nothing
}

// restored is a page of what is stored.
type restored struct {
	graindir.Restored
	more bool
}

func (*restore) code() code { return codeRestore }

func (o *restore) append(dst []byte) []byte {
	dst = o.load.append(dst)
	if o.last.Family != 0 {
		return wire.AppendBytes(append(wire.AppendID(dst, o.after), o.last.Family), o.last.Name)
	}
	if o.after.IsZero() {
		return dst
	}
	return wire.AppendID(dst, o.after)
}

func (o *restore) read(r *wire.Reader) error {
	err := o.load.read(r)
	if r.Len() > 0 {
		o.after = r.ID()
	}
	if r.Len() > 0 {
		o.last = graindir.Side{Family: r.Byte(), Name: r.String()}
	}
	return err
}

func (o *restore) appendAnswer(dst []byte, s restored) []byte {
	dst = s.Counter.Append(wire.AppendStamp(o.load.appendAnswer(dst, s.States), s.Version))
	dst = appendReplies(dst, s.Replies)
	if len(s.Sides) == 0 && !s.more {
		return dst
	}
	more := byte(0)
	if s.more {
		more = 1
	}
	if dst = append(dst, more); len(s.Sides) > 0 {
		dst = appendSides(dst, s.Sides)
	}
	return dst
}

func (o *restore) readAnswer(r *wire.Reader) (s restored, err error) {
	if s.States, err = o.load.readAnswer(r); err != nil {
		return s, err
	}
	s.Version, s.Counter = wire.ReadStamp[graindir.ETag](r), graindir.ReadCounter(r)
	s.Replies = readReplies(r)
	if r.Len() > 0 {
		s.more = r.Byte() == 1
	}
	if r.Len() > 0 {
		if s.Sides, err = readSides(r); err != nil {
			return s, err
		}
	}
	if s.more && len(s.States)+len(s.Replies)+len(s.Sides) == 0 {
		return s, fmt.Errorf("%w: an empty page of what is stored", wire.ErrCorrupt)
	}
	return s, nil
}

// restorePages asks for what is stored beside what earlier pages had. The asker commits nothing meanwhile. So where the
// counter has another version than before, an earlier commit came late, and all is read anew.
func restorePages(
	r *Registry, o restore, names []string, earlier graindir.Restored, done func(graindir.Restored, error),
) {
	ask(r, &o, func(page restored, err error) {
		first := len(earlier.States)+len(earlier.Replies)+len(earlier.Sides) == 0
		switch {
		case err != nil:
			done(graindir.Restored{}, err)
			return
		case !first && page.Version != earlier.Version:
			restorePages(r, restore{load: load{o.grain, names}}, names, graindir.Restored{}, done)
			return
		}
		page.States = append(earlier.States, page.States...)
		page.Replies = append(earlier.Replies, page.Replies...)
		page.Sides = append(earlier.Sides, page.Sides...)
		if !page.more {
			done(page.Restored, nil)
			return
		}
		next := restore{load: load{o.grain, names[len(page.States):]}}
		if n := len(page.Replies); n > 0 {
			next.after = page.Replies[n-1].Call
		}
		if n := len(page.Sides); n > 0 {
			next.last = graindir.Side{Family: page.Sides[n-1].Family, Name: page.Sides[n-1].Name}
		}
		restorePages(r, next, names, page.Restored, done)
	})
}

// behindAll is behind all replies and Side records: no family is its own.
var behindAll = graindir.Side{Family: 0xff}

// RestoreCounter is graindir.States.Counter.
func RestoreCounter(r *Registry, id graindir.ID, token graindir.Token, done func(graindir.Restored, error)) {
	o := &restore{load: load{grain{r.cfg.Namespace, id, token}, nil}, last: behindAll}
	ask(r, o, func(page restored, err error) { done(page.Restored, err) })
}

func (o *restore) serve(l *leader, q *asked[restored]) {
	if err := l.authorize(&o.grain, q.from); err != nil {
		q.fail(err)
		return
	}
	// What is being committed now was proposed before the fence below, by an activation that is none any more or by the
	// asker, and is judged before it: so the table is read behind the fence.
	l.propose(shardlog.Batch{}, func(_ shardlog.Result, err error) {
		if err != nil {
			q.fail(outcome(err))
			return
		}
		s, err := o.stored(l)
		if err != nil {
			q.fail(err)
			return
		}
		q.answer(s, nil)
	})
}

// stored reads the records from the shard's table.
func (o *restore) stored(l *leader) (s restored, err error) {
	var size int
	s.States, size = o.records(l)
	if rec, ok := l.shard.Get(o.counterKey()); ok {
		s.Version = graindir.ETag(rec.Version)
		if s.Counter, err = readCounter(rec.Value); err != nil {
			return s, fmt.Errorf("%s: %w", o.id, err)
		}
	}
	if s.more = len(s.States) < len(o.names); s.more {
		return s, nil
	}
	if o.last.Family != 0 {
		s.Sides, s.more = o.sides(l, o.last, size)
		return s, nil
	}
	prefix, after := o.replyKey(raysys.TaskID{}), o.replyKey(o.after)
	prefix = prefix[:len(prefix)-16]
	l.shard.Scan(prefix, func(key string, rec shardlog.Record) bool {
		id := wire.NewReader([]byte(key[len(prefix):]))
		if len(key) != len(prefix)+16 || !o.after.IsZero() && key <= after {
			return true
		}
		if s.more = size >= pageBytes; s.more {
			return false
		}
		s.Replies = append(s.Replies, graindir.StoredReply{Call: id.ID(), Data: rec.Value})
		size += len(key) + len(rec.Value)
		return true
	})
	if !s.more {
		s.Sides, s.more = o.sides(l, o.last, size)
	}
	return s, nil
}

// The keys of a durable grain's records beside those of its States: the counter, and a reply for each call.
func (g *grain) counterKey() string { return "d/" + g.name() }

func (g *grain) replyKey(call raysys.TaskID) string {
	return replyPrefix + g.name() + "\x00" + string(wire.AppendID(nil, call))
}

const replyPrefix = "c/"

// counterVersion is the first byte of a counter's record.
const counterVersion = 1

func appendCounter(c graindir.Counter) []byte { return c.Append([]byte{counterVersion}) }

func readCounter(value []byte) (graindir.Counter, error) {
	r := wire.NewReader(value)
	if v := r.Byte(); v != counterVersion && r.Err() == nil {
		return graindir.Counter{}, fmt.Errorf("%w: the counter of its turns has version %d: upgrade this node", graindir.ErrUnreadable, v)
	}
	c := graindir.ReadCounter(&r)
	return c, r.Err()
}

// deadReply reports whether a reply waits for a node that is no more: nobody can ask for it again.
func deadReply(key string, rec shardlog.Record, alive func(core.NodeKey) bool) bool {
	if !strings.HasPrefix(key, replyPrefix) {
		return false
	}
	owner, owned := replies.Owner(rec.Value)
	return owned && !alive(owner)
}
