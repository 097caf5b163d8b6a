package protoactor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

var _ = protoactor.Kinds(
	cluster.NewKind("counter", actor.PropsFromProducer(func() actor.Actor { return &counter{} })),
	cluster.NewKind("note", actor.PropsFromProducer(func() actor.Actor { return &note{} })),
)

// tally is what a counter keeps.
type tally struct {
	N     int
	Names []string
}

// counter counts in its State what it is told, and saves once more when it stops.
type counter struct {
	state *protoactor.Saved[tally]
	left  bool
}

func (a *counter) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *cluster.ClusterInit:
		s, err := protoactor.State[tally](c)
		if err != nil {
			panic(err)
		}
		a.state = s
	case *actor.Stopping:
		if a.state.Value.N > 0 && a.left {
			a.state.Value.Names = append(a.state.Value.Names, "left")
			if err := a.state.Write(); err != nil {
				c.Logger().Error("not saved", "error", err)
			}
		}
	case *wrapperspb.StringValue:
		switch m.Value {
		case "clear":
			c.Respond(answer(a.state.Clear(), fmt.Sprint(a.state.Value.N, a.state.Exists())))
		case "leave":
			a.left = true
			c.Respond(wrapperspb.String("will"))
		case "poison":
			c.Respond(wrapperspb.String("will"))
			c.Poison(c.Self())
		case "panic":
			panic("a counter panics because its test asks for it")
		case "read":
			c.Respond(wrapperspb.String(fmt.Sprint(a.state.Value.N, a.state.Value.Names, a.state.Exists())))
		default:
			a.state.Value.N++
			a.state.Value.Names = append(a.state.Value.Names, m.Value)
			c.Respond(answer(a.state.Write(), fmt.Sprint(a.state.Value.N)))
		}
	}
}

func answer(err error, text string) *wrapperspb.StringValue {
	if err != nil {
		text = "error: " + err.Error()
	}
	return wrapperspb.String(text)
}

// note keeps a protobuf message.
type note struct {
	text *protoactor.Saved[wrapperspb.StringValue]
}

func (a *note) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.text, _ = protoactor.State[wrapperspb.StringValue](c)
	case *wrapperspb.StringValue:
		was := a.text.Value.Value
		a.text.Value.Value = m.Value
		c.Respond(answer(a.text.Write(), was))
	}
}

func tell(t *testing.T, c *cluster.Cluster, kind, id, what string, want string) {
	t.Helper()
	v, err := c.Request(id, kind, wrapperspb.String(what), cluster.WithTimeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if got := v.(*wrapperspb.StringValue).Value; got != want {
		t.Fatalf("%s to %s/%s: %q, want %q", what, kind, id, got, want)
	}
}

// TestState: what an actor has written is there for the next one, whether it stopped, panicked, was moved by a drain or died
// with its node.
func TestState(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	c := clusters(k)[0]
	tell(t, c, "counter", "a", "read", "0 [] false")
	tell(t, c, "counter", "a", "ann", "1")
	tell(t, c, "counter", "a", "bob", "2")
	tell(t, c, "counter", "a", "poison", "will")
	tell(t, c, "counter", "a", "read", "2 [ann bob] true")

	if _, err := c.Request("a", "counter", wrapperspb.String("panic"), cluster.WithTimeout(time.Millisecond)); !errors.Is(err, actor.ErrTimeout) {
		t.Fatal(err)
	}
	tell(t, c, "counter", "a", "read", "2 [ann bob] true")

	tell(t, c, "counter", "a", "leave", "will")
	at := hostOf(t, k, c, "counter", "a")
	k.Cluster().Drain(at)
	tell(t, c, "counter", "a", "read", "2 [ann bob left] true") // saved while its grain waited for it to stop

	at = hostOf(t, k, c, "counter", "a")
	k.Cluster().Kill(at)
	tell(t, c, "counter", "a", "read", "2 [ann bob left] true")
	tell(t, c, "counter", "a", "clear", "0 false")
	tell(t, c, "counter", "a", "poison", "will")
	tell(t, c, "counter", "a", "read", "0 [] false")
}

// hostOf is the number of the node on which an actor is.
func hostOf(t *testing.T, k *testkit.Kit, c *cluster.Cluster, kind, id string) int {
	t.Helper()
	pid := c.Get(id, kind)
	for i := 1; i <= k.Cluster().Size(); i++ {
		if n := k.Cluster().Node(i); n != nil && n.Actors().Address() == pid.Address {
			return i
		}
	}
	t.Fatal("no node has", pid)
	return 0
}

// TestStateOfMessage: a State may be a protobuf message.
func TestStateOfMessage(t *testing.T) {
	c := protoactor.Cluster(testkit.New(t).Context())
	tell(t, c, "note", "a", "first", "")
	tell(t, c, "note", "a", "second", "first")
}

// TestStateElsewhere: an actor that no kind made has no State.
func TestStateElsewhere(t *testing.T) {
	c := protoactor.Cluster(testkit.New(t).Context())
	said := make(chan error, 1)
	c.ActorSystem.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if _, ok := c.Message().(*actor.Started); ok {
			_, err := protoactor.State[tally](c)
			said <- err
		}
	}))
	if err := <-said; err == nil || !strings.Contains(err.Error(), "it is not the actor of a cluster kind") {
		t.Fatal(err)
	}
}

// TestStateIsFenced: of two activations, one of them on a node that was silent for too long and does not know it, only the other one
// writes. The silent node joins again, and has actors again.
func TestStateIsFenced(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	c := clusters(k)[0]
	tell(t, c, "counter", "a", "ann", "1")
	at := hostOf(t, k, c, "counter", "a")
	old := clusters(k)[at]
	pid, was := old.Get("a", "counter"), k.Cluster().Node(at)
	k.Cluster().Pause(at)
	f := old.ActorSystem.Root.RequestFuture(pid, wrapperspb.String("zombie"), time.Minute)
	tell(t, c, "counter", "a", "bob", "2") // on another node, once the cluster has given the silent one up
	k.Cluster().Resume(at)
	if v, err := f.Result(); err == nil && !strings.HasPrefix(v.(*wrapperspb.StringValue).Value, "error: ") {
		t.Fatal("stored by a node that had lost its lease:", v)
	}
	tell(t, c, "counter", "a", "read", "2 [ann bob] true")
	testkit.Eventually(t, 20*time.Second, "the node joins again", func() bool {
		n := k.Cluster().Node(at)
		return n != nil && n != was && n.Err() == nil
	})
	for i := 1; i <= 3; i++ {
		if i != at {
			k.Cluster().Drain(i)
		}
	}
	tell(t, clusters(k)[at], "counter", "a", "read", "2 [ann bob] true")
	if now := hostOf(t, k, c, "counter", "a"); now != at {
		t.Fatal("on", now, "not on", at)
	}
}

// TestAnswersMayBeOld: a node that was evicted and cannot reach the store does not know it. Its own program gets answers of its old actors;
// an answer for which the actor has written its State is none of them. The other nodes are answered by the next actor.
func TestAnswersMayBeOld(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3), testkit.TTL(2*time.Second))
	cs := clusters(k)
	tell(t, cs[0], "counter", "a", "x", "1")
	host := hostOf(t, k, cs[0], "counter", "a")
	tell(t, cs[host], "counter", "a", "read", "1 [x] true")
	k.Cluster().StoreDown(host)
	next := ""
	testkit.Eventually(t, patient, "another node has the actor", func() bool {
		pid := cs[0].Get("a", "counter")
		if pid != nil {
			next = pid.Address
		}
		return next != "" && next != cs[host].ActorSystem.Address()
	})
	tell(t, cs[0], "counter", "a", "y", "2")
	tell(t, cs[0], "counter", "a", "read", "2 [x y] true")
	tell(t, cs[host], "counter", "a", "read", "1 [x] true") // from memory
	v, err := cs[host].Request("a", "counter", wrapperspb.String("z"), cluster.WithTimeout(patient))
	if err != nil || !strings.HasPrefix(v.(*wrapperspb.StringValue).Value, "error: ") {
		t.Error("an actor of a node that was evicted has written its State:", v, err)
	}
	tell(t, cs[0], "counter", "a", "read", "2 [x y] true")
}
