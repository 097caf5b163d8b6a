package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/replies"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// sidePrefix is what the keys of a durable grain's Side records of a family begin with; their names follow. A name of a
// grain may be the beginning of another one's, so its length stands before it.
func (g *grain) sidePrefix(family byte) string {
	return string(family) + "/" + string(wire.AppendBytes(nil, g.name()))
}

// sides reads the grain's Side records behind last from the shard's table, until the page has pageBytes, of which size
// are taken; more says that there are others.
func (g *grain) sides(l *leader, last graindir.Side, size int) (list []graindir.Side, more bool) {
	for _, family := range []byte(graindir.Families) {
		if family < last.Family {
			continue
		}
		prefix := g.sidePrefix(family)
		from := prefix
		if family == last.Family {
			from += last.Name + "\x00"
		}
		shardlog.ScanFrom(l.shard, prefix, from, func(key string, rec shardlog.Record) bool {
			if more = size >= pageBytes; more {
				return false
			}
			list = append(list, graindir.Side{Family: family, Name: strings.TrimPrefix(key, prefix), Data: rec.Value})
			size += len(key) + len(rec.Value)
			return true
		})
		if more {
			break
		}
	}
	return list, more
}

func appendSides(dst []byte, list []graindir.Side) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = wire.AppendBytes(append(dst, s.Family), s.Name)
		if s.Data == nil {
			dst = append(dst, 0)
			continue
		}
		dst = wire.AppendBytes(append(dst, 1), s.Data)
	}
	return dst
}

func readSides(r *wire.Reader) (list []graindir.Side, err error) {
	for range r.Count(3) {
		s := graindir.Side{Family: r.Byte(), Name: r.String()}
		if r.Byte() != 0 {
			s.Data = append([]byte{}, r.Bytes()...)
		}
		if r.Err() == nil && strings.IndexByte(graindir.Families, s.Family) < 0 {
			return nil, fmt.Errorf(
				"%w: a record of family %q, which is unknown here: upgrade this node", wire.ErrCorrupt, s.Family)
		}
		list = append(list, s)
	}
	return list, r.Err()
}

// EachSide shows the Side records of a family of a grain that are in shards which this node leads, as they are now.
func EachSide(r *Registry, namespace string, id graindir.ID, family byte, f func(name string, data []byte)) {
	g := grain{ns: namespace, id: id}
	prefix := g.sidePrefix(family)
	for _, shard := range r.Led() {
		shard.Scan(prefix, func(key string, rec shardlog.Record) bool {
			f(strings.TrimPrefix(key, prefix), rec.Value)
			return true
		})
	}
}

// maxDropped bounds the records that one batch of DropSides removes.
const maxDropped = 512

// DropSides removes the Side records of a family that match, of a grain that lies in a shard which this node leads and
// is on no node: one that is has them in memory. Else at says where it is. n is how many are removed, after an error
// too.
func DropSides(
	ctx context.Context, r *Registry, namespace string, id graindir.ID, family byte,
	match func(name string, data []byte) bool,
) (n int, at raysys.NodeID, err error) {
	g := grain{ns: namespace, id: id}
	prefix := g.sidePrefix(family)
	for _, shard := range r.Led() {
		var keys []string
		shard.Scan(prefix, func(key string, rec shardlog.Record) bool {
			if match(strings.TrimPrefix(key, prefix), rec.Value) {
				keys = append(keys, key)
			}
			return true
		})
		for list := range slices.Chunk(keys, maxDropped) {
			nowhere := []shardlog.Check{{Key: g.placementKey()}}
			b := shardlog.Batch{Checks: nowhere, Deletes: list}
			_, err := runner.Wait(ctx, func(done func(shardlog.Result, error)) {
				if err := shard.Propose(b, done); err != nil {
					done(shardlog.Result{}, err)
				}
			})
			if rec, placed := shard.Get(g.placementKey()); errors.Is(err, shardlog.ErrConflict) && placed {
				p, err := readPlacement(rec)
				return n, p.Node, err
			}
			if err != nil {
				return n, "", fmt.Errorf("remove records of %s: %w", id, outcome(err))
			}
			n += len(list)
		}
	}
	return n, "", nil
}

// page reads what is stored of durable grains of a kind that lie in a shard. Every node may ask.
type page struct {
	ns string // namespace
	graindir.Query
}

// maxPageGrains bounds the grains of a page.
const maxPageGrains = 1000

// StoredPage is graindir.States.Page.
func StoredPage(r *Registry, q graindir.Query, done func(graindir.Page, error)) {
	op := &page{cmp.Or(q.Namespace, r.cfg.Namespace), q}
	a := &asked[graindir.Page]{operation: op, done: func(p graindir.Page, err error) {
		for i := range p.Records {
			if s := &p.Records[i]; s.Family == graindir.StoredCounter {
				s.Counter, s.Bad = readCounter(s.Data)
			}
		}
		done(p, err)
	}}
	a.asker = asker{reg: r, shard: q.Shard, from: r.cfg.Members.Self()}
	r.askLeader(a)
}

// Shards is graindir.States.Shards.
func Shards(r *Registry) int { return r.cfg.Layout.Shards }

func (*page) code() code { return codePage }

func (*page) shardKey() string { return "" }

func (o *page) append(dst []byte) []byte {
	dst = wire.AppendBytes(wire.AppendBytes(wire.AppendBytes(dst, o.ns), o.Kind), o.Prefix)
	dst = wire.AppendBytes(append(wire.AppendBytes(dst, o.From.Key), o.From.Family), o.From.Name)
	dst = appendNames(dst, o.States)
	if o.Listed {
		dst = append(dst, 1)
	}
	return dst
}

func (o *page) read(r *wire.Reader) error {
	o.ns, o.Kind, o.Prefix = r.String(), r.String(), r.String()
	o.From.Key, o.From.Family, o.From.Name = r.String(), r.Byte(), r.String()
	if o.States = readNames[string](r); len(o.States) > maxNames {
		return fmt.Errorf("%w: %d states of one kind", wire.ErrCorrupt, len(o.States))
	}
	o.Listed = r.Len() > 0 && r.Byte() == 1
	return r.Err()
}

func (*page) appendAnswer(dst []byte, p graindir.Page) []byte {
	dst = wire.AppendUvarint(append(dst, bitIf(p.More, 1)), uint64(len(p.Records)))
	for _, s := range p.Records {
		dst = wire.AppendBytes(append(wire.AppendBytes(dst, s.Key), s.Family), s.Name)
		dst = wire.AppendBytes(dst, s.Data)
	}
	return dst
}

func (*page) readAnswer(r *wire.Reader) (p graindir.Page, err error) {
	p.More = r.Byte() == 1
	for range r.Count(4) {
		s := graindir.Stored{Key: r.String(), Side: graindir.Side{Family: r.Byte(), Name: r.String()}}
		s.Data = append([]byte{}, r.Bytes()...)
		p.Records = append(p.Records, s)
	}
	if p.More && len(p.Records) == 0 {
		return p, fmt.Errorf("%w: an empty page of what is stored", wire.ErrCorrupt)
	}
	return p, r.Err()
}

// serve reads the table behind a fence, as restore does.
func (o *page) serve(l *leader, q *asked[graindir.Page]) {
	l.propose(shardlog.Batch{}, func(_ shardlog.Result, err error) {
		if err != nil {
			q.fail(outcome(err))
			return
		}
		q.answer(o.stored(l), nil)
	})
}

func (o *page) stored(l *leader) (p graindir.Page) {
	all := (&grain{ns: o.ns, id: graindir.ID{Kind: o.Kind}}).counterKey()
	size, grains := 0, 0
	add := func(key string, s graindir.Side) {
		p.Records = append(p.Records, graindir.Stored{Key: key, Side: s})
		size += len(key) + len(s.Name) + len(s.Data)
	}
	prefix := all + o.Prefix
	shardlog.ScanFrom(l.shard, prefix, max(prefix, all+o.From.Key), func(key string, rec shardlog.Record) bool {
		g := grain{ns: o.ns, id: graindir.ID{Kind: o.Kind, Key: strings.TrimPrefix(key, all)}}
		var last graindir.Side // of this grain that the page before had
		if g.id.Key == o.From.Key {
			last = o.From.Side
		}
		if p.More = size >= pageBytes || grains == maxPageGrains; p.More {
			return false
		}
		grains++
		if o.Listed {
			add(g.id.Key, graindir.Side{Family: graindir.StoredCounter, Data: rec.Value})
			tallies, looked := g.tallies(l)
			for _, s := range tallies {
				add(g.id.Key, s)
			}
			size += looked * lookedBytes
			return true
		}
		if last.Family == 0 {
			add(g.id.Key, graindir.Side{Family: graindir.StoredCounter, Data: rec.Value})
		}
		names := o.States
		switch last.Family {
		case graindir.StoredState:
			names = names[slices.Index(names, last.Name)+1:]
		case graindir.SideEntries:
			names = nil
		}
		for _, name := range names {
			if p.More = size >= pageBytes; p.More {
				return false
			}
			if rec, ok := l.shard.Get(g.stateKey(name)); ok {
				add(g.id.Key, graindir.Side{Family: graindir.StoredState, Name: name, Data: rec.Value})
			}
		}
		if last.Family != graindir.SideEntries {
			last = graindir.Side{Family: graindir.SideEntries} // no entry has the empty name
		}
		var entries []graindir.Side
		entries, p.More = g.sides(l, last, size)
		for _, s := range entries {
			add(g.id.Key, s)
		}
		return !p.More
	})
	return p
}

// lookedBytes is what a record that was counted takes of a page.
const lookedBytes = 64

// tallies say what is stored of the grain; looked is how many records that are.
func (g *grain) tallies(l *leader) (list []graindir.Side, looked int) {
	scan := func(prefix string, f func(name string, data []byte)) {
		l.shard.Scan(prefix, func(key string, rec shardlog.Record) bool {
			looked++
			f(key[len(prefix):], rec.Value)
			return true
		})
	}
	add := func(family byte, name string, t graindir.Tally) {
		list = append(list, graindir.Side{Family: family, Name: name, Data: t.Append(nil)})
	}
	var counts, m graindir.Tally
	scan(g.sidePrefix(graindir.SideOutbox), func(string, []byte) { counts.Size++ })
	scan(g.sidePrefix(graindir.SideKeys), func(name string, data []byte) {
		counts.N += uint64(replies.CountKeys(graindir.Side{Family: graindir.SideKeys, Name: name, Data: data}))
	})
	scan(strings.TrimSuffix(g.replyKey(raysys.TaskID{}), string(make([]byte, 16))), func(id string, data []byte) {
		if len(id) == 16 { // else it is of a grain whose key begins so
			counts.N += uint64(replies.CountKeys(graindir.Side{Data: data}))
		}
	})
	add(graindir.StoredCounts, "", counts)
	scan(g.stateKey(""), func(name string, data []byte) {
		if !strings.Contains(name, "\x00") {
			add(graindir.StoredState, name, graindir.Tally{N: 1, Size: uint64(len(data))})
		}
	})
	field := ""
	scan(g.sidePrefix(graindir.SideEntries), func(name string, data []byte) {
		r := wire.NewReader([]byte(name))
		if f := r.String(); f != field && m.N > 0 {
			add(graindir.SideEntries, field, m)
			field, m = f, graindir.Tally{}
		} else {
			field = f
		}
		m.N, m.Size = m.N+1, m.Size+uint64(len(name)+len(data))
	})
	if m.N > 0 {
		add(graindir.SideEntries, field, m)
	}
	return list, looked
}
