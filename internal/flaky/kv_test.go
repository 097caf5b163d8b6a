package flaky_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
	"github.com/raysys/raysys/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shared(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Without faults the wrapper is the store.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend {
		s := shared(t)
		return storetest.Backend{
			Open: func(*testing.T) store.KV { return flaky.Wrap(s) },
			TTL:  3 * time.Second,
			Gone: 20 * time.Second,
		}
	})
}

func TestFaults(t *testing.T) {
	kv := flaky.Wrap(shared(t))
	ctx := t.Context()
	write := func(key string) error {
		_, err := kv.Txn(ctx, []store.Op{store.Set(key, nil)})
		return err
	}
	there := func(key string) bool {
		_, err := kv.Get(ctx, key)
		return err == nil
	}
	for _, c := range []struct {
		key   string
		fault flaky.Fault
		want  error
		done  bool
	}{
		{"refused", flaky.Refuse, store.ErrUnavailable, false},
		{"call lost", flaky.LoseCall, store.ErrUnknownOutcome, false},
		{"answer lost", flaky.LoseAnswer, store.ErrUnknownOutcome, true},
		{"delayed", flaky.Delay, store.ErrUnknownOutcome, false},
	} {
		kv.FailNext(1, c.fault)
		if there("nothing") { // a read uses up no fault
			t.Fatal("there")
		}
		if err := write(c.key); !errors.Is(err, c.want) || there(c.key) != c.done {
			t.Errorf("%s: %v, written %v", c.key, err, there(c.key))
		}
		if err := write(c.key + " again"); err != nil {
			t.Errorf("%s, the next: %v", c.key, err)
		}
	}
	if kv.Deliver() != 1 || !there("delayed") || kv.Deliver() != 0 {
		t.Error("what was delayed did not arrive once")
	}
	kv.Hook(func(c flaky.Call) flaky.Fault {
		if c.Verb == "Get" {
			return flaky.LoseAnswer
		}
		return flaky.None
	})
	if _, err := kv.Get(ctx, "delayed"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a read whose answer is lost: %v", err)
	}
}

func TestDownAndSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv := flaky.Wrap(shared(t))
		ctx := t.Context()
		_, index, err := kv.List(ctx, "a", store.Consistent)
		if err != nil {
			t.Fatal(err)
		}
		watch := make(chan error, 1)
		go func() {
			_, _, err := kv.Watch(ctx, "a", index)
			watch <- err
		}()
		synctest.Wait()
		kv.Down(true)
		if err := <-watch; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("watch: %v", err)
		}
		if _, err := kv.Get(ctx, "a"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("get: %v", err)
		}
		kv.Down(false)
		kv.Slow(time.Minute)
		start := time.Now()
		if _, err := kv.Get(ctx, "a"); !errors.Is(err, store.ErrNotFound) || time.Since(start) != time.Minute {
			t.Errorf("slow get: %v after %v", err, time.Since(start))
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := kv.Txn(short, []store.Op{store.Set("a", nil)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("slow change whose caller gave up: %v", err)
		}
	})
}
