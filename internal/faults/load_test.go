package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// load calls f from several clients, one call after the other each, until it is stopped.
type load struct {
	calls atomic.Int64
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu     sync.Mutex // guards the rest
	errors map[string]int
	first  map[string]error
	gap    time.Duration // the longest time between two good answers of one client
}

// maxKinds bounds the errors that are told apart.
const maxKinds = 10

// startLoad begins. class names an error for the report, "" for one that is none.
func startLoad(clients int, class func(error) string, f func(ctx context.Context, client, i int) error) *load {
	l := &load{errors: map[string]int{}, first: map[string]error{}}
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	for c := range clients {
		l.wg.Go(func() {
			last := time.Now()
			for i := 0; ctx.Err() == nil; i++ {
				err := f(ctx, c, i)
				if ctx.Err() != nil {
					return
				}
				l.calls.Add(1)
				l.note(err, class, &last)
			}
		})
	}
	return l
}

func (l *load) note(err error, class func(error) string, last *time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.gap = max(l.gap, time.Since(*last))
		*last = time.Now()
		return
	}
	kind := "error"
	if class != nil {
		kind = class(err)
	}
	if kind == "" || len(l.errors) >= maxKinds && l.errors[kind] == 0 {
		return
	}
	if l.errors[kind]++; l.first[kind] == nil {
		l.first[kind] = err
	}
}

// end stops the load and waits for it.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

// failed is how many calls failed, by class.
func (l *load) failed() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[string]int{}
	for k, v := range l.errors {
		n[k] = v
	}
	return n
}

// none fails the test for each class of errors but those that are allowed.
func (l *load) none(t *testing.T, what string, allowed ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for kind, n := range l.errors {
		for _, a := range allowed {
			if kind == a {
				continue next
			}
		}
		t.Errorf("%s: %d of %d calls failed (%s), the first with: %v", what, n, l.calls.Load(), kind, l.first[kind])
	}
	if l.calls.Load() == 0 {
		t.Errorf("%s: no call was made", what)
	}
}

// classes names errors after the first sentinel that they match.
func classes(sentinels ...error) func(error) string {
	return func(err error) string {
		for _, s := range sentinels {
			if errors.Is(err, s) {
				return s.Error()
			}
		}
		return "error"
	}
}

func want[T comparable](got T, err error, want T) error {
	if err == nil && got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return err
}
