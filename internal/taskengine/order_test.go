package taskengine

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// TestCredit: a job that comes, or comes back, is at most maxCredit of a CPU behind the others, by its weight, whatever they have
// used meanwhile; and one that has used more than they keeps that.
func TestCredit(t *testing.T) {
	now := int64(0)
	o := &order{now: func() int64 { return now }}
	stays, back, late := &core.Job{}, &core.Job{Weight: 4}, &core.Job{}
	o.usageOf(back, now)
	for range 10 {
		now += int64(mixedFor) / 2
		o.usageOf(stays, now).used += weighed(int64(time.Second), stays)
	}
	had := o.usageOf(stays, now).used
	if got, want := o.usageOf(back, now).used, had-weighed(int64(maxCredit), back); got != want {
		t.Errorf("a job that comes back has used %d, want %d, where the other has used %d", got, want, had)
	}
	now += int64(mixedFor)
	o.usageOf(stays, now)
	if got := o.usageOf(late, now).used; got != had {
		t.Errorf("a job that comes has used %d, want what the other has, %d", got, had)
	}
	o.usageOf(back, now).used = had + 5
	now += 2 * int64(mixedFor)
	o.usageOf(stays, now)
	if got := o.usageOf(back, now).used; got != had+5 {
		t.Errorf("a job that has used more than the others, %d, comes back with %d", had+5, got)
	}
}
