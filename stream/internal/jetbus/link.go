package jetbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys/internal/natskey"
	"github.com/raysys/raysys/stream/internal/bus"
)

// link is the connection to the servers. The client of NATS goes on by itself when a server goes or refuses it. Where it ends for good, as after an answer that
// it does not know, the link makes another connection.
type link struct {
	url  string
	opts []nats.Option
	done chan struct{} // closed by Close
	ends sync.WaitGroup

	mu       sync.Mutex // guards the rest; the client is not called under it, since it may hold its own lock over a write
	nc       *nats.Conn
	js       jetstream.JetStream
	letIn    bool   // a server has let this client in
	made     uint64 // connections so far
	era      context.Context
	endEra   context.CancelFunc // of era, at the next connection
	said     error              // why there was no connection last
	deaf     error              // why no answer reaches this connection; nil where they do
	attempts map[*attempt]struct{}
}

// attempt is a question to a server that is under way.
type attempt struct {
	subjects []string // that it publishes to; a question's may go on behind
	cancel   context.CancelFunc
	denied   error // the right that is missing, by the server
}

// questions are the subjects of JetStream's about a stream.
func questions(name string, verbs ...string) (list []string) {
	for _, v := range verbs {
		list = append(list, "$JS.API."+v+"."+name)
	}
	return list
}

func (a *attempt) asks(subject string) bool {
	return slices.ContainsFunc(a.subjects, func(s string) bool { return subject == s || strings.HasPrefix(subject, s+".") })
}

func (l *link) open(c Config) error {
	if err := natskey.Check(c.URL); err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	l.url, l.done, l.attempts = c.URL, make(chan struct{}), map[*attempt]struct{}{}
	l.era, l.endEra = context.WithCancel(context.Background())
	l.opts = []nats.Option{
		nats.Name(c.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(again), nats.ReconnectJitter(again, again),
		nats.ReconnectBufSize(-1), // what cannot leave now fails, and is sent again here
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(3), nats.Timeout(answerWithin),
		nats.ConnectHandler(l.connected), nats.ReconnectHandler(l.connected),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { l.hear(err) }), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.hear(err) }),
		nats.ClosedHandler(l.reopen),
	}
	if c.Token != "" {
		l.opts = append(l.opts, nats.Token(c.Token))
	}
	if c.Creds != "" {
		l.opts = append(l.opts, nats.UserCredentials(c.Creds))
	}
	if c.CA != "" {
		l.opts = append(l.opts, nats.RootCAs(c.CA))
	}
	return l.connect()
}

// connect makes a connection. Its error has no URL, which may have a password in it.
func (l *link) connect() error {
	nc, err := nats.Connect(l.url, l.opts...)
	if err != nil {
		return fmt.Errorf("connect to NATS at %s: %w", natskey.Addresses(l.url), err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return err
	}
	l.mu.Lock()
	l.nc, l.js = nc, js
	closed := l.closed()
	l.mu.Unlock()
	if closed {
		nc.Close()
	}
	return nil
}

// reopen follows the end of a connection.
func (l *link) reopen(nc *nats.Conn) {
	said := nc.LastError()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed() {
		return
	}
	l.said = said
	l.ends.Go(func() {
		for {
			select {
			case <-time.After(again):
			case <-l.done:
				return
			}
			err := l.connect()
			if err == nil {
				return
			}
			l.hear(err)
		}
	})
}

func (l *link) connected(*nats.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letIn, l.said, l.deaf = true, nil, nil
	l.made++
	l.endEra()
	l.era, l.endEra = context.WithCancel(context.Background())
}

// connection is a context that ends with the next connection, whose server may have another store.
func (l *link) connection() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.era
}

// connects counts the connections so far.
func (l *link) connects() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.made
}

// hear takes note of what a server says outside its answers, and of connections that fail.
func (l *link) hear(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, nats.ErrPermissionViolation) {
		l.said = err
		return
	}
	_, subject, _ := strings.Cut(err.Error(), `"`)
	subject, _, _ = strings.Cut(subject, `"`)
	deaf := strings.HasPrefix(subject, nats.InboxPrefix)
	if deaf {
		l.deaf = err
	}
	for a := range l.attempts {
		if deaf || a.asks(subject) {
			a.denied = err
			a.cancel()
		}
	}
}

// forever is an attempt without a limit. Its context has no deadline, so the client gives up each question after 5 s.
const forever time.Duration = 0

func limited(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if within == forever {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, within)
}

// runAttempt runs one attempt. It returns an error that matches bus.ErrRefused where the server does not let this client in, or denies what it asks.
func (l *link) runAttempt(ctx context.Context, within time.Duration, subjects []string, f func(context.Context) error) error {
	ctx, cancel := limited(ctx, within)
	defer cancel()
	a := &attempt{subjects: subjects, cancel: cancel}
	l.mu.Lock()
	denied := l.deaf
	l.attempts[a] = struct{}{}
	l.mu.Unlock()
	err := denied
	if denied == nil {
		err = f(ctx)
	}
	l.mu.Lock()
	delete(l.attempts, a)
	if denied == nil {
		denied = a.denied
	}
	letIn := l.letIn
	l.mu.Unlock()
	if err == nil {
		return nil
	}
	if denied != nil {
		return fmt.Errorf("%w: %w: give the user of this program that right", bus.ErrRefused, denied)
	}
	if letIn {
		return err
	}
	if said := l.trouble(); said != nil && slices.ContainsFunc(shut, func(e error) bool { return errors.Is(said, e) }) {
		return fmt.Errorf("%w: %s does not let this program in: %w: look at its user, password, token or credentials", bus.ErrRefused, natskey.Addresses(l.url), said)
	}
	return err
}

// shut are the answers of a server that does not let a client in.
var shut = []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired}

// trouble is why there is no connection, by what the servers said last; nil when there is one, or it is not known.
func (l *link) trouble() error {
	l.mu.Lock()
	nc, said := l.nc, l.said
	l.mu.Unlock()
	if nc.IsConnected() {
		return nil
	}
	if err := nc.LastError(); err != nil && !nc.IsClosed() {
		return err
	}
	return said
}

// why is err, or what the servers said where there is no connection.
func (l *link) why(err error) error {
	if said := l.trouble(); said != nil {
		return said
	}
	return err
}

// conn is the connection of now.
func (l *link) conn() *nats.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nc
}

// jet is JetStream over the connection of now.
func (l *link) jet() jetstream.JetStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.js
}

func (l *link) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Close implements bus.Bus.
func (l *link) Close() {
	l.mu.Lock()
	if !l.closed() {
		close(l.done)
	}
	l.mu.Unlock()
	l.conn().Close()
	l.ends.Wait()
}
