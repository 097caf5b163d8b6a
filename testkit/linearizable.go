package testkit

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkLimit bounds the check of one key, which is exponential in the calls whose outcome is open.
const checkLimit = 60 * time.Second

// Model says what a correct object would answer: Init makes its first state, Step gets an op's Do and output. An object
// is one key: the model does not see keys.
type Model struct {
	Init func() any
	// Step says whether output can be the answer in this state, and the next state, which must be comparable by ==. It is
	// not called for the output of a call that is open: see Open.
	Step func(state, do, output any) (ok bool, next any)
	// Open is the state after a call that took effect and whose answer was lost.
	Open func(state, do any) any
	// Reads reports whether an op changes nothing. Nil: each may.
	Reads func(do any) bool
}

// Add, Set and Read are what Register understands. The output of Add is the number it made, that of Read the number, and
// that of Set is not looked at.
type (
	Add  int
	Set  int
	Read struct{}
)

// Register is a number that begins at 0: a counter with Add, a register with Set.
func Register() Model {
	next := func(state, do any) (after any, answer any) {
		n := state.(int)
		switch d := do.(type) {
		case Add:
			return n + int(d), n + int(d)
		case Set:
			return int(d), nil
		}
		return n, n
	}
	return Model{
		Init: func() any { return 0 },
		Step: func(state, do, output any) (bool, any) {
			after, answer := next(state, do)
			return answer == nil || answer == output, after
		},
		Open:  func(state, do any) any { after, _ := next(state, do); return after },
		Reads: func(do any) bool { _, ok := do.(Read); return ok },
	}
}

// checker is the model as porcupine wants it.
func (m Model) checker() porcupine.Model {
	return porcupine.Model{
		Init: m.Init,
		Step: func(state, input, output any) (bool, any) {
			do := input.(Input).Do
			if _, ok := output.(unknown); ok {
				return true, m.Open(state, do)
			}
			return m.Step(state, do, output)
		},
		DescribeOperation: func(input, output any) string {
			if _, ok := output.(unknown); ok {
				output = "?"
			}
			do := input.(Input).Do
			return fmt.Sprintf("%s %s -> %v", strings.TrimPrefix(fmt.Sprintf("%T", do), "testkit."), strings.Trim(fmt.Sprint(do), "{}"), output)
		},
	}
}

// Linearizable fails the test unless each key's calls could have happened one after the other, each at some moment
// between its call and its answer. For a key where they could not, a picture is written that outlives the test; its path
// is in the failure.
func Linearizable(t testing.TB, h *History, m Model) {
	t.Helper()
	keys, byKey := h.operations(m.Reads)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex // guards bad
		bad  []string
		next = make(chan string) // closed below
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for key := range next {
				if r := porcupine.CheckOperationsTimeout(m.checker(), byKey[key], checkLimit); r != porcupine.Ok {
					mu.Lock()
					bad = append(bad, key)
					mu.Unlock()
				}
			}
		})
	}
	for _, key := range keys {
		next <- key
	}
	close(next)
	wg.Wait()
	for i, key := range bad {
		if i == maxPictures {
			t.Errorf("testkit: %d more keys are not linearizable", len(bad)-i)
			break
		}
		t.Errorf("testkit: %s", explain(t.Name(), m, key, byKey[key]))
	}
}

// maxPictures bounds the files that one failing test leaves behind.
const maxPictures = 5

func explain(test string, m Model, key string, ops []porcupine.Operation) string {
	result, info := porcupine.CheckOperationsVerbose(m.checker(), ops, checkLimit)
	what := "the calls of key %s are not linearizable"
	if result == porcupine.Unknown {
		what = fmt.Sprintf("whether the calls of key %%s are linearizable could not be decided within %v: too many of them are open", checkLimit)
	}
	what = fmt.Sprintf(what, key)
	dir, err := keep(test)
	if err == nil {
		path := filepath.Join(dir, fileName(key)+".html")
		if err = porcupine.VisualizePath(m.checker(), info, path); err == nil {
			what += ": see " + path
		}
	}
	if err != nil {
		what = fmt.Sprintf("%s (and the picture could not be written: %v)", what, err)
	}
	if result == porcupine.Illegal {
		what += "\n" + firstMisfit(m, ops)
	}
	return what
}

// shownCalls is how many calls firstMisfit lists.
const shownCalls = 12

// firstMisfit lists the calls up to the first whose answer does not fit those before it.
func firstMisfit(m Model, ops []porcupine.Operation) string {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	// until are the calls that began before the i-th was answered, as far as their answers were known then.
	until := func(i int) (list []porcupine.Operation) {
		for j, op := range ops {
			switch {
			case op.Call > ops[i].Return, j > i && m.Reads != nil && m.Reads(op.Input.(Input).Do):
				continue
			case j > i:
				op.Output, op.Return = unknown{}, math.MaxInt64
			}
			list = append(list, op)
		}
		return list
	}
	n := sort.Search(len(ops)-1, func(i int) bool {
		return porcupine.CheckOperationsTimeout(m.checker(), until(i), checkLimit) == porcupine.Illegal
	})
	var b strings.Builder
	b.WriteString("the last of these calls does not fit (when it began and ended):\n")
	at := func(t int64) string {
		if t == math.MaxInt64 {
			return "open"
		}
		return time.Duration(t).Round(time.Millisecond).String()
	}
	for _, op := range ops[max(0, n+1-shownCalls) : n+1] {
		fmt.Fprintf(&b, "  %s to %s  client %d  %s\n", at(op.Call), at(op.Return), op.ClientId, m.checker().DescribeOperation(op.Input, op.Output))
	}
	return b.String()
}

// keep makes a directory that is still there after the test.
func keep(test string) (string, error) {
	return os.MkdirTemp("", "raysys-"+fileName(test)+"-")
}

// fileName makes a file's name of a text: it leaves out all but letters, digits and a few signs.
func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '~'
	}, name)
}
