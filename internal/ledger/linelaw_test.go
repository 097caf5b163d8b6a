package ledger

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/core"
)

// account is what a test believes to be held of a node. It enters after the line has granted and leaves before it is given back, so
// that it never exceeds what the line believes.
type account struct {
	t                     *testing.T
	of                    string
	total                 Need
	cpu, memory, licences atomic.Int64
	shares                map[string]*atomic.Int64
}

func newAccount(t *testing.T, of string, total Need, devices []Device) *account {
	a := &account{t: t, of: of, total: total, shares: map[string]*atomic.Int64{}}
	for _, d := range devices {
		a.shares[d.UUID] = &atomic.Int64{}
	}
	return a
}

// enter adds sign times what is held; of is per device.
func (a *account) enter(n Need, devices []string, sign int64) {
	add := func(what string, sum *atomic.Int64, v, most int64) {
		if got := sum.Add(sign * v); got < 0 || got > most {
			a.t.Errorf("%s hold %d of %d of %s", a.of, got, most, what)
		}
	}
	add("CPU", &a.cpu, n.CPU, a.total.CPU)
	add("memory", &a.memory, n.Memory, a.total.Memory)
	add("licences", &a.licences, n.Custom["licence"], a.total.Custom["licence"])
	for _, uuid := range devices {
		add(uuid, a.shares[uuid], min(n.GPU, Unit), Unit)
	}
}

// job is work that can be granted, cancelled, moved and evicted.
type job struct {
	ends  *atomic.Int64 // how much work has ended without a hold, or has been granted one
	ended atomic.Int32
	over  atomic.Bool
	moves bool
	grant func(*Hold)
}

func (j *job) Class() core.Class { return core.Normal }
func (j *job) Job() *core.Job    { return nil }
func (j *job) Over() bool        { return j.over.Load() }
func (j *job) Begins(*Need) bool { return true }
func (j *job) Leaves() bool      { return j.moves }
func (j *job) Alike() any        { return j }

func (j *job) Grant(h *Hold) {
	if h != nil {
		j.grant(h)
	}
	j.end() // after that, or who waits for it would not give h back
}

func (j *job) Evict(_ error, begun bool) {
	if !begun {
		j.end()
	}
}

func (j *job) end() {
	j.ended.Add(1)
	j.ends.Add(1)
}

// TestLawsOfLine: whatever goroutines push to a node and to its bundles, cancel and give back while bundles are carved and closed,
// devices fall sick and work moves away, no resource is held beyond what there is, by work or by bundles; each piece of work ends or is
// granted once; and in the end all is free and nothing waits.
func TestLawsOfLine(t *testing.T) {
	total := Need{CPU: 8000, Memory: 1 << 32, Custom: map[string]int64{"licence": 4000}}
	devices := eight("H100")
	l := newLine(total, devices)
	fresh := l.Free()
	work, outer := newAccount(t, "tasks", total, devices), newAccount(t, "tasks of the node and bundles", total, devices)
	var ends, pushes, bundles, closed, moved, inside atomic.Int64
	each := 25_000
	if testing.Short() {
		each = 2_500
	}
	some := func(r *rand.Rand) Need {
		return Need{
			CPU: []int64{0, 500, 1000, 3000}[r.IntN(4)], GPU: []int64{0, 250, 500, 1000, 2000}[r.IntN(5)],
			Memory: []int64{0, 1, 1 << 30}[r.IntN(3)], Custom: map[string]int64{"licence": []int64{0, 0, 1, 1000}[r.IntN(4)]},
		}
	}
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			var mu sync.Mutex // work is granted by whoever serves the line
			var held []func()
			var jobs []*job
			give := func() {
				mu.Lock()
				var back func()
				if n := len(held); n > 0 {
					back, held = held[n-1], held[:n-1]
				}
				mu.Unlock()
				if back != nil {
					back()
				}
			}
			type open struct {
				*Bundle
				leave func()
			}
			var mine []open
			shut := func(b open) {
				b.leave()
				b.Close(errors.New("gone"), func() { closed.Add(1) })
			}
			push := func(n Need) {
				j := &job{ends: &ends, moves: r.IntN(4) == 0}
				j.grant = func(h *Hold) {
					of := l.Devices(h)
					work.enter(n, of, +1)
					if n.Bundle.Group == "" {
						outer.enter(n, of, +1)
					} else {
						inside.Add(1)
					}
					mu.Lock()
					defer mu.Unlock()
					held = append(held, func() {
						work.enter(n, of, -1)
						if n.Bundle.Group == "" {
							outer.enter(n, of, -1)
						}
						l.Return(h)
					})
				}
				if pushed, _ := l.PushIn(n, j); pushed {
					pushes.Add(1)
					jobs = append(jobs, j)
				}
			}
			for i := range each {
				switch what := r.IntN(20); {
				case what < 9 && l.Waits.Load() > 60:
					give()
				case what < 6:
					push(some(r))
				case what < 9:
					n := Need{CPU: 500 * r.Int64N(2), GPU: 250 * r.Int64N(3)}
					n.Bundle = core.Bundle{Group: "g", Index: core.AnyBundle}
					if r.IntN(3) == 0 && len(mine) > 0 {
						n.Bundle = mine[r.IntN(len(mine))].name
					}
					push(n)
				case what < 15:
					give()
				case what < 16:
					n := some(r)
					if b, short := carve(l, core.Bundle{Group: "g", Index: 4*(i%10) + g}, n); short.Empty() {
						of := l.Devices(&b.hold)
						outer.enter(n, of, +1)
						bundles.Add(1)
						mine = append(mine, open{b, func() { outer.enter(n, of, -1) }})
					}
				case what < 17:
					if k := len(mine); k > 0 && r.IntN(3) == 0 {
						at := r.IntN(k)
						b := mine[at]
						mine[at], mine = mine[k-1], mine[:k-1]
						shut(b)
					}
				case what < 18:
					l.SetSick(devices[r.IntN(8)].UUID, r.IntN(3) == 0)
				case what < 19:
					before := ends.Load()
					l.Move()
					if ends.Load() > before {
						moved.Add(1)
					}
				default:
					if len(jobs) > 0 {
						jobs[r.IntN(len(jobs))].over.Store(true)
						l.Serve()
					}
				}
			}
			for _, b := range mine {
				shut(b)
			}
			for _, d := range devices {
				l.SetSick(d.UUID, false)
			}
			for {
				mu.Lock()
				left := len(held)
				mu.Unlock()
				if left == 0 {
					break
				}
				give()
			}
			all.Go(func() { // what others held is given back as it is granted
				for _, j := range jobs {
					for j.ended.Load() == 0 {
						l.Serve()
						give()
					}
				}
				for n := 1; n > 0; {
					give()
					mu.Lock()
					n = len(held)
					mu.Unlock()
				}
				for _, j := range jobs {
					if n := j.ended.Load(); n != 1 {
						t.Errorf("a piece of work ended or was granted %d times", n)
					}
				}
			})
		})
	}
	all.Wait()
	if diff := cmp.Diff(fresh, l.Free()); diff != "" || l.Waits.Load() != 0 || l.Roaming.Load() != 0 || ends.Load() != pushes.Load() || closed.Load() != bundles.Load() {
		t.Errorf("%d wait, %d in bundles, %d of %d pieces of work have ended, %d of %d bundles are over; something leaked:\n%s",
			l.Waits.Load(), l.Roaming.Load(), ends.Load(), pushes.Load(), closed.Load(), bundles.Load(), diff)
	}
	for _, s := range l.Spares() {
		if s.Share != Unit || s.Bytes != s.Memory {
			t.Errorf("something of a device leaked: %+v", s)
		}
	}
	if n := pushes.Load(); inside.Load() < n/50 || bundles.Load() < n/100 || moved.Load() == 0 {
		t.Errorf("of %d pieces of work %d began in %d bundles, and %d moves were made: the test shows little", n, inside.Load(), bundles.Load(), moved.Load())
	}
}
