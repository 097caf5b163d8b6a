package testkit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/internal/core"
)

// Activations is where grains under test report when they live and what they do, for SingleActivation and Overlaps. Make
// it once beside the kind. In a process that Processes started it writes to a file, which Procs.Activations reads.
//
//	var lives = testkit.NewActivations("counters")
//
//	func (c *Counter) OnActivate(ctx context.Context) error { c.life = lives.Begin(ctx); return nil }
//
//	func (c *Counter) Add(ctx context.Context, d int) (int, error) {
//		defer c.life.Turn()
//		...
//		err := c.state.Write(ctx)
//		c.life.Committed(c.state.ETag(), err)
//	}
type Activations struct {
	name string

	mu     sync.Mutex // guards the rest
	events []event
	out    *os.File // in a child process
}

// Activation is one life of a grain.
type Activation struct {
	to    *Activations
	id    string
	grain string
	node  string
}

// event is one line of a child's file.
type event struct {
	What  string `json:"e"` // begin, turn, commit
	Grain string `json:"g"`
	Life  string `json:"a"`
	Node  string `json:"n"`
	At    int64  `json:"t"` // Unix nanoseconds: processes of one host share the clock
	ETag  string `json:"v,omitempty"`
}

// NewActivations makes a recorder. name tells the recorders of a program apart.
func NewActivations(name string) *Activations { return &Activations{name: name} }

// Begin reports that the grain whose hook or turn runs under ctx begins to live.
func (a *Activations) Begin(ctx context.Context) *Activation {
	x := &Activation{to: a, id: crand.Text()}
	if id, ok := grains.Self(ctx); ok {
		x.grain = id.Kind + "/" + id.Key
	}
	if t, _, err := core.TurnOf(ctx); err == nil {
		x.node = string(t.Job().Node)
	}
	a.add(x.event("begin", ""))
	return x
}

// Turn reports that a turn ends whose answer may be seen.
func (x *Activation) Turn() { x.to.add(x.event("turn", "")) }

// Committed reports the outcome of a Write and the ETag after it. Nothing is recorded for one that failed.
func (x *Activation) Committed(etag string, err error) {
	if err == nil {
		x.to.add(x.event("commit", etag))
	}
}

func (x *Activation) event(what, etag string) event {
	return event{what, x.grain, x.id, x.node, time.Now().UnixNano(), etag}
}

func (a *Activations) add(e event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	dir := os.Getenv(childDir)
	if dir == "" {
		a.events = append(a.events, e)
		return
	}
	if a.out == nil {
		f, err := os.OpenFile(filepath.Join(dir, a.pattern(strconv.Itoa(os.Getpid()))), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(fmt.Sprintf("testkit: record activations: %v", err)) // the test would pass for want of evidence
		}
		a.out = f
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = a.out.Write(append(line, '\n')) // the kernel keeps it, whatever happens to the process
	}
	if err != nil {
		panic(fmt.Sprintf("testkit: record activations: %v", err))
	}
}

func (a *Activations) pattern(pid string) string {
	return "activations-" + fileName(a.name) + "-" + pid + ".json"
}

// read adds what child processes wrote to dir.
func (a *Activations) read(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, a.pattern("*")))
	if err != nil {
		return err
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil { // the last line of a killed process may be half a line
				a.events = append(a.events, e)
			}
		}
	}
	return nil
}

// life is what is known of one activation.
type lifeOf struct {
	grain, node        string
	id                 string
	begun, first, last int64 // last is that of its last turn, 0 for none
}

// lives are the activations by grain, in the order in which they began.
func (a *Activations) lives() map[string][]*lifeOf {
	byLife := map[string]*lifeOf{}
	for _, e := range a.events {
		l := byLife[e.Life]
		if l == nil {
			l = &lifeOf{grain: e.Grain, node: e.Node, id: e.Life, begun: e.At}
			byLife[e.Life] = l
		}
		switch e.What {
		case "begin":
			l.begun = e.At
		case "turn":
			if l.first == 0 {
				l.first = e.At
			}
			l.last = max(l.last, e.At)
		}
	}
	byGrain := map[string][]*lifeOf{}
	for _, l := range byLife {
		byGrain[l.grain] = append(byGrain[l.grain], l)
	}
	for _, list := range byGrain {
		slices.SortFunc(list, func(a, b *lifeOf) int { return cmp.Compare(a.begun, b.begun) })
	}
	return byGrain
}

// Overlap is a time in which a grain existed twice: from the newer one's first turn to the older one's last.
type Overlap struct {
	Grain    string
	Old, New string // the nodes
	Window   time.Duration
}

// Overlaps are the overlaps that were seen, the longest first. A plain grain may have them when a silent node is evicted
// (rule C20); this is how long they are.
func (a *Activations) Overlaps() []Overlap {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []Overlap
	for grain, lives := range a.lives() {
		for i, old := range lives {
			for _, next := range lives[i+1:] {
				if next.first != 0 && old.last > next.first {
					list = append(list, Overlap{grain, old.node, next.node, time.Duration(min(old.last, max(next.last, next.first)) - next.first)})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Overlap) int { return cmp.Compare(b.Window, a.Window) })
	return list
}

// Count is how many activations and commits were reported.
func (a *Activations) Count() (activations, commits int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		switch e.What {
		case "begin":
			activations++
		case "commit":
			commits++
		}
	}
	return activations, commits
}

// SingleActivation fails the test when two activations of a grain with State were current at the same time: when one
// committed after another that began to commit later. The order is that of the ETags, which the store made, not that of
// clocks.
func SingleActivation(t testing.TB, a *Activations) {
	t.Helper()
	for _, line := range a.overlappingCommits() {
		t.Errorf("testkit: %s", line)
	}
}

func (a *Activations) overlappingCommits() (bad []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	commits := map[string][]event{}
	for _, e := range a.events {
		if e.What == "commit" {
			commits[e.Grain] = append(commits[e.Grain], e)
		}
	}
	for grain, list := range commits {
		slices.SortStableFunc(list, func(a, b event) int { return compareETags(a.ETag, b.ETag) })
		done := map[string]bool{} // activations that another came after
		for i, e := range list {
			if i == 0 || list[i-1].Life == e.Life {
				if i > 0 && list[i-1].ETag == e.ETag {
					bad = append(bad, fmt.Sprintf("two commits of %s have one ETag, %s", grain, e.ETag))
				}
				continue
			}
			before := list[i-1]
			done[before.Life] = true
			if before.ETag == e.ETag {
				bad = append(bad, fmt.Sprintf("%s on %s and on %s committed the same version %s", grain, before.Node, e.Node, e.ETag))
			}
			if done[e.Life] {
				bad = append(bad, fmt.Sprintf("%s committed on %s (version %s) after another activation of it on %s had (%s)",
					grain, e.Node, e.ETag, before.Node, before.ETag))
			}
		}
	}
	slices.Sort(bad)
	return bad
}

// compareETags orders what grains.State.ETag returns: two numbers in base 16.
func compareETags(a, b string) int {
	parse := func(s string) (epoch, seq uint64) {
		e, n, _ := strings.Cut(s, "-")
		epoch, _ = strconv.ParseUint(e, 16, 64)
		seq, _ = strconv.ParseUint(n, 16, 64)
		return epoch, seq
	}
	ae, an := parse(a)
	be, bn := parse(b)
	return cmp.Or(cmp.Compare(ae, be), cmp.Compare(an, bn))
}
