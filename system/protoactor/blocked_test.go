package protoactor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

// blocker waits for the test at each string that it is told, and answers it. Numbers it keeps, as a carrier does.
type blocker struct{ carrier }

var goOn = make(chan bool)

func (a *blocker) Receive(c actor.Context) {
	if m, ok := c.Message().(*wrapperspb.StringValue); ok {
		<-goOn
		c.Respond(m)
		return
	}
	a.carrier.Receive(c)
}

// posted is a middleware of mailboxes that blocks who posts a user's message.
type posted struct{}

func (posted) MailboxStarted()     {}
func (posted) MessageReceived(any) {}
func (posted) MailboxEmpty()       {}
func (posted) MessagePosted(message any) {
	if _, ok := actor.UnwrapEnvelopeMessage(message).(*wrapperspb.Int32Value); ok {
		<-goOn
	}
}

func newBlocker() actor.Actor { return &blocker{} }

var _ = protoactor.Kinds(
	cluster.NewKind("bounded", actor.PropsFromProducer(newBlocker, actor.WithMailbox(actor.Bounded(2)))),
	cluster.NewKind("synchronized", actor.PropsFromProducer(newBlocker, actor.WithDispatcher(actor.NewSynchronizedDispatcher(300)))),
	cluster.NewKind("posted", actor.PropsFromProducer(newBlocker, actor.WithMailbox(actor.Unbounded(posted{})))),
)

// adder is a grain beside the actors.
type adder struct{ n int }

func (a *adder) Add(_ context.Context, n int) (int, error) {
	a.n += n
	return a.n, nil
}

var (
	adders = grains.Define[adder]("adder")
	add    = grains.Method(adders, "add", (*adder).Add)
)

// answersBeside fails the test unless an actor and a grain of the other node answer.
func answersBeside(t *testing.T, k *testkit.Kit, c *cluster.Cluster, what string) {
	t.Helper()
	if _, err := c.Request("beside", "echo", wrapperspb.String("hi"), cluster.WithTimeout(patient)); err != nil {
		t.Fatal(what, "an actor beside it:", err)
	}
	if _, err := add.Call(k.Context(), adders.Get("beside"), 1).Get(k.Context()); err != nil {
		t.Fatal(what, "a grain beside it:", err)
	}
}

// TestActorBlocksNoOther: while an actor does not take messages of another node, others of its node answer that one; it gets what waits
// for it in the order in which it was sent.
func TestActorBlocksNoOther(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	c := clusters(k)[0]
	for _, kind := range []string{"bounded", "synchronized"} {
		var futures []*actor.Future
		for i := range 10 {
			f, err := c.RequestFuture("a", kind, wrapperspb.String(fmt.Sprint(i)), cluster.WithTimeout(patient), protoactor.NoRetry())
			if err != nil {
				t.Fatal(err)
			}
			futures = append(futures, f)
		}
		answersBeside(t, k, c, kind)
		for i, f := range futures {
			goOn <- true
			if v, err := f.Result(); err != nil || v.(*wrapperspb.StringValue).Value != fmt.Sprint(i) {
				t.Fatal(kind, i, v, err)
			}
		}
	}
}

// TestCodeThatBlocksNoReader: a mailbox's middleware, a subscriber of dead letters, and the actor that a future is piped to, block no
// other message of the node.
func TestCodeThatBlocksNoReader(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(1))
	c, there := clusters(k)[0], clusters(k)[1]
	answersBeside(t, k, c, "before,")
	c.ActorSystem.Root.Send(c.Get("a", "posted"), wrapperspb.Int32(1))
	answersBeside(t, k, c, "a middleware:")
	goOn <- true

	subscription := there.ActorSystem.EventStream.Subscribe(func(e any) {
		if d, ok := e.(*actor.DeadLetterEvent); ok && d.PID.Id == "nobody" {
			<-goOn
		}
	})
	f := c.ActorSystem.Root.RequestFuture(actor.NewPID(there.ActorSystem.Address(), "nobody"), wrapperspb.String("hi"), patient)
	answersBeside(t, k, c, "a subscriber of dead letters:")
	goOn <- true
	if _, err := f.Result(); !errors.Is(err, actor.ErrDeadLetter) {
		t.Error(err)
	}
	there.ActorSystem.EventStream.Unsubscribe(subscription)

	full := c.ActorSystem.Root.Spawn(actor.PropsFromProducer(newBlocker, actor.WithDispatcher(actor.NewSynchronizedDispatcher(300))))
	f = c.ActorSystem.Root.RequestFuture(c.Get("piped", "bounded"), wrapperspb.String("piped"), patient)
	f.PipeTo(full) // who pipes a future that has its answer sends it
	goOn <- true
	answersBeside(t, k, c, "a future that is piped:")
	goOn <- true
}

// TestOverloadedActor: what waits for an actor that takes nothing has a bound in messages, and in bytes. Beyond it a requester hears so
// at once. What waits comes in its order, and then others come.
func TestOverloadedActor(t *testing.T) {
	for what, of := range map[string]struct{ messages, size int }{"messages": {1<<15 + 16, 4}, "bytes": {40, mib - kib}} {
		t.Run(what, func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(1), testkit.TTL(time.Minute))
			c := clusters(k)[0]
			pid := c.Get("a", "bounded")
			c.ActorSystem.Root.Send(pid, wrapperspb.String("wait"))
			for n := range of.messages {
				if n*of.size%(4*mib) < of.size { // the sender's own queue has a bound, too
					answersBeside(t, k, c, what)
				}
				c.ActorSystem.Root.Send(pid, numbered(n, of.size))
			}
			_, err := c.Request("a", "bounded", numbered(1<<20, 4), cluster.WithTimeout(patient))
			if !errors.Is(err, raysys.ErrOverloaded) || errors.Is(err, actor.ErrTimeout) || errors.Is(err, raysys.ErrOutcomeUnknown) {
				t.Error("a request:", err)
			}
			if _, err := c.ActorSystem.Root.RequestFuture(pid, numbered(1<<20, 4), patient).Result(); !errors.Is(err, actor.ErrDeadLetter) {
				t.Error("a future, which knows no other error:", err)
			}
			answersBeside(t, k, c, what)
			goOn <- true
			var got []int
			testkit.Eventually(t, patient, "the actor takes messages again", func() bool {
				v, err := c.Request("a", "bounded", &emptypb.Empty{}, cluster.WithTimeout(patient))
				if err != nil {
					return false
				}
				got = nil
				for _, n := range v.(*structpb.ListValue).Values {
					got = append(got, int(n.GetNumberValue()))
				}
				return true
			})
			for i, n := range got {
				if n != i {
					t.Fatalf("message %d came as number %d", n, i)
				}
			}
			if len(got) < of.messages/3 || len(got) >= of.messages {
				t.Errorf("%d of %d messages waited", len(got), of.messages)
			}
		})
	}
}
