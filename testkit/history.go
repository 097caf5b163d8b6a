package testkit

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// History records the calls of a cluster's clients and their answers, for Linearizable. Each call is one Op; calls of
// one client follow each other. It may be used from many goroutines.
//
//	op := h.Begin(client, key, testkit.Add(1))
//	n, err := add.Call(ctx, counters.Get(key), 1).Get(ctx)
//	op.End(n, err)
type History struct {
	origin time.Time
	clock  atomic.Int64 // the last stamp given: two events never share one

	mu  sync.Mutex // guards ops
	ops []*Op
}

// NewHistory makes an empty history.
func NewHistory() *History { return &History{origin: time.Now()} }

// Op is one call on its way.
type Op struct {
	h       *History
	client  int
	input   Input
	call    int64
	answer  int64 // 0 while it is open
	output  any
	outcome outcome
}

type outcome uint8

const (
	open outcome = iota
	done
	refused
)

// Input is what a call asks of the object with this key. Do is the model's.
type Input struct {
	Key string
	Do  any
}

// stamp returns a time that is later than all that were given before, so that an order that was seen is in the history.
func (h *History) stamp() int64 {
	for {
		last := h.clock.Load()
		now := max(int64(time.Since(h.origin)), last+1)
		if h.clock.CompareAndSwap(last, now) {
			return now
		}
	}
}

// Begin is called before the call goes out.
func (h *History) Begin(client int, key string, do any) *Op {
	op := &Op{h: h, client: client, input: Input{Key: key, Do: do}}
	h.mu.Lock()
	defer h.mu.Unlock()
	op.call = h.stamp()
	h.ops = append(h.ops, op)
	return op
}

// End is called with the answer. With an error the call may or may not have taken effect, at any time from then on,
// unless NotDone says that it was refused.
func (o *Op) End(output any, err error) {
	o.h.mu.Lock()
	defer o.h.mu.Unlock()
	switch {
	case err == nil:
		o.outcome, o.output = done, output
	case NotDone(err):
		o.outcome = refused
	default:
		return // it stays open
	}
	o.answer = o.h.stamp()
}

// Counts says how many calls were answered, were refused without effect, and are open: sent, with no certain outcome.
func (h *History) Counts() (answered, refusedCalls, openCalls int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		switch o.outcome {
		case done:
			answered++
		case refused:
			refusedCalls++
		default:
			openCalls++
		}
	}
	return answered, refusedCalls, openCalls
}

// unknown is the output of an open call, which fits whatever the model would answer.
type unknown struct{}

// operations are the calls as the checker wants them, by key in its order. Refused ones are left out, and so are open
// reads, which tell nothing.
func (h *History) operations(reads func(do any) bool) (keys []string, byKey map[string][]porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	byKey = map[string][]porcupine.Operation{}
	for _, o := range h.ops {
		op := porcupine.Operation{ClientId: o.client, Input: o.input, Call: o.call, Output: o.output, Return: o.answer}
		switch {
		case o.outcome == refused:
			continue
		case o.outcome == open && reads != nil && reads(o.input.Do):
			continue
		case o.outcome == open:
			op.Output, op.Return = unknown{}, math.MaxInt64
		}
		if byKey[o.input.Key] == nil {
			keys = append(keys, o.input.Key)
		}
		byKey[o.input.Key] = append(byKey[o.input.Key], op)
	}
	slices.Sort(keys)
	return keys, byKey
}
