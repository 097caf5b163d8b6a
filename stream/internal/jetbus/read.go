package jetbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys/stream/internal/bus"
)

const (
	// heartbeat is how often the server says that a consumer lives. After two that did not come the reader makes another: the server that had
	// it may have died. A wait for an event that is shorter than that would never find out.
	heartbeat = time.Second
	// look is how often a read with an end looks whether there is still an event to wait for, and one without an end whether the stream is still the
	// same: the server of its consumer may have come back with an older store, and this connection not have broken.
	look = 10 * heartbeat
	// readAhead and readAheadBytes bound what a reader has in memory before it is asked for. As many bytes again may be on their way.
	readAhead      = 128
	readAheadBytes = 2 << 20
	// beside bounds what a message has beside its payload: its subject, and that of its answer.
	beside = 4 << 10
)

// filter is the subject of the events that f wants.
func filter(stream string, f *bus.Filter) string {
	if f.Key != nil {
		return subject(stream, f.Partition, *f.Key)
	}
	if f.Partition == bus.AnyPartition {
		return "raysys." + bus.Escape(stream) + ".>"
	}
	s := subject(stream, f.Partition, "")
	return s[:len(s)-1] + "*"
}

// stream finds a stream. It refuses one that was made at another time than made, or that lacks the event seen: it is not the stream that was read.
func (b *Bus) stream(ctx context.Context, name string, made int64, seen bus.Mark) (jetstream.Stream, error) {
	s, err := b.find(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case made != 0 && made != s.CachedInfo().Created.UnixNano():
		return nil, jetstream.ErrStreamNotFound
	case s.CachedInfo().State.LastSeq < seen.Seq:
		return nil, bus.ErrOtherStore
	}
	return s, nil
}

// Connects implements bus.Bus.
func (b *Bus) Connects() uint64 { return b.connects() }

// Next implements bus.Bus. The server sends the message in its answer, so it makes no consumer.
func (b *Bus) Next(ctx context.Context, stream string, f bus.Filter, from uint64) (m bus.Message, err error) {
	err = b.insist(ctx, answerWithin, questions(bus.Escape(stream), "STREAM.INFO", "STREAM.MSG.GET"), func(ctx context.Context) error {
		s, err := b.stream(ctx, stream, f.Made, f.Seen)
		if err != nil {
			return err
		}
		for from = max(from, 1); ; from++ {
			raw, err := s.GetMsg(ctx, from, jetstream.WithGetMsgSubject(filter(stream, &f)))
			if err != nil {
				return err
			}
			from = raw.Sequence
			if m, err = event(raw.Subject, raw.Header, raw.Data); err == nil { // else it is none of ours: nobody can read it
				m.Seq, m.Time = raw.Sequence, raw.Time
				return nil
			}
		}
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) || codeOf(err) == jetstream.JSErrCodeMessageNotFound {
		err = bus.ErrNoEvent
	}
	return m, err
}

// Read implements bus.Bus.
func (b *Bus) Read(ctx context.Context, stream string, f bus.Filter, from, to uint64, take func(bus.Message) bool) error {
	r := reader{b: b, stream: stream, made: f.Made, seen: f.Seen, filter: filter(stream, &f), ahead: cmp.Or(f.Ahead, readAhead), next: max(from, 1), to: to, take: take}
	for {
		var done bool
		err := b.insist(ctx, forever, questions(bus.Escape(stream), "STREAM.INFO", "STREAM.MSG.GET", "CONSUMER.CREATE", "CONSUMER.MSG.NEXT"), func(ctx context.Context) (err error) {
			done, err = r.run(ctx)
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
	made           int64    // of the stream that it reads; 0 before it has found one
	seen           bus.Mark // the last one that it has read
	ahead          int
	next, to       uint64
	take           func(bus.Message) bool
}

// run reads by one consumer. done says that there is nothing more to do.
func (r *reader) run(ctx context.Context) (done bool, err error) {
	until, stop := r.untilLook(ctx)
	defer func() { stop() }()
	s, err := r.b.stream(ctx, r.stream, r.made, r.seen)
	if err == nil {
		r.made = s.CachedInfo().Created.UnixNano()
		err = bus.CheckSeen(ctx, r.b, r.stream, r.made, r.seen)
	}
	if err != nil {
		return false, err
	}
	last, idle := r.to, time.Minute
	if r.to > 0 {
		idle = look // the client leaves a consumer behind that it stops
		if last, err = r.last(ctx, s); err != nil || last < r.next {
			return err == nil, err
		}
	}
	c, err := r.b.jet().OrderedConsumer(ctx, bus.Escape(r.stream), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.filter}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.next, InactiveThreshold: idle, MaxResetAttempts: 3,
	})
	if err != nil {
		return false, err
	}
	most := max(readAheadBytes, int(r.b.conn().MaxPayload())+beside) // with less, a reader waits for ever before a larger event
	it, err := c.Messages(jetstream.PullMaxMessagesWithBytesLimit(r.ahead, most), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return false, err
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)() // else it might make a consumer anew for some time
	for {
		m, err := it.Next(jetstream.NextContext(until))
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil && until.Err() != nil && r.to > 0:
			return false, nil // what it waits for may have been dropped since
		case err != nil && until.Err() != nil:
			stop()
			until, stop = r.untilLook(ctx) // before the look: a connection that is made meanwhile has another one
			if err := r.check(ctx); err != nil {
				return false, err
			}
			continue
		case err != nil:
			return false, err
		}
		meta, err := m.Metadata()
		if err != nil {
			continue // it is none of ours
		}
		e, err := event(m.Subject(), m.Headers(), m.Data())
		if err != nil {
			continue // nobody can read it
		}
		if meta.Sequence.Consumer == 1 && r.seen.Time != 0 { // the client has made a consumer anew, after the number of the last one: is that event there?
			if err := r.check(ctx); err != nil {
				return false, err
			}
		}
		e.Seq, e.Time, e.Pending = meta.Sequence.Stream, meta.Timestamp, meta.NumPending
		if r.to > 0 && e.Seq > r.to {
			return true, nil
		}
		r.next, r.seen = e.Seq+1, bus.Mark{Seq: e.Seq, Time: e.Time.UnixNano()}
		if !r.take(e) || r.to > 0 && e.Seq >= last {
			return true, nil
		}
	}
}

// untilLook is a context that ends when it is time to look whether the stream is still the same: after a while, and with another connection.
func (r *reader) untilLook(ctx context.Context) (context.Context, context.CancelFunc) {
	until, cancel := context.WithTimeout(ctx, look)
	forget := context.AfterFunc(r.b.connection(), cancel)
	return until, func() { forget(); cancel() }
}

// check refuses a stream that is not the one that was read so far.
func (r *reader) check(ctx context.Context) error {
	if r.seen.Seq == 0 {
		_, err := r.b.stream(ctx, r.stream, r.made, r.seen)
		return err
	}
	return bus.CheckSeen(ctx, r.b, r.stream, r.made, r.seen)
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

// event is what a message of NATS says of its event, but for its number and time.
func event(subject string, h nats.Header, data []byte) (bus.Message, error) {
	parts := strings.Split(subject, ".")
	if len(parts) != 4 {
		return bus.Message{}, fmt.Errorf("subject %q is none of a stream of raysys", subject)
	}
	partition, err := strconv.Atoi(parts[2])
	if err != nil {
		return bus.Message{}, fmt.Errorf("subject %q has no partition", subject)
	}
	key, err := bus.Unescape(parts[3])
	if err != nil {
		return bus.Message{}, err
	}
	reason, _ := strconv.Unquote(h.Get(reasonHeader)) // "" has none
	return bus.Message{Key: key, Partition: partition, Data: data, Reason: reason, ID: h.Get(nats.MsgIdHdr)}, nil
}
