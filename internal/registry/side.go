package registry

import (
	"fmt"
	"strings"

	"github.com/raysys/raysys/internal/graindir"
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
		l.shard.ScanFrom(prefix, from, func(key string, rec shardlog.Record) bool {
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
