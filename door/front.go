package door

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/raysys/raysys/door/internal/front"
)

func init() {
	front.Of = func(d http.Handler) front.Door { return frontOf{d.(*Door)} }
}

// frontOf is a door for the packages that serve it by other protocols.
type frontOf struct{ *Door }

// admitted is the key of a context whose requests Admit has let in: whether one of them has its room.
type admitted struct{}

// envelope is what a request of another protocol has beside the argument: a key of a grain takes 6 KiB of JSON at most.
const envelope = 16 << 10

func (d frontOf) MaxResult() int { return int(d.result) }

func (d frontOf) Functions() []front.Function {
	list := make([]front.Function, len(d.order))
	for i, m := range d.order {
		list[i] = front.Function{
			Name: m.Function, Text: m.text, Path: m.path, Grain: m.form != "task", Stream: m.item != nil,
			Keyed: m.packed.Keyed, ReadOnly: m.ReadOnly, Idempotent: m.packed.Again,
		}
		if !m.arg.Nothing() {
			list[i].Argument = m.argument
		}
		if m.item != nil || !m.res.Nothing() {
			list[i].Result = m.result
		}
	}
	return list
}

func (d frontOf) Admit(w http.ResponseWriter, r *http.Request) (in *http.Request, leave func()) {
	x := &request{Door: d.Door, w: w, r: r}
	defer x.end()
	body, err := admit(x)
	if err != nil {
		refuse(x, err)
		return nil, nil
	}
	r = r.WithContext(context.WithValue(r.Context(), admitted{}, new(atomic.Bool)))
	r.Body = io.NopCloser(bytes.NewReader(body))
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeWithin).Add(max(d.deadline, maxWait))) // it has its room until then
	return r, func() {
		_ = rc.SetWriteDeadline(time.Time{}) // the connection may have further requests
		x.room.leave(x.caller, 0)
	}
}

// admit counts a request, and returns its body.
func admit(x *request) (body []byte, err error) {
	x.caller, err = identify(x, Work{})
	if p, is := errors.AsType[*problem](err); is && p.Status == http.StatusForbidden {
		// A Who may forbid what there is not.
		_, err = allowed(x)
	}
	if err != nil {
		return nil, err
	}
	if err := x.room.enter(x.caller, 0); err != nil {
		return nil, err
	}
	if body, err = x.readBody(x.argument + envelope); err != nil {
		x.room.leave(x.caller, 0)
	}
	return body, err
}

func (d frontOf) May(r *http.Request, function int, look bool) (may bool) {
	defer func() {
		if p := recover(); p != nil { // where this is called no server recovers
			d.logPanic(p)
		}
	}()
	w := d.order[function].Work
	w.ReadOnly = w.ReadOnly || look
	_, err := identify(&request{Door: d.Door, r: r}, w)
	return err == nil
}
