package protoactor_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

var _ = protoactor.Kinds(cluster.NewKind("silent", actor.PropsFromFunc(func(c actor.Context) {
	if m, ok := c.Message().(*wrapperspb.StringValue); ok {
		heard <- m.Value
	}
})))

// heard is what actors of the kind silent were told. They answer nothing.
var heard = make(chan string, 16)

const patient = 60 * time.Second

// load has callers ask actors until it is told to end, and fails the test when a request fails.
func load(t *testing.T, cs []*cluster.Cluster, ask func(c *cluster.Cluster, id string) error) (end func()) {
	t.Helper()
	var stop atomic.Bool
	var callers sync.WaitGroup
	answered := make([]atomic.Int64, 8)
	for i := range answered {
		c := cs[i%len(cs)]
		callers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if err := ask(c, fmt.Sprint(n%16)); err != nil {
					t.Error(err)
					return
				}
				answered[i].Add(1)
			}
		})
	}
	more := func() { // each caller gets further
		for i := range answered {
			was := answered[i].Load()
			testkit.Eventually(t, patient, "callers have answers", func() bool { return answered[i].Load() >= was+32 || t.Failed() })
		}
	}
	more()
	return func() {
		more()
		stop.Store(true)
		callers.Wait()
	}
}

// TestRequestsOutliveNodes: while a node drains, and while another dies, no request fails, and none waits for its timeout.
func TestRequestsOutliveNodes(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(4))
	cs := clusters(k)
	end := load(t, []*cluster.Cluster{cs[0], cs[3], cs[4]}, func(c *cluster.Cluster, id string) error {
		_, err := c.Request(id, "echo", wrapperspb.String("hi"), cluster.WithTimeout(patient))
		return err
	})
	k.Cluster().Drain(1)
	end()
	end = load(t, []*cluster.Cluster{cs[0], cs[3], cs[4]}, func(c *cluster.Cluster, id string) error {
		_, err := c.Request(id, "echo", wrapperspb.String("hi"), cluster.WithTimeout(patient))
		return err
	})
	k.Cluster().Kill(2)
	end()
}

// TestRequestsToActorsThatStop: requests to actors that end their lives again and again are answered, each by one of them.
func TestRequestsToActorsThatStop(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	var n atomic.Int64
	load(t, clusters(k), func(c *cluster.Cluster, id string) error {
		what := "hi"
		if n.Add(1)%40 == 0 {
			what = "poison"
		}
		_, err := c.Request(id, "echo", wrapperspb.String(what), cluster.WithTimeout(patient), cluster.WithRetryCount(100))
		return err
	})()
}

// TestDeathOfNode: what waits for an answer of a node that dies hears so at once: with NoRetry it fails, else it is asked again.
func TestDeathOfNode(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	c := clusters(k)[0]
	at := hostOf(t, k, c, "silent", "a")
	failed, future := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := c.Request("a", "silent", wrapperspb.String("once"), cluster.WithTimeout(patient), protoactor.NoRetry())
		failed <- err
	}()
	f, err := c.RequestFuture("a", "silent", wrapperspb.String("future"), cluster.WithTimeout(patient), protoactor.NoRetry())
	if err != nil {
		t.Fatal(err)
	}
	go func() { future <- f.Wait() }()
	go func() { _, _ = c.Request("a", "silent", wrapperspb.String("again"), cluster.WithTimeout(patient)) }()
	for range 3 {
		<-heard
	}
	k.Cluster().Kill(at)
	if err := <-failed; !errors.Is(err, actor.ErrDeadLetter) || !errors.Is(err, raysys.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if err := <-future; !errors.Is(err, actor.ErrDeadLetter) {
		t.Fatal(err)
	}
	if what := <-heard; what != "again" {
		t.Fatal(what)
	}
}

// TestTimeout: a request ends when its caller said, and leaves nothing behind.
func TestTimeout(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	c.Get("a", "silent")
	before := processes(c.ActorSystem)
	for range 8 {
		_, err := c.Request("a", "silent", wrapperspb.String("hello"), cluster.WithTimeout(time.Millisecond))
		if !errors.Is(err, actor.ErrTimeout) {
			t.Fatal(err)
		}
		f, err := c.RequestFuture("a", "silent", wrapperspb.String("hello"), cluster.WithTimeout(time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Result(); !errors.Is(err, actor.ErrTimeout) {
			t.Fatal(err)
		}
		<-heard
		<-heard
	}
	testkit.Eventually(t, patient, "no process is left", func() bool { return processes(c.ActorSystem) == before && protoactor.Waiting(c) == 0 })
}

// processes counts what has a PID.
func processes(s *actor.ActorSystem) (n int) {
	for _, bucket := range s.ProcessRegistry.LocalPIDs.LocalPIDs {
		n += bucket.Count()
	}
	return n
}

// TestFuturesKeepTheirOrder: requests of one goroutine to one actor arrive in their order.
func TestFuturesKeepTheirOrder(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	var futures []*actor.Future
	for range 100 {
		f, err := c.RequestFuture("a", "echo", wrapperspb.String("hi"))
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		v, err := f.Result()
		if err != nil {
			t.Fatal(err)
		}
		var s said
		if _, err := fmt.Sscan(v.(*wrapperspb.StringValue).Value, &s.what, &s.at, &s.n); err != nil || s.n != i+1 {
			t.Fatal(s, err)
		}
	}
}

// TestPanicsAtTheEnd: an actor that panics as it stops has ended all the same, with its children, and the next one answers.
func TestPanicsAtTheEnd(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(2))
	c := clusters(k)[0]
	for _, what := range []string{"poison", "stop", "stop and panic"} {
		v, err := c.Request("a", "fragile", wrapperspb.String(what), cluster.WithTimeout(patient))
		if err != nil || v.(*wrapperspb.StringValue).Value != what {
			t.Fatal(what, v, err)
		}
	}
	k.Cluster().Drain(hostOf(t, k, c, "fragile", "a"))
	if _, err := c.Request("a", "fragile", wrapperspb.String("hi"), cluster.WithTimeout(patient)); err != nil {
		t.Fatal(err)
	}
}

var _ = protoactor.Kinds(cluster.NewKind("fragile", actor.PropsFromFunc(func(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		c.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
	case *actor.Stopping, *actor.Stopped:
		panic("it panics because its test wants that")
	case *wrapperspb.StringValue:
		c.Respond(m)
		switch m.Value {
		case "poison":
			c.Poison(c.Self())
		case "stop":
			c.Stop(c.Self())
		case "stop and panic":
			c.Stop(c.Self())
			panic("it panics because its test wants that")
		}
	}
})))
