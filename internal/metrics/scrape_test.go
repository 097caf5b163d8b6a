package metrics

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/tally"
)

// collector is one of the program's.
type collector func(chan<- prometheus.Metric)

func (c collector) Describe(chan<- *prometheus.Desc)    {}
func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }

// rude is a metric whose own method panics.
type rude struct{ prometheus.Metric }

func (rude) Write(*dto.Metric) error { panic("in Write") }

var mine = prometheus.NewDesc("mine", "x", nil, nil)

func gauge(d *prometheus.Desc, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1, labels...)
}

// scraped are the families of a scrape, with the number of their metrics, but for that of failed collectors: that is failed.
func scraped(t *testing.T, s *scraper) (families map[string]int, failed float64) {
	t.Helper()
	all, err := s.Gather()
	if err != nil {
		t.Error(err)
	}
	families = map[string]int{}
	for _, f := range all {
		if f.GetName() == "raysys_collector_failed" {
			failed = f.GetMetric()[0].GetGauge().GetValue()
			continue
		}
		if families[f.GetName()] > 0 {
			t.Errorf("%s is there twice", f.GetName())
		}
		families[f.GetName()] = len(f.GetMetric())
	}
	return families, failed
}

// scraping is a scraper of a whole node and of a program with these collectors beside one that is fine.
func scraping(failed func(error), all ...collector) *scraper {
	own, program := prometheus.NewRegistry(), prometheus.NewRegistry()
	sample, err := full()
	sample.Tasks, sample.Grains = sample.Tasks[:1], map[string]int{"k": 1}
	own.MustRegister(NewCollector(func() (Sample, error) { return sample, err }))
	program.MustRegister(collector(func(to chan<- prometheus.Metric) { to <- gauge(prometheus.NewDesc("fine", "x", nil, nil)) }))
	for _, c := range all {
		program.MustRegister(c)
	}
	return &scraper{own: own, program: program, failed: failed}
}

// TestCollectorFails: whatever the program's collectors do, the node's families are whole, those of its other collectors too unless it waits for
// one, and it says once what failed.
func TestCollectorFails(t *testing.T) {
	whole, failed := scraped(t, scraping(nil))
	if failed != 0 || len(whole) != len(all)+1 || whole["fine"] != 1 {
		t.Fatalf("%v, %v", whole, failed)
	}
	for name, c := range map[string]struct {
		collect collector
		others  bool // of the program are there
		says    string
	}{
		"panic":     {func(to chan<- prometheus.Metric) { to <- gauge(mine); panic("boom") }, true, "boom"},
		"duplicate": {func(to chan<- prometheus.Metric) { to <- gauge(mine); to <- gauge(mine) }, true, "collected before"},
		"invalid": {func(to chan<- prometheus.Metric) {
			to <- gauge(mine)
			to <- prometheus.NewInvalidMetric(mine, errors.New("no"))
		}, true, "no"},
		"of raysys": {func(to chan<- prometheus.Metric) {
			to <- gauge(mine)
			to <- gauge(prometheus.NewDesc("raysys_links", "x", nil, nil))
		}, true, "raysys_links"},
		"another type": {func(to chan<- prometheus.Metric) {
			to <- gauge(mine)
			to <- gauge(prometheus.NewDesc("raysys_runs_total", "x", nil, nil))
		}, true, "raysys_runs_total"},
		"panic in Write": {func(to chan<- prometheus.Metric) { to <- rude{gauge(mine)} }, false, "in Write"},
		"slow":           {func(to chan<- prometheus.Metric) { <-time.After(12 * time.Second); to <- gauge(mine) }, false, "2s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said []string
			s := scraping(func(err error) { said = append(said, err.Error()) }, c.collect)
			for range 3 {
				begun := time.Now()
				got, failed := scraped(t, s)
				want := maps.Clone(whole)
				if want["mine"] = 1; !c.others {
					delete(want, "mine")
					delete(want, "fine")
				}
				if d := cmp.Diff(want, got); d != "" || failed != 1 || time.Since(begun) > collectWithin {
					t.Errorf("%s: after %v, failed %v, (-want +got)\n%s", name, time.Since(begun), failed, d)
				}
			}
			if len(said) != 1 || strings.Count(said[0], c.says) != 1 {
				t.Errorf("%s: it says %q", name, said)
			}
			<-time.After(time.Minute)
		})
	}
	got, failed := scraped(t, scraping(nil, func(to chan<- prometheus.Metric) {
		to <- gauge(prometheus.NewDesc("raysys_collector_failed", "mine", nil, nil))
	}))
	if d := cmp.Diff(whole, got); d != "" || failed != 0 {
		t.Errorf("a program with that family: %v\n%s", failed, d)
	}
}

// TestScrapesDoNotPileUp: however many scrapes there are while a collector is slow, it is called once at a time, and they end; one that takes
// less than two seconds serves them all.
func TestScrapesDoNotPileUp(t *testing.T) {
	for _, c := range []struct {
		takes  time.Duration
		failed float64
	}{{time.Second, 0}, {12 * time.Second, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var now, most, calls atomic.Int64
			s := scraping(func(error) {}, func(to chan<- prometheus.Metric) {
				calls.Add(1)
				most.Store(max(most.Load(), now.Add(1)))
				<-time.After(c.takes)
				now.Add(-1)
				to <- gauge(mine)
			})
			var all sync.WaitGroup
			begun := time.Now()
			for i := range 20 {
				all.Go(func() {
					<-time.After(time.Duration(i) * 45 * time.Millisecond)
					if got, failed := scraped(t, s); failed != c.failed || got["mine"] != 1-int(c.failed) || got["raysys_up"] != 1 {
						t.Errorf("one of %v: failed %v, %v", c.takes, failed, got)
					}
				})
			}
			all.Wait()
			if d := time.Since(begun); most.Load() != 1 || calls.Load() != 1 || d != min(c.takes, collectWithin) {
				t.Errorf("one of %v: %d calls, %d at once, all over after %v", c.takes, calls.Load(), most.Load(), d)
			}
			<-time.After(c.takes)
			if _, failed := scraped(t, s); failed != c.failed || calls.Load() != 2 {
				t.Errorf("one of %v, later: failed %v, %d calls", c.takes, failed, calls.Load())
			}
			<-time.After(c.takes)
		})
	}
}

// TestOddNames: names are any bytes; each family is there, and names that differ stay apart.
func TestOddNames(t *testing.T) {
	odd := []string{"odd\xff", "odd\xfe", "\xf0\x28\x8c\x28", "ö\x00\n\"", strings.Repeat("\xff", 512), "\ufffd"}
	sample := func() (Sample, error) {
		s, err := full()
		var n tally.Tally
		s.Devices, s.Resources = nil, nil
		for _, name := range odd {
			n.Function(tally.TaskKind, name).Ended(tally.OK, 1)
			n.Function(tally.CallKind, name).Ended(tally.OK, 1)
			s.Mailboxes[name] = 1
			s.Resources = append(s.Resources, Resource{name, 2, 1})
			s.Devices = append(s.Devices, Device{ID: name, UsedBytes: 1})
			s.Store[name] = Store{1, 1, 1}
		}
		s.Grains = s.Mailboxes
		s.Tasks, s.Calls = n.Rows(tally.TaskKind), n.Rows(tally.CallKind)
		return s, err
	}
	r := prometheus.NewRegistry()
	r.MustRegister(NewCollector(sample))
	families, err := r.Gather()
	if err != nil || len(families) != len(all) {
		t.Fatalf("%d families of %d: %v", len(families), len(all), err)
	}
	names := map[string]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "raysys_running" && l.GetName() == "function" {
					names[l.GetValue()] = true
				}
			}
		}
	}
	want := []string{`odd\xff`, `odd\xfe`, `\xf0(\x8c(`, "ö\x00\n\"", strings.Repeat(`\xff`, 512), "\ufffd"}
	slices.Sort(want)
	if d := cmp.Diff(want, slices.Sorted(maps.Keys(names))); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestScrapeOfWaits: the waits of 200 functions make a scrape at most 1.7 times as large, and in the long form, on a machine
// with nothing else to do, take at most 1.6 times as long. Tasks have the same without waits.
func TestScrapeOfWaits(t *testing.T) {
	scrape := func(kind tally.Kind) func() (time.Duration, int) {
		var n tally.Tally
		for i := range 200 {
			f := n.Function(kind, fmt.Sprintf("kind%d.method", i))
			f.Ended(tally.OK, 2)
			for d := range 20 {
				f.Took(int64(time.Microsecond)<<d, 2)
				if kind == tally.CallKind {
					f.Waited(int64(time.Microsecond)<<d, 1)
				}
			}
		}
		own := prometheus.NewRegistry()
		own.MustRegister(NewCollector(func() (Sample, error) { return Sample{Calls: n.Rows(kind)}, nil }))
		h := promhttp.HandlerFor(own, promhttp.HandlerOpts{})
		return func() (time.Duration, int) {
			begun, answer := time.Now(), httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return time.Since(begun), answer.Body.Len()
		}
	}
	calls, tasks := scrape(tally.CallKind), scrape(tally.TaskKind)
	_, large := calls()
	_, small := tasks()
	if ratio := float64(large) / float64(small); ratio > 1.7 {
		t.Errorf("with waits a scrape has %d bytes, %.2f times as many as without", large, ratio)
	}
	if !long.Form(false, true) {
		return
	}
	with, without := time.Hour, time.Hour
	for range 100 {
		a, _ := calls()
		b, _ := tasks()
		with, without = min(with, a), min(without, b)
	}
	if ratio := float64(with) / float64(without); ratio > 1.6 {
		t.Errorf("with waits a scrape takes %v, %.2f times as long as without, want at most 1.6", with, ratio)
	} else {
		t.Logf("%v with waits, %v without: %.2f", with, without, ratio)
	}
}
