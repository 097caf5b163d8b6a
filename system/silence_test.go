package system_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/system"
)

// TestSilence: what Config.Cluster.Silence and RAYSYS_SILENCE can be, and what is said of the rest.
func TestSilence(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		ttl, silence time.Duration
		talk         string // "": it is good
	}{
		{0, 0, ""},
		{0, 10 * s, ""},
		{0, 600 * time.Millisecond, ""},
		{3 * s, 0, ""},
		{300 * time.Millisecond, 0, ""},
		{300 * time.Millisecond, 300 * time.Millisecond, ""},
		{0, -s, "(RAYSYS_SILENCE) is -1s: give 600ms to the TTL (RAYSYS_TTL), which is 10s"},
		{0, 599 * time.Millisecond, "is 599ms: give 600ms to the TTL"},
		{0, 11 * s, "is 11s: give 600ms to the TTL (RAYSYS_TTL), which is 10s"},
		{3 * s, 4 * s, "is 4s: give 600ms to the TTL (RAYSYS_TTL), which is 3s"},
		{0, math.MaxInt64, "is 2562047h47m16.854775807s: give"},
		{300 * time.Millisecond, 200 * time.Millisecond, "is 200ms: give 300ms to the TTL (RAYSYS_TTL), which is 300ms"},
	} {
		_, err := system.New(system.Config{Table: table, Cluster: &system.ClusterConfig{Consul: "127.0.0.1:1", TTL: c.ttl, Silence: c.silence}})
		if (err == nil) != (c.talk == "") || err != nil && !strings.Contains(err.Error(), c.talk) {
			t.Errorf("TTL %v, silence %v: %v, want %q", c.ttl, c.silence, err, c.talk)
		}
	}
	for _, bad := range []string{"0", "0s", "-1s", "4", "NaN", "9e99s"} {
		t.Setenv("RAYSYS_SILENCE", bad)
		t.Setenv("RAYSYS_CONSUL", "127.0.0.1:1")
		if _, err := system.FromEnv(); err == nil || !strings.Contains(err.Error(), "RAYSYS_SILENCE") || !strings.Contains(err.Error(), "a positive duration") {
			t.Errorf("RAYSYS_SILENCE=%s: %v", bad, err)
		}
	}
}
