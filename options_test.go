package raysys_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// The pause before retry n is lo*2^(n-1), at most hi, less up to half of it, and never overflows.
func TestPause(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "lo"))
		hi := lo + time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "hi"))
		n := rapid.IntRange(1, 1_000_000).Draw(t, "n")
		r := rapid.Float64Range(0, 0.999999).Draw(t, "r")
		o := core.NewOptions([]raysys.Option{raysys.Backoff(lo, hi)})
		full, doublings := hi, min(n-1, 40) // 40 of them turn a nanosecond into 18 minutes
		if lo <= hi>>doublings {
			full = lo << doublings
		}
		slack := full / 1_000_000 // of the floating point
		if p := o.Pause(n, r); p < full/2-slack-1 || p > full+slack {
			t.Fatalf("pause %d of %v to %v: %v, want %v to %v", n, lo, hi, p, full/2, full)
		}
	})
}

func TestOptionsCombine(t *testing.T) {
	o := core.NewOptions([]raysys.Option{
		raysys.CPU(2), raysys.GPU(1), raysys.CPU(0), raysys.Resource("a", 1), raysys.Resource("b", 2), raysys.Resource("a", 3),
		raysys.Deadline(time.Second), raysys.NoDeadline(), raysys.Retries(7), raysys.Detached(),
	})
	want := core.Resources{GPU: 1, Custom: map[string]float64{"a": 3, "b": 2}}
	if diff := cmp.Diff(want, o.Resources); diff != "" || o.Err != nil {
		t.Errorf("%v\n%s", o.Err, diff)
	}
	if o.Deadline != 0 || !o.NoLimit || o.Retries != 7 || !o.Detached || !o.Sized {
		t.Errorf("got %+v", o)
	}
	if o := core.NewOptions[core.Option](nil); o.Resources.CPU != 1 || o.Retries != 3 || o.Sized || o.Deadline != 0 || o.Err != nil {
		t.Errorf("the defaults are %+v", o)
	}
	if o := core.NewOptions([]raysys.Option{raysys.NoDeadline(), raysys.Deadline(1)}); o.NoLimit || o.Deadline != 1 {
		t.Errorf("the later of two does not win: %+v", o)
	}
	first := core.NewOptions([]raysys.Option{raysys.Retries(-1), raysys.CPU(-1)})
	if !errors.Is(first.Err, raysys.ErrBadOption) || first.Err.Error() != "bad option: Retries(-1): give 0 or more" {
		t.Errorf("of two bad options: %v, want the first", first.Err)
	}
}

// An Option may be kept and used again: it does not share what it fills.
func TestOptionIsReusable(t *testing.T) {
	shared := raysys.Resource("a", 1)
	one := core.NewOptions([]raysys.Option{shared, raysys.Resource("b", 1)})
	two := core.NewOptions([]raysys.Option{shared})
	if len(one.Resources.Custom) != 2 || len(two.Resources.Custom) != 1 {
		t.Errorf("got %v and %v", one.Resources, two.Resources)
	}
}

func TestResourcesText(t *testing.T) {
	for want, r := range map[string]raysys.Resources{
		"nothing":                              {},
		"CPU 1":                                {CPU: 1},
		"CPU 0.5, GPU 2, Memory 3 B, a 1, b 2": {CPU: 0.5, GPU: 2, Memory: 3, Custom: map[string]float64{"b": 2, "a": 1}},
		`GPU 1, GPUModel "H100", GPUMemory 60 GiB, Memory 4 GiB`: {GPU: 1, GPUModel: "H100", GPUMemory: 60 << 30, Memory: 4 << 30},
	} {
		if got := fmt.Sprint(r); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
