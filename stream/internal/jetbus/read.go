package jetbus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys/stream/internal/bus"
)

const (
	// heartbeat is how often the server says that a consumer lives. After two that did not come the reader makes another: the server that had
	// it may have died. A wait for an event that is shorter than that would never find out.
	heartbeat = time.Second
	// look is how long a read with an end waits for the next event before it looks whether there is one to wait for.
	look = 10 * heartbeat
)

// Read implements bus.Bus.
func (b *Bus) Read(ctx context.Context, stream string, f bus.Filter, from, to uint64, take func(bus.Message) bool) error {
	filter := subject(stream, f.Partition, "")
	if f.Key != nil {
		filter = subject(stream, f.Partition, *f.Key)
	} else {
		filter = filter[:len(filter)-1] + "*"
	}
	r := reader{b: b, stream: escape(stream), made: f.Made, filter: filter, next: max(from, 1), to: to, take: take}
	for {
		var done bool
		err := b.insist(ctx, func(context.Context) (err error) {
			done, err = r.run(ctx) // it is bounded by ctx alone: it lasts as long as the reader does
			return err
		})
		if done || err != nil {
			return err
		}
	}
}

// reader reads on where it was when a consumer of the server went.
type reader struct {
	b              *Bus
	stream, filter string
	made           int64
	next, to       uint64
	take           func(bus.Message) bool
}

// run reads by one consumer. done says that there is nothing more to do.
func (r *reader) run(ctx context.Context) (done bool, err error) {
	s, err := r.b.js.Stream(ctx, r.stream)
	switch {
	case err != nil:
		return false, err
	case r.made != 0 && r.made != s.CachedInfo().Created.UnixNano():
		return false, jetstream.ErrStreamNotFound
	}
	last, idle := r.to, time.Minute
	if r.to > 0 {
		idle = look // the client leaves a consumer behind that it stops
		if last, err = r.last(ctx, s); err != nil || last < r.next {
			return err == nil, err
		}
	}
	c, err := r.b.js.OrderedConsumer(ctx, r.stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.filter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.next, InactiveThreshold: idle, MaxResetAttempts: 3,
	})
	if err != nil {
		return false, err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(500), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return false, err
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)() // else it might make a consumer anew for some time
	for {
		m, err := r.event(ctx, it)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			return false, nil // what it waits for may have been dropped since
		case err != nil:
			return false, err
		}
		event, err := message(m)
		if err != nil {
			continue // it is none of ours: nobody can read it
		}
		if r.to > 0 && event.Seq > r.to {
			return true, nil
		}
		r.next = event.Seq + 1
		if !r.take(event) || r.to > 0 && event.Seq >= last {
			return true, nil
		}
	}
}

// event waits for the next one; for ever in a read without an end.
func (r *reader) event(ctx context.Context, it jetstream.MessagesContext) (jetstream.Msg, error) {
	if r.to > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, look)
		defer cancel()
	}
	return it.Next(jetstream.NextContext(ctx))
}

// last is the number of the last event up to which there is something to read, 0 for none.
func (r *reader) last(ctx context.Context, s jetstream.Stream) (uint64, error) {
	m, err := s.GetLastMsgForSubject(ctx, r.filter)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return min(m.Sequence, r.to), nil
}
