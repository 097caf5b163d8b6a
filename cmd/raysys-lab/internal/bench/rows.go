package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"time"

	"github.com/raysys/raysys/system"
)

// batch is how many operations are in flight in the rows that say 1000.
const batch = 1000

// clients is how many submitters or callers the rows with several have. It does not follow the number of CPUs, so that
// figures of different machines count the same work.
const clients = 4

// Rows lists the rows of a tier that can be measured here, in the order of the table.
func Rows(tier Tier) []Row {
	rows, _ := split(tier)
	return rows
}

// Later lists the rows of a tier that cannot be measured, with the reason.
func Later(tier Tier) []Pending {
	_, off := split(tier)
	return off
}

// Tiers lists the tiers.
func Tiers() []Tier { return []Tier{InProcess, CrossProcess} }

// split tells the rows that can be measured on this system from those that cannot.
func split(tier Tier) (rows []Row, off []Pending) {
	list := catalogue()
	if tier == CrossProcess {
		list = crossCatalogue()
	}
	for _, p := range pending() {
		if p.Tier == tier {
			off = append(off, p)
		}
	}
	for _, r := range list {
		r.Tier = tier
		if why := unavailable(r); why != "" {
			off = append(off, Pending{r.Name, tier, why})
			continue
		}
		rows = append(rows, r)
	}
	return rows, off
}

// unavailable says why a row cannot be measured on this system, and nothing when it can.
func unavailable(r Row) string {
	switch {
	case runtime.GOOS == "linux":
	case r.Name == "share":
		return "needs files in memory, which Linux has"
	case r.Unit == Bytes && r.Name != "grains_idle":
		return "needs the /proc of Linux"
	case r.Named:
		return "needs a process that can be stopped as Linux stops one"
	}
	return ""
}

func row(name string, unit Unit, measure func(context.Context, Plan) (measured, error), operation string) Row {
	return Row{Name: name, Unit: unit, Operation: operation, measure: measure}
}

// rowByName is a row that is measured only when it is asked for by name.
func rowByName(name string, unit Unit, measure func(context.Context, Plan) (measured, error), operation string) Row {
	r := row(name, unit, measure, operation)
	r.Named = true
	return r
}

func catalogue() []Row {
	return []Row{
		row("tasks_async", "tasks/s", taskBatches.beside(poolName, onPool),
			"submit 1000 tasks with one Go each, then get 1000 results"),
		row("tasks_map", "tasks/s", taskMaps.beside(poolName, onPool),
			"one Map over 1000 arguments, then get 1000 results"),
		row("tasks_sync", Latency, tasksSync,
			"submit one task and get its result"),
		row("tasks_multi_client_async", "tasks/s", clientBatches.beside(poolName+", 4 submitters", onPool),
			"tasks_async from 4 drivers at the same time"),
		row("actor_sync", Latency, actorSync,
			"call one grain and get the result"),
		row("actor_async", "calls/s", callBatches.besideActors(mailboxName, 1),
			"1000 calls to one grain in flight, then get 1000 results"),
		row("tasks_recorded", "tasks/s", taskBatches.recorded,
			"tasks_async while a timeline is recorded"),
		row("tasks_watched", "tasks/s", taskBatches.watched,
			"tasks_async while five readers look at the node's page as a browser's tab does"),
		row("calls_recorded", "calls/s", callBatches.recorded,
			"actor_async while a timeline is recorded"),
		row("actor_n_n_async", "calls/s", clientCalls.besideActors(mailboxName+", 4 callers and 4 of them", clients),
			"4 drivers, each with 1000 calls in flight, spread over 4 grains"),
		row("ticks", "ticks/s", ticks,
			"20 ticks of a timer in each of 10,000 grains, each due at once"),
		row("get_small", "gets/s", getSmall,
			"get of an int that was put"),
		row("put_small", "puts/s", putSmall,
			"put of one int"),
		row("put_gigabytes", GigabytesPerSecond, putGigabytes,
			"put of 800 MB, a []byte and a []float32"),
		row("get_10k_refs", "lists/s", getList,
			"get a task's result that holds 10,000 refs, then get the value of each"),
		row("wait_1k", "runs/s", waits.beside(reportersName, func() bare { return newReporters() }),
			"submit 1000 tasks, then 1000 times wait for one of those left"),
		row("queued_1m", "tasks/s", queuedMillion,
			"submit 1,000,000 tasks while every CPU is busy, then let them go and get all results"),
		row("generator_items", "items/s", itemsHere(generated),
			"65,536 items of a generator, from Go to the end of the loop"),
		row("queue_items", "items/s", itemsHere(taken),
			"65,536 items that a task puts into a queue, 1,024 at a time, and a loop takes"),
		row("args_10k", Latency, manyArgs,
			"put 10,000 ints, submit one task with the 10,000 refs as argument, get their sum"),
		row("grains_idle", Bytes, grainsIdle,
			"live heap after GC for each of 1,000,000 idle grains, beyond the user's struct"),
		row("node_start", Latency, nodeStart,
			"start a process, a node in it, and have the result of its first task"),
		row("node_idle_rss", Bytes, nodeIdle,
			"resident memory of a process with an idle node"),
	}
}

func crossCatalogue() []Row {
	return []Row{
		row("tasks_async", "tasks/s", taskBatches.besideEcho,
			"submit 1000 tasks with one Go each, run in another process, then get 1000 results"),
		row("tasks_map", "tasks/s", taskMaps.besideEcho,
			"one Map over 1000 arguments, run in another process, then get 1000 results"),
		row("tasks_sync", Latency, tasksSyncAcross,
			"submit one task, run in another process, and get its result"),
		row("tasks_multi_client_async", "tasks/s", clientBatches.besideEcho,
			"tasks_async from 4 drivers of one process at the same time"),
		row("actor_sync", Latency, actorSyncAcross,
			"call one grain in another process and get the result"),
		row("actor_async", "calls/s", callBatches.besideEcho,
			"1000 calls to one grain in another process in flight, then get 1000 results"),
		row("actor_n_n_async", "calls/s", clientCalls.besideEcho,
			"4 drivers of one process, each with 1000 calls in flight, spread over 4 grains in another"),
		row("wait_1k", "runs/s", waits.besideEcho,
			"submit 1000 tasks, run in another process, then 1000 times wait for one of those left"),
		row("put_small", "puts/s", seenPuts.besideEcho,
			"put of one int, seen by another process: 1000 of them are the argument of a task there"),
		row("generator_items", "items/s", itemsAcross(generated),
			"65,536 items of a generator in another process, from Go to the end of the loop"),
		row("queue_items", "items/s", itemsAcross(taken),
			"65,536 items that a task in another process puts into a queue there, 1,024 at a time, and a loop takes"),
		row("transfer", GigabytesPerSecond, transfer,
			"1 GiB []byte of this process until View can read it in another, sharing off"),
		row("share", Latency, share,
			"View of a 1 GiB []byte of another process of this host, before its memory is touched"),
		row("broadcast", Latency, broadcastRow,
			"256 MiB []byte of this process until View can read it in 4 others"),
		row("bulk_p99", Tail, bulkTail,
			"call one grain in another process and get the result, while objects of 256 MiB go there one after the other"),
		row("results_by_size", GigabytesPerSecond, resultsBySize,
			"16 calls to one grain in another process in flight, each with a result of 70 KiB; larger ones, arguments, and one at a time in the details"),
		row("allreduce_small", Latency, allReduceSmall,
			"AllReduce of 8 KiB over 4 processes"),
		row("grain_activate", "activations/s", grainActivate,
			"first call to a grain that has never been, 1000 in flight, placed by the registry in Consul"),
		rowByName("always_activate", "activations/s", alwaysActivate,
			"grain_activate of a kind that is always on, beside one that is not"),
		rowByName("durable_calls", "calls/s", durableCalls,
			"4 calls each by 1000 callers to durable grains in another process, of which 100,000 are stored"),
		rowByName("schedules_due", "firings/s", schedulesDue,
			"10,000 schedules due at one time, each a call to a durable grain in another process, to the last outcome stored"),
		rowByName("schedules_stored", Bytes, schedulesStored,
			"one of 100,000 schedules that wait: keys and values in Consul; memory of the process that leads their shards in the details"),
		row("groups", "groups/s", groupsAcross,
			"make a placement group of two bundles on two workers, wait for it and remove it, 64 at the same time"),
		row("node_join", Latency, nodeJoin,
			"start a process and have its node join the cluster"),
		row("node_rss_3_peers", Bytes, nodePeers,
			"resident memory of a process with an idle node in a cluster of 4"),
		row("failover", Latency, failover,
			"kill a worker, and have the first good call of each of 8 grains it held; with 2, 3 and 5 workers"),
		rowByName("failover_silence", Latency, failoverSilence,
			"failover of 3 workers where one falls silent (SIGSTOP) instead; about 20 s each"),
		localityRow(),
		manyTasksRow(),
	}
}

// Result is one measured row. Its JSON form is fixed: programs compare runs with it.
type Result struct {
	Row   string  `json:"row"`
	Tier  Tier    `json:"tier"`
	Value float64 `json:"value"` // a rate per second, or the p50 in microseconds, or bytes, as Unit says
	Unit  Unit    `json:"unit"`
	// Durations in microseconds, of the operation that latency_of in the details names. Nil where nothing is timed.
	P50 *float64 `json:"p50_us"`
	P99 *float64 `json:"p99_us"`
	Max *float64 `json:"max_us"`
	// Limit names the raw limit, and LimitValue is its figure in Unit.
	Limit      string  `json:"limit"`
	LimitValue float64 `json:"limit_value"`
	// Ratio is Value over LimitValue: above 1 is better than raw for a rate, worse than raw for latency and bytes. It is 1, and
	// detail says so, where the work of the limit is not done at all.
	Ratio  float64        `json:"ratio"`
	Detail map[string]any `json:"detail"`
}

func (r Row) result(m measured) Result {
	res := Result{
		Row: r.Name, Tier: r.Tier, Unit: r.Unit, Value: figures(m.value), Limit: m.limit, LimitValue: figures(m.limitValue),
		Detail: map[string]any{"operation": r.Operation},
	}
	if m.limitValue != 0 {
		res.Ratio = figures(m.value / m.limitValue)
	}
	if m.same {
		res.Ratio = 1
	}
	if m.latency != nil && m.latency.n > 0 {
		p50 := figures(us(m.latency.quantile(0.5)))
		if r.Unit == Latency {
			p50 = res.Value // the median of the rounds' medians, and not of all durations: one figure, said once
		}
		p99, most := figures(us(m.latency.quantile(0.99))), figures(us(m.latency.max))
		res.P50, res.P99, res.Max = &p50, &p99, &most
		res.Detail["latency_of"] = m.latencyOf
		res.Detail["latency_count"] = m.latency.n
	}
	if len(m.rounds) > 0 {
		res.Detail["rounds"] = figuresOf(m.rounds)
	}
	if len(m.limits) > 0 {
		res.Detail["limit_rounds"] = figuresOf(m.limits)
	}
	maps.Copy(res.Detail, m.detail)
	return res
}

// figures keeps four significant figures: more would only show the noise of the machine.
func figures(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

func figuresOf(vs []float64) []float64 {
	out := make([]float64, len(vs))
	for i, v := range vs {
		out[i] = figures(v)
	}
	return out
}

// JSON writes results as a list of one object per row.
func JSON(w io.Writer, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(results)
}

// Tier says where the two ends of an operation are.
type Tier string

// The tiers. CrossProcess is between node processes on loopback, in a cluster of their own.
const (
	InProcess    Tier = "in-process"
	CrossProcess Tier = "cross-process"
)

// Unit is the unit of a row's value. Latency, Tail and Bytes are better when small; every other unit is a rate.
type Unit string

// The units that are no rates.
const (
	Latency Unit = "us"
	Bytes   Unit = "B"
	// Tail is a p99 in microseconds.
	Tail Unit = "us p99"
)

// Row is one line of the benchmark.
type Row struct {
	Name      string
	Tier      Tier
	Unit      Unit
	Operation string // one operation in words
	Named     bool   // measured only when it is asked for by name: it takes minutes
	measure   func(ctx context.Context, p Plan) (measured, error)
}

// Plan says how long to measure. The zero value takes the defaults.
type Plan struct {
	// Rounds in which operation and raw limit are measured in turn; the medians count. 5 unless set. Rows whose one
	// operation takes a good part of a second do with fewer.
	Rounds int
	// Slice is how long each of the two runs in a round: 150 ms unless set, so that a row takes about 1.5 s.
	Slice time.Duration
	// Node describes the nodes that are measured, but for the table of functions, which is the benchmark's own.
	Node system.Config
	// Size of the objects that the rows of large objects move, in bytes. 0: each row has a size of its own.
	Size int64
	// Tasks is how many the row of very many tasks runs. 0: 50,000,000.
	Tasks int
	// Consul is host:port of the server through which the nodes of the cross-process rows find each other.
	Consul string
	// Self is the binary that child processes run, with Child behind its hidden command. Empty: this one.
	Self string
}

func (p Plan) complete() Plan {
	if p.Rounds == 0 {
		p.Rounds = 5
	}
	if p.Slice == 0 {
		p.Slice = 150 * time.Millisecond
	}
	return p
}

// Run measures the row. The error says which row failed and why; ctx ends it between rounds.
func (r Row) Run(ctx context.Context, p Plan) (Result, error) {
	m, err := r.measure(ctx, p.complete())
	if err != nil {
		return Result{}, fmt.Errorf("measure %s: %w", r.Name, err)
	}
	return r.result(m), nil
}

// withNode runs f on a node of its own, with a driver's context, and closes the node.
func withNode(ctx context.Context, p Plan, f func(ctx context.Context, n *system.Node) error) (err error) {
	cfg := p.Node
	if cfg.Table == nil {
		cfg.Table = functions
	}
	n, err := system.New(cfg)
	if err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	defer func() {
		grace, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if e := n.Close(grace); err == nil {
			err = e
		}
	}()
	return f(n.Context(ctx), n)
}

// onNode compares two sides on a node of its own.
func onNode(ctx context.Context, p Plan, compare func(ctx context.Context, p Plan, value, limit side) (measured, error),
	prepare func(driver context.Context) (value, limit side),
) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		value, limit := prepare(driver)
		m, err = compare(ctx, p, value, limit)
		return err
	})
	return m, err
}

// closeGrace bounds the wait for a node to close: nothing runs any more when a row closes its node, so it is for faults.
const closeGrace = 10 * time.Second
