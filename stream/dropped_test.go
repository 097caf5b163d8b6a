package stream_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// picky is a kind whose handler takes no odd event.
type picky struct{}

func (*picky) OnEvent(_ context.Context, e stream.Event[int]) error {
	if e.Value%2 == 1 {
		return errBroken
	}
	write("picky "+e.Key, "took")
	return nil
}

var (
	passing = stream.Define[int]("passing", stream.Partitions(1), stream.Keep(time.Minute))
	pickies = grains.Define[picky]("picky")
	_       = stream.Into(passing, pickies, (*picky).OnEvent)
	_       = stream.Into(passing, pickies, (*picky).OnEvent, stream.As("twice"), stream.OnError(stream.Retry(2, time.Second), stream.Drop))
)

// TestDropped: an event whose handler fails until Keep is over, or for all its attempts, is dropped, with a line in the log, and counted.
func TestDropped(t *testing.T) {
	inMemory(t)
	log, lines := observer.New(zapcore.WarnLevel)
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx, t := k.Context(), k.T()
		publish := func(key string, v int) {
			if _, err := passing.Publish(ctx, key, v); err != nil {
				t.Fatal(err)
			}
		}
		publish("a", 1)
		publish("b", 3)
		publish("a", 2) // behind one that fails, and gone before its turn comes
		k.Advance(10 * time.Minute)
		publish("a", 4)
		k.Advance(2 * time.Minute)
		all, err := k.Cluster().Node(0).Streams(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all.Parts {
			if p.Stream == "passing" && (p.Dropped != 2 || p.Failing != 0) {
				t.Errorf("%+v", p)
			}
		}
		for text, want := range map[string][]string{
			"its handler failed until Keep was over": {"picky/a", "picky/b"}, "an event is dropped": {"picky/a", "picky/a", "picky/b", "picky/b"},
		} {
			var got []string
			for _, e := range lines.FilterMessageSnippet(text).All() {
				got = append(got, e.ContextMap()["grain"].(string))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("%q: %q", text, got)
			}
		}
	}, testkit.Nodes(1), testkit.Each(func(_ int, cfg *system.Config) { cfg.NATS.URL, cfg.Logger = "memory:"+t.Name(), zap.New(log) }))
}
