package ledger

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// TestCredit: a job that comes, or comes back, is at most maxCredit of a CPU behind the others, by its weight, whatever they have
// used meanwhile; and one that has used more than they keeps that.
func TestCredit(t *testing.T) {
	now := int64(0)
	var s Shares
	uses := func(j *core.Job, d time.Duration) {
		var c Charge
		s.Begin(&c, j, Unit, now)
		c.since = now - int64(d)
		s.End(&c, now)
	}
	stays, back, late := &core.Job{}, &core.Job{Weight: 4}, &core.Job{}
	s.Used(back, now, now)
	for range 10 {
		now += int64(SeenFor) / 2
		uses(stays, time.Second)
	}
	had := s.Used(stays, now, now)
	if had < int64(10*time.Second) {
		t.Fatalf("a job has run for 10 s, and has used %d", had)
	}
	if got, want := s.Used(back, now, now), had-weighed(int64(maxCredit), Unit, back); got != want {
		t.Errorf("a job that comes back has used %d, want %d, where the other has used %d", got, want, had)
	}
	now += int64(SeenFor)
	s.Used(stays, now, now)
	if got := s.Used(late, now, now); got != had {
		t.Errorf("a job that comes has used %d, want what the other has, %d", got, had)
	}
	uses(back, 10*time.Second)
	more := s.Used(back, now, now)
	now += 2 * int64(SeenFor)
	s.Used(stays, now, now)
	if got := s.Used(back, now, now); got != more || more <= had {
		t.Errorf("a job that has used more than the others, %d, comes back with %d", more, got)
	}
}

// TestWaitsKeepCredit: a job of which work has waited in a line all the time keeps what it is behind.
func TestWaitsKeepCredit(t *testing.T) {
	var s Shares
	waits, runs := &core.Job{}, &core.Job{}
	s.Waits(waits, 1, 0)
	s.Waits(runs, 1, 0)
	var c Charge
	s.Begin(&c, runs, Unit, 0)
	now := int64(time.Hour)
	s.End(&c, now)
	if a, b := s.Used(waits, now, now), s.Used(runs, now, now); a != 0 || b != int64(time.Hour) {
		t.Errorf("after an hour in which one job ran and another waited they have used %v and %v", time.Duration(b), time.Duration(a))
	}
}

// TestUseAsItRuns: what runs counts for its mean at once, and for longer once it runs for longer; when it ends, for what it took.
func TestUseAsItRuns(t *testing.T) {
	var s Shares
	j := &core.Job{Weight: 2}
	var long, short Charge
	s.Begin(&long, j, 4*Unit, 0)
	s.Begin(&short, j, Unit, 0)
	at := func(now, want time.Duration) {
		t.Helper()
		if got := time.Duration(s.Used(j, int64(now), int64(now))); got != want {
			t.Errorf("after %v the use is %v, want %v", now, got, want)
		}
	}
	at(0, 5*firstMean/2)
	s.End(&short, int64(firstMean)/2)
	at(firstMean/2, 4*firstMean/2+firstMean/4)
	at(time.Minute, 2*time.Minute+firstMean/4)
	s.End(&long, int64(time.Hour))
	at(time.Hour, 2*time.Hour+firstMean/4)
	s.End(&long, int64(2*time.Hour))
	at(2*time.Hour, 2*time.Hour+firstMean/4)
}

// TestLevel: the level is the least use of the jobs that ask, the most there was once none does, and never less than before.
func TestLevel(t *testing.T) {
	var s Shares
	a, b := &core.Job{}, &core.Job{}
	use := func(j *core.Job, d time.Duration, now int64) {
		var c Charge
		s.Begin(&c, j, Unit, now)
		s.End(&c, now+int64(d))
	}
	s.Waits(a, 1, 0)
	s.Waits(b, 1, 0)
	use(a, 7*time.Second, 0)
	use(b, 3*time.Second, 0)
	now := int64(8 * time.Second)
	if got := s.Level(now); got != int64(3*time.Second) {
		t.Errorf("jobs have used 3 s and 7 s, and the level is %v", time.Duration(got))
	}
	s.Waits(a, -1, now)
	s.Waits(b, -1, now)
	now += int64(SeenFor)
	if got := s.Level(now); got != int64(7*time.Second) {
		t.Errorf("no job asks for anything, and the level is %v", time.Duration(got))
	}
	if got := s.Used(b, now, now); got != int64(7*time.Second-maxCredit) {
		t.Errorf("a job that comes back then has used %v", time.Duration(got))
	}
	if got := s.Level(now); got != int64(7*time.Second) {
		t.Errorf("the level falls to %v", time.Duration(got))
	}
}

// TestJobsAreForgotten: jobs that have gone are, and no other.
func TestJobsAreForgotten(t *testing.T) {
	var s Shares
	waits, runs := &core.Job{}, &core.Job{}
	var c Charge
	s.Waits(waits, 1, 0)
	s.Begin(&c, runs, Unit, 0)
	for i := range 10 * maxIdle {
		s.Used(&core.Job{}, int64(i)*int64(SeenFor), int64(i)*int64(SeenFor))
	}
	if n := len(s.jobs); n > maxIdle {
		t.Errorf("%d jobs are known", n)
	}
	if s.jobs[waits] == nil || s.jobs[runs] == nil {
		t.Error("a job is forgotten that has work")
	}
}
