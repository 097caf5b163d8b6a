package faults_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

// keepBlob holds what it made, and a copy elsewhere, until its node goes.
var keepBlob = tasks.Define("faults.keepBlob", func(ctx context.Context, b blob) (int, error) {
	if _, err := raysys.Put(ctx, b.make(), raysys.Replicas(2)).Get(ctx); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, context.Cause(ctx)
})

// TestAllNodesStop: every worker is told to go at the same moment (systemctl stop everywhere, a deployment that is deleted), with
// grains, objects that others hold and tasks that do not end by themselves. There is nowhere to move any of it: they leave within
// seconds, well.
func TestAllNodesStop(t *testing.T) {
	var all spread
	nodes := long.Form(3, 5)
	for range long.Form(1, 10) {
		p := testkit.Processes(t, nodes, testkit.CPU(2), testkit.On(testkit.Consul(t, onDisk()...)), testkit.TTL(10*time.Second))
		ctx := p.Context()
		var refs []raysys.Ref[[]byte]
		for i := range 6 * nodes {
			key := fmt.Sprint("stopall", i)
			if _, err := add.Call(ctx, counters.Get(key), 1).Get(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := plainAdd.Call(ctx, plains.Get(key), 1).Get(ctx); err != nil {
				t.Fatal(err)
			}
			r := makeBlob.Go(ctx, blob{byte(i), 200_000})
			if _, err := sumBlob.Go(ctx, r.Handle()).Get(ctx); err != nil {
				t.Fatal(err)
			}
			refs = append(refs, r)
		}
		var running []raysys.Ref[int]
		for i := range nodes {
			running = append(running, keepBlob.With(raysys.Retries(0)).Go(ctx, blob{byte(i), 300_000}))
		}
		from := time.Now()
		for i := range nodes {
			p.Proc(i + 1).Terminate()
		}
		limit := time.After(40 * time.Second)
		for i := range nodes {
			proc := p.Proc(i + 1)
			select {
			case <-proc.Exited():
			case <-limit:
				t.Fatalf("all workers were told to go, and %s has not left after 40 s", proc.Name())
			}
			if code := proc.ExitCode(); code != 0 {
				t.Errorf("all workers were told to go, and %s ended with %d", proc.Name(), code)
			}
		}
		all = append(all, time.Since(from))
		runtime.KeepAlive(refs)
		runtime.KeepAlive(running)
	}
	figure(t, "%d workers told to go at once, with grains, objects that others hold and tasks that do not end: all exited with 0, the last after %v", nodes, all)
}
