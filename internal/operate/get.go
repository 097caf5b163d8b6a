package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/lineage"
	"github.com/raysys/raysys/internal/objects"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/tally"
	"github.com/raysys/raysys/internal/taskengine"
)

// maxThings bounds the things of one Found.
const maxThings = 20

// shownReceivers is how many receivers of a grain's messages are shown.
const shownReceivers = 5

// Get says all that the nodes know of a text: of tasks and values whose ids begin so, of the grain, and of what has the name. The error
// matches raysys.ErrNotFound where that is nothing.
func Get(ctx context.Context, o *Operator, text string) (inspect.Found, error) {
	f := &finding{ctx: patiently(ctx), o: o, text: text, things: map[string]*inspect.Thing{}, silent: map[string]bool{}}
	var mute []string
	f.spaces = sync.OnceValue(func() (spaces []string) {
		spaces, mute = o.spaces(f.ctx)
		return spaces
	})
	var named []named
	var groups inspect.Groups
	var schedules []due.Item
	var leaderless []string
	var err, bad error
	var wg sync.WaitGroup
	wg.Go(func() { named, err = f.named() })
	wg.Go(func() { groups, _ = o.Groups(ctx, text, maxThings) }) // the context's end is seen later
	wg.Go(func() { schedules, leaderless, bad = f.schedules() })
	_, digits := core.PrefixOf(text)
	switch {
	case digits:
		f.work(text)
	case strings.Contains(text, "/"):
		f.grain()
	}
	wg.Wait()
	f.unheard(mute)
	f.unheard(leaderless)
	f.groups(&groups)
	described := make([]inspect.Schedule, len(schedules))
	for n, i := range schedules {
		described[n] = describe(i)
	}
	waitingFirings(f.ctx, o, described)
	for n, i := range schedules {
		s := described[n]
		f.things[inspect.ThingSchedule+" "+i.Key()] = &inspect.Thing{Kind: inspect.ThingSchedule, ID: s.Name, Name: s.Name, Namespace: s.Namespace, Schedule: &s}
	}
	if bad != nil {
		f.silent[fmt.Sprintf("the record of the schedule %q: %v", text, bad)] = true
	}
	if err != nil {
		f.silent[fmt.Sprintf("the record of the name %q: %v", text, err)] = true
	}
	for _, n := range named {
		t := f.thing(n.kind, n.id)
		t.Kind, t.Name, t.Namespace = n.kind, text, n.namespace
		if n.value != nil {
			t.Value = n.value
		}
		if n.kind == inspect.ThingJob {
			showJob(f.ctx, f.o, t)
		}
		// An object has an id of its own beside that of the work which has made it, and is known by both.
		if ids := f.work(n.id); n.kind == inspect.ThingObject && len(ids) == 1 && ids[0] != n.id {
			delete(f.things, n.id)
			f.things[ids[0]].Name, f.things[ids[0]].Namespace = text, n.namespace
		}
	}
	f.failures(digits)
	found := inspect.Found{Cluster: o.clusterName(), Silent: slices.Sorted(maps.Keys(f.silent)), Things: []inspect.Thing{}}
	for _, key := range slices.Sorted(maps.Keys(f.things)) {
		found.Things = append(found.Things, *f.things[key])
	}
	found.Count = len(found.Things)
	found.Things = bounded(found.Things[:min(found.Count, maxThings)])
	switch {
	case ctx.Err() != nil:
		return found, fmt.Errorf("get %s: %w", text, context.Cause(ctx))
	case found.Count > 0:
		return found, nil
	}
	err = fmt.Errorf("%w: no task or value has an id that begins with %s, and no grain in memory or in the store, no detached task, object, placement group or schedule has that name: what was small, or has ended, is known no more",
		raysys.ErrNotFound, text)
	if len(found.Silent) > 0 {
		err = fmt.Errorf("%w (no answer: %s)", err, strings.Join(found.Silent, "; "))
	}
	return found, err
}

// finding is one Get.
type finding struct {
	ctx    context.Context
	o      *Operator
	text   string
	things map[string]*inspect.Thing // by kind and id; work by its id alone
	silent map[string]bool
	spaces func() []string // of the programs of the cluster
}

func (f *finding) thing(kind, id string) *inspect.Thing {
	key := id
	if kind == inspect.ThingGroup || kind == inspect.ThingGrain {
		key = kind + " " + id
	}
	if f.things[key] == nil {
		f.things[key] = &inspect.Thing{Kind: kind, ID: id}
	}
	return f.things[key]
}

func (f *finding) unheard(silent []string) {
	for _, s := range silent {
		f.silent[s] = true
	}
}

// ownWork asks at once what is known of tasks and values whose ids begin so, and returns the ids of those values.
func (f *finding) work(id string) (ids []string) {
	var values map[string]core.Explanation
	var waits map[string]*raysys.Scheduling
	var tasks []inspect.Task
	var silent [3][]string
	var wg sync.WaitGroup
	wg.Go(func() { values, silent[0] = explanations(f.ctx, f.o, id) })
	wg.Go(func() { waits, silent[1] = schedulings(f.ctx, f.o, id) })
	wg.Go(func() { tasks, silent[2], _ = findWork(f.ctx, f.o, workQuery{Prefix: id}) }) // the context's end is seen later
	wg.Wait()
	for _, s := range silent {
		f.unheard(s)
	}
	for id, s := range waits {
		f.thing(inspect.ThingTask, id).Scheduling = s
	}
	for _, t := range tasks {
		one := f.thing(inspect.ThingTask, t.ID)
		one.Tasks = append(one.Tasks, t)
	}
	for id, e := range values {
		kind := inspect.ThingTask
		if !e.Recipe && (e.Submitter == "" || e.NoRecipe == core.NoTask) {
			kind = inspect.ThingObject
		}
		v := explanation(&e)
		if t := f.thing(kind, id); t.Value == nil || t.Kind != inspect.ThingJob { // of which the record says more
			t.Value = &v
		}
		ids = append(ids, id)
	}
	return ids
}

// ownFailures finds the last failure of each thing, and failures whose ids begin with the text.
func (f *finding) failures(digits bool) {
	var q failureQuery
	switch {
	case digits:
		q.Prefix = f.text
	case strings.Contains(f.text, "/"):
		q.Grain = grainengine.Shown(grainOf(exact(f.text)))
	}
	for _, t := range f.things {
		if t.Kind == inspect.ThingTask || t.Kind == inspect.ThingJob {
			q.Tasks = append(q.Tasks, functionOf(t))
		}
	}
	if q.all() {
		return
	}
	silent, _ := ask(f.ctx, f.o, "", "failures", q, func(k core.NodeKey, p page[tally.Failure]) {
		for i := range p.Rows {
			x := failureOf(k, &p.Rows[i])
			switch own := digits && strings.HasPrefix(x.ID, f.text); {
			case own && x.Work != "":
				f.thing(inspect.ThingCall, x.ID)
			case own:
				f.thing(inspect.ThingTask, x.ID)
			case q.Grain != "" && callOf(x.Work, x.Function, q.Grain):
				f.thing(inspect.ThingGrain, f.text)
			}
			for _, t := range f.things {
				if fails(t, &x) && (t.Failure == nil || later(t.ID, &x, t.Failure)) {
					t.Failure = &x
				}
			}
		}
	})
	f.unheard(silent)
}

// fails reports whether x is a failure of t, or of its function.
func fails(t *inspect.Thing, x *inspect.Failure) bool {
	switch t.Kind {
	case inspect.ThingGrain:
		return callOf(x.Work, x.Function, grainengine.Shown(grainOf(exact(t.ID))))
	case inspect.ThingTask, inspect.ThingJob:
		return x.ID == t.ID || x.Kind == string(tally.TaskKind) && x.Function == functionOf(t)
	}
	return x.ID == t.ID
}

// later reports whether a says more of the work with the id than b: it is of that alone, or the later one.
func later(id string, a, b *inspect.Failure) bool {
	if (a.ID == id) != (b.ID == id) {
		return a.ID == id
	}
	return a.Last.After(b.Last)
}

// functionOf is that of a task.
func functionOf(t *inspect.Thing) string {
	switch {
	case len(t.Tasks) > 0:
		return t.Tasks[0].Function
	case t.Scheduling != nil:
		return t.Scheduling.Name
	case t.Value != nil:
		return t.Value.Name
	}
	return ""
}

// groups adds placement groups that have the name or the id.
func (f *finding) groups(all *inspect.Groups) {
	f.unheard(all.Silent)
	for i := range all.Groups {
		g := f.thing(inspect.ThingGroup, all.Groups[i].ID)
		g.Name, g.Group = all.Groups[i].Name, &all.Groups[i]
	}
}

// named is a detached task or an object that has the name.
type named struct {
	kind, id, namespace string
	value               *raysys.Explanation // by the record of the name
}

// named finds what has the name. The leader of the name may be silent, and others still answer.
func (f *finding) named() (list []named, err error) {
	o, c := f.o, f.o.Node.Cluster()
	add := func(e *core.Explanation, space string) {
		v := explanation(e)
		list = append(list, named{inspect.ThingJob, v.ID, space, &v})
	}
	if c == nil {
		if o.Job.Tasks == nil {
			return nil, nil
		}
		found, err := o.Job.Tasks.LookupTask(f.ctx, f.text)
		if err != nil { // there is none
			return nil, nil
		}
		task := found.Future
		if held := core.HeldBy(core.SourceOf(task)); held != nil {
			task = held
		}
		e := core.Explain(task, core.ExplainDepth)
		add(&e, o.Namespace)
		return list, nil
	}
	ctx, cancel := context.WithTimeoutCause(f.ctx, statusPatience, fmt.Errorf("no answer within %v", statusPatience))
	defer cancel()
	tasks, err := namedTasks(ctx, o, f.text, f.spaces())
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		add(&tasks[i].Explanation, tasks[i].namespace)
	}
	for _, space := range f.spaces() {
		entry, err := runner.Wait(ctx, func(done func(registry.Entry, error)) { c.Registry.Find(registry.NameKey(space, f.text), done) })
		if err != nil {
			return list, err
		}
		if entry.Exists {
			n := named{kind: inspect.ThingObject, id: entry.Record.ID.String(), namespace: space}
			if store := o.Node.Objects(); store != nil {
				e := objects.ExplainNamed(store, &entry.Record)
				v := explanation(&e)
				n.value = &v
			}
			list = append(list, n)
		}
	}
	return list, nil
}

// ownGrain finds the grain of a KIND/KEY.
func (f *finding) grain() {
	var rows pages[grainRow]
	var waits map[string]*raysys.Scheduling
	var turns []inspect.Task
	var states []inspect.State
	var silent [3][]string
	var wg sync.WaitGroup
	wg.Go(func() { waits, silent[0] = schedulings(f.ctx, f.o, f.text) })
	wg.Go(func() { turns, silent[1], _ = findWork(f.ctx, f.o, workQuery{Grains: []exact{exact(f.text)}}) })
	wg.Go(func() { silent[2], _ = ask(f.ctx, f.o, "", "grain", exact(f.text), rows.add) })
	wg.Go(func() { states = storedStates(f.ctx, f.o, stateQuery{exact(f.text), f.spaces()}) })
	wg.Wait()
	for _, s := range silent {
		f.unheard(s)
	}
	if waits[f.text] == nil && len(rows.Rows)+len(turns)+len(states) == 0 {
		return
	}
	g := f.thing(inspect.ThingGrain, f.text)
	g.Scheduling, g.Tasks, g.Grains, g.States = waits[f.text], turns, grainsOf(rows.Rows), states
}

// ownGrainOf lists the activations of one grain on this node.
func ownGrainOf(o *Operator, _ context.Context, name exact) (p page[grainRow], err error) {
	for _, g := range grainengine.FindActive(o.Grains, grainOf(name)) {
		row := ownGrain(o, &g)
		w := grainengine.WaitingOf(&g, shownReceivers)
		row.OutboxAge = w.Oldest
		for _, r := range w.Receivers {
			one := inspect.Receiver{To: grainengine.ShownReceiver(r.Kind, r.To), Messages: r.Messages, Tries: r.Tries}
			if r.Why != nil {
				one.Why = r.Why.Error()
			}
			row.Receivers = append(row.Receivers, one)
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// Cancel ends a job, a task or a placement group by its name, its id or how that begins, and says what it was.
func Cancel(ctx context.Context, o *Operator, text string) (inspect.Thing, error) {
	found, err := Get(ctx, o, text)
	if err != nil {
		return inspect.Thing{}, err
	}
	things := slices.DeleteFunc(found.Things, func(t inspect.Thing) bool { return !ends(&t) })
	switch {
	case len(things) == 0:
		return inspect.Thing{}, fmt.Errorf("%w: %s has ended, or is no task, job or placement group: raysys get %s says more", raysys.ErrNotFound, text, text)
	case len(things) > 1 || found.Count > len(found.Things):
		var list []string
		for _, t := range things {
			list = append(list, t.Kind+" "+t.ID)
		}
		return inspect.Thing{}, fmt.Errorf("%w: %s fits several things, give the id of one: %s", raysys.ErrBadOption, text, strings.Join(list, ", "))
	}
	t := things[0]
	if len(found.Silent) > 0 && t.ID != text {
		return inspect.Thing{}, fmt.Errorf("%w: %s is %s %s, and may be others too, since not all nodes answer: give the whole id (no answer: %s)", raysys.ErrUnreachable, text, t.Kind, t.ID,
			strings.Join(found.Silent, "; "))
	}
	switch t.Kind {
	case inspect.ThingGroup:
		_, err = o.RemoveGroup(ctx, t.ID)
	case inspect.ThingGrain:
		err = fmt.Errorf("%w: %s is a grain, which is not cancelled: cancel the task that calls it", raysys.ErrBadOption, t.ID)
	default:
		err = endTask(ctx, o, &t)
	}
	return t, err
}

// ends reports whether a thing could be cancelled, or could be meant.
func ends(t *inspect.Thing) bool {
	switch t.Kind {
	case inspect.ThingGroup, inspect.ThingGrain:
		return true
	case inspect.ThingJob:
		return t.Value.State == "pending"
	}
	return len(t.Tasks) > 0
}

// endTask cancels a task where it was submitted.
func endTask(ctx context.Context, o *Operator, t *inspect.Thing) error {
	switch c := o.Node.Cluster(); {
	case t.Kind != inspect.ThingJob:
	case c != nil:
		return lineage.EndNamed(ctx, c.Lineage, t.Namespace, t.Name)
	default:
		task, err := o.Job.Tasks.LookupTask(ctx, t.Name)
		if err == nil {
			core.CancelOf(core.LinkTo(task.Future))
		}
		return err
	}
	ended := false
	silent, err := ask(ctx, o, "", "cancel", t.ID, func(_ core.NodeKey, did bool) { ended = ended || did })
	if err == nil && !ended {
		err = fmt.Errorf("%w: %s has ended meanwhile, or the node that submitted it does not answer", raysys.ErrNotFound, t.ID)
		if len(silent) > 0 {
			err = fmt.Errorf("%w (no answer: %s)", err, strings.Join(silent, "; "))
		}
	}
	return err
}

// ownCancel ends a task that this node has submitted.
func ownCancel(o *Operator, _ context.Context, id string) (did bool, err error) {
	whole, ok := readID(id)
	if !ok {
		return false, fmt.Errorf("%w: %q is no id of a task", raysys.ErrBadOption, id)
	}
	var c *core.Future
	taskengine.EachTask(o.Tasks, func(t taskengine.Seen) {
		if taskengine.OptionsOf(t.Future) != nil && t.Future.ID() == whole {
			c = t.Future
		}
	})
	return c != nil && core.CancelOf(core.LinkTo(c)), nil
}
