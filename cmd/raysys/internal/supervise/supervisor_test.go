package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
)

// actor is a program in virtual time: what it does when started, when asked to drain, and when killed.
type actor struct {
	after      time.Duration // exits by itself; 0 does not
	code       int
	drains     time.Duration // from SIGTERM to the exit; -1 never
	drainsWith int
	drainsBy   string // signal
	told       supervise.Told
}

type fakeProcess struct {
	actor
	pid    int
	born   time.Time
	exited chan supervise.Exit
	timer  *time.Timer
	world  *world
}

// world launches the actors in turn, the last one again and again, and keeps a diary in seconds of virtual time.
type world struct {
	t      *testing.T
	start  time.Time
	plan   []actor
	starts int
	tooFar context.CancelFunc // ends a story that has more starts than any should; nil for no bound
	diary  []string
	report func(context.Context) error
	talk   bytes.Buffer
}

func (w *world) note(format string, args ...any) {
	w.diary = append(w.diary, fmt.Sprintf("%v ", time.Since(w.start).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) launch() (supervise.Process, error) {
	a := w.plan[min(w.starts, len(w.plan)-1)]
	w.starts++
	if w.starts == len(w.plan)+mostRestarts && w.tooFar != nil {
		w.t.Errorf("start %d: a program whose last start is final is started again and again", w.starts)
		w.tooFar()
	}
	if a.code == badStart {
		w.note("no start")
		return nil, errors.New("text file busy")
	}
	p := &fakeProcess{actor: a, pid: w.starts, born: time.Now(), exited: make(chan supervise.Exit, 1), world: w}
	w.note("start %d", p.pid)
	if a.after > 0 {
		p.end(a.after, a.code, "")
	}
	return p, nil
}

const badStart = -99

// mostRestarts is more starts than any story has after those of its plan.
const mostRestarts = 10

func (p *fakeProcess) end(in time.Duration, code int, signal string) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(in, func() {
		p.exited <- supervise.Exit{PID: p.pid, Ran: time.Since(p.born), Code: code, Signal: signal, Told: p.told}
	})
}

func (p *fakeProcess) PID() int                      { return p.pid }
func (p *fakeProcess) Exited() <-chan supervise.Exit { return p.exited }
func (p *fakeProcess) Close() []string               { return []string{fmt.Sprintf("line of %d", p.pid)} }

func (p *fakeProcess) Terminate() error {
	p.world.note("term %d", p.pid)
	if p.drains >= 0 {
		p.end(p.drains, p.drainsWith, p.drainsBy)
	}
	return nil
}

func (p *fakeProcess) Kill() error {
	p.world.note("kill %d", p.pid)
	p.end(time.Millisecond, -1, "killed")
	return nil
}

func (w *world) Exited(ctx context.Context, node raysys.NodeID, e supervise.Exit) error {
	w.note("report %s %d", node, e.PID)
	if w.report != nil {
		return w.report(ctx)
	}
	return nil
}

// TestStories: seconds at which things happen, for a plan of processes, a drain and a kill.
func TestStories(t *testing.T) {
	const second = time.Second
	serve := actor{drains: second}
	crash := actor{after: second, code: 1}
	for name, c := range map[string]struct {
		plan        []actor
		drain, kill time.Duration // when; 0 never
		report      func(context.Context) error
		want        []string
		err         error
		text        []string // parts of the error
		talk        []string // parts of what was said
	}{
		"a drain lets it end": {
			plan: []actor{serve}, drain: 5 * second,
			want: []string{"0 start 1", "5 term 1", "6 report n 1", "6 end"},
		},
		"an exit with 0 that nobody asked for is a death": {
			plan: []actor{{after: 20 * second}, serve}, drain: 30 * second,
			want: []string{"0 start 1", "20 report n 1", "20.1 start 2", "30 term 2", "31 report n 2", "31 end"},
			talk: []string{"no drain was asked for: this counts as a failure\nnext start in 100ms\n"},
		},
		"exits with 0 before it was up": {
			plan: []actor{{after: second}},
			want: []string{
				"0 start 1", "1 report n 1", "1.1 start 2", "2.1 report n 2", "2.3 start 3", "3.3 report n 3", "3.7 start 4", "4.7 report n 4",
				"5.5 start 5", "6.5 report n 5", "6.5 end",
			},
			err: supervise.ErrCrashing,
		},
		"a drain asked for in the cluster": {
			plan: []actor{{after: 3 * second, told: supervise.Draining}},
			want: []string{"0 start 1", "3 report n 1", "3 end"},
		},
		"a drain asked for in the cluster is final, however it ends": {
			plan: []actor{{after: 3 * second, code: 1, told: supervise.Draining}},
			want: []string{"0 start 1", "3 report n 1", "3 end"},
			talk: []string{"it was asked to drain, and did not end well: its last lines are:\n\tline of 1\n"},
		},
		"a drain that was taken back": {
			plan: []actor{{after: 20 * second, told: supervise.Staying}, serve}, drain: 30 * second,
			want: []string{"0 start 1", "20 report n 1", "20.1 start 2", "30 term 2", "31 report n 2", "31 end"},
		},
		"a restart is no death, however it ends": {
			plan: []actor{
				{after: 3 * second, told: supervise.Restarting},
				{after: 2 * second, code: 1, told: supervise.Restarting},
				{after: second, code: -1, told: supervise.Restarting},
				serve,
			}, drain: 30 * second,
			want: []string{
				"0 start 1", "3 report n 1", "3 start 2", "5 report n 2", "5 start 3", "6 report n 3", "6 start 4", "30 term 4", "31 report n 4", "31 end",
			},
			talk: []string{"starting it again, as it was asked", "it did not end well: its last lines are:\n\tline of 2\n"},
		},
		"a program that came back from a restart is never given up, and its pauses are those of its deaths": {
			plan: []actor{{after: second, code: 1}, {after: second, told: supervise.Restarting}, crash, crash, crash, crash, crash, serve}, drain: 60 * second,
			want: []string{
				"0 start 1", "1 report n 1", "1.1 start 2", "2.1 report n 2", "2.1 start 3", "3.1 report n 3", "3.3 start 4", "4.3 report n 4",
				"4.7 start 5", "5.7 report n 5", "6.5 start 6", "7.5 report n 6", "9.1 start 7", "10.1 report n 7", "13.3 start 8", "60 term 8", "61 report n 8", "61 end",
			},
		},
		"a signal while it restarts is final": {
			plan: []actor{{drains: second, told: supervise.Restarting}, serve}, drain: 5 * second,
			want: []string{"0 start 1", "5 term 1", "6 report n 1", "6 end"},
		},
		"a configuration that cannot be meant": {
			plan: []actor{{after: second, code: 2, told: supervise.Misconfigured}},
			want: []string{"0 start 1", "1 report n 1", "1 end"},
			err:  supervise.ErrConfig, text: []string{"exit code 2", "line of 1"},
		},
		"a panic, which ends with 2 too": {
			plan: []actor{{after: 20 * second, code: 2}, serve}, drain: 30 * second,
			want: []string{"0 start 1", "20 report n 1", "20.1 start 2", "30 term 2", "31 report n 2", "31 end"},
		},
		"a drain that goes wrong": {
			plan: []actor{{drains: second, drainsWith: 7}}, drain: second,
			want: []string{"0 start 1", "1 term 1", "2 report n 1", "2 end"},
			err:  errAny, text: []string{"drain: process 1 ended with exit code 7 after 2s", "line of 1"},
		},
		"a drain of a program that has no handler": {
			plan: []actor{{drains: second, drainsWith: -1, drainsBy: "terminated"}}, drain: second,
			want: []string{"0 start 1", "1 term 1", "2 report n 1", "2 end"},
		},
		"a program that dies while it drains": {
			plan: []actor{{drains: second, drainsWith: -1, drainsBy: "segmentation fault"}}, drain: second,
			want: []string{"0 start 1", "1 term 1", "2 report n 1", "2 end"},
			err:  errAny, text: []string{"ended by signal (segmentation fault)"},
		},
		"a drain that takes too long": {
			plan: []actor{{drains: -1}}, drain: second,
			want: []string{"0 start 1", "1 term 1", "61 kill 1", "61.001 report n 1", "61.001 end"},
			err:  supervise.ErrGrace, text: []string{"killed", "(1m0s)", "--grace"},
		},
		"a second signal": {
			plan: []actor{{drains: -1}}, drain: second, kill: 3 * second,
			want: []string{"0 start 1", "1 term 1", "3 kill 1", "3.001 report n 1", "3.001 end"},
			err:  supervise.ErrKilled,
		},
		"death after a long life starts it soon": {
			plan: []actor{{after: 100 * second, code: 1}, {after: 10 * second, code: 1}, serve}, drain: 200 * second,
			want: []string{"0 start 1", "100 report n 1", "100.1 start 2", "110.1 report n 2", "110.2 start 3", "200 term 3", "201 report n 3", "201 end"},
			talk: []string{"process 1 ended with exit code 1 after 1m40s\n", "next start in 100ms\n"},
		},
		"pauses double, and a program that never came up is given up": {
			plan: []actor{crash},
			want: []string{
				"0 start 1", "1 report n 1", "1.1 start 2", "2.1 report n 2", "2.3 start 3", "3.3 report n 3", "3.7 start 4", "4.7 report n 4",
				"5.5 start 5", "6.5 report n 5", "6.5 end",
			},
			err: supervise.ErrCrashing, text: []string{"5 starts in a row ended within 10s", "\n\tline of 5"},
		},
		"a program that cannot be started": {
			plan: []actor{{code: badStart}},
			want: []string{"0 no start", "0.1 no start", "0.3 no start", "0.7 no start", "1.5 no start", "1.5 end"},
			err:  supervise.ErrCrashing, text: []string{"text file busy"},
		},
		"a program that was up is never given up": {
			plan: []actor{{after: 20 * second, code: 1}, crash, crash, crash, crash, crash, {after: 10 * second, code: 1}, crash, serve}, drain: 60 * second,
			want: []string{
				"0 start 1", "20 report n 1", "20.1 start 2", "21.1 report n 2", "21.2 start 3", "22.2 report n 3", "22.4 start 4", "23.4 report n 4",
				"23.8 start 5", "24.8 report n 5", "25.6 start 6", "26.6 report n 6", "28.2 start 7", "38.2 report n 7", "38.3 start 8", "39.3 report n 8",
				"39.4 start 9", "60 term 9", "61 report n 9", "61 end",
			},
			talk: []string{"the program was up before, but now never came up: 5 starts in a row", "line of 6"},
		},
		"a drain between two lives": {
			plan: []actor{crash}, drain: 1050 * time.Millisecond,
			want: []string{"0 start 1", "1 report n 1", "1.05 end"},
		},
		"a kill between two lives": {
			plan: []actor{crash}, kill: 1050 * time.Millisecond,
			want: []string{"0 start 1", "1 report n 1", "1.05 end"},
		},
		"a drain before the first": {
			plan: []actor{serve}, drain: -1,
			want: []string{"0 end"},
		},
		"a report that hangs ends before the next start": {
			plan: []actor{{after: 20 * second, code: 1}, {after: second, told: supervise.Draining}},
			report: func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			},
			want: []string{"0 start 1", "20 report n 1", "25.1 start 2", "26.1 report n 2", "31.1 end"},
			talk: []string{"report the exit: the report took too long: the cluster finds out when the lease runs out"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, start: time.Now(), plan: c.plan, report: c.report}
				s, err := supervise.New(supervise.Config{
					Name: "n", Launch: w.launch, Reporter: w, Talk: &w.talk, Grace: time.Minute, Draw: func() float64 { return 0 },
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w.tooFar = cancel
				kill := make(chan struct{})
				if c.drain < 0 {
					cancel()
				} else if c.drain > 0 {
					defer time.AfterFunc(c.drain, cancel).Stop()
				}
				if c.kill > 0 {
					defer time.AfterFunc(c.kill, func() { close(kill) }).Stop()
				}
				err = s.Run(ctx, kill)
				w.note("end")
				if diff := cmp.Diff(c.want, w.diary); diff != "" {
					t.Errorf("diary:\n%s", diff)
				}
				if (err == nil) != (c.err == nil) || c.err != nil && c.err != errAny && !errors.Is(err, c.err) {
					t.Errorf("got %v, want %v", err, c.err)
				}
				for _, part := range c.text {
					if err != nil && !strings.Contains(err.Error(), part) {
						t.Errorf("the error is %q, want %q in it", err, part)
					}
				}
				for _, part := range c.talk {
					if !strings.Contains(w.talk.String(), part) {
						t.Errorf("it said %q, want %q in it", w.talk.String(), part)
					}
				}
			})
		})
	}
}

var errAny = errors.New("any")

// The longest pause stays, however often the program dies, and the draw takes at most half of it.
func TestPausesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Time
		w := &world{t: t, start: time.Now(), plan: []actor{{after: 11 * time.Second, code: 1}, {after: time.Millisecond, code: 1}}}
		s, err := supervise.New(supervise.Config{
			Launch: func() (supervise.Process, error) {
				starts = append(starts, time.Now())
				return w.launch()
			},
			Draw: func() float64 { return 0.999999 },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		if err := s.Run(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if len(starts) < 300 {
			t.Fatalf("%d starts in two hours", len(starts))
		}
		for i := 20; i < len(starts); i++ {
			if d := starts[i].Sub(starts[i-1]); d < 15*time.Second || d > 31*time.Second {
				t.Fatalf("start %d came %v after the one before", i, d)
			}
		}
	})
}

func TestBadConfig(t *testing.T) {
	launch := func() (supervise.Process, error) { return nil, nil }
	for text, cfg := range map[string]supervise.Config{
		"Config.Launch is nil": {},
		"Config.Grace is -1ns": {Launch: launch, Grace: -1},
	} {
		if _, err := supervise.New(cfg); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}
