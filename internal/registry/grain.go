package registry

import (
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/internal/wire"
)

// grain is the first part of every operation: which grain, and which activation of it asks. Operations on objects leave
// it empty, and Locate has no token.
type grain struct {
	ns    string // namespace
	id    graindir.ID
	token graindir.Token
}

func (g *grain) name() string { return g.ns + "\x00" + g.id.Kind + "\x00" + g.id.Key }

// shardKey puts a grain's placement and its State into the same shard (rule C19).
func (g *grain) shardKey() string { return g.name() }

func (g *grain) placementKey() string { return "g/" + g.name() }

// alwaysKey is that of the record which says that the grain is always on.
func (g *grain) alwaysKey() string { return alwaysPrefix + g.name() }

func (g *grain) stateKey(name string) string { return StateKey(g.ns, g.id, name) }

// StateKey is the key of the record of a grain's State.
func StateKey(namespace string, id graindir.ID, name string) string {
	return "s/" + namespace + "\x00" + id.Kind + "\x00" + id.Key + "\x00" + name
}

func (g *grain) append(dst []byte) []byte {
	dst = wire.AppendBytes(dst, g.ns)
	dst = wire.AppendBytes(dst, g.id.Kind)
	dst = wire.AppendBytes(dst, g.id.Key)
	return wire.AppendStamp(dst, g.token)
}

func (g *grain) read(r *wire.Reader) error {
	g.ns = r.String()
	g.id = graindir.ID{Kind: r.String(), Key: r.String()}
	g.token = wire.ReadStamp[graindir.Token](r)
	return r.Err()
}

// stale is the error for an activation that is not the current one; p is the current place, zero if there is none or if
// it is not known.
func (g *grain) stale(p graindir.Place) error {
	err := fmt.Errorf("%w: activation %d.%d is not the current one of %s", raysys.ErrMoved, g.token.Epoch, g.token.Seq, g.id)
	if !p.IsZero() {
		err = fmt.Errorf("%w, which is %d.%d on node %s", err, p.Token.Epoch, p.Token.Seq, p.NodeKey)
	}
	return err
}

// elsewhere is the error for an operation that only the node of the placement may ask for.
func (g *grain) elsewhere(p graindir.Place, from core.NodeKey) error {
	return fmt.Errorf("%w: %s is placed on node %s, and %s asks for it", raysys.ErrMoved, g.id, p.NodeKey, from)
}

// placementVersion is the first byte of a placement record.
const placementVersion = 1

func appendPlacement(p graindir.Placed) []byte {
	return appendBundle(wire.AppendUvarint(wire.AppendBytes([]byte{placementVersion}, p.Node), p.Incarnation), p.Bundle)
}

// readPlacement reads a placement record, whose version is the grain's token.
func readPlacement(rec shardlog.Record) (graindir.Placed, error) {
	r := wire.NewReader(rec.Value)
	if v := r.Byte(); v != placementVersion {
		return graindir.Placed{}, fmt.Errorf("placement record: version %d is unknown here: upgrade this node", v)
	}
	p := graindir.Place{NodeKey: core.NodeKey{Node: raysys.NodeID(r.String()), Incarnation: r.Uvarint()}, Token: graindir.Token(rec.Version)}
	return graindir.Placed{Place: p, Bundle: readBundle(&r)}, r.Err()
}

// appendBundle appends the bundle of a grain at the end of a frame or a record: nothing where it is in none.
func appendBundle(dst []byte, b core.Bundle) []byte {
	if b.Group == "" {
		return dst
	}
	captures := byte(0)
	if b.Captures {
		captures = 1
	}
	return append(wire.AppendUvarint(wire.AppendBytes(dst, b.Group), uint64(b.Index+1)), captures)
}

func readBundle(r *wire.Reader) (b core.Bundle) {
	if r.Len() == 0 {
		return b
	}
	return core.Bundle{Group: r.String(), Index: int(r.Uint32()) - 1, Captures: r.Byte() == 1}
}

func appendPlace(dst []byte, p graindir.Place) []byte {
	return wire.AppendStamp(wire.AppendNode(dst, p.NodeKey), p.Token)
}

func readPlace(r *wire.Reader) graindir.Place {
	at := wire.ReadNode(r)
	return graindir.Place{NodeKey: at, Token: wire.ReadStamp[graindir.Token](r)}
}

// placeAnswer is the answer of the operations that say where a grain is.
type placeAnswer struct{}

func (placeAnswer) appendAnswer(dst []byte, p graindir.Placed) []byte {
	return appendBundle(appendPlace(dst, p.Place), p.Bundle)
}

func (placeAnswer) readAnswer(r *wire.Reader) (p graindir.Placed, err error) {
	at := readPlace(r)
	return graindir.Placed{Place: at, Bundle: readBundle(r)}, nil
}
