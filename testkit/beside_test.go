package testkit_test

import (
	"fmt"
	"slices"
	"time"
)

// waiting is work that waits to begin: a task, or a grain that has calls and is not active.
type waiting struct {
	what  string
	gpus  float64
	grain bool
	since time.Time
}

// waits lists what waits to begin. The caller holds r.mu.
func (r *telling) waits() (list []waiting) {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	seen := map[string]int{}
	for _, w := range r.work {
		if w.over || w.runs > 0 || w.life != "" && r.a.lifeLocked(w.From) != w.life {
			continue
		}
		if w.Grain == "" {
			list = append(list, waiting{w.String(), w.GPUs, false, w.submitted})
			continue
		}
		key := map[float64]string{1: "one/", 2: "two/"}[w.GPUs] + w.Grain
		if _, ok := seen[key]; ok || r.a.active[key] != "" {
			continue
		}
		since := w.submitted
		if gone := r.a.gone[key]; gone.After(since) {
			since = gone
		}
		seen[key] = len(list)
		list = append(list, waiting{"grain " + key, w.GPUs, true, since})
	}
	return list
}

// lookNow looks for work that waits beside a device that is free for it.
func (r *telling) lookNow() {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notesLack()
	for _, w := range r.waits() {
		for node := 1; node <= 3; node++ {
			free := r.freeSince(node, w.gpus)
			if free.IsZero() {
				continue
			}
			place := fmt.Sprint(node, w.gpus, w.grain)
			from := slices.MaxFunc([]time.Time{w.since, free, r.calm, r.kept[place]}, time.Time.Compare)
			d := now.Sub(from)
			if d < 10*time.Millisecond {
				continue
			}
			if now.Sub(r.looked[place]) >= 10*time.Millisecond {
				r.looked[place] = now
				if r.keeps(node, &w) || !slices.Contains(r.waits(), w) || r.freeSince(node, w.gpus) != free {
					r.kept[place] = now
					continue
				}
			}
			r.longest = max(r.longest, d)
			if d > waitLimit() {
				r.wrong = append(r.wrong, fmt.Sprintf("at %v %s has waited for %v, and node %d has had devices free for %v", now.Sub(r.began), w.what, now.Sub(w.since), node, now.Sub(free)))
				r.calm = now.Add(time.Hour) // once is enough
			}
		}
	}
}

// freeSince is since when a node has had what work needs; zero: it has not. The caller holds r.mu.
func (r *telling) freeSince(node int, gpus float64) time.Time {
	if r.away[node] {
		return time.Time{}
	}
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	var list []time.Time
	l := r.a.lives[node]
	for _, d := range l.source.Inventory().Devices {
		if d.Sick == "" && r.a.held[d.UUID]+min(int(gpus*1000), 1000) <= 1000 {
			list = append(list, r.a.since[d.UUID])
		}
	}
	n := max(int(gpus), 1)
	if len(list) < n {
		return time.Time{}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list[n-1]
}

// keeps reports whether a node keeps what is free for work of another need that goes before: that has waited there for longer, or whose job has less
// use of the node (each node's work is a job of its own), which must ask for more devices, or it would have begun. The caller holds r.mu.
func (r *telling) keeps(node int, w *waiting) bool {
	r.mu.Unlock()
	st, err := r.c.Status()
	r.mu.Lock()
	if err != nil {
		return true
	}
	for _, n := range st.Nodes {
		if n.Name != r.c.Name(node) {
			continue
		}
		own := time.Duration(-1)
		for _, d := range n.Demand {
			if !d.Unplaced && d.Resources.GPU == w.gpus && (d.Resources.CPU == 0) == w.grain {
				own = d.Oldest
			}
		}
		for _, d := range n.Demand {
			if !d.Unplaced && (d.Resources.GPU != w.gpus || (d.Resources.CPU == 0) != w.grain) && (d.Oldest >= own || d.Resources.GPU > w.gpus) {
				return true
			}
		}
	}
	return false
}
