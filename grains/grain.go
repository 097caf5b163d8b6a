package grains

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/grainengine"
)

// ID names a grain within its namespace.
type ID struct{ Kind, Key string }

// String is kind/key.
func (id ID) String() string { return id.Kind + "/" + id.Key }

// Grain is a reference to a grain of kind G: its name, not its place. It may be kept, compared, used as a map key and
// passed in arguments and results.
type Grain[G any] struct{ id ID }

// ID returns the grain's name.
func (g Grain[G]) ID() ID { return g.id }

// String is kind/key.
func (g Grain[G]) String() string { return g.id.String() }

// AppendBinary implements encoding.BinaryAppender: kind and key, each after its length.
func (g Grain[G]) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(g.id.Kind)))
	b = append(b, g.id.Kind...)
	b = binary.AppendUvarint(b, uint64(len(g.id.Key)))
	return append(b, g.id.Key...), nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (g Grain[G]) MarshalBinary() ([]byte, error) { return g.AppendBinary(nil) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (g *Grain[G]) UnmarshalBinary(b []byte) error {
	next := func() (string, error) {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return "", errors.New("decode grain reference: a length goes beyond the data")
		}
		s := string(b[used : used+int(n)])
		b = b[used+int(n):]
		return s, nil
	}
	kind, err := next()
	if err != nil {
		return err
	}
	key, err := next()
	if err != nil {
		return err
	}
	if len(b) > 0 {
		return fmt.Errorf("decode grain reference: %d bytes too many", len(b))
	}
	g.id = ID{kind, key}
	return nil
}

// Self returns the name of the grain whose method or hook runs under ctx.
func Self(ctx context.Context) (ID, bool) {
	id, ok := grainengine.Self(ctx)
	return ID(id), ok
}

// Deactivate lets the activation whose method runs under ctx go once its mailbox is empty: OnDeactivate runs, and the
// next call finds a new activation.
func Deactivate(ctx context.Context) error { return grainengine.Deactivate(ctx) }
