package member_test

import (
	"testing"
	"time"

	"github.com/raysys/raysys/internal/member"
)

func near(t testing.TB, what string, got, want time.Duration) {
	t.Helper()
	if d := got - want; d < -10*time.Millisecond || d > 10*time.Millisecond {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// TestLeaseRunsFromTheStartOfARenewal: the answer to a renewal may be late, and the server's TTL began before it (C16).
func TestLeaseRunsFromTheStartOfARenewal(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		a := c.member("a")
		c.node("a").kv.Slow(2 * time.Second) // each of the two calls of a renewal
		c.pass(ttl / 3)
		near(t, "lease before the renewal", a.Lease(), ttl*2/3)
		c.pass(3900 * time.Millisecond)
		near(t, "lease with the renewal under way", a.Lease(), ttl*2/3-3900*time.Millisecond)
		c.pass(200 * time.Millisecond) // at 4 s it is done
		near(t, "lease after the renewal", a.Lease(), ttl-4100*time.Millisecond)
	})
}

// TestLeaseEndsByTheWallClock: a machine that slept did not count the time on its monotonic clock (C16).
func TestLeaseEndsByTheWallClock(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		a, n := c.member("a"), c.node("a")
		c.pass(time.Second)
		near(t, "lease", a.Lease(), 9*time.Second)

		n.kv.Down(true)
		n.clock.jump(8900 * time.Millisecond) // asleep: the wall clock went on without the other
		near(t, "lease after a short sleep", a.Lease(), 100*time.Millisecond)
		n.clock.jump(200 * time.Millisecond)
		if s, l := a.State(), a.Lease(); s != member.Suspended || l != 0 {
			t.Errorf("after a sleep longer than the lease it is %v with %v left", s, l)
		}
		if err := a.Err(); err == nil {
			t.Error("a suspended member has no error")
		}
		n.kv.Down(false)
		c.pass(2 * time.Second) // well before the next renewal's turn: the look at the lease asked for one
		if s := a.State(); s != member.Active {
			t.Errorf("after a renewal it is %v", s)
		}
	})
}

// TestLeaseEndsByTheMonotonicClock: a wall clock that is set back gives no more time (C16).
func TestLeaseEndsByTheMonotonicClock(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		a, n := c.member("a"), c.node("a")
		n.kv.Down(true)
		n.clock.jump(-time.Hour)
		c.pass(9 * time.Second)
		near(t, "lease", a.Lease(), time.Second)
		c.pass(time.Second)
		if s := a.State(); s != member.Suspended {
			t.Errorf("after a lease without a renewal it is %v", s)
		}
	})
}

// TestClocksThatDrift: wall clocks that run apart by a second in each lease end nobody's lease while the store answers.
func TestClocksThatDrift(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		for range 30 {
			c.pass(time.Second)
			c.node("a").clock.jump(100 * time.Millisecond)
			c.node("b").clock.jump(-100 * time.Millisecond)
		}
		for _, name := range []string{"a", "b"} {
			if s := c.member(name).State(); s != member.Active {
				t.Errorf("%s is %v", name, s)
			}
		}
		if got := c.suspects("a"); len(got) > 0 {
			t.Errorf("a suspects %v", got)
		}
	})
}
