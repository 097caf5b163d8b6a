package metrics

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// collectWithin bounds the wait for the program's collectors.
const collectWithin = 2 * time.Second

// scraper gathers a node's own families, and beside them what the program's collectors have. Those run in a goroutine of their own, at most one at
// a time: a slow one costs a scrape its families, and not the node's, and is not called again while it runs.
//
// promhttp's CoalesceGather is no help: its scrapes share an answer until the slowest of their readers has it, so some readers who overlap keep
// an answer for ever.
type scraper struct {
	own, program prometheus.Gatherer
	failed       func(error) // is told of the first failure of the program's collectors
	once         sync.Once

	mu  sync.Mutex // guards now
	now *gathering // that runs; nil for none
}

// gathering is one run of the program's collectors. What it has is there once done is closed.
type gathering struct {
	done  chan struct{}
	begun time.Time
	has   []*dto.MetricFamily
	err   error
}

// Gather implements prometheus.Gatherer. It returns no error: what failed is a metric.
func (s *scraper) Gather() ([]*dto.MetricFamily, error) {
	has, err := s.collected()
	all, clash := prometheus.Gatherers{s.own, fixed(has)}.Gather()
	failed := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "raysys_collector_failed",
		Help: "1 if a collector of the program panicked, took too long, or had a wrong or duplicate metric, so that some of the program's metrics are missing.",
	})
	for _, err := range []error{err, clash} {
		if err == nil {
			continue
		}
		failed.Set(1)
		if list, ok := errors.AsType[prometheus.MultiError](err); ok {
			err = list[0] // a panic is there twice, each with its stack
		}
		s.once.Do(func() { s.failed(err) })
	}
	mine := prometheus.NewRegistry()
	mine.MustRegister(failed)
	all, _ = prometheus.Gatherers{mine, fixed(all)}.Gather() // a family of the program by the same name is left out
	return all, nil
}

func fixed(families []*dto.MetricFamily) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return families, nil })
}

// collected is what the program's collectors have: those that run already, or that it calls.
func (s *scraper) collected() ([]*dto.MetricFamily, error) {
	s.mu.Lock()
	g := s.now
	if g == nil {
		g = &gathering{done: make(chan struct{}), begun: time.Now()}
		s.now = g
		go s.run(g)
	}
	s.mu.Unlock()
	late := time.NewTimer(collectWithin - time.Since(g.begun))
	defer late.Stop()
	select {
	case <-g.done:
		return g.has, g.err
	case <-late.C:
		return nil, fmt.Errorf("the program's collectors have not ended within %v: one of prometheus.DefaultRegisterer is slow, or waits", collectWithin)
	}
}

func (s *scraper) run(g *gathering) {
	defer func() {
		if p := recover(); p != nil { // of a Metric, or of a Gatherer that is the program's
			g.has, g.err = nil, fmt.Errorf("panic: %v", p)
		}
		s.mu.Lock()
		s.now = nil
		s.mu.Unlock()
		close(g.done)
	}()
	g.has, g.err = s.program.Gather()
}
