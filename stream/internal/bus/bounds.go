package bus

import (
	"errors"
	"fmt"
	"time"
)

// What every bus takes. The bounds are JetStream's, and Memory has them too: a program that works alone works in a cluster.
const (
	MaxName       = 255                    // bytes of a stream's name as Escape has it: the server has a folder of that name
	MaxKey        = 256                    // bytes of a key
	MaxPartitions = 256                    // of a stream
	MinKeep       = 100 * time.Millisecond // unless it is 0: the server refuses a shorter memory of IDs
	MaxData       = 1<<20 - 4<<10          // bytes of an event: max_payload of a server is 1 MiB unless set, and counts the headers
	MaxHead       = 3 << 10                // bytes of ID and Reason in the headers
	maxWindow     = 2 * time.Minute
)

// ErrBounds: the stream is none that a bus takes.
var ErrBounds = errors.New("there can be no such stream")

// Window is for how long a bus knows the ID of a message.
func (c Config) Window() time.Duration {
	if c.Keep > 0 {
		return min(c.Keep, maxWindow)
	}
	return maxWindow
}

// Check says what of a stream is out of bounds. Ensure calls it, before it asks a server.
func (c Config) Check() error {
	switch n := len(Escape(c.Name)); {
	case n > MaxName:
		return fmt.Errorf("%w: the name %q has %d bytes on a server, where each that is no letter, digit, - or _ takes three: %d are allowed: give a shorter name, cluster or namespace",
			ErrBounds, c.Name, n, MaxName)
	case c.Partitions < 1 || c.Partitions > MaxPartitions:
		return fmt.Errorf("%w: %d partitions: give 1 to %d", ErrBounds, c.Partitions, MaxPartitions)
	case c.Keep != 0 && c.Keep < MinKeep:
		return fmt.Errorf("%w: Keep(%v): give %v or more, or 0 for ever", ErrBounds, c.Keep, MinKeep)
	}
	return nil
}

// Check says what of messages is out of bounds: then none of them is stored. Publish calls it.
func Check(list []Message) error {
	for i := range list {
		m := &list[i]
		of, n, most := "", 0, 0
		switch {
		case len(m.Key) > MaxKey:
			of, n, most = "its key", len(m.Key), MaxKey
		case len(m.Data) > MaxData:
			of, n, most = "its value", len(m.Data), MaxData
		case len(m.ID)+4*len(m.Reason) > MaxHead: // a byte of a reason may take four in a header
			of, n, most = "its head", len(m.ID)+4*len(m.Reason), MaxHead
		default:
			continue
		}
		return fmt.Errorf("%w: event %d of %d: %s has %d bytes: %d are allowed", ErrTooLarge, i+1, len(list), of, n, most)
	}
	return nil
}
