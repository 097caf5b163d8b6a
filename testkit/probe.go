package testkit

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// patience is how long a Probe waits for a value before the test fails, in virtual time where the test is.
const patience = 10 * time.Second

// Probe catches values that the code under test emits, in order. Put may be called from anywhere; the other methods
// belong to the test's goroutine, since they end the test when they fail.
type Probe[T any] struct {
	k    *Kit
	name string
	ch   chan T // never closed
	seen []T    // for messages
}

// probeSize is how many values a Probe holds that the test has not looked at; Put beyond it blocks.
const probeSize = 1024

// NewProbe makes a probe; name appears in failures.
func NewProbe[T any](k *Kit, name string) *Probe[T] {
	return &Probe[T]{k: k, name: name, ch: make(chan T, probeSize)}
}

// Put gives the probe a value. It blocks while the probe holds 1024 unread messages, until ctx ends.
func (p *Probe[T]) Put(ctx context.Context, v T) error {
	select {
	case p.ch <- v:
		return nil
	default:
	}
	select {
	case p.ch <- v:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("probe %s is full: %w", p.name, context.Cause(ctx))
	}
}

// Next returns the next value, and fails the test when there is none within 10 s.
func (p *Probe[T]) Next() T {
	p.k.t.Helper()
	v, ok := p.next(patience)
	if !ok {
		p.k.t.Fatalf("probe %s: no value within %v; seen before: %s", p.name, patience, p.history())
	}
	return v
}

// Expect fails the test unless the next value equals want.
func (p *Probe[T]) Expect(want T) {
	p.k.t.Helper()
	v, ok := p.next(patience)
	switch {
	case !ok:
		p.k.t.Fatalf("probe %s: no value within %v, want %+v; seen before: %s", p.name, patience, want, p.history())
	case !reflect.DeepEqual(v, want):
		p.k.t.Fatalf("probe %s: got %+v, want %+v; seen before: %s", p.name, v, want, p.history())
	}
}

// ExpectNone fails the test when a value comes within d. In virtual time the wait costs nothing.
func (p *Probe[T]) ExpectNone(d time.Duration) {
	p.k.t.Helper()
	if v, ok := p.next(d); ok {
		p.k.t.Fatalf("probe %s: got %+v, want none within %v", p.name, v, d)
	}
}

// Fish passes over values until match accepts one, and returns that.
func (p *Probe[T]) Fish(match func(T) bool) T {
	p.k.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case v := <-p.ch:
			p.seen = append(p.seen, v)
			if match(v) {
				return v
			}
		case <-deadline.C:
			p.k.t.Fatalf("probe %s: no match within %v; seen: %s", p.name, patience, p.history())
		}
	}
}

func (p *Probe[T]) next(d time.Duration) (T, bool) {
	select {
	case v := <-p.ch:
		p.seen = append(p.seen, v)
		return v, true
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case v := <-p.ch:
		p.seen = append(p.seen, v)
		return v, true
	case <-timer.C:
		var zero T
		return zero, false
	}
}

func (p *Probe[T]) history() string {
	if len(p.seen) == 0 {
		return "nothing"
	}
	const last = 8
	var s []string
	for _, v := range p.seen[max(0, len(p.seen)-last):] {
		s = append(s, fmt.Sprintf("%+v", v))
	}
	return strings.Join(s, ", ")
}
