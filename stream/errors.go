package stream

import (
	"errors"
	"fmt"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/stream/internal/bus"
)

var (
	// ErrNoNATS: the cluster has no NATS server, so it has no streams.
	ErrNoNATS = core.Sentinel("stream.nonats", "the cluster has no NATS server: set RAYSYS_NATS=nats://host:4222 on every node, or let `raysys local` start one (`make nats` builds it)")
	// ErrUnreadable: an event is stored as a type that this program cannot read.
	ErrUnreadable = core.Sentinel("stream.unreadable", "event cannot be read")
	// ErrMismatch: the stream was made with other settings than its definition has. The error is a *MismatchError.
	ErrMismatch = core.Sentinel("stream.mismatch", "the stream was made with other settings")
	// ErrFull: the server, or the program's account there, has no room for the event or for another stream.
	ErrFull = core.Sentinel("stream.full", "the NATS server has no room")
	// ErrRefused: the server does not let the program in, and never did, or the program's user or account there may not do this. Nothing waits for it:
	// somebody has to change the server's configuration, or the program's.
	ErrRefused = core.Sentinel("stream.refused", "the NATS server refuses the program")
)

// MismatchError says how the stream that is there differs from its definition.
type MismatchError struct {
	Stream     string
	Have, Want Settings
}

// Settings are those of a stream that do not change once it is made.
type Settings struct {
	Partitions int
	Keep       string // a duration
}

// Error implements error.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("stream %s was made with %d partitions and Keep(%s), and the program defines %d and Keep(%s): give it the old settings, or another name",
		e.Stream, e.Have.Partitions, e.Have.Keep, e.Want.Partitions, e.Want.Keep)
}

// Is matches ErrMismatch.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// known are the errors of the bus that programs know by another name.
var known = []struct{ bus, ours error }{
	{bus.ErrTooLarge, raysys.ErrTooLarge},
	{bus.ErrFull, ErrFull},
	{bus.ErrBounds, raysys.ErrBadDefinition},
	{bus.ErrRefused, ErrRefused},
	{bus.ErrClosed, raysys.ErrClosed},
}

// typed gives an error of the bus the identity that programs know.
func (d *definition) typed(err error) error {
	if err == nil {
		return nil
	}
	if m, ok := errors.AsType[*bus.Mismatch](err); ok {
		return &MismatchError{d.name, Settings{m.Have.Partitions, m.Have.Keep.String()}, Settings{m.Want.Partitions, m.Want.Keep.String()}}
	}
	for _, k := range known {
		if errors.Is(err, k.bus) {
			return fmt.Errorf("%w: stream %s: %w", k.ours, d.name, err)
		}
	}
	return fmt.Errorf("stream %s: %w", d.name, err)
}
