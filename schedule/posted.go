package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/due"
	"github.com/raysys/raysys/internal/grainengine"
)

// A turn of a Durable grain that edits a schedule posts the edit: it leaves with the commit of the turn.
//
//	Call, Pause, ... ─► change ─┬─► of a Durable turn: PostLater ─► its commit ─► deliver ─┐
//	                            └─► of any other: at once ─────────────────────────────────┴─► edit
//
// A message may come again, after an edit that others have made since. So the record has the number of the last
// message of each grain that has edited it lately, and one that is not above it changes nothing.

// messages is the kind of the messages. Their receiver is the schedule's name, so that edits of one keep their order.
const messages = "schedule"

// posted is an edit of a schedule, as a message has it. What is wrong with it was said in the turn.
type posted struct {
	Namespace text
	Verb      string `json:",omitzero"` // "" sets the schedule
	Spec      *spec  `json:",omitempty"`
	Paused    bool   `json:",omitzero"`
}

// tryWithin is how long one try to deliver a message may take.
const tryWithin = 10 * time.Second

// author is a Durable grain that has edited a schedule.
type author struct {
	Grain string `json:"G"` // a hash
	Heard uint64 `json:"N"` // the last of its messages
}

// maxAuthors is how many authors a record has.
const maxAuthors = 8

// authors are those of a record, the latest last.
type authors []author

// heard reports whether the message of by has come before.
func (list authors) heard(by *author) bool {
	return by != nil && slices.ContainsFunc(list, func(a author) bool {
		return a.Grain == by.Grain && by.Heard <= a.Heard
	})
}

// hear notes the message of by.
func (list *authors) hear(by *author) {
	if by == nil {
		return
	}
	l := append(slices.DeleteFunc(*list, func(a author) bool { return a.Grain == by.Grain }), *by)
	*list = l[max(0, len(l)-maxAuthors):]
}

// change makes an edit now, or when the turn of ctx is stored.
func change(ctx context.Context, name string, p *posted) error {
	of, store, err := nodeOf(ctx)
	if err != nil {
		return err
	}
	p.Namespace = text(of.Namespace())
	if grainengine.Transacts(ctx) {
		body, err := json.Marshal(p)
		if err != nil {
			return typed(name, err)
		}
		if kept, err := grainengine.PostLater(ctx, messages, name, body); kept {
			return err
		}
	}
	return editIn(ctx, store, p.of(name), func(i due.Item) (due.Change, error) { return p.change(i, nil) })
}

func (p *posted) of(name string) due.Name {
	return due.Name{Namespace: string(p.Namespace), Name: name}
}

// change is the change of a record by the edit.
func (p *posted) change(i due.Item, by *author) (due.Change, error) {
	if p.Verb == "" {
		return (&setting{*p.Spec, p.Paused}).put(i, by)
	}
	return do(p.Verb, i, by)
}

// postedOf reads a message. A newer program may have written it.
func postedOf(body []byte) (*posted, error) {
	p := &posted{}
	err := json.Unmarshal(body, p)
	switch {
	case err != nil:
	case p.Verb != "" && !slices.Contains([]string{verbPause, verbResume, verbRun, verbDelete}, p.Verb):
		err = fmt.Errorf("the verb is %.100q", p.Verb)
	case p.Verb == "" && p.Spec == nil:
		err = errors.New("it sets nothing")
	case p.Verb == "":
		err = errors.Join(p.Spec.check(p.Spec.When.when()), p.Spec.Work.check())
	}
	if err != nil {
		err = fmt.Errorf(
			"%w: a message of a Durable grain is no edit that this program knows: %w", raysys.ErrBadOption, err)
	}
	return p, err
}

// deliver makes an edit that was posted. What the record has against it is its outcome; after a fault of the system it
// comes again, also where only a newer program can read it.
func deliver(ctx context.Context, m grainengine.Post) (outcome, err error) {
	p, err := postedOf(m.Body)
	if err != nil {
		return nil, typed(m.To, err)
	}
	_, store, err := nodeOf(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	by := &author{m.From.String(), m.Number}
	err = editIn(ctx, store, p.of(m.To), func(i due.Item) (c due.Change, err error) {
		c, outcome = p.change(i, by)
		return c, outcome
	})
	if outcome != nil || errors.Is(err, raysys.ErrTooLarge) {
		return err, nil
	}
	return nil, err
}
