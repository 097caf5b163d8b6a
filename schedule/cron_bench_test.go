package schedule

import (
	"testing"
	"time"
)

// BenchmarkCronNext: what a time costs of those that an outage has left behind, which are counted one by one.
func BenchmarkCronNext(b *testing.B) {
	for _, line := range []string{"* * * * *", "* 0-23 * * *", "*/5 8-18 * * *", "30 2 * * mon-fri", "0 0 29 2 *"} {
		b.Run(line, func(b *testing.B) {
			w, t := Cron(line, "Europe/Berlin"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
			for b.Loop() {
				if t = w.next(t); t == 0 {
					t = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
				}
			}
		})
	}
}
