package registry

import (
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// load reads records of a grain's State, of as many names as a page has room for. The current activation may ask.
type load struct {
	grain
	names []string
}

func (*load) code() code { return codeLoad }

// maxNames bounds the States of one request.
const maxNames = 256

// pageBytes is about the size of an answer: what does not fit its asker asks for in the next one.
const pageBytes = 512 << 10

func (o *load) append(dst []byte) []byte {
	dst = wire.AppendUvarint(o.grain.append(dst), uint64(len(o.names)))
	for _, n := range o.names {
		dst = wire.AppendBytes(dst, n)
	}
	return dst
}

func (o *load) read(r *wire.Reader) error {
	if err := o.grain.read(r); err != nil {
		return err
	}
	n := r.Count(1)
	if n > maxNames {
		return fmt.Errorf("%w: %d states of one grain", wire.ErrCorrupt, n)
	}
	for range n {
		o.names = append(o.names, r.String())
	}
	return nil
}

func (*load) appendAnswer(dst []byte, records []graindir.Record) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(records)))
	for _, rec := range records {
		if !rec.Exists {
			dst = append(dst, 0)
			continue
		}
		dst = wire.AppendBytes(wire.AppendStamp(append(dst, 1), rec.ETag), rec.Data)
	}
	return dst
}

func (o *load) readAnswer(r *wire.Reader) (records []graindir.Record, err error) {
	n := r.Count(1)
	if n > len(o.names) || n == 0 && len(o.names) > 0 {
		return nil, fmt.Errorf("%w: %d records for %d names", wire.ErrCorrupt, n, len(o.names))
	}
	records = make([]graindir.Record, n)
	for i := range records {
		if r.Byte() == 1 {
			records[i] = graindir.Record{Exists: true, ETag: wire.ReadStamp[graindir.ETag](r), Data: append([]byte{}, r.Bytes()...)}
		}
	}
	return records, nil
}

func (o *load) serve(l *leader, q *asked[[]graindir.Record]) {
	if err := l.authorize(&o.grain, q.from); err != nil {
		q.fail(err)
		return
	}
	records, _ := o.records(l)
	// The records are current if this node leads the shard after they were read: an empty batch that commits proves
	// that.
	l.propose(shardlog.Batch{}, func(_ shardlog.Result, err error) {
		if err != nil {
			q.fail(outcome(err))
			return
		}
		q.answer(records, nil)
	})
}

// records reads the States from the shard's table: the first ones, of size bytes, where they are too large for a page.
func (o *load) records(l *leader) (records []graindir.Record, size int) {
	for _, n := range o.names {
		if size >= pageBytes {
			break
		}
		rec, ok := l.shard.Get(o.stateKey(n))
		if records = append(records, graindir.Record{}); ok {
			records[len(records)-1] = graindir.Record{Data: rec.Value, ETag: graindir.ETag(rec.Version), Exists: true}
			size += len(rec.Value)
		}
	}
	return records, size
}

// loadPages asks for the records of o's names, behind those of earlier pages.
func loadPages(r *Registry, o load, earlier []graindir.Record, done func([]graindir.Record, error)) {
	ask(r, &o, func(page []graindir.Record, err error) {
		all := append(earlier, page...)
		if err != nil || len(page) == len(o.names) {
			done(all, err)
			return
		}
		loadPages(r, load{o.grain, o.names[len(page):]}, all, done)
	})
}

// EachState shows the States of a grain that are in shards which this node leads, as they are now.
func EachState(r *Registry, namespace string, id graindir.ID, f func(name string, record []byte)) {
	prefix := StateKey(namespace, id, "")
	for _, shard := range r.Led() {
		shard.Scan(prefix, func(key string, rec shardlog.Record) bool {
			f(strings.TrimPrefix(key, prefix), rec.Value)
			return true
		})
	}
}
