package devices

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Config of a Watcher. The zero value is sane.
type Config struct {
	// Host is part of the UUIDs of devices that are made up, so that those of two nodes differ.
	Host string
	// Every is how often each GPU is asked how it is: 5 s unless set. An Xid is heard at once.
	Every time.Duration
	// Limit bounds each call: 10 s unless set, several times what a driver needs to wake a GPU.
	Limit time.Duration
	// LookupEnv finds CUDA_VISIBLE_DEVICES. Nil: os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// Say gets a line for each device that becomes sick or well, for each Xid, and for each GPU that cannot be used. Nil:
	// nothing is said.
	Say func(line string)
}

func (cfg *Config) complete() {
	if cfg.Every <= 0 {
		cfg.Every = 5 * time.Second
	}
	if cfg.Limit <= 0 {
		cfg.Limit = 10 * time.Second
	}
	if cfg.LookupEnv == nil {
		cfg.LookupEnv = os.LookupEnv
	}
	if cfg.Say == nil {
		cfg.Say = func(string) {}
	}
}

// maxEvents is how many events of one moment are heard before the GPUs are asked: a program that fails in a loop makes an
// Xid each time.
const maxEvents = 64

// Watcher asks a Library how its GPUs are. It is a Source.
type Watcher struct {
	lib    Library
	cfg    Config
	events lane
	gpus   []*watched
	latest atomic.Pointer[Inventory]
}

// watched is a GPU of which devices are in the inventory.
type watched struct {
	lane
	gpu   GPU
	place int    // among the library's GPUs
	at    []int  // place of each of its devices in the inventory; Unknown where it is not there
	xid   string // what is broken, by an Xid
}

// NewWatcher asks the library for its devices, and each how it is. A GPU that does not answer now is none: the error is about
// the library alone.
func NewWatcher(lib Library, cfg Config) (*Watcher, error) {
	cfg.complete()
	w := &Watcher{lib: lib, cfg: cfg}
	gpus, err := call(context.Background(), new(lane), cfg.Limit, lib.GPUs)
	if err != nil {
		return nil, fmt.Errorf("list GPUs: %w", err)
	}
	descriptions := make([]Description, len(gpus))
	for i, g := range gpus {
		w.gpus = append(w.gpus, &watched{gpu: g, place: i})
	}
	w.each(func(i int, g *watched) {
		d, err := call(context.Background(), &g.lane, cfg.Limit, g.gpu.Describe)
		if err != nil {
			cfg.Say(fmt.Sprintf("GPU %d is left out: %v", i, err))
			return
		}
		descriptions[i] = d
	})
	w.take(descriptions)
	w.sample(context.Background())
	return w, nil
}

// take makes the first inventory of what the GPUs said.
func (w *Watcher) take(descriptions []Description) {
	var all []Device
	links := map[string][]Link{}
	for _, d := range descriptions {
		for _, v := range d.Devices {
			v.Busy = Unknown
			all, links[v.UUID] = append(all, v), d.Links
		}
	}
	if value, set := w.cfg.LookupEnv(VisibleVariable); set {
		all = Visible(all, value)
	}
	place, ends := map[string]int{}, make([][]Link, len(all))
	for i, d := range all {
		place[d.UUID], ends[i] = i, links[d.UUID]
	}
	var used []*watched
	for i, g := range w.gpus {
		some := false
		for _, d := range descriptions[i].Devices {
			at, ok := place[d.UUID]
			if !ok {
				at = Unknown
			}
			g.at, some = append(g.at, at), some || ok
		}
		if some {
			used = append(used, g)
		}
	}
	w.gpus = used
	w.latest.Store(&Inventory{Devices: all, Links: matrix(all, ends)})
}

// Inventory is the latest.
func (w *Watcher) Inventory() Inventory { return *w.latest.Load() }

// Run watches until ctx ends. A call that the library has not returned from is left to it: one that waits for an event ends
// within Every.
func (w *Watcher) Run(ctx context.Context, changed func(Inventory)) error {
	for w.listen(ctx) {
		if w.sample(ctx) {
			changed(w.Inventory())
		}
	}
	return context.Cause(ctx)
}

// listen waits for Every or an event, and hears all that there are. It reports whether ctx goes on.
func (w *Watcher) listen(ctx context.Context) bool {
	pause := time.NewTimer(w.cfg.Every)
	defer pause.Stop()
	if len(w.gpus) == 0 {
		<-ctx.Done()
	}
	for limit, n := w.cfg.Every, 0; n < maxEvents && ctx.Err() == nil; limit, n = 0, n+1 {
		e, err := call(ctx, &w.events, limit+w.cfg.Limit, func() (*Event, error) {
			e, ok, err := w.lib.Wait(limit)
			if !ok || err != nil {
				return nil, err
			}
			return &e, nil
		})
		if err != nil { // there are no events to be had, or none any more
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			break
		}
		if e == nil {
			break
		}
		w.hear(*e)
	}
	return ctx.Err() == nil
}

// hear notes an Xid.
func (w *Watcher) hear(e Event) {
	what, hardware := HardwareXid(e.Xid)
	for _, g := range w.gpus {
		if g.place != e.GPU {
			continue
		}
		if !hardware {
			w.cfg.Say(fmt.Sprintf("GPU %d reports Xid %d, which is no failure of the GPU: see the program on it", e.GPU, e.Xid))
			return
		}
		g.xid = fmt.Sprintf("Xid %d: %s", e.Xid, what)
		return
	}
	w.cfg.Say(fmt.Sprintf("Xid %d of a GPU that is not in the inventory", e.Xid))
}

// sample asks every GPU and reports whether anything changed. What is known when ctx ends is no news.
func (w *Watcher) sample(ctx context.Context) bool {
	samples, errs := make([]Sample, len(w.gpus)), make([]error, len(w.gpus))
	w.each(func(i int, g *watched) { samples[i], errs[i] = call(ctx, &g.lane, w.cfg.Limit, g.gpu.Sample) })
	if ctx.Err() != nil {
		return false
	}
	last := w.Inventory()
	next := Inventory{Devices: append([]Device(nil), last.Devices...), Links: last.Links}
	for i, g := range w.gpus {
		sick := g.sick(samples[i], errs[i])
		for k, at := range g.at {
			if at == Unknown {
				continue
			}
			d := &next.Devices[at]
			if d.Sick != sick {
				w.say(d.UUID, sick)
			}
			d.Sick = sick
			if k < len(samples[i].Uses) {
				d.Used, d.Busy = samples[i].Uses[k].Used, samples[i].Uses[k].Busy
			}
		}
	}
	if next.Equal(last) {
		return false
	}
	w.latest.Store(&next)
	return true
}

func (w *Watcher) say(uuid, sick string) {
	if sick == "" {
		w.cfg.Say("device " + uuid + " is well again")
		return
	}
	w.cfg.Say("device " + uuid + " is sick and gets no new work: " + sick)
}

// sick says why the GPU gets no new work.
func (g *watched) sick(s Sample, err error) string {
	switch {
	case g.xid != "":
		return g.xid
	case err != nil:
		return err.Error()
	case s.Uncorrectable > 0:
		return fmt.Sprintf("%d uncorrectable ECC errors since the driver was loaded", s.Uncorrectable)
	}
	return ""
}

// each runs f for all GPUs at once: one that is slow holds up no other.
func (w *Watcher) each(f func(i int, g *watched)) {
	var all sync.WaitGroup
	for i, g := range w.gpus {
		all.Go(func() { f(i, g) })
	}
	all.Wait()
}
