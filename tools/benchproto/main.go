// Command benchproto measures request and reply between two processes: of raysys grains, of proto.Actor's kinds on a raysys cluster,
// and of stock proto.Actor, by its remote alone and by its cluster, beside bare TCP. All are measured in turn, so that they meet the
// same machine.
//
//	make bench-proto
//
//	this process                              one process each
//	raysys driver, its cluster.Cluster ─────► raysys worker: grains, and actors of the kind echo
//	proto.Actor cluster client, its remote ─► proto.Actor member: actors of the kind echo, and 64 actors with names
//
// Both clusters meet at one Consul: raysys by its own store, proto.Actor by the provider that it comes with and the disthash lookup.
// All actors are one type, and messages have 64 bytes. A ratio is of one round and above 1 where more requests are answered than by
// stock proto.Actor's cluster.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	rounds    = flag.Int("rounds", 7, "how often each is measured")
	lasts     = flag.Duration("for", time.Second, "how long each measurement lasts")
	failovers = flag.Int("failovers", 3, "how often the process of an actor is killed in each cluster; 0: never")
)

const (
	callers = 64 // each calls an actor of its own
	size    = 64 // bytes of a request, and of an answer
)

func main() { figures.Main(measure, host) }

// contender is one way to ask an actor.
type contender struct {
	name string
	ask  func(caller int) error

	p50, one, many []float64 // of each round: us, and thousands of requests/s of one caller and of all
}

func measure(ctx context.Context) error {
	consul, err := consulserver.Run(ctx, consulserver.Options{Disk: true})
	if err != nil {
		return err
	}
	defer consul.Close()
	os.Setenv(consulAddress, consul.Address()) // for the provider, and for the processes that launch starts
	ray, err := newSide(ctx, "raysys")
	if err != nil {
		return err
	}
	defer ray.end()
	stock, err := newSide(ctx, "stock")
	if err != nil {
		return err
	}
	defer stock.end()
	list, err := contenders(ray, stock)
	if err != nil {
		return err
	}
	for _, c := range list {
		if err := until(func() error { return c.ask(0) }); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if _, err := c.all(); err != nil { // not measured: it makes the actors
			return err
		}
	}
	_, err = figures.InTurn(*rounds, len(list), func(_, i int) error { return list[i].round() })
	if err != nil {
		return err
	}
	fmt.Printf("%s; medians of %d rounds in turn, %v for each figure.\n\n", figures.Here(), *rounds, *lasts)
	fmt.Println("| | one caller, p50 | requests/s | ratio, least and most of a round |", callers, "callers, requests/s | ratio, least and most of a round |\n|---|---|---|---|---|---|")
	base := list[len(list)-1]
	for _, c := range list {
		fmt.Printf("| %s | %.0f us | %.1f k/s | %s | %.1f k/s | %s |\n", c.name, figures.Median(c.p50), figures.Median(c.one), figures.Ratio(c.one, base.one), figures.Median(c.many), figures.Ratio(c.many, base.many))
	}
	if *failovers == 0 {
		return nil
	}
	a, err := ray.failover()
	if err != nil {
		return err
	}
	b, err := stock.failover()
	if err != nil {
		return err
	}
	fmt.Printf("\nSIGKILL of an actor's process until another answers for it, medians, least and most of %d: kinds on raysys %s (lease %v), stock proto.Actor cluster %s (TTL %v).\n",
		*failovers, spread("%.2f s", a), lease, spread("%.2f s", b), serviceTTL)
	return nil
}

// round measures c once, with the garbage of others gone.
func (c *contender) round() error {
	runtime.GC()
	var took []time.Duration
	begin := time.Now()
	for last := begin; last.Sub(begin) < *lasts; {
		if err := c.ask(0); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		now := time.Now()
		took, last = append(took, now.Sub(last)), now
	}
	slices.Sort(took)
	c.p50 = append(c.p50, float64(took[len(took)/2].Nanoseconds())/1e3)
	c.one = append(c.one, float64(len(took))/time.Since(begin).Seconds()/1e3)
	runtime.GC()
	many, err := c.all()
	c.many = append(c.many, many)
	return err
}

// all has all callers ask at the same time, and returns their thousands of requests/s.
func (c *contender) all() (float64, error) {
	var wg sync.WaitGroup
	var n atomic.Int64
	errs := make(chan error, callers)
	begin := time.Now()
	for i := range callers {
		wg.Go(func() {
			mine := int64(0)
			defer func() { n.Add(mine) }()
			for ; time.Since(begin) < *lasts; mine++ {
				if err := c.ask(i); err != nil {
					errs <- fmt.Errorf("%s: caller %d: %w", c.name, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	close(errs)
	return float64(n.Load()) / took.Seconds() / 1e3, <-errs
}

// patience bounds each wait for a cluster to settle.
const patience = 60 * time.Second

// until calls f until it succeeds.
func until(f func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		if err := f(); err == nil || time.Since(begin) > patience {
			return err
		}
	}
}

// spread is the median of a list, its least and its most.
func spread(format string, list []float64) string {
	return fmt.Sprintf(format+", "+format+" to "+format, figures.Median(list), slices.Min(list), slices.Max(list))
}
