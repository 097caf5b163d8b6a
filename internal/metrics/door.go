package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// answers are what doors of this process have answered.
type answers struct {
	counts sync.Map // answered -> *atomic.Uint64
}

type answered struct {
	function string
	code     int
}

var (
	doors        answers
	doorRequests = desc("door_requests_total", "Requests that doors of this process have answered.", "function", "code")
)

// CountRequest counts an answer of a door, of a function that is marked, or "". Code 499 is that of a client that has
// hung up.
func CountRequest(function string, code int) {
	of := answered{function, code}
	n, ok := doors.counts.Load(of)
	if !ok {
		n, _ = doors.counts.LoadOrStore(of, new(atomic.Uint64))
	}
	n.(*atomic.Uint64).Add(1)
}

// Describe implements prometheus.Collector.
func (*answers) Describe(ch chan<- *prometheus.Desc) { ch <- doorRequests }

// Collect implements prometheus.Collector. Functions beyond MaxNames are added up, by code.
func (a *answers) Collect(ch chan<- prometheus.Metric) {
	all, names := map[answered]uint64{}, map[string]bool{}
	a.counts.Range(func(k, n any) bool {
		all[k.(answered)], names[k.(answered).function] = n.(*atomic.Uint64).Load(), true
		return true
	})
	shown := map[answered]uint64{}
	first := slices.Sorted(maps.Keys(names))
	for k, n := range all {
		if i, _ := slices.BinarySearch(first, k.function); len(first) > MaxNames && i >= MaxNames-1 {
			k.function = other
		}
		shown[k] += n
	}
	for _, k := range slices.SortedFunc(maps.Keys(shown), func(a, b answered) int {
		return cmp.Or(cmp.Compare(a.function, b.function), cmp.Compare(a.code, b.code))
	}) {
		n, code := float64(shown[k]), strconv.Itoa(k.code)
		ch <- prometheus.MustNewConstMetric(doorRequests, prometheus.CounterValue, n, Printed(k.function), code)
	}
}
