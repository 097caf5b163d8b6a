package protoactor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/protobuf/protoc-gen-go-grain/test/hello"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

// The kinds of the tests: a generated grain, one of plain Props, and one that needs a device.
var _ = protoactor.Kinds(
	hello.NewHelloKind(func() hello.Hello { return &helloGrain{} }, 0),
	cluster.NewKind("echo", actor.PropsFromProducer(func() actor.Actor { return &echo{} })),
	protoactor.Kind(cluster.NewKind("trainer", actor.PropsFromProducer(func() actor.Actor { return &echo{} })), grains.Holds(raysys.GPU(1))),
)

// helloGrain is the grain of proto.Actor's example: what protoc-gen-go-grain generates calls it.
type helloGrain struct{ calls int }

func (*helloGrain) Init(cluster.GrainContext)           {}
func (*helloGrain) Terminate(cluster.GrainContext)      {}
func (*helloGrain) ReceiveDefault(cluster.GrainContext) {}

func (h *helloGrain) SayHello(_ *emptypb.Empty, c cluster.GrainContext) (*hello.SayHelloResponse, error) {
	h.calls++
	if c.Identity() == "nobody" {
		return nil, cluster.NewGrainErrorResponse("NOBODY", "there is nobody")
	}
	return &hello.SayHelloResponse{Message: fmt.Sprintf("hello from %s, call %d", c.Identity(), h.calls)}, nil
}

// echo answers with its address and the number of messages it has had.
type echo struct{ n int }

func (e *echo) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *cluster.ClusterInit:
		if m.Identity == nil || m.Cluster != cluster.GetCluster(c.ActorSystem()) {
			panic("bad ClusterInit")
		}
	case *wrapperspb.StringValue:
		e.n++
		switch m.Value {
		case "stop":
			c.Stop(c.Self())
		case "poison":
			c.Poison(c.Self())
		}
		c.Respond(wrapperspb.String(fmt.Sprintf("%s %s %d", m.Value, c.Self().Address, e.n)))
	}
}

// said is an answer of echo.
type said struct {
	what, at string
	n        int
}

func ask(t *testing.T, c *cluster.Cluster, kind, id, what string, opts ...cluster.GrainCallOption) (s said) {
	t.Helper()
	v, err := c.Request(id, kind, wrapperspb.String(what), opts...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(v.(*wrapperspb.StringValue).Value, &s.what, &s.at, &s.n); err != nil {
		t.Fatal(err)
	}
	return s
}

// clusters are the cluster.Cluster of the test's own node and of n1, n2, ..., nil for one that is down.
func clusters(k *testkit.Kit) (list []*cluster.Cluster) {
	for i := range k.Cluster().Size() + 1 {
		var c *cluster.Cluster
		if n := k.Cluster().Node(i); n != nil && n.Err() == nil {
			c = protoactor.Cluster(n.Context(k.T().Context()))
		}
		list = append(list, c)
	}
	return list
}

// TestGeneratedGrain: a client that protoc-gen-go-grain made calls the grain from every node, and there is one.
func TestGeneratedGrain(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	for i, c := range clusters(k) {
		got, err := hello.GetHelloGrainClient(c, "alice").SayHello(&emptypb.Empty{})
		if want := fmt.Sprintf("hello from alice, call %d", i+1); err != nil || got.Message != want {
			t.Fatal(got, err)
		}
	}
	_, err := hello.GetHelloGrainClient(clusters(k)[0], "nobody").SayHello(&emptypb.Empty{})
	if err == nil || cluster.FromError(err).Reason != "NOBODY" {
		t.Fatal("the grain's own error:", err)
	}
}

// TestAlone: without a cluster the same program runs in one process.
func TestAlone(t *testing.T) {
	k := testkit.New(t)
	c := protoactor.Cluster(k.Context())
	for i := range 3 {
		if s := ask(t, c, "echo", "alice", "hi"); s.n != i+1 || s.at != c.ActorSystem.Address() {
			t.Fatal(s)
		}
	}
	for _, how := range []string{"stop", "poison"} {
		ask(t, c, "echo", "alice", how)
		if s := ask(t, c, "echo", "alice", "hi"); s.n != 1 {
			t.Fatal("after", how, s)
		}
	}
}

// TestOptionsOfGrains: the options of a kind place its actors.
func TestOptionsOfGrains(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3), testkit.Each(func(i int, cfg *system.Config) {
		if i == 2 {
			cfg.Resources.GPU = 1
		}
	}))
	c := clusters(k)[0]
	if s := ask(t, c, "trainer", "a", "hi"); s.at != k.Cluster().Node(2).Actors().Address() {
		t.Fatal(s, "and the device is of", k.Cluster().Node(2).Actors().Address())
	}
}

// TestEndedNode: the cluster of a node that has ended is still there, and refuses requests.
func TestEndedNode(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	c := protoactor.Cluster(ctx)
	ask(t, c, "echo", "a", "hi")
	if err := system.NodeOf(ctx).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if _, err := protoactor.Cluster(ctx).Request(id, "echo", wrapperspb.String("hi")); !errors.Is(err, raysys.ErrClosed) {
			t.Fatal(id, err)
		}
	}
}

// TestUnknownKind: a request to a kind that the program does not define says so at once.
func TestUnknownKind(t *testing.T) {
	c := protoactor.Cluster(testkit.New(t).Context())
	_, err := c.Request("alice", "nothing", wrapperspb.String("hi"))
	if err == nil || !strings.Contains(err.Error(), `kind "nothing" of proto.Actor is not defined in this program: protoactor.Kinds`) {
		t.Fatal(err)
	}
	if pid := c.Get("alice", "nothing"); pid != nil {
		t.Fatal(pid)
	}
}
