package wheel_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/internal/wheel"
)

// Rough is at most a tick behind while it is read, and exact when it was not read for long.
func TestRoughIsATickOldAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wheel.New()
		defer w.Stop()
		for _, pause := range []time.Duration{
			0, 100 * time.Microsecond, 500 * time.Microsecond, 999 * time.Microsecond, time.Millisecond, 1001 * time.Microsecond,
			0, 5 * time.Millisecond, time.Hour, 300 * time.Microsecond, 24 * time.Hour,
		} {
			<-time.After(pause)
			synctest.Wait()
			for range 3 {
				if now, got := w.Now(), w.Rough(); got > now || now-got > int64(time.Millisecond) {
					t.Errorf("after %v: Rough is %v behind Now", pause, time.Duration(now-got))
				}
			}
		}
	})
}

// Its timer ends when nobody reads, or the bubble would never come to rest and the test would hang in virtual time.
func TestRoughStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wheel.New()
		w.Rough()
		w.Rough()
		<-time.After(time.Second)
		w.Stop()
		if now, got := w.Now(), w.Rough(); got != now {
			t.Errorf("after Stop: Rough %d, Now %d", got, now)
		}
	})
}

func BenchmarkRough(b *testing.B) {
	w := wheel.New()
	defer w.Stop()
	for b.Loop() {
		w.Rough()
	}
}
