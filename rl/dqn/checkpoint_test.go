package dqn_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/raysys/raysys/rl"
	"github.com/raysys/raysys/rl/dqn"
	"github.com/raysys/raysys/rl/envs"
)

func fresh(t *testing.T, c dqn.Config, spec rl.Spec, seed uint64) rl.Learner {
	t.Helper()
	l, err := dqn.New(c).Learner(context.Background(), spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func saved(t *testing.T, l rl.Learner) []byte {
	t.Helper()
	b, err := l.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCheckpoint: a learner that begins from the checkpoint of another goes on as that one does, bit for bit, from before the first step on.
func TestCheckpoint(t *testing.T) {
	spec, config := envs.CartPole(1).Spec(), dqn.Config{Target: 4, Prioritised: true}
	for _, steps := range []int{0, 1, 7} {
		rng := rand.New(rand.NewPCG(1, 0))
		a, b := fresh(t, config, spec, 1), fresh(t, config, spec, 2)
		for range steps {
			learn(t, a, batchOf(spec, rng, 16))
		}
		if err := b.UnmarshalBinary(saved(t, a)); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			x := batchOf(spec, rng, 16)
			if p, q := learn(t, a, x), learn(t, b, x); p.Loss != q.Loss || !slices.Equal(p.Priorities, q.Priorities) {
				t.Fatalf("after %d steps: %v, and %v from the checkpoint", steps, p, q)
			}
		}
		if !slices.Equal(a.Weights(), b.Weights()) || !bytes.Equal(saved(t, a), saved(t, b)) {
			t.Errorf("after %d steps: the learners differ", steps)
		}
	}
}

// TestAnotherCheckpoint: one that does not fit is refused, and the learner stays as it was. Hidden layers of 3 and 3 have as many weights as those of 1 and 7.
func TestAnotherCheckpoint(t *testing.T) {
	spec := envs.CartPole(1).Spec()
	l := fresh(t, dqn.Config{Hidden: []int{3, 3}}, spec, 1)
	learn(t, l, batchOf(spec, rand.New(rand.NewPCG(1, 0)), 16))
	whole := saved(t, l)
	for _, c := range []struct {
		name  string
		data  []byte
		model bool
	}{
		{"of another environment", saved(t, fresh(t, dqn.Config{}, envs.Catch(1).Spec(), 1)), true},
		{"of other widths", saved(t, fresh(t, dqn.Config{Hidden: []int{1, 7}}, spec, 1)), true},
		{"empty", nil, false},
		{"cut in the middle", whole[:len(whole)/2], false},
		{"cut at the end", whole[:len(whole)-1], false},
		{"no checkpoint", []byte("no checkpoint"), false},
	} {
		err := l.UnmarshalBinary(c.data)
		if err == nil || errors.Is(err, rl.ErrModel) != c.model {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if !bytes.Equal(saved(t, l), whole) {
		t.Error("what was refused has changed the learner")
	}
}

// TestDamagedCheckpoint: one whose lists have not the lengths of the net is refused.
func TestDamagedCheckpoint(t *testing.T) {
	type parts struct {
		Model                string
		Steps                int
		Params, Target, M, V []float32
	}
	l := fresh(t, dqn.Config{Hidden: []int{3, 3}}, envs.CartPole(1).Spec(), 1)
	for name, damage := range map[string]func(p *parts){
		"":           func(*parts) {},
		"steps":      func(p *parts) { p.Steps = -1 },
		"parameters": func(p *parts) { p.Params = p.Params[1:] },
		"target":     func(p *parts) { p.Target = nil },
		"mean":       func(p *parts) { p.M = append(p.M, 1) },
		"square":     func(p *parts) { p.V = nil },
	} {
		p := parts{l.Model(), 1, make([]float32, 35), make([]float32, 35), make([]float32, 35), make([]float32, 35)}
		damage(&p)
		var b bytes.Buffer
		if err := gob.NewEncoder(&b).Encode(p); err != nil {
			t.Fatal(err)
		}
		if err := l.UnmarshalBinary(b.Bytes()); errors.Is(err, rl.ErrModel) != (name != "") || name == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
