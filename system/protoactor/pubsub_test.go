package protoactor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/raysys/raysys/system/protoactor"
	"github.com/raysys/raysys/testkit"
)

// delivered is what subscribers got, by subscriber.
var delivered struct {
	mu sync.Mutex
	m  map[string][]string
}

func deliver(to, what string) {
	delivered.mu.Lock()
	defer delivered.mu.Unlock()
	if delivered.m == nil {
		delivered.m = map[string][]string{}
	}
	delivered.m[to] = append(delivered.m[to], what)
}

func has(to, what string) bool {
	delivered.mu.Lock()
	defer delivered.mu.Unlock()
	return slices.Contains(delivered.m[to], what)
}

var _ = protoactor.Kinds(cluster.NewKind("reader", actor.PropsFromFunc(func(c actor.Context) {
	if m, ok := c.Message().(*wrapperspb.StringValue); ok {
		deliver(cluster.GetClusterIdentity(c).Identity, m.Value)
	}
})))

// TestPubSub: what one node publishes reaches subscribers on all nodes, by identity and by PID, and a topic whose node died knows
// its subscribers again.
func TestPubSub(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	cs := clusters(k)
	var readers []string
	for i, c := range cs {
		id := fmt.Sprint("reader-", i)
		if _, err := c.SubscribeByClusterIdentity("news", cluster.NewClusterIdentity(id, "reader")); err != nil {
			t.Fatal(err)
		}
		byPID := fmt.Sprint("pid-", i)
		if _, err := c.SubscribeWithReceive("news", func(c actor.Context) {
			if m, ok := c.Message().(*wrapperspb.StringValue); ok {
				deliver(byPID, m.Value)
			}
		}); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, id, byPID)
	}
	publish := func(c *cluster.Cluster, what string, to []string) {
		t.Helper()
		if _, err := c.Publisher().Publish(context.Background(), "news", wrapperspb.String(what)); err != nil {
			t.Fatal(err)
		}
		for _, r := range to {
			testkit.Eventually(t, patient, what+" reaches "+r, func() bool { return has(r, what) })
		}
	}
	for i, c := range cs {
		publish(c, fmt.Sprint("from ", i), readers)
	}
	at := hostOf(t, k, cs[0], cluster.TopicActorKind, "news")
	k.Cluster().Kill(at)
	left := slices.DeleteFunc(readers, func(r string) bool { return r == fmt.Sprint("pid-", at) })
	publish(cs[0], "after the death", left)
}
