package bench

import (
	"runtime"
	"sync"
)

const poolName = "goroutine pool behind a buffered channel"

// pool is the raw limit of the task rows: as many goroutines as CPUs, one buffered channel that feeds them, each
// result stored where its batch has a place for it, and a WaitGroup per batch. It has no ids, no cancellation, no
// futures of their own and no bound on how long a result waits.
type pool struct {
	jobs    chan poolJob // closed by close
	workers sync.WaitGroup
}

type poolJob struct {
	arg    int
	result *int
	batch  *sync.WaitGroup
}

func newPool() *pool {
	p := &pool{jobs: make(chan poolJob, batch)}
	for range runtime.GOMAXPROCS(0) {
		p.workers.Go(func() {
			for j := range p.jobs {
				*j.result = raw(j.arg)
				j.batch.Done()
			}
		})
	}
	return p
}

func onPool() bare { return newPool() }

func (p *pool) close() {
	close(p.jobs)
	p.workers.Wait()
}

// run is one batch: submit all, wait for all, read all.
func (p *pool) run(results []int) error {
	var wg sync.WaitGroup
	wg.Add(len(results))
	for i := range results {
		p.jobs <- poolJob{i, &results[i], &wg}
	}
	wg.Wait()
	for i, v := range results {
		if err := expect(v, raw(i)); err != nil {
			return err
		}
	}
	return nil
}

const pingPongName = "ping-pong over two unbuffered channels"

// pingPong is the raw limit of the rows that wait for each result: another goroutine does the work.
type pingPong struct {
	ask    chan int // closed by close
	answer chan int // never closed
	done   sync.WaitGroup
}

func newPingPong() *pingPong {
	p := &pingPong{ask: make(chan int), answer: make(chan int)}
	p.done.Go(func() {
		for x := range p.ask {
			p.answer <- raw(x)
		}
	})
	return p
}

func (p *pingPong) run() error {
	p.ask <- 1
	return expect(<-p.answer, raw(1))
}

func (p *pingPong) close() {
	close(p.ask)
	p.done.Wait()
}
