package registry

import (
	"strings"

	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/staterecord"
	"github.com/raysys/raysys/internal/wire"
)

// find asks for the record of an object or a name, or for the objects that a State lists and, of a State that is an object,
// for the record of that. With wait it is answered once
// the record has another version than the asker has seen. Every node may ask.
type find struct {
	key  string
	seen shardlog.Version // with wait
	wait bool
	last bool // the record is read behind all that was proposed before
}

func (*find) code() code { return codeFind }

// shardKey puts a State's record where its grain is.
func (o *find) shardKey() string {
	if rest, ok := strings.CutPrefix(o.key, "s/"); ok {
		return rest[:strings.LastIndexByte(rest, 0)]
	}
	return o.key
}

func (o *find) append(dst []byte) []byte {
	dst = wire.AppendStamp(wire.AppendBytes((&grain{}).append(dst), o.key), o.seen)
	switch {
	case o.wait:
		return append(dst, findWait)
	case o.last:
		return append(dst, findLast)
	}
	return append(dst, 0)
}

// How a record is found.
const (
	findWait = 1
	findLast = 2
)

func (o *find) read(r *wire.Reader) error {
	if err := new(grain).read(r); err != nil {
		return err
	}
	o.key, o.seen = r.String(), wire.ReadStamp[shardlog.Version](r)
	how := r.Byte()
	o.wait, o.last = how == findWait, how == findLast
	if err := r.Err(); err != nil {
		return err
	}
	return checkKey(o.key, true)
}

func (*find) appendAnswer(dst []byte, e Entry) []byte {
	return e.append(wire.AppendUvarint(dst, 1))
}

func (*find) readAnswer(r *wire.Reader) (Entry, error) {
	entries, err := readEntries(r, 1)
	if err != nil {
		return Entry{}, err
	}
	return entries[0], nil
}

func (o *find) serve(l *leader, q *asked[Entry]) {
	if o.last {
		l.propose(shardlog.Batch{}, func(_ shardlog.Result, err error) {
			var e Entry
			if err = outcome(err); err == nil {
				e, err = o.entry(l)
			}
			if err != nil {
				q.fail(err)
				return
			}
			q.answer(e, nil)
		})
		return
	}
	e, err := o.entry(l)
	if err != nil {
		q.fail(err)
		return
	}
	if o.wait && e.Version == o.seen {
		l.records.watching[o.key] = append(l.records.watching[o.key], q)
		return
	}
	q.answer(e, nil)
}

// entry reads the record from the shard's table.
func (o *find) entry(l *leader) (Entry, error) {
	rec, ok := l.shard.Get(o.key)
	if !ok {
		return Entry{}, nil
	}
	e := Entry{Exists: true, Version: rec.Version}
	var err error
	if !strings.HasPrefix(o.key, "s/") {
		e.Record, err = recordOf(rec)
		return e, err
	}
	e.Held = staterecord.Retained(rec.Value)
	if written, large := staterecord.Large(rec.Value); large {
		e.Record, err = ReadRecord(written)
	}
	return e, err
}
