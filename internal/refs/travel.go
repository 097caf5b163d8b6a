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
	refPair                 // the owner's future, and then the submitter's: two of the other forms, but not refInline (pair.go)
	refRecorded             // the run of the task's record, and then one of the other forms, but not refInline (recorded.go)
)

// AppendRef implements wire.References.
func (p *Session) AppendRef(dst []byte, c *core.Future) ([]byte, error) {
	return p.appendRef(dst, c, p)
}

// AppendObject implements wire.References.
func (p *Session) AppendObject(dst []byte, c *core.Future) ([]byte, error) {
	return p.appendExport(dst, c, nil)
}

// appendRef is AppendRef. It appends references by refs: the session itself, or a pendingExports, which notes what was
// counted for the frame.
func (p *Session) appendRef(dst []byte, c *core.Future, refs wire.References) ([]byte, error) {
	if n := namedBy(c).numberAt(p.Key()); n != 0 {
		return binary.AppendUvarint(append(dst, refYours), n), nil
	}
	if s, ok := core.SourceOf(c).(*inlineSource); ok && !c.Settled() {
		return p.appendRelayed(dst, s, refs)
	}
	if c.Settled() && len(dst) < wire.InlineLimit && !core.Untold(c) {
		out, fits, err := p.appendInline(wire.AppendID(append(dst, refInline), c.ID()), c, refs)
		if fits || err != nil {
			return out, err
		}
	}
	return refs.AppendObject(dst, c)
}

// appendExport appends a reference without its outcome; pending, which may be nil, notes what it counts for the peer.
func (p *Session) appendExport(dst []byte, c *core.Future, pending *pendingExports) ([]byte, error) {
	n := namedBy(c)
	if number := n.numberAt(p.Key()); number != 0 { // it needs no count
		return binary.AppendUvarint(append(dst, refYours), number), nil
	}
	head := dst
	if run := n.run(); run != 0 {
		head = binary.AppendUvarint(append(head, refRecorded), run)
	}
	if n.submitter == nil && !n.submitted {
		out, _, err := p.appendHalf(head, n, pending)
		if err != nil {
			return dst, err
		}
		return out, nil
	}
	out, counted, err := p.appendHalf(append(head, refPair), n, pending)
	if err == nil {
		out, _, err = p.appendHalf(out, p.refs.submitterOf(n), pending)
		if err != nil && counted != 0 && pending == nil {
			p.refs.exports.takeBack(counted, p.Key(), p)
		}
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// appendHalf appends the owner's future of n. It returns the number of the export that counts the peer now, 0 for none.
func (p *Session) appendHalf(dst []byte, n named, pending *pendingExports) (out []byte, number uint64, err error) {
	s := n.owner
	if s != nil && s.Owner == p.Key() {
		return binary.AppendUvarint(append(dst, refYours), s.Number), 0, nil
	}
	if !n.submitted { // else the submitter's half counts the peer for the same export
		// The export pins the future, and so its value, until the peer drops the reference.
		if number, err = p.refs.exports.add(n.future, p.Key(), p); err != nil {
			return dst, 0, err
		}
		if pending != nil {
			pending.numbers = append(pending.numbers, number)
		}
	}
	if s == nil {
		id := n.future.ID()
		if n.recorded != nil {
			id = n.recorded.id
		}
		return wire.AppendID(binary.AppendUvarint(append(dst, refMine), number), id), number, nil
	}
	dst = wire.AppendID(binary.AppendUvarint(append(dst, refBorrowed), number), s.id) // of n.future it may not be known: see core.Untyped
	return binary.AppendUvarint(wire.AppendNode(dst, s.Owner), s.Number), number, nil
}

// ReadRef implements wire.References.
func (p *Session) ReadRef(r *wire.Reader) (*core.Future, error) {
	switch form := r.Byte(); form {
	case refRecorded:
		return p.readRecorded(r)
	case refInline:
		s := &inlineSource{peer: p, id: r.ID()}
		if err := s.read(r, r.Byte()); err != nil {
			return nil, err
		}
		return &core.NewUntyped(p.refs.job, s).Future, nil
	default:
		return p.readForm(r, form)
	}
}

// readForm reads a reference that is no outcome.
func (p *Session) readForm(r *wire.Reader, form byte) (*core.Future, error) {
	switch form {
	case refPair:
		owner, err := p.readHalf(r, r.Byte())
		if err != nil {
			return nil, err
		}
		submitter, err := p.readHalf(r, r.Byte())
		if err != nil {
			return nil, err
		}
		return p.refs.pair(owner, submitter), nil
	default:
		return p.readHalf(r, form)
	}
}

// readHalf reads a reference to one future of some node.
func (p *Session) readHalf(r *wire.Reader, form byte) (*core.Future, error) {
	switch form {
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
		owner := exportKey{wire.ReadNode(r), r.Uvarint()}
		if err := r.Err(); err != nil {
			return nil, err
		}
		if lender.number == 0 {
			lender = exportKey{}
		}
		if owner.owner == p.refs.mesh.Self() { // a future of this node, which a lender passed on
			if c := p.refs.exports.get(owner.number); c != nil {
				p.refs.table.drop(lender)
				return c, nil
			}
			owner = lender
		}
		return p.refs.imports.take(id, owner, lender), nil
	}
	return nil, wire.ErrCorrupt
}
