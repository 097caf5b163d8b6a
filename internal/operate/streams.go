package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/listed"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
)

// maxSchedules bounds those of a list, as a leader does those of its answer.
const maxSchedules = 1000

// Schedules asks the leaders of shards for schedules of all programs whose names begin with a prefix, the soonest first, for up to 3 s or as long as ctx
// lasts.
func Schedules(ctx context.Context, o *Operator, prefix string, limit int) (all inspect.Schedules, err error) {
	store, err := duesOf(o)
	if err != nil {
		return all, err
	}
	all = inspect.Schedules{Cluster: o.clusterName(), Schedules: []inspect.Schedule{}}
	limit = min(max(limit, 0), maxSchedules)
	items, count, silent := scheduleItems(ctx, store, prefix, limit)
	all.Count, all.Silent = count, silent
	if ctx.Err() != nil {
		return all, fmt.Errorf("schedules: %w", context.Cause(ctx))
	}
	at := func(i *due.Item) uint64 { // first what a worker has, last what has no time
		if i.Record.At.Node != "" {
			return 0
		}
		return uint64(i.Record.Due) - 1
	}
	slices.SortFunc(items, func(a, b due.Item) int {
		return cmp.Or(cmp.Compare(at(&a), at(&b)), strings.Compare(a.Name.Name, b.Name.Name), strings.Compare(a.Namespace, b.Namespace))
	})
	for _, i := range items[:min(len(items), limit)] {
		all.Schedules = append(all.Schedules, describe(i))
	}
	waitingFirings(ctx, o, all.Schedules)
	all.Schedules = bounded(all.Schedules)
	return all, nil
}

// waitingFirings adds to schedules whose firing is a task that has not begun what it waits for. The node that has a schedule submits its tasks, which are
// detached and have its name.
func waitingFirings(ctx context.Context, o *Operator, list []inspect.Schedule) {
	type firing struct {
		node raysys.NodeID
		name string
	}
	due := map[firing]*inspect.Schedule{}
	for i := range list {
		if s := &list[i]; s.Node != "" && len(s.Running) > 0 {
			due[firing{s.Node, s.Name}] = s
		}
	}
	if len(due) == 0 {
		return
	}
	tasks, _ := Tasks(patiently(ctx), o, inspect.TaskQuery{Detached: true, State: inspect.TaskWaiting, Limit: maxRows}) // who does not answer is not known to wait
	for i := range tasks.Tasks {
		t := &tasks.Tasks[i]
		if s := due[firing{cmp.Or(t.Of, t.Node), t.Name}]; s != nil && s.Work == t.Function {
			s.Waits = cmp.Or(t.For, "room")
		}
	}
}

// scheduleItems asks the leaders of all shards for schedules whose names begin with a prefix, the soonest of each, for up to 3 s.
func scheduleItems(ctx context.Context, store due.Store, prefix string, limit int) (items []due.Item, count int, silent []string) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusPatience, fmt.Errorf("no answer within %v", statusPatience))
	defer cancel()
	var mu sync.Mutex // guards the results
	var wg sync.WaitGroup
	for shard := range store.Shards() {
		wg.Go(func() {
			q := due.Query{Shard: shard, Prefix: due.Prefix, Named: prefix, Soonest: true, Limit: limit}
			p, err := runner.Wait(ctx, func(done func(due.Page, error)) { store.List(q, done) })
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, fmt.Sprintf("shard %d: %v", shard, err))
			}
			count += p.Count
			items = append(items, p.Items...)
		})
	}
	wg.Wait()
	slices.Sort(silent)
	return items, count, silent
}

// describe is what is known of a schedule: in a program without package schedule, its name.
func describe(i due.Item) inspect.Schedule {
	if s := due.Registered(); s != nil {
		return s.Describe(i).(inspect.Schedule)
	}
	return inspect.Schedule{Name: i.Name.Name, Namespace: i.Namespace, Node: i.Record.At.Node, Why: "the program that was asked does not import package schedule, which reads the rest"}
}

// dues are the records of what is due.
func duesOf(o *Operator) (due.Store, error) {
	r, err := o.Node.Registry()
	if err != nil {
		return nil, err
	}
	return registry.Dues(r), nil
}

// changedSchedule answers a change.
type changedSchedule struct {
	due.Item
	made bool
}

func changeSchedule(ctx context.Context, store due.Store, c due.Change) (changedSchedule, error) {
	return runner.Wait(ctx, func(done func(changedSchedule, error)) {
		store.Change(c, func(i due.Item, made bool, err error) { done(changedSchedule{i, made}, err) })
	})
}

// schedulesNamed are the schedules that have a name: in the given namespaces, and in those of programs that no node runs now, which a list of the names
// that begin so shows. silent are the shards whose leaders do not answer.
func schedulesNamed(ctx context.Context, o *Operator, name string, spaces []string) (list []due.Item, silent []string, err error) {
	if name == "" || len(name) > raysys.MaxTaskName {
		return nil, nil, nil
	}
	store, err := duesOf(o)
	if err != nil {
		return nil, nil, err
	}
	read, errs := make([]changedSchedule, len(spaces)), make([]error, len(spaces))
	var wg sync.WaitGroup
	for n, space := range spaces { // beside the list, which shows the first names of a shard alone
		wg.Go(func() {
			read[n], errs[n] = changeSchedule(ctx, store, due.Change{Name: due.Name{Namespace: space, Name: name}, Read: true})
		})
	}
	items, _, silent := scheduleItems(ctx, store, name, maxSchedules)
	wg.Wait()
	for n, i := range read {
		if i.Exists() {
			i.Name = due.Name{Namespace: spaces[n], Name: name}
			list = append(list, i.Item)
		}
	}
	for _, i := range items {
		if i.Name.Name == name && !slices.ContainsFunc(list, func(o due.Item) bool { return o.Namespace == i.Namespace }) {
			list = append(list, i)
		}
	}
	return list, silent, errors.Join(errs...)
}

// schedules finds what has the name. The leader of the name may be silent, and others still answer.
func (f *finding) schedules() ([]due.Item, []string, error) {
	ctx, cancel := context.WithTimeoutCause(f.ctx, statusPatience, fmt.Errorf("no answer within %v", statusPatience))
	defer cancel()
	return schedulesNamed(ctx, f.o, f.text, f.spaces())
}

// Schedule does what an operator asks for of the schedule with a name: "pause", "resume", "run" or "delete". The error matches raysys.ErrNotFound where
// there is none, and raysys.ErrBadOption where programs of several namespaces have one.
func Schedule(ctx context.Context, o *Operator, verb, name string) error {
	s := due.Registered()
	if s == nil {
		return due.ErrNoSchedules
	}
	store, err := duesOf(o)
	if err != nil {
		return err
	}
	spaces, silent := o.spaces(ctx)
	list, mute, err := schedulesNamed(ctx, o, name, spaces)
	silent = append(silent, mute...)
	switch {
	case err != nil:
		return err
	case len(list) == 0 && len(silent) > 0:
		return fmt.Errorf("%w: no schedule has the name %q (no answer: %s)", raysys.ErrNotFound, name, strings.Join(silent, "; "))
	case len(list) == 0:
		return fmt.Errorf("%w: no schedule has the name %q", raysys.ErrNotFound, name)
	case len(list) > 1:
		var spaces []string
		for _, i := range list {
			spaces = append(spaces, i.Namespace)
		}
		return fmt.Errorf("%w: programs of several namespaces have a schedule %q: %s: use schedule.%s in one of them", raysys.ErrBadOption, name, strings.Join(spaces, ", "),
			strings.ToUpper(verb[:1])+verb[1:])
	}
	for i := list[0]; ; {
		c, err := s.Do(verb, i)
		if err != nil {
			return err
		}
		a, err := changeSchedule(ctx, store, c)
		if err != nil || a.made {
			return err
		}
		if !a.Exists() {
			return errors.Join(raysys.ErrNotFound, fmt.Errorf("%q is gone meanwhile", name))
		}
		a.Name = i.Name
		i = a.Item
	}
}

// ownStreams are the parts that this node delivers.
func ownStreams(o *Operator, _ context.Context, _ struct{}) (parts json.RawMessage, err error) {
	if f := listed.Of("streams"); f != nil {
		return json.Marshal(f(o.Listed))
	}
	return json.RawMessage("[]"), nil
}
