package jetbus_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/jetbus"
	"github.com/raysys/raysys/testkit"
)

// TestReplicas: of three servers all have a stream, also one that was made through the URL of one of them while another was away. A stream that has
// fewer gets more, and nothing else of it changes.
func TestReplicas(t *testing.T) {
	s := testkit.NATS(t, testkit.NATSServers(3))
	one, _, _ := strings.Cut(s.URL(), ",")
	b, err := jetbus.Open(jetbus.Config{URL: one})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	has := func(name string, n int) {
		t.Helper()
		if have, want, err := b.Replicate(t.Context(), name, 1); err != nil || have != n || want != 1 {
			t.Fatal(have, want, err)
		}
	}
	if err := b.Ensure(t.Context(), bus.Config{Name: "single", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ask := func(verb string, question any) (config map[string]any) {
		t.Helper()
		var data []byte
		if question != nil {
			if data, err = json.Marshal(question); err != nil {
				t.Fatal(err)
			}
		}
		m, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM."+verb+".single", data)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Error  any            `json:"error"`
			Config map[string]any `json:"config"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Error != nil {
			t.Fatal(string(m.Data), err)
		}
		return answer.Config
	}
	before := ask("INFO", nil)
	before["max_msgs_per_subject"], before["description"] = 1000, "an operator's" // who has changed some of it
	before = ask("UPDATE", before)
	s.Kill(3)
	if err := b.Ensure(t.Context(), bus.Config{Name: "early", Partitions: 1, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(t.Context(), "early", []bus.Message{{Key: "x"}}); err != nil {
		t.Fatal(err)
	}
	has("early", 3)
	s.Start(3)
	s.Ready()
	has("single", 1)
	if have, want, err := b.Replicate(t.Context(), "single", 3); err != nil || have != 3 || want != 3 {
		t.Fatal(have, want, err)
	}
	has("single", 3)
	after := ask("INFO", nil)
	before["num_replicas"] = after["num_replicas"]
	if diff := gocmp.Diff(before, after); diff != "" {
		t.Fatal(diff)
	}
	if err := b.Ensure(t.Context(), bus.Config{Name: "single", Partitions: 2, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
}

// TestEnsureAtOnce: several nodes that make a stream at once all have it then. A server gives the name of a stream away before it has the stream.
func TestEnsureAtOnce(t *testing.T) {
	s := testkit.NATS(t, testkit.NATSServers(3))
	var nodes []*jetbus.Bus
	for range 6 {
		b, err := jetbus.Open(jetbus.Config{URL: s.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		nodes = append(nodes, b)
	}
	for i := range 10 {
		c := bus.Config{Name: fmt.Sprint("stream", i), Partitions: 4, Replicas: 3}
		var all sync.WaitGroup
		for _, b := range nodes {
			all.Go(func() {
				if err := b.Ensure(t.Context(), c); err != nil {
					t.Error(err)
				} else if _, err := b.Publish(t.Context(), c.Name, []bus.Message{{Key: "k"}}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// TestMadeStreamIsThere: a stream that was just made is not said to be missing by a server that does not know of it;
// here it is gone for as long.
func TestMadeStreamIsThere(t *testing.T) {
	s := testkit.NATS(t)
	b, err := jetbus.Open(jetbus.Config{URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := bus.Config{Name: "made", Partitions: 1}
	if err := b.Ensure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	looks, err := nc.SubscribeSync("$JS.API.STREAM.INFO.made")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM.DELETE.made", nil); err != nil {
		t.Fatal(err)
	}
	ctx, ended := context.WithCancelCause(t.Context())
	go func() {
		_, err := b.Publish(t.Context(), c.Name, []bus.Message{{Key: "k"}})
		ended(cmp.Or(err, errSent))
	}()
	for range 2 { // the first was answered: it is not there
		if _, err := looks.NextMsgWithContext(ctx); err != nil {
			t.Fatal(context.Cause(ctx), err)
		}
	}
	other, err := jetbus.Open(jetbus.Config{URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Ensure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); err != errSent {
		t.Fatal(err)
	}
}

var errSent = errors.New("sent")
