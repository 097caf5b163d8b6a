package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/internal/timeline"
)

const (
	leastTimeline = 100 * time.Millisecond
	mostTimeline  = time.Minute
	// maxTimeline bounds the events of one file, over all nodes.
	maxTimeline = 1 << 20
	// recordingKept is how long a recording is kept after its end for those who asked for it, from when one of them last took a part.
	recordingKept = 10 * time.Second
	// eventBytes is what an event takes in an answer, and maxEventName how much of a function's name is there.
	eventBytes   = 160 // of JSON
	maxEventName = 200
)

// recording is that of a node: one at a time. Who asks for one while it is there gets it.
type recording struct {
	mu     sync.Mutex // guards the rest
	r      *tally.Recorder
	began  int64 // on the node's clock; names it
	ends   int64
	until  int64 // it is kept, at most
	askers int   // who have not had all of it
}

// timelineQuery begins a recording, or asks for a part of one.
type timelineQuery struct {
	For       time.Duration `json:"for,omitempty"`
	Most      int           `json:"most,omitempty"` // events
	Function  string        `json:"function,omitempty"`
	Recording int64         `json:"recording,omitempty"` // 0 to begin one
	From      int           `json:"from,omitempty"`
}

type timelineAnswer struct {
	Unknown   bool                `json:"unknown,omitempty"` // the node has not the function, but Names
	Names     []string            `json:"names,omitempty"`
	Recording int64               `json:"recording,omitempty"`
	Left      time.Duration       `json:"left,omitempty"` // until it ends; then there are no events yet
	For       time.Duration       `json:"for,omitempty"`
	Begun     uint64              `json:"begun,omitempty"`
	LeftOut   uint64              `json:"left_out,omitempty"`
	Began     int64               `json:"began,omitempty"` // Unix time from which those of the events count
	Functions []timeline.Function `json:"functions,omitempty"`
	Events    []timeline.Event    `json:"events,omitempty"`
	Next      int                 `json:"next,omitempty"` // from where there are more; 0 for none
}

// ownTimeline begins a recording on this node, or returns a part of one.
func ownTimeline(o *Operator, _ context.Context, q timelineQuery) (a timelineAnswer, err error) {
	l := &o.recording
	l.mu.Lock()
	defer l.mu.Unlock()
	now := o.Now()
	if q.Recording == 0 {
		if f := q.Function; f != "" && o.Job.Table.Lookup("task", f) == nil && o.Job.Table.Lookup("method", f) == nil {
			return timelineAnswer{Unknown: true, Names: append(ownNamesIn(o, "task"), ownNamesIn(o, "method")...)}, nil
		}
		if l.r == nil {
			d := min(max(q.For, leastTimeline), mostTimeline)
			l.r, l.askers, l.began, l.ends = tally.NewRecorder(d, max(q.Most, 1)), 0, max(now, 1), now+int64(d)
			l.until = l.ends + int64(recordingKept)
			r := l.r
			o.Runner.Background(func() { record(o, r) }, func(error) { l.r = nil }) // it is called at once
		}
		l.askers++
		return timelineAnswer{Recording: l.began, Left: time.Duration(max(l.ends-now, 0)), For: time.Duration(l.ends - l.began)}, nil
	}
	if l.r == nil || q.Recording != l.began {
		return a, fmt.Errorf("%w: the recording is gone: it is kept for %v", raysys.ErrNotFound, recordingKept)
	}
	if l.until = now + int64(recordingKept); now < l.ends {
		return timelineAnswer{Left: time.Duration(l.ends - now)}, nil
	}
	if a = eventsFrom(l, q); a.Next == 0 {
		if l.askers--; l.askers <= 0 {
			l.r = nil
		}
	}
	a.Began = time.Now().UnixNano() - (now - l.began)
	return a, nil
}

// record keeps r on while its time lasts, and after that until all have it.
func record(o *Operator, r *tally.Recorder) {
	l, counts := &o.recording, taskengine.Tally(o.Tasks)
	is := func(until *int64) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.r == r && o.Now() < *until
	}
	counts.Record(r)
	for is(&l.ends) && o.Runner.Pause(tally.TickRecorder) {
		r.Tick()
	}
	counts.Record(nil)
	for is(&l.until) && o.Runner.Pause(recordingKept/10) {
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.r == r {
		l.r = nil
	}
}

// eventsFrom are as many events as go into an answer.
func eventsFrom(l *recording, q timelineQuery) (a timelineAnswer) {
	r := l.r
	a.Begun, a.LeftOut = r.Begun(), r.Begun()-uint64(r.Taken())
	by, left := map[*tally.Function]int{}, maxAnswer*3/4
	for i := q.From; i < r.Taken(); i++ {
		e, ended := r.Event(i)
		if e == nil || q.Function != "" && e.Of.Name != q.Function {
			continue
		}
		if left -= eventBytes; left < 0 {
			a.Next = i
			return a
		}
		of, ok := by[e.Of]
		if !ok {
			of = len(a.Functions)
			name := strings.ToValidUTF8(e.Of.Name[:min(len(e.Of.Name), maxEventName)], "")
			by[e.Of], a.Functions = of, append(a.Functions, timeline.Function{Name: name, Call: e.Of.Kind == tally.CallKind})
			left -= eventBytes + 6*len(name) // where each letter is escaped
		}
		out := timeline.Event{Turn: e.Turn, Seq: e.Seq, Of: of, Began: e.Began - l.began, Took: max(l.ends-e.Began, 0), Slot: e.Slot, Outcome: timeline.Running}
		if ended {
			if out.Took, out.Outcome = e.Took, e.Outcome.String(); e.Outcome == tally.OK {
				out.Outcome = ""
			}
		}
		a.Events = append(a.Events, out)
	}
	return a
}

// Timeline has all nodes record what they run for some time, and writes that as a trace in JSON.
func Timeline(ctx context.Context, o *Operator, q inspect.TimelineQuery, w io.Writer) (inspect.Timeline, error) {
	all := inspect.Timeline{Cluster: o.clusterName(), For: cmp.Or(q.For, 10*time.Second)}
	if all.For < leastTimeline || all.For > mostTimeline {
		return all, fmt.Errorf("%w: a timeline of %v: give %v to %v", raysys.ErrBadOption, all.For, leastTimeline, mostTimeline)
	}
	recordings, ends := map[core.NodeKey]timelineAnswer{}, time.Duration(0)
	var names []string
	begin := timelineQuery{For: all.For, Most: maxTimeline / max(len(o.Members()), 1), Function: q.Function}
	silent, err := ask(ctx, o, "", "timeline", begin, func(k core.NodeKey, a timelineAnswer) {
		if names = append(names, a.Names...); !a.Unknown {
			recordings[k], ends = a, max(ends, a.Left)
			all.For = a.For
		}
	})
	switch all.Silent = silent; {
	case err != nil:
		return all, err
	case len(recordings) == 0 && len(silent) == 0:
		return all, unknown("function", q.Function, names)
	}
	nodes := make([]timeline.Node, len(recordings), len(recordings)+len(silent))
	over := time.NewTimer(ends)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
	var each sync.WaitGroup
	i := 0
	for k, a := range recordings {
		n := &nodes[i]
		n.Name, i = string(k.Node), i+1
		each.Go(func() { fetchTimeline(ctx, o, timelineQuery{Recording: a.Recording, Function: q.Function}, n) })
	}
	each.Wait()
	if ctx.Err() != nil {
		return all, fmt.Errorf("record a timeline: %w", context.Cause(ctx))
	}
	for i := range nodes {
		if n := &nodes[i]; n.Silent != "" {
			all.Silent = append(all.Silent, n.Name+": "+n.Silent)
		}
	}
	for _, s := range silent {
		name, why, _ := strings.Cut(s, ": ")
		nodes = append(nodes, timeline.Node{Name: name, Silent: why})
	}
	slices.SortFunc(nodes, func(a, b timeline.Node) int { return cmp.Compare(a.Name, b.Name) })
	all.Began, err = timeline.Write(w, timeline.Head{Cluster: all.Cluster, Function: q.Function, For: all.For}, nodes)
	for i := range nodes {
		all.Begun, all.LeftOut, all.Events = all.Begun+nodes[i].Begun, all.LeftOut+nodes[i].LeftOut, all.Events+nodes[i].Written
	}
	return all, err
}

// fetchTimeline asks a node for its recording, part by part.
func fetchTimeline(ctx context.Context, o *Operator, q timelineQuery, n *timeline.Node) {
	by := map[timeline.Function]int{}
	for {
		var a timelineAnswer
		silent, err := ask(ctx, o, raysys.NodeID(n.Name), "timeline", q, func(_ core.NodeKey, one timelineAnswer) { a = one })
		switch {
		case err != nil:
			n.Silent = err.Error()
			return
		case len(silent) > 0:
			n.Silent = strings.TrimPrefix(silent[0], n.Name+": ")
			return
		case a.Left > 0: // its clock is slower
			o.Runner.Pause(a.Left)
			continue
		}
		n.Begun, n.LeftOut = a.Begun, a.LeftOut
		for _, e := range a.Events {
			if e.Of < 0 || e.Of >= len(a.Functions) {
				continue // of a broken version
			}
			f := a.Functions[e.Of]
			of, ok := by[f]
			if !ok {
				of = len(n.Functions)
				by[f], n.Functions = of, append(n.Functions, f)
			}
			e.Of, e.Began = of, e.Began+a.Began
			n.Events = append(n.Events, e)
		}
		if q.From = a.Next; q.From == 0 {
			return
		}
	}
}
