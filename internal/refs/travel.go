package refs

import (
	"encoding/binary"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Forms of a reference on the wire. A settled, small outcome is sent with the reference. Any other future is named by its
// owner and its number there; the receiver asks the owner when something waits for the value.
const (
	refMine     byte = iota // a future of the sender: its number in the sender's exports
	refYours                // a future of the receiver: its number in the receiver's exports
	refInline               // the outcome itself
	refBorrowed             // a future of a third node: its number in the sender's exports, its owner and the number there
)

// AppendRef implements wire.References.
func (p *Session) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	return p.appendRef(dst, c, p)
}

// AppendObject implements wire.References.
func (p *Session) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	dst, _, err := p.appendExport(dst, c)
	return dst, err
}

// appendRef is AppendRef. It appends references by refs: the session itself, or a pendingExports, which notes what was
// counted for the frame.
func (p *Session) appendRef(dst []byte, c *core.Future, refs wire.References) ([]byte, error) {
	if s := RemoteOf(c); s != nil && s.Owner == p.Key() && s.Number != 0 {
		return binary.AppendUvarint(append(dst, refYours), s.Number), nil
	}
	if s, ok := core.SourceOf(c).(*inlineSource); ok && !c.Settled() {
		return p.appendRelayed(dst, s, refs)
	}
	if c.Settled() && len(dst) < wire.InlineLimit {
		out, fits, err := p.appendInline(wire.AppendID(append(dst, refInline), c.ID()), c, refs)
		if fits || err != nil {
			return out, err
		}
	}
	return refs.AppendObject(dst, c)
}

// appendExport appends a reference without its outcome. It returns the number of the export, which counts the peer now; 0
// for a future of the peer itself, which needs no count.
func (p *Session) appendExport(dst []byte, c *core.Future) (out []byte, n uint64, err error) {
	s := RemoteOf(c)
	if s != nil && s.Owner == p.Key() && s.Number != 0 {
		return binary.AppendUvarint(append(dst, refYours), s.Number), 0, nil
	}
	// The export pins the future, and so its value, until the peer drops the reference.
	n, err = p.refs.exports.add(c, p.Key(), p)
	switch {
	case err != nil:
		return dst, 0, err
	case s == nil, s.Number == 0: // an Uncounted reference stands for a copy: the peer asks this node
		return wire.AppendID(binary.AppendUvarint(append(dst, refMine), n), c.ID()), n, nil
	}
	dst = wire.AppendID(binary.AppendUvarint(append(dst, refBorrowed), n), c.ID())
	dst = binary.AppendUvarint(wire.AppendBytes(dst, s.Owner.Node), s.Owner.Incarnation)
	return binary.AppendUvarint(dst, s.Number), n, nil
}

// ReadRef implements wire.References.
func (p *Session) ReadRef(r *wire.Reader) (*core.Future, error) {
	switch r.Byte() {
	case refYours:
		c := p.refs.exports.get(r.Uvarint())
		if c == nil && r.Err() == nil {
			return nil, fmt.Errorf("%w: %s sent back a reference that it had dropped", raysys.ErrInvalidRef, p.Key())
		}
		return c, r.Err()
	case refMine:
		mine := exportKey{p.Key(), r.Uvarint()}
		id := r.ID()
		if err := r.Err(); err != nil {
			return nil, err
		}
		return p.refs.imports.take(id, mine, mine), nil
	case refBorrowed:
		lender := exportKey{p.Key(), r.Uvarint()}
		id := r.ID()
		owner := exportKey{core.NodeKey{Node: raysys.NodeID(r.String()), Incarnation: r.Uvarint()}, r.Uvarint()}
		if err := r.Err(); err != nil {
			return nil, err
		}
		if owner.owner == p.refs.mesh.Self() { // a future of this node, which a lender passed on
			if c := p.refs.exports.get(owner.number); c != nil {
				p.refs.table.drop(lender)
				return c, nil
			}
			owner = lender
		}
		return p.refs.imports.take(id, owner, lender), nil
	case refInline:
		s := &inlineSource{peer: p, id: r.ID()}
		if err := s.read(r, r.Byte()); err != nil {
			return nil, err
		}
		return &core.NewUntyped(p.refs.job, s).Future, nil
	}
	return nil, wire.ErrCorrupt
}
