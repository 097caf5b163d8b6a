package wheel

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/internal/core"
)

func quiet() {}

// armedFor is the tick the timer is armed for, read under the lock.
func (w *Wheel) armedFor() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wake
}

// Setting and clearing far alarms arms the timer once; when it fires for nothing it is not armed again.
func TestTimerIsLazy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Stop()
		if w.timer != nil || w.armedFor() != unarmed {
			t.Fatal("a new wheel has a timer")
		}
		a := &core.Alarm{Ring: func() { t.Error("a cleared alarm rang") }}
		w.Move(a, w.Now()+int64(30*time.Second))
		w.Clear(a)
		armed := w.armedFor()
		if armed == unarmed {
			t.Fatal("timer not armed for the first alarm")
		}
		for range 1000 {
			w.Move(a, w.Now()+int64(30*time.Second))
			w.Clear(a)
			<-time.After(time.Millisecond)
		}
		if got := w.armedFor(); got != armed {
			t.Errorf("timer moved from tick %d to %d", armed, got)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if got := w.armedFor(); got != unarmed {
			t.Errorf("timer of an empty wheel is armed for tick %d", got)
		}
		// The next alarm arms it anew, from where the clock is and not from where the wheel last stood.
		now := w.Now()
		w.Move(a, now+int64(3*time.Millisecond))
		if want := now/tick + 3; w.armedFor() != want {
			t.Errorf("armed for tick %d, want %d", w.armedFor(), want)
		}
		w.Clear(a)
	})
}

// An alarm set while cur lags behind the clock still goes to the level of its distance from now, so that the timer is
// not armed for a time that has passed.
func TestLaggingCur(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Stop()
		far := &core.Alarm{At: int64(30 * time.Second), Ring: quiet}
		w.Set(far)
		<-time.After(5 * time.Second)
		synctest.Wait()
		near := &core.Alarm{At: w.Now() + 10*tick, Ring: quiet}
		w.Set(near)
		if want := w.Now()/tick + 10; w.armedFor() != want {
			t.Errorf("armed for tick %d, want %d", w.armedFor(), want)
		}
	})
}

// The timer is late, as on a loaded machine: an alarm set meanwhile must not carry the wheel past one that is due.
func TestSetWhileTheTimerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Stop()
		var rang []string
		due := &core.Alarm{At: 10 * tick, Ring: func() { rang = append(rang, "due") }}
		far := &core.Alarm{At: 70 * tick, Ring: func() { rang = append(rang, "far") }}
		w.Set(due)
		w.Set(far)
		w.start = w.start.Add(-time.Second) // a second passes and the timer has not fired
		late := &core.Alarm{Ring: func() { rang = append(rang, "late") }}
		w.Move(late, 5*tick)
		w.turn()
		if got := fmt.Sprint(rang); got != "[due late far]" {
			t.Errorf("rang %s, want [due late far]", got)
		}
	})
}

// A timer that fires while a turn runs does not ring beside it.
func TestOneTurnAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Stop()
		rang := 0
		w.Set(&core.Alarm{At: tick, Ring: func() {
			<-time.After(5 * time.Millisecond) // the next one is due by now
			w.turn()
			if rang != 0 {
				t.Error("two rang at once")
			}
			rang++
		}})
		w.Set(&core.Alarm{At: 2 * tick, Ring: func() { rang++ }})
		<-time.After(time.Second)
		synctest.Wait()
		if rang != 2 {
			t.Errorf("%d rang, want 2", rang)
		}
	})
}

func BenchmarkSetClear(b *testing.B) {
	w := New()
	defer w.Stop()
	a := &core.Alarm{At: w.Now() + int64(30*time.Second), Ring: quiet}
	b.ReportAllocs()
	for b.Loop() {
		w.Set(a)
		w.Clear(a)
	}
}

// BenchmarkSetClearNow is one call's deadline: the clock is read too.
func BenchmarkSetClearNow(b *testing.B) {
	w := New()
	defer w.Stop()
	a := &core.Alarm{Ring: quiet}
	b.ReportAllocs()
	for b.Loop() {
		w.Move(a, w.Now()+int64(30*time.Second))
		w.Clear(a)
	}
}

func BenchmarkSetClearParallel(b *testing.B) {
	w := New()
	defer w.Stop()
	b.RunParallel(func(pb *testing.PB) {
		a := &core.Alarm{At: w.Now() + int64(30*time.Second), Ring: quiet}
		for pb.Next() {
			w.Set(a)
			w.Clear(a)
		}
	})
}

// BenchmarkTimer is the raw limit's other side: what one runtime timer per deadline costs.
func BenchmarkTimer(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		time.AfterFunc(30*time.Second, quiet).Stop()
	}
}

// BenchmarkMillion holds a million alarms over a minute: the cost of each to set, and then to ring or to clear.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	run := func(b *testing.B, finish func(w *Wheel, alarms []core.Alarm)) {
		alarms := make([]core.Alarm, n)
		rang := 0
		var set, end time.Duration
		for b.Loop() {
			w := New()
			rang = 0
			begin := time.Now()
			for i := range alarms {
				// 30 s at least, so that the timer does not ring them behind the benchmark's back.
				alarms[i] = core.Alarm{At: int64(30*time.Second) + int64(i*7919%60_000)*tick, Ring: func() { rang++ }}
				w.Set(&alarms[i])
			}
			set += time.Since(begin)
			begin = time.Now()
			finish(w, alarms)
			end += time.Since(begin)
			if w.slots.count != 0 {
				b.Fatal(w.slots.count, "alarms left")
			}
			w.Stop()
		}
		if rang != 0 && rang != n {
			b.Fatal(rang, "rang")
		}
		b.ReportMetric(float64(set.Nanoseconds())/float64(b.N)/n, "ns/set")
		b.ReportMetric(float64(end.Nanoseconds())/float64(b.N)/n, "ns/end")
	}
	b.Run("clear", func(b *testing.B) {
		run(b, func(w *Wheel, alarms []core.Alarm) {
			for i := range alarms {
				w.Clear(&alarms[i])
			}
		})
	})
	b.Run("ring", func(b *testing.B) {
		run(b, func(w *Wheel, alarms []core.Alarm) {
			w.start = w.start.Add(-2 * time.Minute) // two minutes pass
			w.turn()
		})
	})
}
