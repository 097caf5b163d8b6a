package refs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// Shapes of an outcome on the wire.
const (
	outcomeError   byte = iota // the error follows
	outcomeValue               // the value follows, and what it refers to
	outcomeObject              // the value is an object; its size as far as it is known, its id, its owner and its references follow
	outcomeForward             // another node has the value; a reference to its future there follows
)

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

// Description is what a node knows of an object before it has the bytes.
type Description struct {
	OID   raysys.TaskID
	Owner core.NodeKey   // whose store has the primary
	Size  int64          // approximate: the owner's word, which nothing may rely on
	Refs  []*core.Future // references in the value, in the order of its encoding
}

// inlineSource brings an outcome that was sent with the reference to it.
type inlineSource struct {
	peer  *Session
	id    raysys.TaskID
	value []byte         // encoded
	refs  []*core.Future // references in the value
	err   error
}

func (s *inlineSource) Name() string      { return "value from " + string(s.peer.Key().Node) }
func (s *inlineSource) ID() raysys.TaskID { return s.id }
func (s *inlineSource) Cancelled()        {}

// read takes the outcome off the frame; the value is decoded when its type is known.
func (s *inlineSource) read(r *wire.Reader, shape byte) error {
	switch shape {
	case outcomeError:
		s.err = wire.ReadError(r)
		return r.Err()
	case outcomeValue:
		s.value = append([]byte(nil), r.Sized()...)
		var err error
		s.refs, err = s.peer.readRefs(r)
		return err
	}
	return fmt.Errorf("%w: an outcome of shape %d", wire.ErrCorrupt, shape)
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

// undecoded is the destination of a Fetch that only asks where the value is.
type undecoded struct{}

// Fetch implements core.Source.
func (s *inlineSource) Fetch(into any, done func(error)) {
	if s.err != nil {
		done(s.err)
		return
	}
	if _, ok := into.(*undecoded); ok {
		done(fmt.Errorf("%w: %s says that it is small", raysys.ErrObjectLost, s.Name()))
		return
	}
	done(Decode(s.value, into, s.refs))
}

// Decode fills in *into.
func Decode(encoded []byte, into any, refs []*core.Future) error {
	v := reflect.ValueOf(into).Elem()
	plan, err := codec.PlanOf(v.Type())
	if err != nil {
		return err
	}
	return plan.Decode(encoded, v, refs)
}
