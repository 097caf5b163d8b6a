package protoactor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// TestBatchingProducer: with its defaults it publishes 3,000 messages of 1 KB, in batches of up to 2,000, and each subscriber on each node
// gets all of them once, in their order.
func TestBatchingProducer(t *testing.T) {
	k := testkit.New(t, testkit.Nodes(3))
	cs := clusters(k)
	const messages = 3000
	var got sync.Map // of each subscriber, a *[]string
	var subscribers []string
	for i, c := range cs {
		id := fmt.Sprint("of node ", i)
		got.Store(id, &[]string{})
		if _, err := c.SubscribeWithReceive("batches", func(c actor.Context) {
			if m, ok := c.Message().(*wrapperspb.StringValue); ok {
				list, _ := got.Load(id)
				*list.(*[]string) = append(*list.(*[]string), strings.TrimSpace(m.Value))
				if len(*list.(*[]string)) == messages {
					deliver(id, "all")
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		subscribers = append(subscribers, id)
	}
	// The topic is on one of the nodes, so the batches of one of these two go to another.
	for i, c := range cs[:2] {
		for id := range subscribers {
			got.Store(subscribers[id], &[]string{})
		}
		delivered.mu.Lock()
		delivered.m = nil
		delivered.mu.Unlock()
		p := cluster.NewBatchingProducer(c.Publisher(), "batches")
		defer p.Dispose()
		var last *cluster.ProduceProcessInfo
		for n := range messages {
			info, err := p.Produce(t.Context(), wrapperspb.String(fmt.Sprintf("%-1000d", n)))
			if err != nil {
				t.Fatal(err)
			}
			last = info
		}
		if <-last.Finished; last.Err != nil {
			t.Fatal("node", i, "publishes:", last.Err)
		}
		for _, s := range subscribers {
			testkit.Eventually(t, patient, s+" gets all", func() bool { return has(s, "all") })
			list, _ := got.Load(s)
			for n, m := range *list.(*[]string) {
				if m != fmt.Sprint(n) {
					t.Fatal(s, "got", m, "as message", n)
				}
			}
		}
	}
	_, err := cs[0].Publisher().Publish(t.Context(), "batches", encoded(4*mib)) // with its envelope it is larger
	isTooLarge(t, "a batch", err)
}
