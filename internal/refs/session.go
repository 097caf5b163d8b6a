package refs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/wire"
)

// Session is a connection with the references over it. It implements wire.Peer and wire.Exporter.
type Session struct {
	*mesh.Peer
	refs     *References
	declared []uint64 // what KindHeld has declared so far; used by the goroutine that reads
}

// Of returns the references over a connection.
func Of(p *mesh.Peer) *Session { return p.Session.(*Session) }

// To returns the session with an incarnation, nil when there is no connection now.
func To(m *mesh.Mesh, k core.NodeKey) *Session {
	if p := m.Peer(k); p != nil {
		return Of(p)
	}
	return nil
}

// Connect is Connect of the mesh, for the session.
func Connect(m *mesh.Mesh, k core.NodeKey, done func(*Session, error)) {
	m.Connect(k, func(p *mesh.Peer, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(Of(p), nil)
	})
}

// Frames are the handlers of frames about references that have no answer.
func Frames() map[wire.Kind]func(*mesh.Peer, []byte) error {
	return map[wire.Kind]func(*mesh.Peer, []byte) error{
		wire.KindDrop: func(p *mesh.Peer, b []byte) error { return Of(p).onDrop(b) },
		wire.KindHeld: func(p *mesh.Peer, b []byte) error { return Of(p).onHeld(b) },
	}
}

// Questions are the handlers of questions about references.
func Questions() map[wire.Kind]func(*mesh.Peer, *wire.Reader, mesh.Reply) error {
	return map[wire.Kind]func(*mesh.Peer, *wire.Reader, mesh.Reply) error{
		wire.KindAwait:  func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return Of(p).onAwait(r, to) },
		wire.KindBorrow: func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return Of(p).onBorrow(r, to) },
		wire.KindRecord: func(p *mesh.Peer, r *wire.Reader, to mesh.Reply) error { return Of(p).onRecord(r, to) },
	}
}

// readAnswer reads where the outcome of at is: an inlineSource has the outcome itself.
func (p *Session) readAnswer(r *wire.Reader, at *RemoteSource) (core.Source, error) {
	switch shape := r.Byte(); shape {
	case outcomeObject:
		d := Description{Size: int64(r.Uvarint()), OID: r.ID(), Owner: wire.ReadNode(r)}
		var err error
		if d.Refs, err = p.readRefs(r); err != nil {
			return nil, err
		}
		return p.refs.objects.NewSource(at, d), nil
	case outcomeForward:
		c, err := p.ReadRef(r)
		if err != nil {
			return nil, err
		}
		if src := core.SourceOf(c); src != nil {
			return src, nil
		}
		return &localSource{future: c}, nil
	default:
		in := &inlineSource{peer: p}
		return in, in.read(r, shape)
	}
}

// onAwait serves KindAwait: the peer waits for a future of this node. Where it says what it has found lost, the value is
// made again if it is not elsewhere by now.
func (p *Session) onAwait(r *wire.Reader, to mesh.Reply) error {
	number := r.Uvarint()
	var lost exportKey
	if r.Len() > 0 {
		lost = exportKey{wire.ReadNode(r), r.Uvarint()}
	}
	if err := r.Err(); err != nil {
		return err
	}
	failed := func(err error) { to.Send(wire.AppendError(append(to.Head(), outcomeError), err)) }
	c := p.refs.exports.get(number)
	if c == nil {
		failed(fmt.Errorf("%w: %w by %s", raysys.ErrObjectLost, errUnknownRef, p.refs.mesh.Self()))
		return nil
	}
	if c.Untyped() {
		out, err := p.AppendObject(append(to.Head(), outcomeForward), c)
		if err != nil {
			failed(err)
			return nil
		}
		to.Send(out)
		return nil
	}
	if err := c.Pin(); err != nil {
		failed(err)
		return nil
	}
	begin(c)
	a := &awaited{peer: p, to: to, future: c, lost: lost}
	if !c.Subscribe(&a.Waiter, a) {
		a.Resolved(nil)
	}
	return nil
}

// onBorrow serves KindBorrow.
func (p *Session) onBorrow(r *wire.Reader, to mesh.Reply) error {
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	counted := byte(0)
	if p.refs.exports.count(number, p.Key()) {
		counted = 1
	}
	to.Send(append(to.Head(), counted))
	return nil
}

// appendInline appends the outcome of a settled future; fits is false when that is too large to be sent inline.
func (p *Session) appendInline(dst []byte, c *core.Future, refs wire.References) (out []byte, fits bool, err error) {
	if err := c.Pin(); err != nil {
		return wire.AppendErrorTo(append(dst, outcomeError), p, err), true, nil
	}
	defer c.Unpin()
	v, err := c.Outcome()
	switch {
	case err != nil && c.Absent():
		return dst, false, nil
	case err != nil:
		return wire.AppendErrorTo(append(dst, outcomeError), p, err), true, nil
	}
	value := reflect.ValueOf(v).Elem()
	plan, err := codec.PlanOf(value.Type())
	if err != nil {
		return dst, false, err
	}
	if wire.Exceeds(plan, wire.AddressOf(v), wire.InlineLimit) {
		return dst, false, nil
	}
	out, err = wire.AppendSmall(append(dst, outcomeValue), plan, wire.AddressOf(v), refs)
	switch {
	case errors.Is(err, raysys.ErrTooLarge):
		return dst, false, nil
	case err != nil:
		return dst, false, err
	case !plan.HasRefs():
		out = append(out, 0) // the reader does not know the type yet, and reads a count of references
	}
	return out, true, nil
}

// appendObject appends the description of the object that a settled future's value is. It may wait for room in the store.
func (p *Session) appendObject(dst []byte, c *core.Future, describe func(*core.Future) (Description, error)) ([]byte, error) {
	d, err := describe(c)
	if err != nil {
		return dst, err
	}
	out := binary.AppendUvarint(append(dst, outcomeObject), uint64(d.Size))
	out = wire.AppendNode(wire.AppendID(out, d.OID), d.Owner)
	out = binary.AppendUvarint(out, uint64(len(d.Refs)))
	for _, r := range d.Refs {
		if out, err = p.AppendRef(out, r); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// appendRelayed passes on an outcome that nothing here has decoded.
func (p *Session) appendRelayed(dst []byte, s *inlineSource, refs wire.References) ([]byte, error) {
	dst = wire.AppendID(append(dst, refInline), s.id)
	if s.err != nil {
		return wire.AppendError(append(dst, outcomeError), s.err), nil
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, outcomeValue), uint32(len(s.value)))
	dst = binary.AppendUvarint(append(dst, s.value...), uint64(len(s.refs)))
	var err error
	for _, c := range s.refs {
		if dst, err = refs.AppendRef(dst, c); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// readRefs reads a count and as many references.
func (p *Session) readRefs(r *wire.Reader) (refs []*core.Future, err error) {
	for range r.Count(1) {
		c, err := p.ReadRef(r)
		if err != nil {
			return nil, err
		}
		refs = append(refs, c)
	}
	return refs, r.Err()
}

// PendingExports implements wire.Exporter.
func (p *Session) PendingExports() wire.PendingExports { return &pendingExports{Session: p} }

// Export counts the peer as a holder of a future of this node once more, and returns the number of the export.
func (p *Session) Export(c *core.Future) (number uint64, err error) {
	return p.refs.exports.add(c, p.Key(), p)
}

// readRecorded reads a reference to a recorded task.
func (p *Session) readRecorded(r *wire.Reader) (*core.Future, error) {
	run := r.Uvarint()
	form := r.Byte()
	if r.Err() != nil || form == refInline || form == refRecorded {
		return nil, wire.ErrCorrupt
	}
	c, err := p.readForm(r, form)
	if err == nil && c != nil {
		if s := namedBy(c).source(); s != nil {
			s.run.Store(run)
		}
	}
	return c, err
}

// onRecord serves KindRecord.
func (p *Session) onRecord(r *wire.Reader, to mesh.Reply) error {
	op := r.Byte()
	switch op {
	case recordFind:
		run, id := r.Uvarint(), r.ID()
		if err := r.Err(); err != nil {
			return err
		}
		if p.refs.lineage == nil {
			p.sendFound(to, nil, nil)
			return nil
		}
		p.refs.lineage.Found(run, id, func(c *core.Future, err error) { p.sendFound(to, c, err) })
		return nil
	case recordNow:
		number := r.Uvarint()
		if err := r.Err(); err != nil {
			return err
		}
		c, gate := p.refs.exports.get(number), p.refs.job.Gate
		if c == nil || gate == nil {
			to.Send(wire.AppendUvarint(to.Head(), 0))
			return nil
		}
		gate.Leave([]*core.Future{c}, func(error) { to.Send(wire.AppendUvarint(to.Head(), core.RecordedUnder(c))) })
		return nil
	case recordTake:
		run, id := r.Uvarint(), r.ID()
		if err := r.Err(); err != nil {
			return err
		}
		if p.refs.lineage != nil {
			p.refs.lineage.Take(run, id)
		}
		to.Send(to.Head())
		return nil
	case recordRetain:
		run, id, state := r.Uvarint(), r.ID(), r.String()
		if err := r.Err(); err != nil {
			return err
		}
		if p.refs.lineage == nil {
			to.Fail(fmt.Errorf("%w: node %s records no tasks", raysys.ErrObjectLost, p.refs.mesh.Self()))
			return nil
		}
		p.refs.lineage.RetainHere(run, id, state, to.Done)
		return nil
	}
	return fmt.Errorf("%w: question %d about a recorded task", wire.ErrCorrupt, op)
}

// sendFound answers recordFind.
func (p *Session) sendFound(to mesh.Reply, c *core.Future, err error) {
	switch {
	case err != nil:
	case c == nil:
		err = fmt.Errorf("%w by %s", errUnknownRef, p.refs.mesh.Self())
	default:
		// The submitter's half alone: the owner of an object may die before the asker has asked it.
		head := append(to.Head(), outcomeForward)
		if run := core.RecordedUnder(c); run != 0 {
			head = wire.AppendUvarint(append(head, refRecorded), run)
		}
		var out []byte
		if out, _, err = p.appendHalf(head, named{future: c}, nil); err == nil {
			to.Send(out)
			return
		}
	}
	to.Send(wire.AppendError(append(to.Head(), outcomeError), err))
}

// onHeld handles KindHeld.
func (p *Session) onHeld(frame []byte) error {
	r := wire.NewReader(frame)
	last := r.Byte()
	for range r.Count(1) {
		p.declared = append(p.declared, r.Uvarint())
	}
	if err := r.Err(); err != nil {
		return err
	}
	if last == 1 {
		p.refs.exports.declared(p.Key(), p.declared)
		p.declared = nil
	}
	return nil
}

// onDrop handles KindDrop.
func (p *Session) onDrop(frame []byte) error {
	r := wire.NewReader(frame)
	number := r.Uvarint()
	if err := r.Err(); err != nil {
		return err
	}
	p.refs.exports.drop(number, p.Key())
	return nil
}
