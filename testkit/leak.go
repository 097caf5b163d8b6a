package testkit

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
)

// Goroutines inherit the profiler labels of the one that started them, so a label set on the test's goroutine marks
// the node's workers, the tasks they run and whatever those start, and no other test's.

const labelName = "raysys-testkit"

// marks numbers the Kits of the process, so that tests that run at the same time tell theirs apart.
var marks atomic.Uint64

type mark string

func markGoroutines() mark {
	m := mark(fmt.Sprintf("kit-%d", marks.Add(1)))
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(labelName, string(m))))
	return m
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

// deadLetters ends by itself, moments after its actor system: it counts dead letters.
const deadLetters = "protoactor-go/actor.NewDeadLetter.NewThrottle"

func (m mark) marked() (stacks []string) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil
	}
	label := fmt.Sprintf("%q:%q", labelName, string(m))
	for _, s := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(s, label) && !strings.Contains(s, deadLetters) {
			stacks = append(stacks, s)
		}
	}
	return stacks
}
