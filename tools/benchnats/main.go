// Command benchnats measures package stream beside the bare client of NATS: how fast events are published, and how fast they reach grains.
// All are measured in turn, so that they meet the same machine.
//
//	make bench-nats
//
//	this process                                       one process each
//	client of NATS ──────────────────────────────────► NATS, which writes each message through to the disk
//	package stream, on a driver that publishes ──────► NATS
//	package stream, on a node that delivers ◄───────── NATS
//	              └── grains, of which the Durable ones store their State ──► Consul
//
// Each measurement has a cluster of its own, and so streams that are new. For a delivery a driver publishes all events and leaves; then a
// node starts, and is measured from there until its grains have taken them. A ratio is of one round and above 1 where package stream is
// faster than the client.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/natsserver"
	"github.com/raysys/raysys/stream"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	rounds  = flag.Int("rounds", 5, "how often each is measured")
	lasts   = flag.Duration("for", time.Second, "how long each measurement of publishing lasts")
	events  = flag.Int("events", 50_000, "how many events are delivered to plain grains")
	durable = flag.Int("durable", 20_000, "how many events are delivered to Durable grains")
)

const (
	size    = 128 // bytes of an event
	keys    = 200 // and grains
	list    = 500 // events of one PublishAll
	callers = 64  // that publish at the same time
)

type event struct{ Body []byte }

var (
	orders = stream.Define[event]("orders") // nobody subscribes to it
	toHeap = stream.Define[event]("plain")
	toDisk = stream.Define[event]("durable")
	_      = stream.Into(toHeap, grains.Define[plain]("plain"), (*plain).OnEvent)
	_      = stream.Into(toDisk, grains.Define[account]("account", grains.Durable()), (*account).OnEvent)

	taken, goal atomic.Int64
	reached     = make(chan struct{}, 1) // taken is goal
)

func took() {
	if taken.Add(1) == goal.Load() {
		reached <- struct{}{}
	}
}

// plain counts in memory.
type plain struct{ n int }

func (p *plain) OnEvent(context.Context, stream.Event[event]) error {
	p.n++
	took()
	return nil
}

// account counts each event once.
type account struct {
	N grains.State[int]
	stream.Cursor
}

func (a *account) OnEvent(context.Context, stream.Event[event]) error {
	a.N.Value++
	took()
	return nil
}

func main() { figures.Main(measure, nil) }

// row is what is measured by the client of NATS and by package stream, each in events/s.
type row struct {
	name       string
	bare, ours func() (float64, error)

	rates [2][]float64
}

func measure(ctx context.Context) error {
	consul, err := consulserver.Run(ctx, consulserver.Options{Disk: true})
	if err != nil {
		return err
	}
	defer consul.Close()
	server, err := natsserver.Run(ctx, natsserver.Options{SyncAlways: true})
	if err != nil {
		return err
	}
	defer server.Close()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	b := &bench{ctx: ctx, consul: consul.Address(), nats: server.URL(), js: js}
	table := []*row{
		{name: "publish, one caller", bare: b.bare(1, b.publish), ours: b.ours(1, b.publishOurs)},
		{name: fmt.Sprint("publish, ", callers, " callers"), bare: b.bare(callers, b.publish), ours: b.ours(callers, b.publishOurs)},
		{name: fmt.Sprint("publish lists of ", list), bare: b.bare(1, b.publishList), ours: b.ours(1, b.publishListOurs)},
		{name: fmt.Sprint("delivery to plain grains, ", *events, " events"), bare: b.read(toHeap, *events), ours: b.deliver(toHeap, *events)},
		{name: fmt.Sprint("delivery to Durable grains, ", *durable, " events"), bare: b.read(toDisk, *durable), ours: b.deliver(toDisk, *durable)},
	}
	_, err = figures.InTurn(*rounds, len(table), func(round, i int) error {
		r := table[i]
		for k := range r.rates {
			which := (round + k) % len(r.rates)
			runtime.GC() // the garbage of others
			rate, err := []func() (float64, error){r.bare, r.ours}[which]()
			if err = errors.Join(err, b.clear()); err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			r.rates[which] = append(r.rates[which], rate)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s; medians of %d rounds in turn; events of %d bytes over %d keys.\n\n", figures.Here(), *rounds, size, keys)
	fmt.Println("| events/s | nats.go | stream | ratio, least and most of a round |\n|---|---|---|---|")
	for _, r := range table {
		fmt.Printf("| %s | %.1f k/s | %.1f k/s | %s |\n", r.name, figures.Median(r.rates[0])/1e3, figures.Median(r.rates[1])/1e3, figures.Ratio(r.rates[1], r.rates[0]))
	}
	return nil
}

// bench has the servers.
type bench struct {
	ctx          context.Context
	consul, nats string
	js           jetstream.JetStream
	clusters     int
}

// bareStream is the stream that the client publishes to.
const bareStream = "bare"

// clear deletes all streams.
func (b *bench) clear() error {
	names := b.js.StreamNames(b.ctx)
	for name := range names.Name() {
		if err := b.js.DeleteStream(b.ctx, name); err != nil {
			return err
		}
	}
	return names.Err()
}

// join starts a node of a cluster.
func (b *bench) join(cluster int, role system.Role, name raysys.NodeID) (*system.Node, error) {
	n, err := system.New(system.Config{
		Name: name, Cluster: &system.ClusterConfig{Name: "benchnats-" + strconv.Itoa(cluster), Consul: b.consul, Role: role}, NATS: system.NATS{URL: b.nats},
	})
	if err != nil {
		return nil, err
	}
	return n, n.Start(b.ctx)
}

// driver has f use a node that publishes to a new cluster, and delivers nothing.
func (b *bench) driver(f func(ctx context.Context) error) error {
	b.clusters++
	n, err := b.join(b.clusters, system.Driver, "driver")
	if err != nil {
		return err
	}
	return errors.Join(f(n.Context(b.ctx)), n.Close(b.ctx))
}

// publisher publishes to a key, and returns how many events.
type publisher func(ctx context.Context, key string) (int, error)

// bare measures callers that use the client of NATS.
func (b *bench) bare(callers int, f publisher) func() (float64, error) {
	return func() (float64, error) {
		_, err := b.js.CreateStream(b.ctx, jetstream.StreamConfig{Name: bareStream, Subjects: []string{bareStream + ".*"}, Storage: jetstream.FileStorage, Replicas: 1})
		if err != nil {
			return 0, err
		}
		return repeat(b.ctx, callers, f)
	}
}

// ours measures callers that use package stream.
func (b *bench) ours(callers int, f publisher) func() (float64, error) {
	return func() (rate float64, err error) {
		err = b.driver(func(ctx context.Context) (err error) {
			if _, err = f(ctx, "made"); err == nil { // not measured: it makes the stream
				rate, err = repeat(ctx, callers, f)
			}
			return err
		})
		return rate, err
	}
}

// repeat has all callers publish at the same time, each to its keys in turn.
func repeat(ctx context.Context, callers int, f publisher) (float64, error) {
	var n atomic.Int64
	begin := time.Now()
	err := together(callers, func(c int) error {
		for k := c; time.Since(begin) < *lasts; k += callers {
			published, err := f(ctx, "key-"+strconv.Itoa(k%keys))
			if err != nil {
				return err
			}
			n.Add(int64(published))
		}
		return nil
	})
	return float64(n.Load()) / time.Since(begin).Seconds(), err
}

// together calls f n times at the same time.
func together(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *bench) publish(ctx context.Context, key string) (int, error) {
	_, err := b.js.Publish(ctx, bareStream+"."+key, make([]byte, size))
	return 1, err
}

func (b *bench) publishOurs(ctx context.Context, key string) (int, error) {
	_, err := orders.Publish(ctx, key, event{make([]byte, size)})
	return 1, err
}

func (b *bench) publishList(_ context.Context, key string) (int, error) {
	var acks [list]jetstream.PubAckFuture
	for i := range acks {
		var err error
		if acks[i], err = b.js.PublishMsgAsync(&nats.Msg{Subject: bareStream + "." + key, Data: make([]byte, size)}); err != nil {
			return 0, err
		}
	}
	for _, a := range acks {
		select {
		case <-a.Ok():
		case err := <-a.Err():
			return 0, err
		}
	}
	return list, nil
}

func (b *bench) publishListOurs(ctx context.Context, key string) (int, error) {
	return list, orders.PublishAll(ctx, key, bodies(list))
}

func bodies(n int) []event {
	l := make([]event, n)
	for i := range l {
		l[i].Body = make([]byte, size)
	}
	return l
}

// fill publishes n events to a stream of a new cluster. Those of a key lie apart, but for a few.
func (b *bench) fill(s stream.Stream[event], n int) error {
	const each, tellers = 25, 20
	return b.driver(func(ctx context.Context) error {
		return together(tellers, func(t int) error {
			for i := t; i < n/each; i += tellers {
				if err := s.PublishAll(ctx, "key-"+strconv.Itoa(i%keys), bodies(each)); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// patience bounds one delivery.
const patience = 2 * time.Minute

// read measures one ordered consumer of the client that counts n events.
func (b *bench) read(s stream.Stream[event], n int) func() (float64, error) {
	return func() (float64, error) {
		if err := b.fill(s, n); err != nil {
			return 0, err
		}
		names := b.js.StreamNames(b.ctx, jetstream.WithStreamListSubject("raysys.>"))
		for name := range names.Name() {
			if !strings.HasSuffix(name, s.Name()) {
				continue
			}
			ctx, cancel := context.WithTimeout(b.ctx, patience)
			defer cancel()
			begin := time.Now()
			c, err := b.js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{})
			if err != nil {
				return 0, err
			}
			it, err := c.Messages()
			if err != nil {
				return 0, err
			}
			defer it.Stop()
			for range n {
				if _, err := it.Next(jetstream.NextContext(ctx)); err != nil {
					return 0, err
				}
			}
			return float64(n) / time.Since(begin).Seconds(), nil
		}
		return 0, errors.Join(fmt.Errorf("NATS has no stream %s", s.Name()), names.Err())
	}
}

// deliver measures a node, from its start until its grains have taken n events.
func (b *bench) deliver(s stream.Stream[event], n int) func() (float64, error) {
	return func() (float64, error) {
		if err := b.fill(s, n); err != nil {
			return 0, err
		}
		taken.Store(0)
		goal.Store(int64(n))
		begin := time.Now()
		node, err := b.join(b.clusters, system.Both, "deliverer")
		if err != nil {
			return 0, err
		}
		select {
		case <-reached:
		case <-time.After(patience):
		}
		rate := float64(n) / time.Since(begin).Seconds()
		err = node.Close(b.ctx)
		if got := taken.Load(); got != int64(n) {
			err = errors.Join(err, fmt.Errorf("grains took %d events of %d", got, n))
		}
		return rate, err
	}
}
