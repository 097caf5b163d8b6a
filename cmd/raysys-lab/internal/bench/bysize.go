package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/standins"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// make gives n bytes, and took takes bytes.
func (c *counter) make(_ context.Context, n int) ([]byte, error) { return make([]byte, n), nil }
func (c *counter) took(_ context.Context, b []byte) (int, error) { return len(b), nil }

var (
	makeBytes = grains.Method(counters, "make", (*counter).make)
	tookBytes = grains.Method(counters, "took", (*counter).took)
)

// bySizeBase is the size just below raysys.ObjectSize that the others are compared with, and bySizeOpen is how many calls are open.
const (
	bySizeBase = 63 << 10
	bySizeOpen = 16
)

// bySizeSizes are those above it; the first is the row's.
var bySizeSizes = []int{70 << 10, 256 << 10, 1 << 20}

// bySizeCase is one kind of call.
type bySizeCase struct {
	name string
	open int
	size int
	arg  []byte // nil: the result has the size
}

// resultsBySize measures how many bytes a second grain calls move, by the size of their results and of their arguments, beside those of
// 63 KiB.
func resultsBySize(ctx context.Context, p Plan) (m measured, err error) {
	m = measured{latency: &hist{}, latencyOf: fmt.Sprintf("%d calls with results of %s", bySizeOpen, kibs(bySizeSizes[0])), limit: "bytes a second of results of " + kibs(bySizeBase)}
	var cases []*bySizeCase
	add := func(name string, open, size int, arg bool) {
		c := &bySizeCase{name: name, open: open, size: size}
		if arg {
			c.arg = make([]byte, size)
		}
		cases = append(cases, c)
	}
	for _, size := range append([]int{bySizeBase}, bySizeSizes...) {
		add("result_"+kibs(size), bySizeOpen, size, false)
		add("argument_"+kibs(size), bySizeOpen, size, true)
	}
	for _, size := range []int{bySizeBase, 65 << 10} {
		add("alone_"+kibs(size), 1, size, false)
	}
	rates := make([][]float64, len(cases)) // GB/s
	err = withObjects(ctx, p, 1, options{}, func(driver context.Context, c *cluster) error {
		g := counters.Get("sized")
		if err := c.elsewhere(driver, g); err != nil {
			return err
		}
		for round := range p.Rounds + 1 {
			for i, x := range cases {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				var h hist
				rate, err := side{x.open, func() error { return x.calls(driver, g) }}.loop(p.Slice, &h)
				if err != nil {
					return fmt.Errorf("%s: %w", x.name, err)
				}
				if round == 0 {
					continue
				}
				rates[i] = append(rates[i], rate*float64(x.size)/1e9)
				if x.open == bySizeOpen && x.arg == nil && x.size == bySizeSizes[0] {
					m.latency.merge(&h)
				}
			}
		}
		return nil
	})
	if err != nil {
		return m, err
	}
	m.limits, m.rounds = rates[0], rates[2]
	m.value, m.limitValue = median(m.rounds), median(m.limits)
	for i, x := range cases {
		base := median(rates[i%2]) // of results, of arguments
		if x.open == 1 {
			base = median(rates[len(cases)-2])
			m.note(x.name+"_us", figures(float64(x.size)/median(rates[i])/1e3))
		}
		m.note(x.name+"_ratio", figures(median(rates[i])/base))
	}
	return m, nil
}

// calls makes the calls that are open at a time, and waits for them.
func (x *bySizeCase) calls(ctx context.Context, g grains.Grain[counter]) error {
	if x.arg != nil {
		refs := make([]raysys.Ref[int], x.open)
		for i := range refs {
			refs[i] = tookBytes.Call(ctx, g, x.arg)
		}
		for _, r := range refs {
			if n, err := r.Get(ctx); err != nil || n != x.size {
				return errors.Join(err, expect(n, x.size))
			}
		}
		return nil
	}
	refs := make([]raysys.Ref[[]byte], x.open)
	for i := range refs {
		refs[i] = makeBytes.Call(ctx, g, x.size)
	}
	for _, r := range refs {
		if b, err := r.Get(ctx); err != nil || len(b) != x.size {
			return errors.Join(err, expect(len(b), x.size))
		}
	}
	return nil
}

func kibs(n int) string { return fmt.Sprintf("%d_KiB", n>>10) }

// The row of figure 8a of the paper (Ray, OSDI 2018): tasks that each need one object, which is on one of two nodes,
// placed with a look at where it is and without.

// sizesOfLocality is how large the objects are, and how much is moved.
type sizesOfLocality struct {
	sizes []int
	tasks int // of each size, each with an object of its own
	// most bounds the bytes of the objects of one size. Tasks of large objects are fewer.
	most int
	// once bounds the bytes of the objects that are there at the same time.
	once int
}

var figure8a = sizesOfLocality{sizes: []int{100 << 10, 1 << 20, 10 << 20, 100 << 20}, tasks: 1000, most: 16 << 30, once: 400 << 20}

// localityRow is in the catalogue of the tier.
func localityRow() Row {
	return Row{
		Name: "locality", Unit: "tasks/s", Named: true,
		measure:   func(ctx context.Context, p Plan) (measured, error) { return locality(ctx, p, figure8a) },
		Operation: "1000 tasks (160 of 100 MiB), each with an object of 100 KiB to 100 MiB on one of two nodes, beside the same placed without a look at it; no sharing on the host",
	}
}

var (
	makeObject = tasks.DefineIn(functions, "make-object", func(_ context.Context, n int) ([]byte, error) {
		b := make([]byte, n)
		for i := 0; i < n; i += 512 {
			b[i] = byte(i>>9) | 1
		}
		return b, nil
	})
	readObject = tasks.DefineIn(functions, "read-object", func(_ context.Context, b []byte) (int, error) {
		n := 0
		for i := 0; i < len(b); i += 4096 {
			if b[i] != 0 {
				n++
			}
		}
		return n, nil
	})
)

func locality(ctx context.Context, p Plan, sizes sizesOfLocality) (m measured, err error) {
	all := map[string]any{}
	err = withObjects(ctx, p, 2, options{NoSharing: true}, func(driver context.Context, c *cluster) error {
		for _, size := range sizes.sizes {
			s := localitySize{size: size, n: max(min(sizes.tasks, sizes.most/size), 2), batch: max(min(sizes.once/size, 1000), 2), workers: c.names}
			if err := s.measure(driver); err != nil {
				return fmt.Errorf("objects of %d bytes: %w", size, err)
			}
			all[strconv.Itoa(size>>10)+"_KiB"] = s.figures()
			m.value, m.limitValue = s.sides[0].rate(), s.sides[1].rate()
			m.latency = &s.sides[0].alone
		}
		return nil
	})
	m.limit, m.latencyOf = "the same tasks, placed by raysys.Spread", "one task at a time, submitted where its object is not"
	m.note("sizes", all)
	m.note("nodes", "the driver without CPUs of its own, two worker processes, the bytes through TCP")
	return m, err
}

// localitySize measures one size.
type localitySize struct {
	size, n, batch int
	workers        []string // two
	sides          [2]localitySide
}

// localitySide has the figures of the tasks that were placed in one of the two ways.
type localitySide struct {
	tasks int
	took  time.Duration // of the batches
	batch hist          // of a task in a batch: from the submission of the first to its result
	alone hist          // of a task that is the only one
}

func (s *localitySide) rate() float64 {
	if s.took <= 0 {
		return 0
	}
	return float64(s.tasks) / s.took.Seconds()
}

// measure runs the tasks of both sides by turns, batch by batch, every fifth batch one task at a time.
func (s *localitySize) measure(ctx context.Context) error {
	draw := rand.New(rand.NewPCG(8, uint64(s.size)))
	for done, round := 0, 0; done < s.n; round++ {
		n := min(s.batch, s.n-done)
		done += n
		for i := range s.sides {
			refs, err := s.objects(ctx, n, draw)
			if err != nil {
				return err
			}
			read := readObject
			if i == 1 {
				read = readObject.With(raysys.Placement(raysys.Spread))
			}
			if err := s.sides[i].run(ctx, read, refs, s.size, round%5 == 4 || done == s.n); err != nil {
				return err
			}
			for _, r := range refs {
				r.Release()
			}
		}
	}
	return nil
}

// objects makes n objects, each on a node drawn at random.
func (s *localitySize) objects(ctx context.Context, n int, draw *rand.Rand) ([]raysys.Ref[[]byte], error) {
	refs := make([]raysys.Ref[[]byte], n)
	for i := range refs {
		refs[i] = makeObject.With(raysys.Label(workerLabel, s.workers[draw.IntN(2)])).Go(ctx, s.size)
	}
	ready, rest, err := raysys.Wait(ctx, refs, n)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d of %d objects", len(ready), n)
	}
	return refs, err
}

// run submits a task for each of refs: all at once, and then a few alone.
func (s *localitySide) run(ctx context.Context, read tasks.Task[[]byte, int], refs []raysys.Ref[[]byte], size int, alone bool) error {
	if alone {
		few := min(len(refs)/2, 20)
		for _, r := range refs[:few] {
			start := time.Now()
			if err := localityResult(ctx, read.On(ctx, r), size); err != nil {
				return err
			}
			s.alone.add(time.Since(start))
		}
		refs = refs[few:]
	}
	start := time.Now()
	sums := make([]raysys.Ref[int], len(refs))
	for i, r := range refs {
		sums[i] = read.On(ctx, r)
	}
	for _, r := range raysys.AsCompleted(ctx, sums) {
		if err := localityResult(ctx, r, size); err != nil {
			return err
		}
		s.batch.add(time.Since(start))
	}
	s.took += time.Since(start)
	s.tasks += len(refs)
	return nil
}

func localityResult(ctx context.Context, r raysys.Ref[int], size int) error {
	v, err := r.Get(ctx)
	if err != nil {
		return err
	}
	return expect(v, (size+4095)/4096)
}

func (s *localitySize) figures() map[string]any {
	d := map[string]any{"tasks": s.n, "in_flight": min(s.batch, s.n)}
	for i, name := range []string{"aware", "unaware"} {
		side := &s.sides[i]
		d[name] = map[string]any{
			"tasks_per_s": figures(side.rate()), "batch_p50_us": figures(us(side.batch.quantile(0.5))),
			"alone_p50_us": figures(us(side.alone.quantile(0.5))), "alone_p99_us": figures(us(side.alone.quantile(0.99))),
		}
	}
	if u := s.sides[1].rate(); u > 0 {
		d["ratio"] = figures(s.sides[0].rate() / u)
	}
	return d
}

// sizesReport is how many bytes one operation puts on the connection, so that the raw limit moves as many.
type sizesReport struct {
	Request int `json:"request_bytes"`
	Reply   int `json:"reply_bytes"`
}

// sizedOperations is how many operations are looked at. The median counts: now and then a frame of the connection's own
// is among them.
const sizedOperations = 301

// wireSizes counts the bytes in a cluster of its own, because counting costs time.
func wireSizes(ctx context.Context, p Plan, operation string) (r sizesReport, err error) {
	c := &cluster{name: clusterName(), plan: p}
	worker, err := c.launch(ctx)
	if err != nil {
		return r, err
	}
	if _, err := worker.ready(); err != nil {
		return r, err
	}
	caller, err := launch(ctx, p, childSizes, c.name, p.Consul, operation)
	if err != nil {
		return r, errors.Join(err, c.end())
	}
	if line, err := caller.line(); err != nil {
		return r, errors.Join(err, c.end())
	} else if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, errors.Join(fmt.Errorf("read sizes of %s: %w", operation, err), c.end())
	}
	return r, errors.Join(caller.end(), c.end(), c.sweep(ctx))
}

// sizeUp is the child that counts.
func sizeUp(ctx context.Context, p Plan, args []string, in io.Reader, out io.Writer) error {
	var n counted
	p.Node = member(p.Node, args[0], args[1], "driver", system.Driver)
	standins.Of(p.Node.Cluster).Network = &countingTransport{link.TCP(link.TCPConfig{}), &n}
	return withOperation(ctx, p, args[2], func(_ context.Context, do func() error) error {
		var sent, received []int
		for range sizedOperations {
			s, r := n.out.Load(), n.in.Load()
			if err := do(); err != nil {
				return err
			}
			sent, received = append(sent, int(n.out.Load()-s)), append(received, int(n.in.Load()-r))
		}
		slices.Sort(sent)
		slices.Sort(received)
		r := sizesReport{sent[sizedOperations/2], received[sizedOperations/2]}
		if !frameSize(r.Request) || !frameSize(r.Reply) {
			return fmt.Errorf("a %s moved %d bytes there and %d back: raw frames have %d to %d", args[2], r.Request, r.Reply, frameMin, frameMax)
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return sayWait(string(line)+"\n", in, out)
	})
}

// counted has the bytes that went over a node's connections.
type counted struct{ in, out atomic.Int64 }

// countingTransport is a transport that counts.
type countingTransport struct {
	link.Transport
	n *counted
}

// Listen implements link.Transport.
func (t *countingTransport) Listen(ctx context.Context, addr string) (net.Listener, error) {
	ln, err := t.Transport.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &countingListener{ln, t.n}, nil
}

// Dial implements link.Transport.
func (t *countingTransport) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := t.Transport.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &countingConn{conn, t.n}, nil
}

type countingListener struct {
	net.Listener
	n *counted
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countingConn{conn, l.n}, nil
}

type countingConn struct {
	net.Conn
	n *counted
}

func (c *countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.in.Add(int64(n))
	return n, err
}

func (c *countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.out.Add(int64(n))
	return n, err
}
