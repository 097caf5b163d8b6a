package testkit

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
)

// Goroutines inherit the profiler labels of the one that started them, so a label set on the test's goroutine marks
// the node's workers, the tasks they run and whatever those start, and no other test's.

const labelName = "raysys-testkit"

// marks are those of the tests that have a Kit now, by the test's name. The Kits of one test, and of its subtests, share one:
// a goroutine that works for the node of one Kit may have been started by a test that has made another Kit since.
var marks = struct {
	sync.Mutex
	last uint64 // numbers them, so that tests that run at the same time tell theirs apart
	live map[string]mark
}{live: map[string]mark{}}

type mark string

// markGoroutines marks the goroutine of the test and all that it starts from now on. first says that the test, and those
// around it, had no Kit yet: then the mark is to be looked for when the test has ended, by left.
func markGoroutines(test string) (m mark, first bool) {
	marks.Lock()
	defer marks.Unlock()
	for name, live := range marks.live {
		if test == name || strings.HasPrefix(test, name+"/") {
			m = live
			break
		}
	}
	if first = m == ""; first {
		marks.last++
		m = mark(fmt.Sprintf("kit-%d", marks.last))
		marks.live[test] = m
	}
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelName, string(m))))
	return m, first
}

// unmark ends what markGoroutines began for the first Kit of a test.
func unmark(test string) {
	marks.Lock()
	defer marks.Unlock()
	delete(marks.live, test)
}

// unmarked runs f on a goroutine without a mark. What f starts serves a server that is older than the test's first Kit, and ends
// with the server: after the Kit's look for goroutines.
func unmarked(f func() error) error {
	err := make(chan error, 1)
	go func() {
		pprof.SetGoroutineLabels(context.Background())
		err <- f()
	}()
	return <-err
}

// left returns the stacks of marked goroutines that have not ended. Those on their way out are given some thousand
// turns of the scheduler.
func (m mark) left() []string {
	pprof.SetGoroutineLabels(context.Background())
	var stacks []string
	for range 2000 {
		if stacks = m.marked(); len(stacks) == 0 {
			return nil
		}
		for range 100 {
			runtime.Gosched()
		}
	}
	return stacks
}

// throttle is where goroutines stand that count lines of proto.Actor's log, such as dead letters. Each ends by itself, within moments.
const throttle = "/actor/throttler.go:"

func (m mark) marked() (stacks []string) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil
	}
	label := fmt.Sprintf("%q:%q", labelName, string(m))
	for _, s := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(s, label) && !strings.Contains(s, throttle) {
			stacks = append(stacks, s)
		}
	}
	return stacks
}
