package remote

import (
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
)

// offerer is a process that knows whether it takes a message at once.
type offerer interface {
	// Offer hands a message over and returns true where that runs no code of the program and waits for nothing. Else it returns
	// false, and has done nothing. atOnce is takesAtOnce, for a process in front of an actor's own.
	Offer(pid *actor.PID, message any, system bool, atOnce func(*actor.ActorProcess) bool) bool
}

// offer is Offer for any process: of those that are no offerer only an actor with a usual mailbox takes messages at once.
func offer(p actor.Process, pid *actor.PID, message any, system bool) bool {
	switch p := p.(type) {
	case *actor.ActorProcess:
		if !takesAtOnce(p) {
			return false
		}
		if system {
			p.SendSystemMessage(pid, message)
		} else {
			p.SendUserMessage(pid, message)
		}
		return true
	case offerer:
		return p.Offer(pid, message, system, takesAtOnce)
	}
	return false
}

// usual is how proto.Actor's own unbounded mailbox looks. Its fields have no methods, so they are read by reflection; where another
// version of proto.Actor has no such fields, no mailbox is usual, and each message goes through a line.
var usual = func() (u struct {
	known                                bool
	mailbox, queue, dispatch, middleware int // the fields
	of, starts                           reflect.Type
	endless                              [2]reflect.Type // queues without a bound
},
) {
	process, of := reflect.TypeFor[actor.ActorProcess](), reflect.TypeOf(actor.Unbounded()())
	if of.Kind() != reflect.Pointer || of.Elem().Kind() != reflect.Struct {
		return u
	}
	field := func(t reflect.Type, name string, kind reflect.Kind) int {
		f, ok := t.FieldByName(name)
		if !ok || len(f.Index) != 1 || f.Type.Kind() != kind {
			u.known = false
			return 0
		}
		return f.Index[0]
	}
	u.known, u.of, u.starts = true, of, reflect.TypeOf(actor.NewDefaultDispatcher(1))
	u.mailbox = field(process, "mailbox", reflect.Interface)
	u.queue = field(of.Elem(), "userMailbox", reflect.Interface)
	u.dispatch = field(of.Elem(), "dispatcher", reflect.Interface)
	u.middleware = field(of.Elem(), "middlewares", reflect.Slice)
	if !u.known {
		return u
	}
	for i, of := range []actor.MailboxProducer{actor.Unbounded(), actor.UnboundedLockfree()} {
		if m := reflect.ValueOf(of()); m.Type() == u.of {
			u.endless[i] = m.Elem().Field(u.queue).Elem().Type()
		}
	}
	return u
}()

// takesAtOnce reports whether an actor's mailbox has no bound and no middleware, and its dispatcher starts a goroutine: then a
// message that is posted to it waits for nothing.
func takesAtOnce(p *actor.ActorProcess) bool {
	if !usual.known {
		return false
	}
	m := reflect.ValueOf(p).Elem().Field(usual.mailbox).Elem()
	if !m.IsValid() || m.Type() != usual.of {
		return false
	}
	m = m.Elem()
	dispatcher, queue := m.Field(usual.dispatch).Elem(), m.Field(usual.queue).Elem()
	if !dispatcher.IsValid() || dispatcher.Type() != usual.starts || !queue.IsValid() || m.Field(usual.middleware).Len() > 0 {
		return false
	}
	t := queue.Type()
	return t == usual.endless[0] || t == usual.endless[1]
}
