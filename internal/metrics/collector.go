package metrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/raysys/raysys/internal/tally"
)

// MaxNames bounds the names of one label of one family.
const MaxNames = 200

// other is the name of what is beyond.
const other = "other"

// Memory is what the process has of memory, and what was done for want of it.
type Memory struct {
	Limit, Used       float64 // bytes
	Unloaded, Refused float64 // grains
}

// Sample is what a node says of itself.
type Sample struct {
	Tasks, Calls []tally.Row
	Grains       map[string]int // activations by kind
	Mailboxes    map[string]int // messages in the mailboxes of each kind
	Late         map[string]int // turns past their deadline of each kind
	EarlyKeys    map[string]int // keys of calls that the grains of each Durable kind forgot before their time
	Outbox       map[string]int // messages of the grains of each Durable kind that have not arrived
	VainSends    map[string]int // tries to deliver one that failed
	Memory       Memory
	Resources    []Resource
	Devices      []Device
	Objects      Objects
	Links        int // nodes that this one is connected to
	Relayed      int // of these, through a third
	Shards       int // that this node leads
	Store        map[string]Store
	LeaseLeft    float64 // in seconds
	PromiseLeft  float64 // in seconds
	FencedReads  uint64
	Evictions    map[string]uint64 // by their path
	Clustered    bool              // there is a lease
	Balances     bool              // grains move to even out the load
	GrainLoad    float64           // how much of each of its CPUs the turns of its grains take
	GrainMean    float64           // the same of all workers
	GrainsMoved  uint64            // from here to other nodes
	// Certificates are the seconds until each expires, below 0 where it has: "node" and "ca".
	Certificates map[string]float64
}

// Resource is what the node has of one resource, and what of that is free.
type Resource struct {
	Name        string
	Total, Free float64
}

// Device is one accelerator.
type Device struct {
	ID          string
	Held        float64 // the share that work holds
	Sick        bool
	Utilization float64 // 0 to 1; below 0 where that is not known
	UsedBytes   float64 // below 0 where that is not known
}

// Objects are what the object store has and has moved.
type Objects struct {
	Count, Bytes, Limit            float64
	Spilled, SpillLost             float64 // since the node started
	SpillBytes                     float64 // in files now
	SentBytes, ReceivedBytes       float64
	TransfersFailed, TransfersOpen float64
}

// Store is the operations of one kind on the store.
type Store struct {
	Count   uint64
	Seconds float64
	Errors  uint64
}

// Source makes the Sample of a scrape.
type Source func() (Sample, error)

// Collector shows the Sample of its node as it is at the scrape. It keeps nothing.
type Collector struct{ source Source }

// NewCollector makes the collector of a node.
func NewCollector(s Source) *Collector { return &Collector{s} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("raysys_"+name, help, labels, nil)
}

var (
	up             = desc("up", "1 if the node could say what follows; 0 if that failed.")
	runs           = desc("runs_total", "Runs of tasks and calls here, by outcome.", "kind", "function", "outcome")
	runSeconds     = desc("run_seconds", "How long runs of tasks and calls took here. Of short ones a sample is timed.", "kind", "function")
	waitSeconds    = desc("wait_seconds", "How long calls waited for their turn, or ended before it.", "kind", "function")
	running        = desc("running", "Tasks and calls that run here.", "kind", "function")
	waiting        = desc("waiting", "Tasks and calls that wait here to start.", "kind", "function")
	oldest         = desc("oldest_wait_seconds", "How long the task or call has waited that has waited longest.", "kind", "function")
	grains         = desc("grains", "Grains in memory.", "kind")
	mailboxes      = desc("mailbox_messages", "Messages in the mailboxes of grains.", "kind")
	lateTurns      = desc("late_turns", "Turns of grains that go on though nothing waits for them.", "kind")
	earlyKeys      = desc("keys_forgotten_total", "Keys of calls forgotten before KeepReplies was over.", "kind")
	outboxMessages = desc("outbox_messages", "Messages of Durable grains that have not arrived.", "kind")
	vainSends      = desc("outbox_failures_total", "Tries to deliver such a message that failed.", "kind")
	resource       = desc("resource", "What the node has of a resource.", "resource")
	resourceFree   = desc("resource_free", "What of a resource nothing holds.", "resource")
	memoryLimit    = desc("memory_limit_bytes", "Memory that the process may have, by its settings, cgroups and machine.")
	memoryUsed     = desc("memory_used_bytes", "Memory that counts against that limit.")
	grainsUnloaded = desc("grains_unloaded_total", "Idle grains that the node let go for want of memory.")
	grainsBarred   = desc("grains_refused_total", "Grains that the node did not start for want of memory.")
	gpuHeld        = desc("gpu_held_ratio", "The share of an accelerator that work holds.", "gpu")
	gpuSick        = desc("gpu_sick", "1 of an accelerator that gets no work since it is sick.", "gpu")
	gpuBusy        = desc("gpu_utilization_ratio", "How busy an accelerator is, by its driver.", "gpu")
	gpuMemory      = desc("gpu_memory_used_bytes", "Used memory of an accelerator, by its driver.", "gpu")
	objects        = desc("objects", "Objects in the node's store.")
	objectBytes    = desc("object_bytes", "Bytes of objects in memory.")
	objectLimit    = desc("object_limit_bytes", "Bytes of objects that the node keeps in memory.")
	spilled        = desc("spilled_objects_total", "Objects that were written to files for want of memory.")
	spillLost      = desc("spill_lost_total", "Files of objects that were gone or damaged when they were needed.")
	spillBytes     = desc("spill_bytes", "Bytes of objects in files.")
	sent           = desc("transfer_sent_bytes_total", "Bytes of objects sent to other nodes.")
	received       = desc("transfer_received_bytes_total", "Bytes of objects received from other nodes.")
	failed         = desc("transfers_failed_total", "Transfers of objects that failed.")
	open           = desc("transfers_open", "Transfers of objects under way.")
	links          = desc("links", "Nodes that this one is connected to.", "way")
	shards         = desc("shards_led", "Shards that this node leads.")
	storeSeconds   = desc("store_seconds", "How long operations on the store took.", "operation")
	storeErrors    = desc("store_errors_total", "Operations on the store that failed.", "operation")
	leaseLeft      = desc("lease_left_seconds", "How long the node's lease holds; below 0 it may do no work.")
	certificate    = desc("certificate_left_seconds", "How long a certificate of TLS between nodes is valid.", "of")
	promiseLeft    = desc("promise_left_seconds", "How long the node answers from memory; at 0 it asks Consul first.")
	fencedReads    = desc("fenced_reads_total", "Answers and turns that waited for Consul, for lack of promises.")
	evictions      = desc("evictions_total", "Verdicts of this node, fast by electors or slow by the ring.", "path")
	grainLoad      = desc("grain_load_ratio", "How much of each CPU the turns of grains take.", "of")
	grainsMoved    = desc("grains_moved_total", "Grains that have moved to other nodes to even out the load.")

	all = []*prometheus.Desc{
		up, runs, runSeconds, waitSeconds, running, waiting, oldest, grains, mailboxes,
		lateTurns, earlyKeys, outboxMessages, vainSends,
		resource, resourceFree, memoryLimit, memoryUsed, grainsUnloaded, grainsBarred, gpuHeld, gpuSick, gpuBusy,
		gpuMemory, objects, objectBytes, objectLimit,
		spilled, spillLost, spillBytes, sent, received, failed, open, links, shards, storeSeconds, storeErrors,
		leaseLeft, certificate, promiseLeft, fencedReads, evictions, grainLoad, grainsMoved,
	}
)

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range all {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s, err := c.sample()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, printed(labels)...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, printed(labels)...)
	}
	if err != nil {
		gauge(up, 0)
		return
	}
	gauge(up, 1)
	for _, rows := range [][]tally.Row{bounded(s.Tasks), bounded(s.Calls)} {
		for _, r := range rows {
			kind := string(r.Kind)
			for _, o := range tally.Outcomes() {
				counter(runs, float64(r.Outcomes[o]), kind, r.Name, o.String())
			}
			ch <- histogram(runSeconds, r.Times, limits, kind, r.Name)
			if r.Kind == tally.CallKind {
				ch <- histogram(waitSeconds, r.Waited, limits[4:], kind, r.Name) // they are known to a millisecond
			}
			gauge(running, float64(r.Running), kind, r.Name)
			gauge(waiting, float64(r.Waiting), kind, r.Name)
			gauge(oldest, r.Oldest.Seconds(), kind, r.Name)
		}
	}
	byName(s.Grains, func(name string, v float64) { gauge(grains, v, name) })
	late := map[string]int{}
	for kind := range s.Grains {
		late[kind] = s.Late[kind] // also 0, so that a rule on it sees each kind
	}
	byName(late, func(name string, v float64) { gauge(lateTurns, v, name) })
	byName(s.EarlyKeys, func(name string, v float64) { counter(earlyKeys, v, name) })
	byName(s.Outbox, func(name string, v float64) { gauge(outboxMessages, v, name) })
	byName(s.VainSends, func(name string, v float64) { counter(vainSends, v, name) })
	byName(s.Mailboxes, func(name string, v float64) { gauge(mailboxes, v, name) })
	gauge(memoryLimit, s.Memory.Limit)
	gauge(memoryUsed, s.Memory.Used)
	counter(grainsUnloaded, s.Memory.Unloaded)
	counter(grainsBarred, s.Memory.Refused)
	total, free := map[string]float64{}, map[string]float64{}
	for _, r := range s.Resources {
		total[r.Name] += r.Total
		free[r.Name] += r.Free
	}
	byName(total, func(name string, v float64) { gauge(resource, v, name) })
	byName(free, func(name string, v float64) { gauge(resourceFree, v, name) })
	for _, d := range s.Devices[:min(len(s.Devices), MaxNames)] {
		gauge(gpuHeld, d.Held, d.ID)
		gauge(gpuSick, one(d.Sick), d.ID)
		if d.Utilization >= 0 {
			gauge(gpuBusy, d.Utilization, d.ID)
		}
		if d.UsedBytes >= 0 {
			gauge(gpuMemory, d.UsedBytes, d.ID)
		}
	}
	o := s.Objects
	gauge(objects, o.Count)
	gauge(objectBytes, o.Bytes)
	gauge(objectLimit, o.Limit)
	counter(spilled, o.Spilled)
	counter(spillLost, o.SpillLost)
	gauge(spillBytes, o.SpillBytes)
	counter(sent, o.SentBytes)
	counter(received, o.ReceivedBytes)
	counter(failed, o.TransfersFailed)
	gauge(open, o.TransfersOpen)
	if !s.Clustered {
		return
	}
	gauge(links, float64(s.Links-s.Relayed), "direct")
	gauge(links, float64(s.Relayed), "relayed")
	gauge(shards, float64(s.Shards))
	gauge(leaseLeft, s.LeaseLeft)
	byName(s.Certificates, func(of string, left float64) { gauge(certificate, left, of) })
	gauge(promiseLeft, s.PromiseLeft)
	counter(fencedReads, float64(s.FencedReads))
	if s.Balances {
		gauge(grainLoad, s.GrainLoad, "node")
		gauge(grainLoad, s.GrainMean, "workers")
		counter(grainsMoved, float64(s.GrainsMoved))
	}
	byName(s.Evictions, func(path string, n float64) { counter(evictions, n, path) })
	for _, op := range slices.Sorted(maps.Keys(s.Store)) {
		ch <- prometheus.MustNewConstSummary(storeSeconds, s.Store[op].Count, s.Store[op].Seconds, nil, Printed(op))
		counter(storeErrors, float64(s.Store[op].Errors), op)
	}
}

// Printed is a name as labels and logs show it, as the commands do: Prometheus takes UTF-8 alone, and a name may be any bytes.
func Printed(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, name[0])
		} else {
			b.WriteString(name[:n])
		}
		name = name[n:]
	}
	return b.String()
}

func printed(labels []string) []string {
	for i, l := range labels {
		labels[i] = Printed(l)
	}
	return labels
}

// sample asks the source. A node that is closed this moment, or a mistake, must not end the process of a program for a number.
func (c *Collector) sample() (s Sample, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a metric could not be had: %v", p)
		}
	}()
	return c.source()
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// limits are the upper bounds of the buckets that are shown, in seconds: the tally's own are more than a scrape should have.
var limits = []float64{1e-6, 1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1, 5, 10, 60, 600, 3600}

func histogram(d *prometheus.Desc, t tally.Times, limits []float64, kind, name string) prometheus.Metric {
	buckets, n := make(map[float64]uint64, len(limits)), uint64(0)
	left := t.Buckets
	for _, l := range limits {
		for len(left) > 0 && left[0].Below.Seconds() <= l {
			n += left[0].N
			left = left[1:]
		}
		buckets[l] = n
	}
	return prometheus.MustNewConstHistogram(d, t.Count(), t.Sum.Seconds(), buckets, kind, Printed(name))
}

// bounded adds up the functions beyond MaxNames, of which those stay that come first by name: the choice must not change from scrape to
// scrape, or a counter would fall.
func bounded(rows []tally.Row) []tally.Row {
	if len(rows) <= MaxNames {
		return rows
	}
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b tally.Row) int { return cmp.Compare(a.Name, b.Name) })
	rest := tally.Row{Name: other, Kind: rows[0].Kind}
	for _, r := range rows[MaxNames-1:] {
		rest = rest.Plus(r)
	}
	return append(rows[:MaxNames-1], rest)
}

// byName shows the values of one label, those beyond MaxNames added up.
func byName[V int | uint64 | float64](m map[string]V, show func(name string, v float64)) {
	var rest float64
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i >= MaxNames-1 && len(m) > MaxNames {
			rest += float64(m[name])
			continue
		}
		show(name, float64(m[name]))
	}
	if len(m) > MaxNames {
		show(other, rest)
	}
}
