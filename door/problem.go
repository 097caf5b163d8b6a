package door

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/grainengine"
)

// Whether the work has run.
const (
	ranNo    = "no"
	ranMaybe = "maybe"
	ranYes   = "yes"
)

// problem is an answer that is no result: RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	ID     string `json:"id,omitempty"` // of the work
	Ran    string `json:"ran"`
}

func (p *problem) Error() string { return p.Type + ": " + p.Detail }

// refusal is a problem of a request that has run nothing.
func refusal(status int, kind, detail string) error {
	return &problem{Type: kind, Status: status, Detail: detail, Ran: ranNo}
}

// shownError is an error of the program that callers see.
type shownError struct {
	err    error
	status int
	text   string
}

// faults are the failures of the system, with what callers see of them: the first that an error matches.
var faults = []struct {
	err error
	problem
}{
	{raysys.ErrKeyReused, problem{Type: "key-reused", Status: http.StatusConflict, Ran: ranNo, Detail: "the Idempotency-Key was given before, with another argument or for another method: what that call did stays"}},
	{raysys.ErrNameTaken, problem{Type: "name-taken", Status: http.StatusConflict, Ran: ranNo, Detail: "there is a run of that name with another argument: give another name, or DELETE it"}},
	{grainengine.ErrNotLoaded, problem{Type: "not-loaded", Status: http.StatusServiceUnavailable, Ran: ranNo, Detail: "the grain could not be read"}},
	{grainengine.ErrActivation, problem{Type: "activation", Status: http.StatusInternalServerError, Ran: ranNo, Detail: "the grain could not be activated"}},
	{raysys.ErrOutcomeUnknown, problem{Type: "outcome-unknown", Status: http.StatusServiceUnavailable, Ran: ranMaybe, Detail: "the answer was lost on its way"}},
	{raysys.ErrOverloaded, problem{Type: "overloaded", Status: http.StatusServiceUnavailable, Ran: ranNo, Detail: "too much work waits"}},
	{raysys.ErrNotDelivered, problem{Type: "not-delivered", Status: http.StatusServiceUnavailable, Ran: ranNo, Detail: "the work has not reached a node"}},
	{raysys.ErrSuspended, problem{Type: "suspended", Status: http.StatusServiceUnavailable, Ran: ranMaybe, Detail: "the store does not answer this node"}},
	{raysys.ErrUnreachable, problem{Type: "unreachable", Status: http.StatusServiceUnavailable, Ran: ranMaybe, Detail: "a node or the store is not reached"}},
	{raysys.ErrStoreFull, problem{Type: "store-full", Status: http.StatusServiceUnavailable, Ran: ranMaybe, Detail: "a node has no room for the value"}},
	{raysys.ErrFenced, problem{Type: "closed", Status: http.StatusServiceUnavailable, Ran: ranMaybe, Detail: "the node has ended"}},
	{raysys.ErrClosed, problem{Type: "closed", Status: http.StatusServiceUnavailable, Ran: ranMaybe, Detail: "the node has ended"}},
	{raysys.ErrNodeDead, problem{Type: "node-dead", Status: http.StatusServiceUnavailable, Ran: ranMaybe, Detail: "a node has died"}},
	{raysys.ErrDeadline, problem{Type: "deadline", Status: http.StatusGatewayTimeout, Ran: ranMaybe, Detail: "the time is over"}},
	{raysys.ErrCancelled, problem{Type: "cancelled", Status: http.StatusInternalServerError, Ran: ranMaybe, Detail: "the work was cancelled"}},
	{raysys.ErrNoCapacity, problem{Type: "no-capacity", Status: http.StatusInternalServerError, Ran: ranNo, Detail: "no node has what the work asks for"}},
	{raysys.ErrNotFound, problem{Type: "not-found", Status: http.StatusNotFound, Ran: ranNo, Detail: "no such run"}},
	{raysys.ErrCycle, problem{Type: "cycle", Status: http.StatusInternalServerError, Ran: ranNo, Detail: "the call would wait for itself"}},
}

// problemOf is what callers see of a failure of work.
func (d *Door) problemOf(err error) error {
	own, outermost := err.(*raysys.TaskError)
	if !outermost && !errors.Is(err, grainengine.ErrActivation) {
		outermost = errors.As(err, &own)
	}
	if outermost { // by the function, or lost with its node
		for _, e := range d.errors {
			if errors.Is(own, e.err) {
				return &problem{Type: "application", Status: e.status, Detail: e.text, Ran: ranYes}
			}
		}
		if !errors.Is(own, raysys.ErrNodeDead) {
			return &problem{Type: "failed", Status: http.StatusInternalServerError, Detail: "the function has failed", Ran: ranYes}
		}
	}
	for i := range faults {
		if errors.Is(err, faults[i].err) {
			p := faults[i].problem
			return &p
		}
	}
	return &problem{Type: "failed", Status: http.StatusInternalServerError, Detail: "the work has failed", Ran: ranMaybe}
}

// gone is what metrics have in the place of the code for a client that has hung up.
const gone = 499

// refuse answers with a problem.
func (x *request) refuse(err error) {
	if x.r.Context().Err() != nil {
		x.code = gone
		return
	}
	p := x.shown(err)
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		x.w.Header().Set("Retry-After", "1")
	case http.StatusUnauthorized:
		x.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	text, _ := json.Marshal(p)
	x.send(p.Status, "application/problem+json", text)
}

// shown is a problem as it is sent.
func (x *request) shown(err error) *problem {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p, _ = errors.AsType[*problem](x.problemOf(err))
	}
	p.Type, p.Title, p.ID = "raysys:"+p.Type, http.StatusText(p.Status), x.id
	return p
}
