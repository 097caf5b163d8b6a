package protoactor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

// leaver ends its life when it is told how, once the test lets it. It answers all else.
type leaver struct{}

var atEnd, endNow = make(chan bool), make(chan bool)

func (leaver) Receive(c actor.Context) {
	m, ok := c.Message().(*wrapperspb.StringValue)
	if !ok {
		return
	}
	if m.Value == "hi" {
		c.Respond(m)
		return
	}
	atEnd <- true
	<-endNow
	if m.Value != "panic" {
		c.Stop(c.Self())
	}
	if m.Value != "stop" {
		panic("it panics because its test wants that")
	}
}

func newLeaver() actor.Actor { return leaver{} }

var _ = protoactor.Kinds(
	cluster.NewKind("leaver", actor.PropsFromProducer(newLeaver)),
	cluster.NewKind("bounded leaver", actor.PropsFromProducer(newLeaver, actor.WithMailbox(actor.Bounded(2)))),
	cluster.NewKind("leaver that is stopped", actor.PropsFromProducer(newLeaver,
		actor.WithGuardian(actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })))),
)

// TestRequestsBehindAStop: requests that wait in the mailbox of an actor that stops are given back, whoever stops it: they are answered
// by the next one, and with NoRetry they fail at once.
func TestRequestsBehindAStop(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	for _, of := range []struct{ kind, how string }{
		{"leaver", "stop"}, {"leaver", "stop and panic"}, {"bounded leaver", "stop"}, {"leaver that is stopped", "panic"},
	} {
		for where, c := range map[string]*cluster.Cluster{"here": clusters(k)[1], "elsewhere": clusters(k)[0]} {
			id := of.how + where
			c.ActorSystem.Root.Send(c.Get(id, of.kind), wrapperspb.String(of.how))
			<-atEnd
			type answer struct {
				value any
				err   error
			}
			answers := make(chan answer, 4)
			var futures []*actor.Future
			for i := range cap(answers) {
				opts := []cluster.GrainCallOption{cluster.WithTimeout(patient)}
				if i == 0 {
					opts = append(opts, protoactor.NoRetry())
				}
				if of.kind == "bounded leaver" && where == "here" { // it blocks who sends it more than it has room for
					go func() {
						v, err := c.Request(id, of.kind, wrapperspb.String("hi"), opts...)
						answers <- answer{v, err}
					}()
					continue
				}
				f, err := c.RequestFuture(id, of.kind, wrapperspb.String("hi"), opts...)
				if err != nil {
					t.Fatal(err)
				}
				futures = append(futures, f)
			}
			begin := time.Now()
			endNow <- true
			for _, f := range futures {
				v, err := f.Result()
				answers <- answer{v, err}
			}
			failed := 0
			for range cap(answers) {
				a := <-answers
				if errors.Is(a.err, actor.ErrDeadLetter) {
					failed++
				} else if a.err != nil || a.value.(*wrapperspb.StringValue).Value != "hi" {
					t.Error(of, where, a)
				}
			}
			if failed > 1 || failed == 0 && futures != nil {
				t.Errorf("%v %s: %d requests failed, want that with NoRetry, after %v", of, where, failed, time.Since(begin))
			}
		}
	}
}

// TestFutureBehindAStop: a request to a PID that waits in the mailbox of an actor that stops is a dead letter.
func TestFutureBehindAStop(t *testing.T) {
	c := clusters(testkit.New(t, testkit.Nodes(1)))[0]
	pid := c.Get("a", "leaver")
	c.ActorSystem.Root.Send(pid, wrapperspb.String("stop"))
	<-atEnd
	f := c.ActorSystem.Root.RequestFuture(pid, wrapperspb.String("hi"), patient)
	_, err := c.Request("b", "leaver", wrapperspb.String("hi"), cluster.WithTimeout(patient)) // behind it on the way
	if err != nil {
		t.Fatal(err)
	}
	endNow <- true
	if _, err := f.Result(); !errors.Is(err, actor.ErrDeadLetter) || errors.Is(err, raysys.ErrOverloaded) {
		t.Error(err)
	}
}
