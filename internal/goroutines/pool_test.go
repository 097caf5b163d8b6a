package goroutines_test

import (
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/goroutines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Pieces that wait for each other all run: none queues behind another.
func TestPiecesRunAtOnce(t *testing.T) {
	p := goroutines.New(2)
	defer p.Close()
	for range 50 {
		const n = 20
		var met, done sync.WaitGroup
		met.Add(n)
		for range n {
			done.Add(1)
			p.Go(goroutines.Func(func() {
				defer done.Done()
				met.Done()
				met.Wait()
			}))
		}
		done.Wait()
	}
}

// An idle goroutine is used again, and one that user code ended is not missed.
func TestReuseAndGoexit(t *testing.T) {
	p := goroutines.New(1)
	defer p.Close()
	ids := map[string]bool{}
	for range 100 {
		done := make(chan string)
		p.Go(goroutines.Func(func() {
			var b [64]byte
			done <- string(b[:runtime.Stack(b[:], false)])
		}))
		ids[<-done] = true
	}
	if len(ids) > 50 {
		t.Errorf("100 pieces one after another ran on %d goroutines", len(ids))
	}
	ended := make(chan struct{})
	p.Go(goroutines.Func(func() {
		defer close(ended)
		runtime.Goexit()
	}))
	<-ended
	done := make(chan struct{})
	p.Go(goroutines.Func(func() { close(done) }))
	<-done
}

func TestGoAfterClose(t *testing.T) {
	p := goroutines.New(4)
	p.Close()
	done := make(chan struct{})
	p.Go(goroutines.Func(func() { close(done) }))
	<-done
}

func BenchmarkGo(b *testing.B) {
	p := goroutines.New(4)
	defer p.Close()
	ch := make(chan struct{})
	f := goroutines.Func(func() { ch <- struct{}{} })
	for b.Loop() {
		p.Go(f)
		<-ch
	}
}
