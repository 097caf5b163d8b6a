package stream

import (
	"context"
	"strconv"

	"github.com/raysys/raysys/grains"
)

// Cursor makes the events of a stream count once in a grain. Embed it in the struct of a Durable kind:
//
//	type Account struct {
//		Balance grains.State[int]
//		stream.Cursor
//	}
//
// It is a State that holds, for each part of each stream, the number of the last event that the grain has taken. A Durable grain stores it with
// what the handler has changed, or neither; an event that comes again is left out. In a kind that is not Durable it is stored after
// the handler has returned: an event whose grain dies in between comes twice.
//
// A grain whose State was lost gets the events since again, as far as they are kept, if the agent still knows what it had taken: one that has
// moved since does not.
type Cursor struct {
	positions grains.State[map[string]uint64] `raysys:"stream.cursor"`
}

// cursored is implemented by a grain that embeds a Cursor.
type cursored interface{ cursor() *Cursor }

func (c *Cursor) cursor() *Cursor { return c }

// at is the number of the last event that the grain has taken of a part of a subscription.
func (c *Cursor) at(d *delivery) uint64 { return c.positions.Value[d.place()] }

// take notes that the grain has taken an event.
func (c *Cursor) take(ctx context.Context, d *delivery) error {
	if c.positions.Value == nil {
		c.positions.Value = map[string]uint64{}
	}
	c.positions.Value[d.place()] = d.Seq
	return c.positions.Write(ctx)
}

// delivery is the argument of the call by which a grain gets an event.
type delivery struct {
	Subscription string
	Partition    int
	Made         int64 // the stream that has the numbers
	Generation   int   // and its generation
	Key          string
	Seq          uint64
	Prev         uint64 // the number of the event that this grain took before; 0 where that is not known
	Time         int64
	Data         []byte
	Reason       string
}

// place names the part of the subscription, and what its numbers mean.
func (d *delivery) place() string {
	s := d.Subscription + "/" + strconv.Itoa(d.Partition) + "/" + strconv.FormatInt(d.Made, 36)
	if d.Generation > 0 {
		s += "/" + strconv.Itoa(d.Generation)
	}
	return s
}

// outcome is what became of it, unless the handler failed.
type outcome struct {
	Cursor bool // the grain has one
	// Lost: the grain has not taken Prev, because its State was lost. It has taken At.
	Lost bool
	At   uint64
	// Unreadable says why the event is of no type that the handler takes.
	Unreadable string
}

// begin compares the event with the grain's cursor. done says that the handler is not to be called.
func (d *delivery) begin(g any) (c *Cursor, o outcome, done bool) {
	has, ok := g.(cursored)
	if !ok {
		return nil, o, false
	}
	c = has.cursor()
	at := c.at(d)
	if at < d.Prev {
		return c, outcome{Lost: true, At: at}, true
	}
	return c, o, d.Seq <= at
}
