package remote

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// idle is a middleware of mailboxes, and a mailbox of a program's own.
type idle struct{ actor.Mailbox }

func (idle) MailboxStarted()     {}
func (idle) MessagePosted(any)   {}
func (idle) MessageReceived(any) {}
func (idle) MailboxEmpty()       {}

// mailboxes are those of proto.Actor, and whether a message that is posted to such an actor waits for nothing.
var mailboxes = map[string]struct {
	opts   []actor.PropsOption
	atOnce bool
}{
	"usual":                    {nil, true},
	"unbounded":                {[]actor.PropsOption{actor.WithMailbox(actor.Unbounded())}, true},
	"without locks":            {[]actor.PropsOption{actor.WithMailbox(actor.UnboundedLockfree())}, true},
	"a dispatcher with a rate": {[]actor.PropsOption{actor.WithDispatcher(actor.NewDefaultDispatcher(7))}, true},
	"bounded":                  {[]actor.PropsOption{actor.WithMailbox(actor.Bounded(2))}, false},
	"bounded, dropping":        {[]actor.PropsOption{actor.WithMailbox(actor.BoundedDropping(2))}, false},
	"with priorities":          {[]actor.PropsOption{actor.WithMailbox(actor.UnboundedPriority())}, false},
	"with a middleware":        {[]actor.PropsOption{actor.WithMailbox(actor.Unbounded(idle{}))}, false},
	"synchronized":             {[]actor.PropsOption{actor.WithDispatcher(actor.NewSynchronizedDispatcher(1))}, false},
	"of the program's own":     {[]actor.PropsOption{actor.WithMailbox(func() actor.Mailbox { return idle{actor.Unbounded()()} })}, false},
}

// TestTakesAtOnce: only an actor whose mailbox runs no code of the program, and has no bound, gets messages from the goroutine that
// reads a connection. The usual mailbox is such a one.
func TestTakesAtOnce(t *testing.T) {
	s := actor.NewActorSystem()
	defer s.Shutdown()
	for what, of := range mailboxes {
		pid := s.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}, of.opts...))
		p, _ := s.ProcessRegistry.GetLocal(pid.Id)
		if got := takesAtOnce(p.(*actor.ActorProcess)); got != of.atOnce {
			t.Errorf("%s: %v, want %v", what, got, of.atOnce)
		}
		s.Root.Stop(pid)
	}
}

func BenchmarkTakesAtOnce(b *testing.B) {
	s := actor.NewActorSystem()
	defer s.Shutdown()
	p, _ := s.ProcessRegistry.GetLocal(s.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {})).Id)
	for b.Loop() {
		takesAtOnce(p.(*actor.ActorProcess))
	}
}
