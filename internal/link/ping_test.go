package link_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/linktest"
)

// TestAnswered: a pong says which ping was answered last. One who withholds its pongs is heard, and answers nothing, until it
// answers again; brisk pings come several times a second, others as ever.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := linktest.NewNetwork(1)
		a := open(t, "a", net.Transport("a"))
		b := open(t, "b", net.Transport("b"))
		to := a.connect(b)
		b.expect("up a")
		from := b.Peer("a")
		if _, ok := to.Answered(); ok {
			t.Error("a ping was answered before one was sent")
		}
		within := func(what string, least, most time.Duration) {
			t.Helper()
			synctest.Wait()
			if ago, ok := to.Answered(); !ok || ago < least || ago > most {
				t.Errorf("%s: the ping that was answered last is %v old (%v), want %v to %v", what, ago, ok, least, most)
			}
		}
		pass := func(d time.Duration) { <-time.After(d) }
		pass(1900 * time.Millisecond)
		within("as ever", 350*time.Millisecond, 450*time.Millisecond)
		to.Brisk(true)
		pass(time.Second)
		within("brisk", 0, 210*time.Millisecond)
		from.Withhold(true)
		pass(3 * time.Second)
		within("withheld", 2900*time.Millisecond, 3300*time.Millisecond)
		if s := to.Silence(); s > time.Second {
			t.Errorf("b withholds its pongs, and is not heard for %v", s)
		}
		from.Withhold(false)
		pass(time.Second)
		within("again", 0, 210*time.Millisecond)
		to.Brisk(false)
		pass(time.Second)
		within("not brisk", 350*time.Millisecond, 450*time.Millisecond)
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestPongOfNobody: a pong that returns what no ping carried proves nothing.
func TestPongOfNobody(t *testing.T) {
	for name, value := range map[string]uint64{"zero": 0, "unknown": 12345, "the end of time": 1 << 63} {
		if link.PongCounts(value) {
			t.Error(name)
		}
	}
	if !link.PongCounts(link.OwnPing) {
		t.Error("the pong of a ping that was sent counts for nothing")
	}
}
