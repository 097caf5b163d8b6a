package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/member"
)

const (
	// maxAnswer bounds what a node answers, as JSON; the asker shows no more either.
	maxAnswer = 1 << 20
	// maxRows bounds the rows of an answer, and listedRows is how many there are where the question does not say.
	maxRows    = 10_000
	listedRows = 100
	// maxNamed bounds the names in an error that says what there is.
	maxNamed = 20
)

// question is what nodes are asked by name, with a query and an answer as JSON.
type question func(o *Operator, ctx context.Context, query []byte) (any, error)

func asked[Q, A any](f func(*Operator, context.Context, Q) (A, error)) question {
	return func(o *Operator, ctx context.Context, query []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(query, &q); err != nil {
			return nil, fmt.Errorf("read the question: %w", err)
		}
		return f(o, ctx, q)
	}
}

// exact is a text of which each byte counts, such as the key of a grain: as a string of JSON one that is no UTF-8
// would be another text.
type exact string

func (e exact) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(e)) }

func (e *exact) UnmarshalJSON(text []byte) error {
	var raw []byte
	err := json.Unmarshal(text, &raw)
	*e = exact(raw)
	return err
}

// questionOf returns what answers a question, nil where this version knows none of that name.
func questionOf(name string) question {
	switch name {
	case "status":
		return asked(ownReport)
	case "ways":
		return asked(ownWays)
	case "memory":
		return asked(ownMemory)
	case "why":
		return asked(ownExplain)
	case "explain":
		return asked(ownScheduling)
	case "groups":
		return asked(ownLedGroups)
	case "tasks":
		return asked(ownTasks)
	case "work":
		return asked(ownWork)
	case "functions":
		return asked(ownFunctions)
	case "failures":
		return asked(ownFailures)
	case "grain":
		return asked(ownGrainOf)
	case "states":
		return asked(ownStates)
	case "stored":
		return asked(ownStored)
	case "decode":
		return asked(ownDecode)
	case "start":
		return asked(ownStart)
	case "job":
		return asked(ownJob)
	case "cancel":
		return asked(ownCancel)
	case "stack":
		return asked(ownStack)
	case "profile":
		return asked(ownProfile)
	case "waits":
		return asked(ownWaits)
	case "logs":
		return asked(ownLogs)
	case "timeline":
		return asked(ownTimeline)
	case "streams":
		return asked(ownStreams)
	case "grains":
		return asked(ownGrains)
	case "drop":
		return asked(ownDrop)
	case "unload":
		return asked(ownUnload)
	}
	return nil
}

// ownAnswerTo answers a question.
func ownAnswerTo(o *Operator, ctx context.Context, q adminRequest) (json.RawMessage, error) {
	f := questionOf(q.name)
	if f == nil {
		return nil, fmt.Errorf("the question %q is unknown to this version", q.name)
	}
	a, err := f(o, ctx, q.query)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// told is what one node answers.
type told[A any] struct {
	answer A
	err    error
}

// askMembers asks members, each of which has its answer or its error then.
func askMembers[A any](ctx context.Context, o *Operator, members []member.Node, name string, query any) map[core.NodeKey]told[A] {
	q, bad := json.Marshal(query)
	all := map[core.NodeKey]told[A]{}
	for k, r := range o.askAll(ctx, members, adminRequest{op: adminAsk, name: name, query: q}) {
		t := told[A]{err: cmp.Or(bad, r.err)}
		if t.err == nil {
			t.err = json.Unmarshal(r.answer.List, &t.answer)
		}
		all[k] = t
	}
	return all
}

// ask asks the node, or all where that is "", and gives each answer to add. silent are the nodes that do not answer, and why.
func ask[A any](ctx context.Context, o *Operator, node raysys.NodeID, name string, query any, add func(core.NodeKey, A)) (silent []string, err error) {
	members := slices.DeleteFunc(o.Members(), func(m member.Node) bool { return node != "" && m.ID != node })
	if len(members) == 0 {
		return nil, fmt.Errorf("%s of %s: %w: raysys status lists the nodes", name, node, ErrNoSuchNode)
	}
	q, err := json.Marshal(query)
	if err != nil {
		return nil, err
	}
	for k, t := range askMembers[A](ctx, o, members, name, json.RawMessage(q)) {
		if t.err != nil {
			silent = append(silent, fmt.Sprintf("%s: %v", k.Node, t.err))
			continue
		}
		add(k, t.answer)
	}
	slices.Sort(silent)
	if ctx.Err() != nil {
		return silent, fmt.Errorf("ask for %s: %w", name, context.Cause(ctx))
	}
	return silent, nil
}

// page is what a node answers to a question for a list.
type page[T any] struct {
	Count int `json:"count"` // of what matches
	Rows  []T `json:"rows"`
	// Unknown: the node has nothing of the name that was asked for, but Names.
	Unknown bool     `json:"unknown,omitempty"`
	Names   []string `json:"names,omitempty"`
}

// pages joins the answers of nodes.
type pages[T any] struct {
	page[T]
	known bool
}

func (p *pages[T]) add(_ core.NodeKey, one page[T]) {
	p.Count += one.Count
	p.Rows = append(p.Rows, one.Rows...)
	p.Names = append(p.Names, one.Names...)
	p.known = p.known || !one.Unknown
}

// listPages asks for a list. what is of what names are, and name is what the query asks for; "" for all.
func listPages[T any](ctx context.Context, o *Operator, node raysys.NodeID, question string, query any, what, name string) (p pages[T], silent []string, err error) {
	silent, err = ask(ctx, o, node, question, query, p.add)
	if err == nil && name != "" && !p.known && len(silent) == 0 {
		err = unknown(what, name, p.Names)
	}
	return p, silent, err
}

// unknown says what there is.
func unknown(what, name string, names []string) error {
	slices.Sort(names)
	names = slices.Compact(names)
	there := "there is none"
	if n := len(names); n > 0 {
		there = "there are " + strings.Join(names[:min(n, maxNamed)], ", ")
		if n > maxNamed {
			there += fmt.Sprintf(" and %d more", n-maxNamed)
		}
	}
	return fmt.Errorf("%w: no node has a %s %s: %s", raysys.ErrNotFound, what, name, there)
}

// ownNamesIn lists the definitions of a kind of this node.
func ownNamesIn(o *Operator, kind string) (names []string) {
	for _, e := range o.Job.Table.Entries() {
		if e.Kind == kind && len(names) < maxRows {
			names = append(names, e.Name)
		}
	}
	return names
}

// limitOf is how many rows are asked for: 0 stands for listedRows, and less for none.
func limitOf(n int) int { return min(max(cmp.Or(n, listedRows), 0), maxRows) }

// first keeps the first rows by an order of many that it is shown.
type first[T any] struct {
	limit int
	order func(a, b *T) int
	rows  []T
	full  bool // the first limit of rows are in order, and those behind may go before them
	count int
}

func (f *first[T]) add(row T) {
	if f.count++; f.limit == 0 {
		return
	}
	if f.full && f.order(&row, &f.rows[f.limit-1]) >= 0 {
		return
	}
	if f.rows = append(f.rows, row); len(f.rows) >= 2*f.limit+listedRows {
		f.cut()
	}
}

func (f *first[T]) cut() {
	slices.SortStableFunc(f.rows, func(a, b T) int { return f.order(&a, &b) })
	if f.full = len(f.rows) >= f.limit; f.full {
		clear(f.rows[f.limit:])
		f.rows = f.rows[:f.limit]
	}
}

// bounded keeps as many of the rows, from the first, as are maxAnswer bytes of JSON at most.
func bounded[T any](rows []T) []T {
	left := maxAnswer - 1<<10 // for what surrounds them
	for i := range rows {
		row, err := json.Marshal(&rows[i])
		if left -= len(row) + 1; err != nil || left < 0 {
			return rows[:i]
		}
	}
	return rows
}

// sorted puts the rows of several nodes in order, and keeps those that are asked for.
func sorted[T any](rows []T, limit int, order func(a, b *T) int) []T {
	slices.SortStableFunc(rows, func(a, b T) int { return order(&a, &b) })
	rows = bounded(rows[:min(len(rows), limitOf(limit))])
	if rows == nil {
		rows = []T{} // so that a reader of the JSON can always range over it
	}
	return rows
}

// spacesPatience bounds the wait for nodes that do not say which program they run: a connection to a healthy one is there within milliseconds, and what
// is asked afterwards has time left.
const spacesPatience = time.Second
