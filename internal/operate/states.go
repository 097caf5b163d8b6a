package operate

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/entries"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/mesh"
	"github.com/raysys/raysys/internal/registry"
	"github.com/raysys/raysys/internal/runner"
	"github.com/raysys/raysys/internal/staterecord"
)

// What is stored of a grain is shown as JSON without a turn of the grain:
//
//	asker ── states ──▶ all nodes: which leads the shard has the records, which has the kind in its table says so
//	asker ── decode ──▶ one that has the kind, of the program that stored the State
//
// A node that has the kind is not asked for the record, since the State of a grain whose program runs nowhere is shown too: without its value.

const (
	// maxStateShown bounds the text of one State.
	maxStateShown = 64 << 10
	// maxRecords bounds the stored States of one grain that a node sends; the rest is named only.
	maxRecords = 512 << 10
	// decodePatience is how long a program may take to make JSON of its value.
	decodePatience = 2 * time.Second
)

// storedState is a State as the leader of its shard has it.
type storedState struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Bytes     int    `json:"bytes"`
	Entries   int    `json:"entries,omitempty"` // of a Map, which has no record of its own
	Record    []byte `json:"record,omitempty"`  // nil where it was too much for the answer
}

type statesAnswer struct {
	States    []storedState          `json:"states,omitempty"`
	Outbox    []inspect.StoredOutbox `json:"outbox,omitempty"`
	Knows     bool                   `json:"knows,omitempty"` // the kind is in the table
	Namespace string                 `json:"namespace"`
}

// stateQuery asks for the States of a grain, a KIND/KEY, of the programs with the namespaces.
type stateQuery struct {
	Grain  exact    `json:"grain"`
	Spaces []string `json:"spaces"`
}

// storedStates shows the States of a grain, and its messages. What does not answer is missing: others were asked at the
// same time and say so.
func storedStates(
	ctx context.Context, o *Operator, q stateQuery,
) (list []inspect.State, messages []inspect.StoredOutbox) {
	var states []storedState
	knows := map[string]core.NodeKey{} // by namespace: a node that has the kind
	hosts := map[string]bool{}         // by namespace: there is a worker that has the kind
	works := map[core.NodeKey]bool{}
	for _, m := range o.Members() {
		works[mesh.KeyOf(m)] = m.Works()
	}
	_, _ = ask(ctx, o, "", "states", q, func(k core.NodeKey, a statesAnswer) {
		hosts[a.Namespace] = hosts[a.Namespace] || a.Knows && works[k]
		messages = append(messages, a.Outbox...)
		if states = append(states, a.States...); a.Knows {
			knows[a.Namespace] = k
		}
	})
	for i := range messages {
		m := &messages[i]
		if hosts[m.Namespace] {
			m.Why = fmt.Sprintf(
				"the leader of its shard has it woken, after a failure with pauses of up to %v", registry.WakeMost)
		} else {
			m.Why = "no worker that answers has its kind: start a program that has it, or remove them: " +
				"raysys outbox drop"
		}
	}
	for _, s := range states {
		shown := inspect.State{Namespace: s.Namespace, Name: s.Name, Bytes: s.Bytes, Entries: s.Entries}
		at, ok := knows[s.Namespace]
		if ids := staterecord.Retained(s.Record); len(ids) > 0 {
			if _, large := staterecord.Large(s.Record); large {
				shown.Object, ok = ids[0].String(), false
				shown.Why = "it is large, and an object of its own"
			}
		}
		switch {
		case shown.Why != "", shown.Entries > 0:
		case !ok:
			shown.Why = "no node that answers has the kind"
		case s.Record == nil:
			shown.Why = "there is more than fits into the answer"
		default:
			silent, err := ask(ctx, o, at.Node, "decode", s, func(_ core.NodeKey, a inspect.State) { shown = a })
			if len(silent) > 0 {
				shown.Why = silent[0]
			} else if err != nil {
				shown.Why = err.Error()
			}
		}
		list = append(list, shown)
	}
	return bounded(list), messages
}

// ownStates are the stored States of a grain, of the shards that this node leads.
func ownStates(o *Operator, ctx context.Context, q stateQuery) (a statesAnswer, err error) {
	id := grainOf(q.Grain)
	kind := id.Kind
	a.Knows, a.Namespace = o.Job.Table.Lookup("grain", kind) != nil, o.Namespace
	names, fields := grainengine.StoredOf(o.Job.Table, kind)
	if o.Node.Cluster() == nil && len(names)+len(fields) == 0 && a.Knows {
		return a, nil // the store is opened for what is stored only
	}
	reg, err := o.Node.Registry()
	if err != nil {
		return a, err
	}
	sum := 0
	add := func(namespace, name string, record []byte) {
		s := storedState{Kind: kind, Namespace: namespace, Name: name, Bytes: len(record)}
		if sum += len(record); sum <= maxRecords {
			s.Record = record
		}
		a.States = append(a.States, s)
	}
	if o.Node.Cluster() == nil {
		records, err := runner.Wait(ctx, func(done func([]graindir.Record, error)) { reg.Load(id, names, graindir.Token{}, done) })
		for i, r := range records {
			if r.Exists {
				add(o.Namespace, names[i], r.Data)
			}
		}
		a.addMaps(reg, o.Namespace, id)
		a.addMessages(reg, o.Namespace, id)
		return a, err
	}
	for _, space := range q.Spaces {
		registry.EachState(reg, space, id, func(name string, record []byte) { add(space, name, record) })
		a.addMaps(reg, space, id)
		a.addMessages(reg, space, id)
	}
	return a, nil
}

// addMessages counts the messages by their receivers.
func (a *statesAnswer) addMessages(reg *registry.Registry, namespace string, id graindir.ID) {
	to := map[string]*inspect.Receiver{}
	m := inspect.StoredOutbox{Namespace: namespace}
	registry.EachSide(reg, namespace, id, graindir.SideOutbox, func(name string, data []byte) {
		shown, _, err := grainengine.StoredReceiver(name, data)
		r := to[shown]
		if r == nil {
			r = &inspect.Receiver{To: shown}
			to[shown] = r
		}
		if r.Messages++; err != nil {
			r.Why = err.Error()
		}
		m.Messages++
	})
	if m.Messages == 0 {
		return
	}
	for _, shown := range slices.Sorted(maps.Keys(to)) {
		m.Receivers = append(m.Receivers, *to[shown])
	}
	slices.SortStableFunc(m.Receivers, func(a, b inspect.Receiver) int {
		return cmp.Or(cmp.Compare(min(len(b.Why), 1), min(len(a.Why), 1)), b.Messages-a.Messages)
	})
	m.Receivers = m.Receivers[:min(len(m.Receivers), shownReceivers)]
	a.Outbox = append(a.Outbox, m)
}

// addMaps counts the entries of each Map, those of fields that the kind has no more too.
func (a *statesAnswer) addMaps(reg *registry.Registry, namespace string, id graindir.ID) {
	var list []storedState
	registry.EachSide(reg, namespace, id, graindir.SideEntries, func(name string, data []byte) {
		field, _, _, err := entries.ReadName(name)
		if err != nil {
			return
		}
		if n := len(list); n == 0 || list[n-1].Name != field { // the names begin with the field
			list = append(list, storedState{Kind: id.Kind, Namespace: namespace, Name: field})
		}
		m := &list[len(list)-1]
		m.Entries, m.Bytes = m.Entries+1, m.Bytes+len(name)+len(data)
	})
	a.States = append(a.States, list...)
}

// ownDecode shows a State of a kind of this program.
func ownDecode(o *Operator, ctx context.Context, s storedState) (inspect.State, error) {
	shown := inspect.State{Namespace: s.Namespace, Name: s.Name, Bytes: s.Bytes}
	v, known, err := grainengine.StoredValue(o.Job.Table, s.Kind, s.Name, s.Record)
	if !known {
		shown.Why = "the kind has no State of that name now"
		return shown, nil
	}
	if shown.Type = reflect.TypeOf(v).Elem().String(); err != nil {
		if shown.Why = err.Error(); errors.Is(err, raysys.ErrNoStore) { // to show them it would have to hold them
			shown.Why = fmt.Sprintf("it holds references, and retains %d objects: %v", len(staterecord.Retained(s.Record)), staterecord.Retained(s.Record))
		}
		return shown, nil
	}
	return shownAs(ctx, shown, v, maxStateShown, decodePatience)
}

// shownAs adds the value as JSON, by the program's own code.
func shownAs(
	ctx context.Context, shown inspect.State, v any, limit int, patience time.Duration,
) (inspect.State, error) {
	made := make(chan inspect.State, 1)
	go func() { made <- asJSON(shown, v, limit) }()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case shown = <-made:
	case <-late.C:
		shown.Why = fmt.Sprintf("its MarshalJSON has not returned within %v", patience.Round(time.Millisecond))
	case <-ctx.Done():
		return shown, context.Cause(ctx)
	}
	return shown, nil
}

// asJSON adds the value, as JSON where that can be.
func asJSON(s inspect.State, v any, limit int) (shown inspect.State) {
	shown = s
	defer func() {
		if p := recover(); p != nil { // of the program's own code
			shown = s
			shown.Why = fmt.Sprintf("it cannot be shown: panic: %v", p)
		}
	}()
	text, err := json.Marshal(v)
	switch {
	case err != nil:
		shown.Why = "it is no JSON: " + err.Error()
		text = fmt.Appendf(nil, "%+v", reflect.Indirect(reflect.ValueOf(v)).Interface())
	case len(text) <= limit:
		shown.JSON = text
		return shown
	}
	shown.Cut = max(len(text)-limit, 0)
	shown.Text = strings.ToValidUTF8(string(text[:len(text)-shown.Cut]), "")
	return shown
}

// maxListedValues bounds the values of a page of StoredGrains.
const maxListedValues = 384 << 10

// listedPatience is how long a page of StoredGrains goes on to another grain. The next page makes the values of that
// again: as the first of a page it has decodePatience, and then leastPatience a value, within the time of an answer.
const (
	listedPatience = decodePatience / 4
	leastPatience  = 100 * time.Millisecond
)

// listedFrom is where a page of StoredGrains begins: at a key of a shard.
type listedFrom struct {
	Space int    `json:"space"` // its number among the namespaces
	Names string `json:"names"` // of these
	Shard int    `json:"shard"`
	Key   exact  `json:"key"`
}

// storedQuery asks for what is stored of grains of a program that lie in a shard.
type storedQuery struct {
	inspect.StoredQuery
	Prefix    exact      `json:"prefix"`
	From      listedFrom `json:"from"`
	Namespace string     `json:"namespace"`
}

// storedRow is inspect.StoredGrain between nodes.
type storedRow struct {
	inspect.StoredGrain
	Key exact `json:"key"`
}

// storedRows are the grains of a part of a shard; More says that there are others behind them.
type storedRows struct {
	Rows []storedRow `json:"rows"`
	More bool        `json:"more,omitempty"`
}

// StoredGrains lists what is stored of the grains of a kind, a page at a time. The values are read by a node that has
// the kind, of the program that stored them.
func StoredGrains(ctx context.Context, o *Operator, q inspect.StoredQuery) (p inspect.StoredGrains, err error) {
	p.Cluster, p.Grains = o.clusterName(), []inspect.StoredGrain{}
	part := storedQuery{StoredQuery: q, Prefix: exact(q.Prefix)}
	spaces, _ := o.spaces(ctx)
	slices.Sort(spaces)
	part.From.Names = strings.Join(spaces, "\x00")
	if q.From != "" {
		text, err := base64.RawURLEncoding.DecodeString(q.From)
		err = cmp.Or(err, json.Unmarshal(text, &part.From))
		if err != nil || part.From.Space < 0 || part.From.Shard < 0 {
			return p, fmt.Errorf("%w: %q is no place where a page begins", raysys.ErrBadOption, q.From)
		}
	}
	reg, err := o.Node.Registry()
	if err != nil {
		return p, err
	}
	for spaces = strings.Split(part.From.Names, "\x00"); len(p.Grains) == 0; {
		if part.From.Space >= len(spaces) || part.From.Shard >= registry.Shards(reg) {
			return p, nil
		}
		part.Namespace = spaces[part.From.Space]
		rows, err := storedRowsOf(ctx, o, &part)
		if err != nil {
			return p, fmt.Errorf("read what is stored of kind %q: %w", q.Kind, err)
		}
		for _, r := range rows.Rows {
			r.StoredGrain.Key, part.From.Key = string(r.Key), r.Key+"\x00" // the least key behind it
			p.Grains = append(p.Grains, r.StoredGrain)
		}
		if !rows.More {
			part.From.Shard, part.From.Key = part.From.Shard+1, ""
		}
		if part.From.Shard == registry.Shards(reg) {
			part.From.Space, part.From.Shard = part.From.Space+1, 0
		}
	}
	if part.From.Space < len(spaces) {
		next, _ := json.Marshal(part.From)
		p.Next = base64.RawURLEncoding.EncodeToString(next)
	}
	return p, nil
}

// storedRowsOf has a node that has the kind read them with their values, or reads them here without.
func storedRowsOf(ctx context.Context, o *Operator, q *storedQuery) (rows storedRows, err error) {
	if !q.Values {
		return ownStored(o, ctx, *q)
	}
	knows, _ := storedOn(ctx, o, q.Kind)
	at, ok := knows[q.Namespace]
	if !ok {
		here := *q
		here.Values = false
		rows, err = ownStored(o, ctx, here)
		for i := range rows.Rows {
			why := &rows.Rows[i].Why
			*why = strings.TrimPrefix(*why+"; no node that answers has the kind", "; ")
		}
		return rows, err
	}
	silent, err := ask(ctx, o, at.Node, "stored", *q, func(_ core.NodeKey, a storedRows) { rows = a })
	if err == nil && len(silent) > 0 {
		err = fmt.Errorf("%w: %s", raysys.ErrUnreachable, silent[0])
	}
	return rows, err
}

// storedOn finds a node that has the kind, by namespace.
func storedOn(ctx context.Context, o *Operator, kind string) (knows map[string]core.NodeKey, err error) {
	knows = map[string]core.NodeKey{}
	_, err = ask(ctx, o, "", "states", stateQuery{Grain: exact(kind + "/")}, func(k core.NodeKey, a statesAnswer) {
		if a.Knows {
			knows[a.Namespace] = k
		}
	})
	return knows, err
}

// ownStored reads what is stored of grains, and decodes their values where the query asks for them.
func ownStored(o *Operator, ctx context.Context, q storedQuery) (a storedRows, err error) {
	reg, err := o.Node.Registry()
	if err != nil {
		return a, err
	}
	of := graindir.Query{
		Kind: q.Kind, Prefix: string(q.Prefix), Shard: q.From.Shard, Listed: true, Namespace: q.Namespace,
	}
	of.From.Key = string(q.From.Key)
	page, err := runner.Wait(ctx, func(done func(graindir.Page, error)) { registry.StoredPage(reg, of, done) })
	if err != nil {
		return a, err
	}
	for _, r := range page.Records {
		if r.Family == graindir.StoredCounter {
			row := storedRow{Key: exact(r.Key)}
			if row.Namespace, row.Turn, row.States = q.Namespace, r.Counter.Turn, []inspect.State{}; r.Bad != nil {
				row.Why = r.Bad.Error()
			} else if !utf8.ValidString(r.Key) { // which JSON does not carry
				row.Why = fmt.Sprintf("its key is no UTF-8: %q", r.Key)
			}
			a.Rows = append(a.Rows, row)
			continue
		}
		row, t := &a.Rows[len(a.Rows)-1], graindir.ReadTally(r.Data)
		switch r.Family {
		case graindir.StoredCounts:
			row.Keys, row.Messages = int(t.N), int(t.Size)
		case graindir.StoredState:
			row.States = append(row.States, inspect.State{Name: r.Name, Bytes: int(t.Size)})
		default:
			row.States = append(row.States, inspect.State{Name: r.Name, Bytes: int(t.Size), Entries: int(t.N)})
		}
	}
	if a.More = page.More; q.Values && len(a.Rows) > 0 {
		of.Listed = false
		err = addValues(ctx, o, of, &a)
	}
	all := len(a.Rows)
	a.Rows = bounded(a.Rows)
	a.More = a.More || len(a.Rows) < all
	return a, err
}

// addValues adds the values, and leaves out rows at the end for which there is no room or no time.
func addValues(ctx context.Context, o *Operator, of graindir.Query, a *storedRows) error {
	n, used, begun := 0, 0, time.Now()
	late := func() bool { return n > 0 && time.Since(begun) > listedPatience }
	read := func(key string, list []grainengine.NamedValue, turn uint64, bad error) bool {
		for n < len(a.Rows) && string(a.Rows[n].Key) < key {
			n++
		}
		if n == len(a.Rows) || string(a.Rows[n].Key) != key { // it is new
			return n < len(a.Rows)
		}
		row, size, patience := &a.Rows[n], 0, decodePatience
		if n > 0 {
			patience = listedPatience
		}
		states := slices.Clone(row.States)
		for _, v := range list {
			i := slices.IndexFunc(states, func(s inspect.State) bool { return s.Name == v.Name })
			if i < 0 { // it has the zero value
				i, states = len(states), append(states, inspect.State{Name: v.Name})
			}
			left := max(patience-time.Since(begun), leastPatience)
			// The context's end is seen later.
			states[i], _ = shownAs(ctx, states[i], v.Value, maxListedValues-size, left)
			size += len(states[i].JSON) + len(states[i].Text)
		}
		if used += size; used > maxListedValues && n > 0 || late() {
			a.Rows, a.More = a.Rows[:n], true
			return false
		}
		if n, row.Turn, row.States = n+1, turn, states; bad != nil {
			row.Why = bad.Error()
		}
		return true
	}
	_, err := grainengine.StoredValues(ctx, o.Grains, of, read)
	return err
}
