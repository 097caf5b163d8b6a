package bus

import (
	"context"
	"errors"
	"time"
)

// Config is a stream as its definition has it.
type Config struct {
	Name       string // unique among all programs that share the bus
	Partitions int
	Keep       time.Duration // how long an event is kept at least; 0 for ever
	Replicas   int           // how many servers should have it, where there are so many
}

// Message is one event.
type Message struct {
	Key       string
	Partition int // of the key
	Seq       uint64
	Time      time.Time // when it was stored
	Data      []byte
	Reason    string // of a parked event: why
	ID        string // of two messages with the same ID one is stored, within Config.Window; a bus may give one to ""
	Pending   uint64 // how many that the same reader wants come after it
}

// Mark is an event that a reader has read: its number, and when it was stored, in nanoseconds of Unix time. 0 is not known.
type Mark struct {
	Seq  uint64
	Time int64
}

// Filter says what a reader wants: the events of a partition, or of one key.
type Filter struct {
	Partition int // AnyPartition: of all
	Key       *string
	Made      int64 // of the stream whose numbers the reader has; 0 for any. Another one is ErrNoStream.
	Seen      Mark  // the last event that the reader has read. A stream that ends before it, or has another in its place, is ErrOtherStore.
	Ahead     int   // how many events a Read may have in memory before they are asked for; 0 for some
}

// AnyPartition in a Filter without a Key is for all events.
const AnyPartition = -1

// Info is what a stream holds.
type Info struct {
	First, Last uint64 // numbers of the oldest and the newest event; Last stays when all have gone
	Count       uint64
	Made        int64 // tells the stream from one of the same name that was there before, and whose numbers meant other events
}

// Bus stores streams of events. What it takes is in the table of bounds: Config.Check and Check. Numbers begin at 1 and grow with each event of a stream; some may be left out.
type Bus interface {
	// Ensure makes the stream, or finds it. One that was made with other partitions is a *Mismatch; one with another Keep is too. It has Replicas
	// where the servers can have so many, else one.
	Ensure(ctx context.Context, c Config) error
	// Publish stores messages in their order, and returns the number of the last one when all of them are safe. When it fails a first
	// part of them may be stored. It waits while the bus is away or has no room for what is under way, until ctx ends.
	Publish(ctx context.Context, stream string, list []Message) (uint64, error)
	// Read hands f the events that are stored, from the number from on and in their order, and then those that come, until f returns
	// false or ctx ends. With to it returns when those up to that number were read. f owns the message. A stream that was made anew since is ErrNoStream,
	// and one that lacks an event that was read ErrOtherStore, whether an event comes or not.
	Read(ctx context.Context, stream string, f Filter, from, to uint64, take func(Message) bool) error
	// Next returns the event of that number, or the first after it, that f wants; ErrNoEvent without one. It leaves nothing on the server.
	Next(ctx context.Context, stream string, f Filter, from uint64) (Message, error)
	// Info says what the stream holds.
	Info(ctx context.Context, stream string) (Info, error)
	// Connects counts how often the connection was made again. The server may be another one since.
	Connects() uint64
	// Replicate asks for n copies of a stream that has fewer, and changes nothing else of it. It returns how many it has, and should have: n, or 1
	// where there is one server. Where the server refuses more the error matches ErrRefused.
	Replicate(ctx context.Context, stream string, n int) (have, want int, err error)
	// Close ends the connection. Calls that wait fail.
	Close()
}

// CheckSeen returns ErrOtherStore where the stream does not have the event that was read, though it has not dropped it.
func CheckSeen(ctx context.Context, b Bus, stream string, made int64, seen Mark) error {
	if seen.Seq == 0 {
		return nil
	}
	m, err := b.Next(ctx, stream, Filter{Partition: AnyPartition, Made: made, Seen: seen}, seen.Seq)
	switch {
	case errors.Is(err, ErrNoEvent):
		return nil
	case err == nil && m.Seq == seen.Seq && m.Time.UnixNano() != seen.Time && seen.Time != 0:
		return ErrOtherStore
	}
	return err
}

// Mismatch: the stream was made with other settings.
type Mismatch struct{ Have, Want Config }

func (m *Mismatch) Error() string { return "the stream was made with other settings" }

// ErrNoStream: the stream was not made yet.
var ErrNoStream = errors.New("there is no such stream")

// ErrOtherStore: the stream is not what it was: it lacks events that were read. Its server came back with a store that is older.
var ErrOtherStore = errors.New("the stream lacks events that were read from it")

// ErrNoEvent: there is no such event now.
var ErrNoEvent = errors.New("there is no such event")

// ErrTooLarge: the message is larger than the bus takes.
var ErrTooLarge = errors.New("the event is too large")

// ErrRefused: the server does not let this program in, or do what it asks.
var ErrRefused = errors.New("the server refuses it")

// ErrFull: the bus has no room on its disk.
var ErrFull = errors.New("the server has no room")

// ErrClosed: Close was called.
var ErrClosed = errors.New("the connection is closed")
