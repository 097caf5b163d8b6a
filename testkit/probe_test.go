package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/raysys/raysys/testkit"
)

func TestProbe(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		ctx := k.Context()
		p := testkit.NewProbe[int](k, "numbers")
		p.ExpectNone(time.Hour)
		go func() {
			for i := range 5 {
				<-time.After(time.Second)
				if err := p.Put(ctx, i); err != nil {
					t.Error(err)
				}
			}
		}()
		p.Expect(0)
		if v := p.Next(); v != 1 {
			t.Errorf("Next = %d", v)
		}
		if v := p.Fish(func(v int) bool { return v > 2 }); v != 3 {
			t.Errorf("Fish = %d", v)
		}
		p.Expect(4)
		p.ExpectNone(time.Hour)
	}, testkit.Table(table))
}

func TestProbeFailures(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(p *testkit.Probe[int])
		want string
	}{
		"other":   {func(p *testkit.Probe[int]) { p.Expect(2) }, "probe numbers: got 1, want 2"},
		"none":    {func(p *testkit.Probe[int]) { p.Next(); p.Next() }, "no value within 10s; seen before: 1"},
		"some":    {func(p *testkit.Probe[int]) { p.ExpectNone(time.Second) }, "got 1, want none within 1s"},
		"nomatch": {func(p *testkit.Probe[int]) { p.Fish(func(v int) bool { return v == 9 }) }, "no match within 10s; seen: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			testkit.Virtual(t, func(*testkit.Kit) {
				f.run(func() {
					p := testkit.NewProbe[int](testkit.New(f, testkit.Seed(1), testkit.Table(table)), "numbers")
					if err := p.Put(context.Background(), 1); err != nil {
						t.Error(err)
					}
					c.use(p)
				})
			}, testkit.Table(table))
			f.want(t, c.want)
		})
	}
}

func TestProbeIsBounded(t *testing.T) {
	k := testkit.New(t, testkit.Table(table))
	p := testkit.NewProbe[int](k, "numbers")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var err error
	for i := 0; err == nil && i < 2000; i++ {
		err = p.Put(ctx, i)
	}
	if err == nil {
		t.Error("2000 values went into a probe that nobody reads")
	}
}
