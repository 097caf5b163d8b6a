package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/testkit"
)

// TestDrainLosesNothing: workers leave on SIGTERM and come back while calls of all kinds go on.
func TestDrainLosesNothing(t *testing.T) {
	p := testkit.Processes(t, 3, testkit.CPU(2), testkit.TTL(10*time.Second), testkit.On(testkit.Consul(t, onDisk()...)))
	ctx := p.Context()
	const clients = 8
	kinds := map[string]*load{
		"tasks": startLoad(clients, nil, func(_ context.Context, c, i int) error {
			n, err := square.Go(ctx, job{N: i, Wait: 2 * time.Millisecond}).Get(ctx)
			return want(n, err, i*i)
		}),
		"State grains": startLoad(clients, nil, func(_ context.Context, c, i int) error {
			// One client per grain: an answer that is not the next number is a call that was lost or done twice.
			n, err := add.Call(ctx, counters.Get(fmt.Sprint("own", c)), 1).Get(ctx)
			return want(n, err, i+1)
		}),
		"plain grains": startLoad(clients, nil, func(_ context.Context, c, i int) error {
			_, err := plainHost.Call(ctx, plains.Get(fmt.Sprint(i%64))).Get(ctx)
			return err
		}),
		"stateless workers": startLoad(clients, nil, func(_ context.Context, c, i int) error {
			s, err := say.Call(ctx, echoes.Get("e"), fmt.Sprint(i)).Get(ctx)
			return want(s, err, fmt.Sprint(i))
		}),
	}
	var all spread
	for i := range long.Form(3, 30) {
		pause(300 * time.Millisecond)
		proc := p.Proc(i%p.Size() + 1)
		from := time.Now()
		proc.Terminate()
		select {
		case <-proc.Exited():
			all = append(all, time.Since(from))
		case <-time.After(30 * time.Second):
			t.Fatalf("%s does not leave", proc.Name())
		}
		if code := proc.ExitCode(); code != 0 {
			t.Errorf("%s ended with %d", proc.Name(), code)
		}
		proc.Restart()
		p.Ready()
	}
	total := int64(0)
	for what, l := range kinds {
		l.end()
		l.none(t, what)
		total += l.calls.Load()
	}
	figure(t, "%d drains under load: %d calls, %d lost; a drain took %v", len(all), total, failures(kinds), all)
}

func failures(kinds map[string]*load) (n int) {
	for _, l := range kinds {
		for _, f := range l.failed() {
			n += f
		}
	}
	return n
}
