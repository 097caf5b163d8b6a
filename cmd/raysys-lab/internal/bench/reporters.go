package bench

import (
	"runtime"
	"sync"
)

const reportersName = "goroutine pool that reports each end on a channel, 1000 tasks"

// reporters is the raw limit of wait_1k: a pool whose workers say on a channel which task has ended, so that a caller
// takes one end after the other.
type reporters struct {
	jobs    chan int // closed by close
	ended   chan int // closed by close, after the workers
	workers sync.WaitGroup
}

func newReporters() *reporters {
	r := &reporters{jobs: make(chan int, batch), ended: make(chan int, batch)}
	for range runtime.GOMAXPROCS(0) {
		r.workers.Go(func() {
			for x := range r.jobs {
				r.ended <- raw(x)
			}
		})
	}
	return r
}

func (r *reporters) run([]int) error {
	for i := range batch {
		r.jobs <- i
	}
	total := 0
	for range batch {
		total += <-r.ended
	}
	return expect(total, batch*(batch+1)/2)
}

func (r *reporters) close() {
	close(r.jobs)
	r.workers.Wait()
	close(r.ended)
}
