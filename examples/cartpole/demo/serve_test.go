package demo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/examples/cartpole/demo"
	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/envs"
	"github.com/raysys/raysys/rl/ppo"
	"github.com/raysys/raysys/testkit"
)

func TestServe(t *testing.T) {
	k := testkit.New(t)
	l, err := ppo.New(ppo.Config{}).Learner(context.Background(), envs.CartPole(1).Spec(), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := raysys.Put(k.Context(), rl.Weights{Model: l.Model(), Params: l.Weights()})
	o := demo.Defaults()
	o.Serve = 250 * time.Millisecond
	var told []time.Duration
	s, err := demo.Serve(k.Context(), w, o, func(d time.Duration) { told = append(told, d) })
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests == 0 || s.Took < o.Serve || s.P50 <= 0 || s.P99 < s.P50 {
		t.Errorf("served %+v", s)
	}
	if len(told) < 2 || told[0] != 0 {
		t.Errorf("told of %v, want 0 at once and then every 100ms", told)
	}
}

// A failure of the server reaches the caller before the time is up, and ends all clients.
func TestServeFails(t *testing.T) {
	k := testkit.New(t)
	o := demo.Defaults()
	o.Serve = time.Hour
	for name, c := range map[string]struct {
		w    raysys.Ref[rl.Weights]
		want error
	}{
		"zero reference":     {raysys.Ref[rl.Weights]{}, raysys.ErrInvalidRef},
		"weights of a shape": {raysys.Put(k.Context(), rl.Weights{Model: "ppo softmax 4-32-32-2 tanh"}), rl.ErrModel},
	} {
		if _, err := demo.Serve(k.Context(), c.w, o, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
