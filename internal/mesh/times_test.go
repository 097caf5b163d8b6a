package mesh

import (
	"testing"
	"time"
)

// TestTimesFollowTheLease: a broken pair is found and relayed before the members vote, and a connection that lost frames is made
// anew, within each lease; from 10 s on the times are the same.
func TestTimesFollowTheLease(t *testing.T) {
	long := TimesOf(10 * time.Second)
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
		c := TimesOf(ttl)
		if c.Silent+2*c.Dial > ttl || c.Silent/4 != c.Ping || c.Handshake > ttl/2 || c.Loss > ttl/2 {
			t.Errorf("the times of a lease of %v do not fit into it: %+v", ttl, c)
		}
		if ttl >= 10*time.Second && c != long {
			t.Errorf("the times of a lease of %v are %+v, those of 10 s %+v", ttl, c, long)
		}
	}
}
