package jetbus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys/internal/natskey"
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

// Bus stores streams in NATS.
type Bus struct {
	link
	batch chan struct{} // one for each batch under way
	made  sync.Map      // from the name of a stream to when Ensure last found it there
}

// again is the pause before what failed for now is tried again, and answerWithin how long one attempt may take. Within
// settleWithin of its making each server knows of a stream: the leader, which alone says that a stream is not there,
// may be the last to hear of it.
const (
	again        = 100 * time.Millisecond
	answerWithin = 2 * time.Second
	settleWithin = 5 * time.Second
)

// Open makes a Bus. It returns at once: calls wait until a server answers.
func Open(c Config) (*Bus, error) {
	b := &Bus{batch: make(chan struct{}, openBatches)}
	if err := b.open(c); err != nil {
		return nil, err
	}
	return b, nil
}

// insist calls f until it works, or fails in a way that does not pass, or ctx ends. Each attempt may take so long, and asks by these subjects.
func (b *Bus) insist(ctx context.Context, within time.Duration, subjects []string, f func(context.Context) error) error {
	for {
		err := b.runAttempt(ctx, within, subjects, f)
		switch {
		case err == nil:
			return nil
		case b.closed():
			return bus.ErrClosed
		case errors.Is(err, nats.ErrMaxPayload):
			return fmt.Errorf("%w: %w: max_payload of the server is %d bytes, with the headers", bus.ErrTooLarge, err, b.conn().MaxPayload())
		case final(err):
			return typed(err)
		}
		t := time.NewTimer(again)
		select {
		case <-t.C:
		case <-b.done:
			t.Stop()
			return bus.ErrClosed
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w: NATS at %s: %w", context.Cause(ctx), natskey.Addresses(b.url), b.why(err))
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
	codeAccount    = 10002 // the account has what it may have
	codeNoStreams  = 10027 // the account has as many streams as it may
	codeNoPeers    = 10005 // there are fewer servers for a stream than it should have
	codeMembers    = 10202 // a server is coming or going
	codeNoCluster  = 10074 // the server is alone
)

// full are the codes of a server, or of an account there, that has no room.
var full = []jetstream.ErrorCode{codeNoStorage, codeNoSpace, codeStoreError, codeAccount, codeNoStreams}

// refusing reports whether the server would answer to a new stream the same again: the question is at fault, or the account.
func refusing(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code >= 400 && api.Code < 500 && api.Code != http.StatusTooManyRequests && api.ErrorCode != codeNoPeers &&
		api.ErrorCode != codeMembers && !slices.Contains(full, api.ErrorCode)
}

func codeOf(err error) jetstream.ErrorCode {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// final reports whether an error stays: the server has answered, and would answer the same again.
func final(err error) bool {
	var mismatch *bus.Mismatch
	if errors.Is(err, bus.ErrRefused) || errors.As(err, &mismatch) {
		return true
	}
	code := codeOf(err)
	switch code {
	case jetstream.JSErrCodeStreamNotFound, jetstream.JSErrCodeStreamNameInUse, jetstream.JSErrCodeStreamMessageExceedsMaximum, codeNoBatches,
		codeDuplicate, jetstream.JSErrCodeMessageNotFound, jetstream.JSErrCodeJetStreamNotEnabled, jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return true
	}
	return slices.Contains(full, code) || errors.Is(err, bus.ErrFull) || errors.Is(err, bus.ErrOtherStore) || errors.Is(err, nats.ErrBadSubject) || errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
}

// typed gives an error the identity that package bus knows.
func typed(err error) error {
	switch code := codeOf(err); {
	case err == nil:
		return nil
	case code == jetstream.JSErrCodeStreamNotFound, errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("%w: %w", bus.ErrNoStream, err)
	case slices.Contains(full, code):
		return fmt.Errorf("%w: %w", bus.ErrFull, err)
	case code == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("%w: %w", bus.ErrTooLarge, err)
	case code == jetstream.JSErrCodeJetStreamNotEnabled, code == jetstream.JSErrCodeJetStreamNotEnabledForAccount:
		return fmt.Errorf("%w: %w", bus.ErrRefused, err)
	}
	return err
}

// partitionsKey is the metadata of a stream that has the number of its partitions.
const partitionsKey = "raysys.partitions"

// Ensure implements bus.Bus.
func (b *Bus) Ensure(ctx context.Context, c bus.Config) error {
	if err := c.Check(); err != nil {
		return err
	}
	name := bus.Escape(c.Name)
	subjects := questions(name, "STREAM.CREATE", "STREAM.INFO")
	err := b.insist(ctx, answerWithin, subjects, func(ctx context.Context) error {
		if !b.conn().IsConnected() { // then the version of the server is unknown
			return nats.ErrDisconnected
		}
		cfg := jetstream.StreamConfig{
			Name: name, Description: "raysys " + c.Name, Subjects: []string{"raysys." + name + ".*.*"}, Storage: jetstream.FileStorage, MaxAge: c.Keep,
			Replicas: max(c.Replicas, 1), AllowAtomicPublish: b.batches(), Duplicates: c.Window(), Metadata: map[string]string{partitionsKey: strconv.Itoa(c.Partitions)},
		}
		_, err := b.jet().CreateStream(ctx, cfg)
		if code := codeOf(err); cfg.Replicas > 1 && (code == codeNoCluster || code == codeNoPeers || code == codeNoResource) {
			cfg.Replicas = 1 // Replicate asks for more later
			_, err = b.jet().CreateStream(ctx, cfg)
		}
		switch code := codeOf(err); {
		case code == jetstream.JSErrCodeStreamNameInUse:
		case refusing(err):
			return fmt.Errorf("%w: %w", bus.ErrRefused, err)
		default:
			return err
		}
		s, err := b.jet().Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) { // another is making it: servers of a cluster give its name away before they have it
			return fmt.Errorf("stream %s is being made by another: %v", c.Name, err)
		} else if err != nil {
			return err
		}
		have := s.CachedInfo().Config
		n, _ := strconv.Atoi(have.Metadata[partitionsKey])
		if n != c.Partitions || have.MaxAge != c.Keep {
			return &bus.Mismatch{Have: bus.Config{Name: c.Name, Partitions: n, Keep: have.MaxAge}, Want: c}
		}
		return nil
	})
	if err == nil {
		b.made.Store(c.Name, time.Now())
	}
	return err
}

// find looks for a stream. That it is not there passes where Ensure has just seen it.
func (b *Bus) find(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := b.jet().Stream(ctx, bus.Escape(name))
	return s, b.missing(name, err)
}

// missing is the error of a question about a stream. It is one that passes where a stream that was just made is said
// not to be there.
func (b *Bus) missing(name string, err error) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || codeOf(err) == jetstream.JSErrCodeStreamNotFound {
		if at, ok := b.made.Load(name); ok && time.Since(at.(time.Time)) < settleWithin {
			return fmt.Errorf("stream %s was just made, and not each server knows of it yet: %v", name, err)
		}
	}
	return err
}

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, stream string, list []bus.Message) (seq uint64, err error) {
	if err := bus.Check(list); err != nil {
		return 0, err
	}
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
	err = b.insist(ctx, answerWithin, []string{msg.Subject}, func(ctx context.Context) error {
		ack, err := b.jet().PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
		if err != nil {
			return b.refused(ctx, stream, err)
		}
		seq = ack.Sequence
		return nil
	})
	return seq, err
}

// refused is err, or where nobody took a message because there is no such stream, or no JetStream, that. Else it has no leader for now. A server
// that has no room for a message says so.
func (b *Bus) refused(ctx context.Context, stream string, err error) error {
	if codeOf(err) == codeNoResource {
		return fmt.Errorf("%w: %w", bus.ErrFull, err)
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		if _, missing := b.find(ctx, stream); missing != nil && final(missing) {
			return missing
		}
	}
	return err
}

func subject(stream string, partition int, key string) string {
	return "raysys." + bus.Escape(stream) + "." + strconv.Itoa(partition) + "." + bus.Escape(key)
}

// Info implements bus.Bus.
func (b *Bus) Info(ctx context.Context, stream string) (i bus.Info, err error) {
	err = b.insist(ctx, answerWithin, questions(bus.Escape(stream), "STREAM.INFO"), func(ctx context.Context) error {
		s, err := b.find(ctx, stream)
		if err == nil {
			state := s.CachedInfo().State
			i = bus.Info{First: state.FirstSeq, Last: state.LastSeq, Count: state.Msgs, Made: s.CachedInfo().Created.UnixNano()}
		}
		return err
	})
	return i, err
}
