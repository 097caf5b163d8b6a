package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/process"
)

//go:embed alone.py
var alonePy string

// measurement is what a rate is measured of: a vector of gymnasium's, by its mode.
type measurement struct {
	Envs    int     `json:"envs"`
	Mode    string  `json:"mode"`
	Seconds float64 `json:"seconds"`
}

// module is one that this Python may have.
type module struct {
	Name string `json:"name"`
}

type known struct {
	Yes bool `json:"yes"`
}

type measured struct {
	Rate float64 `json:"rate"` // steps of environments in a second
}

// meter is a grain that steps a vector.
type meter struct{ process.Vector }

var (
	pythons = process.Define("gym.python", process.Config{Script: alonePy})
	alone   = process.Method[measurement, measured](pythons, "rate")
	has     = process.Method[module, known](pythons, "installed")
	nothing = process.Method[struct{}, struct{}](pythons, "nothing")
	meters  = grains.Define[meter]("gym.meter")
	inGrain = grains.Method(meters, "rate", (*meter).rate)
	steps   = grains.Method(meters, "step", func(m *meter, ctx context.Context, actions process.Tensor) (process.Steps, error) {
		return m.Step(ctx, actions)
	})
)

func (m *meter) start(ctx context.Context, of measurement) error {
	args := map[string]any{"envs": of.Envs, "mode": of.Mode}
	if err := m.Start(ctx, process.Config{Script: alonePy, New: "vector", Envs: of.Envs, Args: args}); err != nil {
		return err
	}
	_, err := m.Reset(ctx, 1)
	return err
}

// rate makes the steps of alone.py in a turn of the grain, as a policy does that is beside its environments.
func (m *meter) rate(ctx context.Context, of measurement) (measured, error) {
	if err := m.start(ctx, of); err != nil {
		return measured{}, err
	}
	return stepping(of, func(actions process.Tensor) error {
		m.Reuse()
		_, err := m.Step(ctx, actions)
		return err
	})
}

// stepping makes steps, with the actions of alone.py.
func stepping(of measurement, step func(process.Tensor) error) (measured, error) {
	var actions [2]process.Tensor
	for i := range actions {
		a := make([]int64, of.Envs)
		for j := range a {
			a[j] = int64(i+j) & 1
		}
		actions[i] = process.Of(a)
	}
	n, begun := 0, time.Now()
	for ; time.Since(begun).Seconds() < of.Seconds; n++ {
		if err := step(actions[n%2]); err != nil {
			return measured{}, err
		}
	}
	return measured{float64(n*of.Envs) / time.Since(begun).Seconds()}, nil
}

// others are libraries whose vectors of CartPole are measured where they are installed.
var others = []string{"envpool"}

// rates prints how fast the vectors of gymnasium are in Python alone, in a turn of a grain, and by a call of a grain for each step: in
// turn. A ratio is of one round, and all are medians.
func rates(ctx context.Context, envs, rounds int, seconds float64, w io.Writer) error {
	fmt.Fprintf(w, "%-20s %4s %14s %14s %6s %14s %6s\n", "vector", "envs", "Python alone/s", "in a turn/s", "ratio", "by calls/s", "ratio")
	list := []measurement{{1, "sync", seconds}, {envs, "sync", seconds}, {envs, "vector_entry_point", seconds}, {8, "images", seconds}}
	var missing []string
	for _, name := range others {
		switch m, err := has.Call(ctx, pythons.Get("alone"), module{name}).Get(ctx); {
		case err != nil:
			return err
		case m.Yes:
			list = append(list, measurement{envs, name, seconds})
		default:
			missing = append(missing, name)
		}
	}
	for _, of := range list {
		var got [3][]float64
		for range rounds {
			g := meters.Get("meter")
			for i, measure := range []func() (measured, error){
				func() (measured, error) { return alone.Call(ctx, pythons.Get("alone"), of).Get(ctx) },
				func() (measured, error) { return inGrain.Call(ctx, g, of).Get(ctx) },
				func() (measured, error) {
					return stepping(of, func(actions process.Tensor) error {
						_, err := steps.Call(ctx, g, actions).Get(ctx)
						return err
					})
				},
			} {
				m, err := measure()
				if err != nil {
					return err
				}
				got[i] = append(got[i], m.Rate)
			}
		}
		fmt.Fprintf(w, "%-20s %4d %14.0f %14.0f %6.2f %14.0f %6.2f\n", of.Mode, of.Envs, median(got[0]), median(got[1]), median(ratios(got[1], got[0])),
			median(got[2]), median(ratios(got[2], got[0])))
	}
	n, begun := 0, time.Now()
	for ; time.Since(begun).Seconds() < seconds; n++ {
		if _, err := nothing.Call(ctx, pythons.Get("alone"), struct{}{}).Get(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "a call that does nothing takes %.0f us\n", time.Since(begun).Seconds()*1e6/float64(n))
	if len(missing) > 0 {
		fmt.Fprintf(w, "left out, since this Python has no module of that name: %s\n", strings.Join(missing, ", "))
	}
	return nil
}

// ratios are those of each round.
func ratios(a, b []float64) []float64 {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = a[i] / b[i]
	}
	return r
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
