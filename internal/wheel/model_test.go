package wheel_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wheel"
)

// step is one line of a generated story over eight alarms.
type step struct {
	verb  string
	alarm int
	by    time.Duration // from now: At for set, the pause for pass
}

// ring is what the model remembers of an alarm that is set.
type ring struct {
	alarm int
	at    int64
	set   int64 // when it was set: a time in the past counts from here
}

// TestModel runs random stories on the wheel and on a sorted list, in virtual time, and compares what rang and when.
func TestModel(t *testing.T) {
	// Powers of 64 ticks and their neighbours, where alarms change level, are drawn far more often than by chance.
	pause := rapid.Custom(func(r *rapid.T) time.Duration {
		level := rapid.IntRange(0, 5).Draw(r, "level")
		span := time.Duration(1) << (6 * level) * ms
		return rapid.OneOf(
			rapid.Just(span), rapid.Just(span-1), rapid.Just(span+ms), rapid.Just(time.Duration(0)),
			rapid.Map(rapid.Int64Range(0, int64(2*span)), func(n int64) time.Duration { return time.Duration(n) }),
		).Draw(r, "pause")
	})
	steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
		return step{
			verb:  rapid.SampledFrom([]string{"set", "set", "clear", "pass"}).Draw(r, "verb"),
			alarm: rapid.IntRange(0, 7).Draw(r, "alarm"),
			by:    pause.Draw(r, "by"),
		}
	}), 1, 60)
	rapid.Check(t, func(r *rapid.T) {
		story := steps.Draw(r, "story")
		var wrong string
		synctest.Test(t, func(*testing.T) { wrong = tell(story) })
		if wrong != "" {
			r.Fatal(wrong)
		}
	})
}

// tell runs the story and returns the first difference between wheel and model.
func tell(story []step) string {
	w := wheel.New()
	defer w.Stop()
	type rung struct {
		alarm int
		now   int64
	}
	var mu sync.Mutex // guards rang: time that passes in a bubble orders nothing for the race detector
	var rang []rung
	alarms := make([]core.Alarm, 8)
	for i := range alarms {
		alarms[i].Ring = func() {
			mu.Lock()
			rang = append(rang, rung{i, w.Now()})
			mu.Unlock()
		}
	}
	var model []ring
	drop := func(alarm int) bool {
		n := len(model)
		model = slices.DeleteFunc(model, func(x ring) bool { return x.alarm == alarm })
		return len(model) < n
	}
	// settle takes what rang since the last call out of the model and compares.
	settle := func() string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		now := w.Now()
		for i, x := range rang {
			if i > 0 && x.now < rang[i-1].now {
				return "rings out of order"
			}
			k := slices.IndexFunc(model, func(m ring) bool { return m.alarm == x.alarm })
			if k < 0 {
				return fmt.Sprintf("alarm %d rang at %d and was not set", x.alarm, x.now)
			}
			m := model[k]
			if x.now < m.at || x.now > max(m.at, m.set)+int64(late) {
				return fmt.Sprintf("alarm %d, set at %d for %d, rang at %d", m.alarm, m.set, m.at, x.now)
			}
			model = slices.Delete(model, k, k+1)
		}
		rang = rang[:0]
		for _, m := range model {
			if max(m.at, m.set)+int64(late) < now {
				return fmt.Sprintf("alarm %d, set at %d for %d, has not rung at %d", m.alarm, m.set, m.at, now)
			}
		}
		return ""
	}
	for n, s := range story {
		switch s.verb {
		case "set":
			drop(s.alarm)
			at := w.Now() + int64(s.by)
			w.Move(&alarms[s.alarm], at)
			model = append(model, ring{alarm: s.alarm, at: at, set: w.Now()})
		case "clear":
			if got, want := w.Clear(&alarms[s.alarm]), drop(s.alarm); got != want {
				return fmt.Sprintf("step %d: Clear(%d) = %v, want %v", n, s.alarm, got, want)
			}
		case "pass":
			<-time.After(s.by)
		}
		if wrong := settle(); wrong != "" {
			return fmt.Sprintf("step %d: %s", n, wrong)
		}
	}
	<-time.After(30 * day) // the farthest alarm is 24.8 days away
	if wrong := settle(); wrong != "" {
		return "at the end: " + wrong
	}
	return ""
}
