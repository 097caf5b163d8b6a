package jetbus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys/stream/internal/bus"
)

// Config says where the servers are.
type Config struct {
	URL   string // of one server or, with commas between, of several
	Token string
	Creds string // a file of credentials, "" for none
	CA    string // a file of certificates that sign those of the servers, "" for the system's
	Name  string // of this client, for people who look at the server
}

// Bus is a connection to NATS.
type Bus struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	batch chan struct{} // one for each batch under way
}

// again is the pause before what failed for now is tried again, and answerWithin how long one attempt may take.
const (
	again        = 100 * time.Millisecond
	answerWithin = 2 * time.Second
)

// Open makes a Bus. It returns at once: calls wait until a server answers.
func Open(c Config) (*Bus, error) {
	opts := []nats.Option{
		nats.Name(c.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(again), nats.ReconnectJitter(again, again),
		nats.ReconnectBufSize(-1), // what cannot leave now fails, and is sent again here
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(3), nats.Timeout(answerWithin),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // calls have their errors; its own would print them
	}
	if c.Token != "" {
		opts = append(opts, nats.Token(c.Token))
	}
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		opts = append(opts, nats.RootCAs(c.CA))
	}
	nc, err := nats.Connect(c.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.URL, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.URL, err)
	}
	return &Bus{nc, js, make(chan struct{}, openBatches)}, nil
}

// Close implements bus.Bus.
func (b *Bus) Close() { b.nc.Close() }

// insist calls f until it works, or fails in a way that does not pass, or ctx ends.
func (b *Bus) insist(ctx context.Context, f func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, answerWithin)
		err := f(attempt)
		cancel()
		if err == nil || b.final(err) {
			return typed(err)
		}
		t := time.NewTimer(again)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w: NATS: %w", context.Cause(ctx), err)
		}
	}
}

// Codes of JetStream's errors that its client has no names for.
const (
	codeNoStorage  = 10047 // insufficient storage resources available
	codeNoSpace    = 10077 // the stream, or the account, has reached its size
	codeDuplicate  = 10201 // a message of a batch was stored before
	codeStoreError = 10041 // the store failed, such as a full disk
	codeNoBatches  = 10174 // the stream was made by a version that has none
	codeNoResource = 10023 // to a message: the server has no room; to a new stream: perhaps not yet enough servers
)

func codeOf(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// final reports whether an error stays: the server has answered, and would answer the same again.
func (b *Bus) final(err error) bool {
	var mismatch *bus.Mismatch
	if b.nc.IsClosed() || errors.As(err, &mismatch) {
		return true
	}
	switch codeOf(err) {
	case jetstream.JSErrCodeStreamNotFound, jetstream.JSErrCodeStreamNameInUse, jetstream.JSErrCodeStreamMessageExceedsMaximum, codeNoStorage, codeNoSpace, codeNoBatches,
		codeDuplicate, codeStoreError, jetstream.JSErrCodeMessageNotFound, jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return true
	}
	return errors.Is(err, bus.ErrFull) || errors.Is(err, bus.ErrOtherStore) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// typed gives an error the identity that package bus knows.
func typed(err error) error {
	switch code := codeOf(err); {
	case err == nil:
		return nil
	case code == jetstream.JSErrCodeStreamNotFound, errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %w", bus.ErrNoStream, err)
	case code == codeNoStorage, code == codeNoSpace, code == codeStoreError:
		return fmt.Errorf("%w: %w", bus.ErrFull, err)
	case code == jetstream.JSErrCodeStreamMessageExceedsMaximum, errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", bus.ErrTooLarge, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", bus.ErrClosed, err)
	}
	return err
}

// partitionsKey is the metadata of a stream that has the number of its partitions.
const partitionsKey = "raysys.partitions"

// Ensure implements bus.Bus.
func (b *Bus) Ensure(ctx context.Context, c bus.Config) error {
	return b.insist(ctx, func(ctx context.Context) error {
		if !b.nc.IsConnected() { // then the number of servers is unknown
			return nats.ErrDisconnected
		}
		name := escape(c.Name)
		cfg := jetstream.StreamConfig{
			Name: name, Description: "raysys " + c.Name, Subjects: []string{"raysys." + name + ".*.*"}, Storage: jetstream.FileStorage, MaxAge: c.Keep,
			Replicas: 1, AllowAtomicPublish: b.batches(), Duplicates: window(c.Keep), Metadata: map[string]string{partitionsKey: strconv.Itoa(c.Partitions)},
		}
		if c.Replicas > 1 && len(b.nc.Servers()) >= c.Replicas {
			cfg.Replicas = c.Replicas
		}
		_, err := b.js.CreateStream(ctx, cfg)
		if codeOf(err) != jetstream.JSErrCodeStreamNameInUse {
			return err
		}
		s, err := b.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		have := s.CachedInfo().Config
		n, _ := strconv.Atoi(have.Metadata[partitionsKey])
		if n != c.Partitions || have.MaxAge != c.Keep {
			return &bus.Mismatch{Have: bus.Config{Name: c.Name, Partitions: n, Keep: have.MaxAge}, Want: c}
		}
		return nil
	})
}

// window is for how long the server knows IDs.
func window(keep time.Duration) time.Duration {
	if keep > 0 {
		return min(keep, 2*time.Minute)
	}
	return 2 * time.Minute
}

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, stream string, list []bus.Message) (seq uint64, err error) {
	for len(list) > 0 {
		n := 1
		if len(list) >= minBatch && b.batches() {
			n = min(len(list), maxBatch)
			seq, err = b.publishBatch(ctx, stream, list[:n])
			if codeOf(err) == codeNoBatches {
				n = 1
				seq, err = b.publish(ctx, stream, list[0])
			}
		} else {
			seq, err = b.publish(ctx, stream, list[0])
		}
		if err != nil {
			return seq, err
		}
		list = list[n:]
	}
	return seq, nil
}

// The headers of messages.
const reasonHeader = "Raysys-Reason"

// outgoing is the message for an event. It has an ID in any case.
func outgoing(stream string, m bus.Message) *nats.Msg {
	msg := &nats.Msg{Subject: subject(stream, m.Partition, m.Key), Data: m.Data, Header: nats.Header{}}
	if m.ID == "" {
		m.ID = nats.NewInbox()
	}
	msg.Header.Set(jetstream.MsgIDHeader, m.ID)
	if m.Reason != "" {
		msg.Header.Set(reasonHeader, strconv.QuoteToASCII(m.Reason)) // a header is one line
	}
	return msg
}

func (b *Bus) publish(ctx context.Context, stream string, m bus.Message) (seq uint64, err error) {
	msg := outgoing(stream, m)
	err = b.insist(ctx, func(ctx context.Context) error {
		ack, err := b.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		if err != nil {
			return b.refused(ctx, stream, err)
		}
		seq = ack.Sequence
		return nil
	})
	return seq, err
}

// refused is err, or where nobody took a message because there is no such stream, that. Else it has no leader for now. A server
// that has no room for a message says so.
func (b *Bus) refused(ctx context.Context, stream string, err error) error {
	if codeOf(err) == codeNoResource {
		return fmt.Errorf("%w: %w", bus.ErrFull, err)
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		if _, missing := b.js.Stream(ctx, escape(stream)); errors.Is(missing, jetstream.ErrStreamNotFound) {
			return missing
		}
	}
	return err
}

func subject(stream string, partition int, key string) string {
	return "raysys." + escape(stream) + "." + strconv.Itoa(partition) + "." + escape(key)
}

// Info implements bus.Bus.
func (b *Bus) Info(ctx context.Context, stream string) (i bus.Info, err error) {
	err = b.insist(ctx, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, escape(stream))
		if err == nil {
			state := s.CachedInfo().State
			i = bus.Info{First: state.FirstSeq, Last: state.LastSeq, Count: state.Msgs, Made: s.CachedInfo().Created.UnixNano()}
		}
		return err
	})
	return i, err
}
