package wheel_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wheel"
)

const (
	ms  = time.Millisecond
	day = 24 * time.Hour
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// late is how far after its At an alarm may ring in virtual time, where timers are exact.
const late = ms

func TestAlarmRingsAtItsTime(t *testing.T) {
	// Both sides of each level's span, and beyond the 12.4 days after which the top level comes round.
	waits := []time.Duration{
		-time.Hour, 0, 1, ms - 1, ms, ms + 1, 62 * ms, 63 * ms, 64 * ms, 65 * ms,
		4095 * ms, 4096 * ms, 4097 * ms, 30 * time.Second, 262143 * ms, 262144 * ms, 15 * time.Minute,
		time.Duration(1)<<24*ms - 1, time.Duration(1) << 24 * ms, 24 * time.Hour,
		time.Duration(1)<<30*ms - 1, time.Duration(1) << 30 * ms, time.Duration(1)<<30*ms + 1,
		13 * day, 30 * day, 400 * day,
	}
	// The wheel's position when the alarm is set decides its level, so each wait is tried from several.
	for _, from := range []time.Duration{0, ms / 2, 63 * ms, 5000 * ms, time.Duration(1)<<30*ms - 3*ms, 20 * day} {
		t.Run(from.String(), func(t *testing.T) {
			for _, wait := range waits {
				synctest.Test(t, func(t *testing.T) {
					w := wheel.New()
					defer w.Stop()
					<-time.After(from)
					set := w.Now()
					rang := int64(-1)
					a := &core.Alarm{At: set + int64(wait), Ring: func() { rang = w.Now() }}
					w.Set(a)
					<-time.After(max(wait, 0) + 2*ms)
					synctest.Wait()
					if due := max(a.At, set); rang < a.At || rang > due+int64(late) {
						t.Errorf("wait %v: rang at %v, due at %v", wait, time.Duration(rang), time.Duration(due))
					}
					if w.Clear(a) {
						t.Errorf("wait %v: Clear of an alarm that rang = true", wait)
					}
				})
			}
		})
	}
}

func TestClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wheel.New()
		defer w.Stop()
		var rang []string
		alarm := func(name string, at time.Duration) *core.Alarm {
			return &core.Alarm{At: int64(at), Ring: func() { rang = append(rang, name) }}
		}
		// a, b and c share a slot; b leaves its middle, then c its end, then a is alone.
		a, b, c := alarm("a", 70*ms), alarm("b", 70*ms), alarm("c", 70*ms)
		never := alarm("never", ms)
		for _, x := range []*core.Alarm{a, b, c} {
			w.Set(x)
		}
		steps := []struct {
			alarm *core.Alarm
			want  bool
		}{{never, false}, {b, true}, {b, false}, {c, true}}
		for i, s := range steps {
			if got := w.Clear(s.alarm); got != s.want {
				t.Errorf("step %d: Clear = %v, want %v", i, got, s.want)
			}
		}
		d := alarm("d", 70*ms)
		w.Set(d)
		<-time.After(time.Second)
		synctest.Wait()
		if got := fmt.Sprint(rang); got != "[a d]" {
			t.Errorf("rang %s, want [a d]", got)
		}
		if w.Clear(a) {
			t.Error("Clear after the ring = true")
		}
	})
}

func TestMoveAndSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wheel.New()
		defer w.Stop()
		var rang []time.Duration
		a := &core.Alarm{At: int64(time.Second), Ring: func() { rang = append(rang, time.Duration(w.Now())) }}
		w.Set(a)
		w.Set(a)                            // in place: still one ring
		w.Move(a, int64(3*time.Second))     // later
		<-time.After(2 * time.Second)       // its first time passes in silence
		w.Move(a, int64(2500*ms))           // earlier
		<-time.After(1 * time.Second)       // 3 s
		w.Move(a, int64(4*time.Second))     // after it rang
		<-time.After(2 * time.Second)       // 5 s
		w.Move(a, w.Now()-int64(time.Hour)) // into the past: at once
		<-time.After(2 * ms)
		synctest.Wait()
		if got, want := fmt.Sprint(rang), fmt.Sprint([]time.Duration{2500 * ms, 4000 * ms, 5000 * ms}); got != want {
			t.Errorf("rang %s, want %s", got, want)
		}
	})
}

// A Ring reaches the other alarms that are due in the same tick: they have not rung yet.
func TestRingMayUseTheWheel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wheel.New()
		defer w.Stop()
		var rang []string
		note := func(name string) { rang = append(rang, fmt.Sprintf("%s@%v", name, time.Duration(w.Now()))) }
		var first, cleared, moved, again core.Alarm
		times := 0
		first = core.Alarm{At: int64(10 * ms), Ring: func() {
			note("first")
			if !w.Clear(&cleared) {
				t.Error("Clear of an alarm due in the same tick = false")
			}
			if w.Clear(&first) {
				t.Error("Clear of the alarm that rings = true")
			}
			w.Move(&moved, int64(20*ms))
		}}
		cleared = core.Alarm{At: int64(10 * ms), Ring: func() { note("cleared") }}
		moved = core.Alarm{At: int64(10 * ms), Ring: func() { note("moved") }}
		again = core.Alarm{At: int64(10 * ms), Ring: func() {
			note("again")
			if times++; times < 3 {
				w.Move(&again, w.Now()+int64(ms))
			}
		}}
		for _, a := range []*core.Alarm{&first, &cleared, &moved, &again} {
			w.Set(a)
		}
		<-time.After(time.Second)
		synctest.Wait()
		if got, want := fmt.Sprint(rang), "[first@10ms again@10ms again@11ms again@12ms moved@20ms]"; got != want {
			t.Errorf("rang %s, want %s", got, want)
		}
	})
}

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := wheel.New()
		rang := 0
		alarms := make([]core.Alarm, 100)
		for i := range alarms {
			alarms[i] = core.Alarm{At: int64(i/2) * int64(time.Second), Ring: func() { rang++ }}
			w.Set(&alarms[i])
		}
		<-time.After(10*time.Second + ms)
		synctest.Wait()
		before := rang
		w.Stop()
		w.Stop() // again is harmless
		w.Set(&alarms[0])
		w.Move(&alarms[99], w.Now())
		if w.Clear(&alarms[0]) || w.Clear(&alarms[99]) || w.Clear(&alarms[50]) {
			t.Error("Clear after Stop = true")
		}
		if a := alarms[50]; a.Next != nil || a.Prev != nil {
			t.Error("a stopped wheel still links its alarms")
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if before != 22 || rang != before {
			t.Errorf("%d rang before Stop, want 22; %d in all", before, rang)
		}
	})
}

// Stop waits for the Ring that runs, and the rest of its tick does not ring.
func TestStopDuringRing(t *testing.T) {
	w := wheel.New()
	inside, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{}) // closed by the first Ring, by the test, and by that Ring's end
	var rang atomic.Int32
	first := &core.Alarm{Ring: func() {
		rang.Add(1)
		close(inside)
		<-leave
		close(left)
	}}
	rest := &core.Alarm{Ring: func() { rang.Add(1) }}
	at := w.Now() + int64(5*ms)
	w.Move(first, at)
	w.Move(rest, at)
	<-inside
	waited := make(chan bool, 1) // Stop has returned: whether the Ring had ended by then
	go func() {
		w.Stop()
		select {
		case <-left:
			waited <- true
		default:
			waited <- false
		}
	}()
	// Until Stop has begun, rest is still set: Clear and Set it again to see when it is gone.
	for w.Clear(rest) {
		w.Set(rest)
	}
	close(leave)
	if !<-waited {
		t.Error("Stop returned while a Ring ran")
	}
	<-left
	if n := rang.Load(); n != 1 {
		t.Errorf("%d alarms rang, want 1: what is set for the rest of a tick must not ring after Stop", n)
	}
}

// Every setting ends in exactly one of a ring and a Clear that says true, however they race.
func TestSetClearRace(t *testing.T) {
	w := wheel.New()
	defer w.Stop()
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			rang := make(chan struct{}, 1)
			a := &core.Alarm{Ring: func() { rang <- struct{}{} }}
			for i := range 100 {
				w.Move(a, w.Now()+int64((i*7+g)%5)*int64(ms)/4)
				if i%10 == 0 {
					<-rang // waited out
					if w.Clear(a) {
						t.Error("Clear after the ring = true")
					}
					continue
				}
				if !w.Clear(a) {
					<-rang
				}
				select {
				case <-rang:
					t.Error("rang after Clear said true, or twice")
				default:
				}
			}
		})
	}
	group.Wait()
}

func TestStopRace(t *testing.T) {
	for range 20 {
		w := wheel.New()
		var stopped atomic.Bool
		var group sync.WaitGroup
		begun := make(chan struct{}) // closed when the first alarm rings
		var once sync.Once
		for range 3 {
			group.Go(func() {
				for !stopped.Load() {
					a := &core.Alarm{At: w.Now() + int64(ms)/2, Ring: func() {
						if stopped.Load() {
							t.Error("an alarm rang after Stop returned")
						}
						once.Do(func() { close(begun) })
					}}
					w.Set(a)
				}
			})
		}
		<-begun
		w.Stop()
		stopped.Store(true)
		group.Wait()
	}
}
