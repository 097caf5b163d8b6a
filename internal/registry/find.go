package registry

import (
	"strings"

	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/wire"
	"github.com/raysys/raysys/store"
)

// find asks for the record of an object or a name, or for the objects that a State lists. With wait it is answered once
// the record has another version than the asker has seen. Every node may ask.
type find struct {
	key  string
	seen store.Version // with wait
	wait bool
}

// Find returns the record of an object, of a name, or of a State.
func (r *Registry) Find(key string, done func(Entry, error)) {
	ask(r, &find{key: key}, done)
}

// Await returns the record once it has another version than seen. A record that is gone has the zero version.
func (r *Registry) Await(key string, seen store.Version, done func(Entry, error)) {
	ask(r, &find{key: key, seen: seen, wait: true}, done)
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
	if o.wait {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func (o *find) read(r *wire.Reader) error {
	if err := new(grain).read(r); err != nil {
		return err
	}
	o.key, o.seen, o.wait = r.String(), wire.ReadStamp[store.Version](r), r.Byte() == 1
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
	var e Entry
	rec, ok := l.shard.Get(o.key)
	switch {
	case !ok:
	case strings.HasPrefix(o.key, "s/"):
		e = Entry{Exists: true, Version: rec.Version, Held: grainengine.Retained(rec.Value)}
	default:
		r, err := recordOf(rec)
		if err != nil {
			q.fail(err)
			return
		}
		e = Entry{Exists: true, Record: r, Version: rec.Version}
	}
	if o.wait && e.Version == o.seen {
		l.records.watching[o.key] = append(l.records.watching[o.key], q)
		return
	}
	q.answer(e, nil)
}

// wake serves the requests again that wait for a change of key.
func (l *leader) wake(key string) {
	waiting := l.records.watching[key]
	delete(l.records.watching, key)
	for _, q := range waiting {
		q.serveAt(l)
	}
}
