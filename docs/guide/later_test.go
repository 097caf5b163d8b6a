package guide_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/testkit"
)

// A Limiter allows four samples for each insert.
type Limiter struct {
	inserts, samples int
	waiting          []*grains.Later[int]
}

var errBatch = errors.New("a batch has one sample or more")

var _ = raysys.RegisterError("guide.later.batch", errBatch)

var (
	limiters = grains.Define[Limiter]("guide.later.limiter")
	insert   = grains.Action(limiters, "insert", (*Limiter).Insert)
	sample   = grains.LaterMethod(limiters, "sample", (*Limiter).Sample).Idempotent()
)

func (m *Limiter) Sample(ctx context.Context, batch int, l *grains.Later[int]) error {
	if batch < 1 {
		return errBatch // the answer
	}
	m.waiting = append(m.waiting, l) // the call is kept
	m.open()
	return nil
}

func (m *Limiter) Insert(ctx context.Context, n int) error {
	m.inserts += n
	m.open()
	return nil
}

func (m *Limiter) open() {
	for len(m.waiting) > 0 && m.samples < 4*m.inserts {
		if m.waiting[0].Settle(m.samples+1) == nil { // else its caller has given up
			m.samples++
		}
		m.waiting = m.waiting[1:]
	}
}

// A Fetcher fetches pages, several at a time.
type Fetcher struct{}

var (
	fetchers = grains.Define[Fetcher]("guide.later.fetcher")
	fetch    = grains.LaterMethod(fetchers, "fetch", (*Fetcher).Fetch)
)

func (f *Fetcher) Fetch(ctx context.Context, url string, l *grains.Later[string]) error {
	go func() { // the grain goes on with other calls meanwhile
		page, err := get(l.Context(), url) // not ctx, which ends with the turn
		if err != nil {
			_ = l.Fail(err)
			return
		}
		_ = l.Settle(page)
	}()
	return nil
}

// get stands for a web client: it never answers for one address.
func get(ctx context.Context, url string) (string, error) {
	if url == "" {
		return "", errBatch
	}
	if url == "slow" {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	return "page of " + url, nil
}

func TestLater(t *testing.T) {
	testkit.Virtual(t, func(k *testkit.Kit) {
		t, ctx := k.T(), k.Context()
		k.Cluster().Ready()
		limiter := limiters.Get("replay")
		if _, err := sample.Call(ctx, limiter, 0).Get(ctx); !errors.Is(err, errBatch) {
			t.Error(err)
		}
		lost := sample.With(raysys.Deadline(time.Second)).Call(ctx, limiter, 1)
		if _, err := lost.Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Error(err)
		}
		var waiting []raysys.Ref[int]
		for range 5 {
			waiting = append(waiting, sample.Call(ctx, limiter, 1))
		}
		k.Advance(time.Second)
		if _, err := insert.Call(ctx, limiter, 1).Get(ctx); err != nil {
			t.Error(err)
		}
		for i, r := range waiting[:4] { // the one whose caller gave up took none of them
			if n, err := r.Get(ctx); n != i+1 || err != nil {
				t.Error(n, err)
			}
		}
		if raysys.PhaseOf(waiting[4]) != raysys.PhasePending {
			t.Error("the fifth sample has no insert")
		}
		if _, err := insert.Call(ctx, limiter, 1).Get(ctx); err != nil {
			t.Error(err)
		}
		if n, err := waiting[4].Get(ctx); n != 5 || err != nil {
			t.Error(n, err)
		}
		fetcher := fetchers.Get("web")
		slow := fetch.With(raysys.Deadline(time.Second)).Call(ctx, fetcher, "slow")
		if page, err := fetch.Call(ctx, fetcher, "x").Get(ctx); page != "page of x" || err != nil {
			t.Error(page, err)
		}
		var failed *raysys.TaskError
		if _, err := fetch.Call(ctx, fetcher, "").Get(ctx); !errors.Is(err, errBatch) || !errors.As(err, &failed) {
			t.Error(err)
		}
		if _, err := slow.Get(ctx); !errors.Is(err, raysys.ErrDeadline) {
			t.Error(err)
		}
	}, testkit.Nodes(3))
}
