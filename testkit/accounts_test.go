package testkit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

// accounts is what the code that runs has of each device, in thousandths, and which grains are active, as they say themselves. The
// devices of a node have other names in each of its lives ("n2.3/0" is the first of n2's third), so that the accounts of a life that was
// killed go with it: what still runs of it in this process is no part of the cluster.
type accounts struct {
	mu     sync.Mutex
	lives  map[int]*deviceLife // by node: the life that is, or was last
	held   map[string]int      // by device
	since  map[string]time.Time
	active map[string]string // by grain: the life that it is active in
	was    map[string]string // by grain: the node that it was active on last
	moves  int               // activations of a grain on another node than its last
	gone   map[string]time.Time
	// dropped counts devices and grains that killed nodes had.
	dropped int
	wrong   []string
}

// deviceLife is one life of a node with devices.
type deviceLife struct {
	name   string // n2.3
	number int
	source *source
	killed bool
}

func newAccounts() *accounts {
	return &accounts{
		lives: map[int]*deviceLife{}, held: map[string]int{}, since: map[string]time.Time{}, active: map[string]string{},
		was: map[string]string{}, gone: map[string]time.Time{},
	}
}

// begin gives node i, which starts, n devices with names of their own. What its last life had must have been given back, unless that was
// killed.
func (a *accounts) begin(i, n int, cfg *system.Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := &deviceLife{name: fmt.Sprintf("n%d.1", i), number: 1}
	if last := a.lives[i]; last != nil {
		l.number = last.number + 1
		l.name = fmt.Sprintf("n%d.%d", i, l.number)
		if !last.killed {
			a.emptyLocked(last.name, "left in good order")
		}
	}
	l.source = newSource(i, n)
	for d := range l.source.now.Devices {
		l.source.now.Devices[d].UUID = fmt.Sprintf("%s/%d", l.name, d)
		a.since[l.source.now.Devices[d].UUID] = time.Now()
	}
	a.lives[i] = l
	cfg.Resources.CPU, cfg.DeviceSource = 16, l.source
}

// emptyLocked complains of what a life has that should have nothing. The caller holds mu.
func (a *accounts) emptyLocked(life, after string) {
	for d, n := range a.held {
		if n != 0 && strings.HasPrefix(d, life+"/") {
			a.wrong = append(a.wrong, fmt.Sprintf("%d thousandths of %s are held, and its node has %s", n, d, after))
		}
	}
	for key, l := range a.active {
		if l == life {
			a.wrong = append(a.wrong, fmt.Sprintf("grain %s is active in %s, and its node has %s", key, life, after))
		}
	}
}

// kill kills a node and forgets what it has, at one moment.
func (a *accounts) kill(c *testkit.Cluster, i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.Kill(i)
	l := a.lives[i]
	l.killed = true
	for d := range a.held {
		if strings.HasPrefix(d, l.name+"/") {
			if a.held[d] != 0 {
				a.dropped++
			}
			delete(a.held, d)
		}
	}
	for key, life := range a.active {
		if life == l.name {
			delete(a.active, key)
			a.gone[key] = time.Now()
			a.dropped++
		}
	}
}

// stirred says whether a grain has moved, and whether a killed node held something.
func (a *accounts) stirred() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.moves > 0 && a.dropped > 0
}

// killed reports whether a device is of a life that was killed. The caller holds mu.
func (a *accounts) killed(device string) bool {
	for _, l := range a.lives {
		if strings.HasPrefix(device, l.name+"/") {
			return l.killed
		}
	}
	return true // an earlier life
}

// enter enters what one piece of work has until leave is called.
func (a *accounts) enter(devices []string, thousandths int) (leave func()) {
	add := func(sign int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, d := range devices {
			if a.killed(d) {
				continue
			}
			a.since[d] = time.Now()
			if a.held[d] += sign * thousandths; a.held[d] > 1000 {
				a.wrong = append(a.wrong, fmt.Sprintf("%d thousandths of %s are held", a.held[d], d))
			}
		}
	}
	add(+1)
	return func() { add(-1) }
}

// activate enters a grain with what it holds until leave is called.
func (a *accounts) activate(key string, devices []string, thousandths int) (leave func()) {
	life, _, _ := strings.Cut(devices[0], "/")
	a.mu.Lock()
	alive := !a.killed(devices[0])
	if other := a.active[key]; alive && other != "" {
		a.wrong = append(a.wrong, fmt.Sprintf("grain %s is activated in %s, and is active in %s", key, life, other))
	}
	if alive {
		a.active[key] = life
		node, _, _ := strings.Cut(life, ".")
		if was := a.was[key]; was != "" && was != node {
			a.moves++
		}
		a.was[key] = node
	}
	a.mu.Unlock()
	give := a.enter(devices, thousandths)
	return func() {
		give()
		a.mu.Lock()
		defer a.mu.Unlock()
		if alive && a.active[key] == life && !a.killed(devices[0]) {
			delete(a.active, key)
			a.gone[key] = time.Now()
		}
	}
}

// found is what was wrong.
func (a *accounts) found() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.wrong...)
}

// accountsNow are those of the test that runs.
var accountsNow *accounts

// heldGrain is a grain that enters what it holds.
type heldGrain struct{ leave func() }

func (g *heldGrain) OnActivate(ctx context.Context) error {
	id, _ := grains.Self(ctx)
	thousandths := 1000
	if id.Kind == "half" {
		thousandths = 500
	}
	g.leave = accountsNow.activate(id.Kind+"/"+id.Key, raysys.Devices(ctx), thousandths)
	return nil
}

func (g *heldGrain) OnDeactivate(context.Context) error { g.leave(); return nil }

// lifeOf is the name of a node's life.
func (a *accounts) lifeOf(node int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lifeLocked(node)
}

func (a *accounts) lifeLocked(node int) string {
	l := a.lives[node]
	if l.killed {
		return ""
	}
	return l.name
}

// health has a device of a node be sick, or well: "".
func (a *accounts) health(node, device int, cause string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.lives[node].source
	s.mu.Lock()
	d := &s.now.Devices[device]
	d.Sick = cause
	a.since[d.UUID] = time.Now()
	s.mu.Unlock()
	s.tell()
}

// busy is a node that has something, of the three: that one, or else another.
func (a *accounts) busy(node int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := range 3 {
		i := 1 + (node-1+n)%3
		for d, held := range a.held {
			if held != 0 && strings.HasPrefix(d, a.lives[i].name+"/") {
				return i
			}
		}
	}
	return node
}

// well is how many devices of a node are not sick.
func (a *accounts) well(node int) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.lives[node].source.Inventory().Devices {
		if d.Sick == "" {
			n++
		}
	}
	return n
}
