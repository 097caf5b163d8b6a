package door

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

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
	ID     string `json:"id,omitempty" jsonschema:"of the work, for raysys get"`
	Ran    string `json:"ran" jsonschema:"no, maybe or yes: whether the work may have run"`
}

func (p *problem) Error() string { return p.Type + ": " + p.Detail }

// refusal is a problem of a request that has run nothing.
func refusal(status int, kind, detail string) error {
	return &problem{Type: kind, Status: status, Detail: detail, Ran: ranNo}
}

func badRequest(format string, args ...any) error {
	return refusal(http.StatusBadRequest, "bad-request", fmt.Sprintf(format, args...))
}

func badArgument(detail string) error { return refusal(http.StatusBadRequest, "bad-argument", detail) }

// failure is a problem of work that has run.
func failure(kind, detail string) error {
	return &problem{Type: kind, Status: http.StatusInternalServerError, Detail: detail, Ran: ranYes}
}

// fault is what callers see of an error.
type fault struct {
	err               error
	status            int
	kind, ran, detail string
}

const (
	conflict, internal   = http.StatusConflict, http.StatusInternalServerError
	missing, unavailable = http.StatusNotFound, http.StatusServiceUnavailable
)

// faults are the failures of the system: the first that an error matches counts.
var faults = []fault{
	{raysys.ErrKeyReused, conflict, "key-reused", ranNo, "the Idempotency-Key is that of another call"},
	{raysys.ErrNameTaken, conflict, "name-taken", ranNo, "the run has another argument"},
	{grainengine.ErrNotLoaded, unavailable, "not-loaded", ranNo, "the grain could not be read"},
	{grainengine.ErrActivation, internal, "activation", ranNo, "the grain could not be activated"},
	{raysys.ErrOutcomeUnknown, unavailable, "outcome-unknown", ranMaybe, "the answer was lost on its way"},
	{raysys.ErrOverloaded, unavailable, "overloaded", ranNo, "too much work waits"},
	{raysys.ErrNotDelivered, unavailable, "not-delivered", ranNo, "the work has not reached a node"},
	{raysys.ErrSuspended, unavailable, "suspended", ranMaybe, "the store does not answer this node"},
	{raysys.ErrUnreachable, unavailable, "unreachable", ranMaybe, "a node or the store is not reached"},
	{raysys.ErrStoreFull, unavailable, "store-full", ranMaybe, "a node has no room for the value"},
	{raysys.ErrFenced, unavailable, "closed", ranMaybe, "the node has ended"},
	{raysys.ErrClosed, unavailable, "closed", ranMaybe, "the node has ended"},
	{raysys.ErrNodeDead, unavailable, "node-dead", ranMaybe, "a node has died"},
	{raysys.ErrDeadline, http.StatusGatewayTimeout, "deadline", ranMaybe, "the time is over"},
	{raysys.ErrCancelled, internal, "cancelled", ranMaybe, "the work was cancelled"},
	{raysys.ErrNoCapacity, internal, "no-capacity", ranNo, "no node has what the work asks for"},
	{raysys.ErrNotFound, missing, "not-found", ranNo, "no such run"},
	{raysys.ErrCycle, internal, "cycle", ranNo, "the call would wait for itself"},
}

// problemOf is what callers see of a failure of work.
func (d *Door) problemOf(err error) error {
	own, outermost := err.(*raysys.TaskError)
	if !outermost && !errors.Is(err, grainengine.ErrActivation) {
		outermost = errors.As(err, &own)
	}
	list, seen := faults, err
	if outermost { // by the function, or lost with its node
		list, seen = d.errors, own
		if errors.Is(own, raysys.ErrNodeDead) {
			list = slices.Concat(d.errors, faults)
		}
	}
	if i := slices.IndexFunc(list, func(f fault) bool { return errors.Is(seen, f.err) }); i >= 0 {
		return &problem{Type: list[i].kind, Status: list[i].status, Detail: list[i].detail, Ran: list[i].ran}
	}
	if outermost {
		return failure("failed", "the function has failed")
	}
	return &problem{Type: "failed", Status: internal, Detail: "the work has failed", Ran: ranMaybe}
}

// gone is what metrics have in the place of the code for a client that has hung up.
const gone = 499

// refuse answers with a problem.
func refuse(x *request, err error) {
	if x.r.Context().Err() != nil {
		x.code = gone
		return
	}
	p := shown(x, err)
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
func shown(x *request, err error) *problem {
	p, ok := errors.AsType[*problem](err)
	if !ok {
		p, _ = errors.AsType[*problem](x.problemOf(err))
	}
	p.Type, p.Title, p.ID = "raysys:"+p.Type, http.StatusText(p.Status), x.id
	return p
}
