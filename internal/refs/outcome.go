package refs

import (
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
