package door

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// What a door bounds unless an option says otherwise.
const (
	maxArgument = 64 << 10 // bytes
	maxResult   = 1 << 20  // bytes
	maxDeadline = 30 * time.Second
	maxRequests = 1024 // at a time
	maxOfCaller = 256  // of these, of one caller
	maxStreams  = 256  // of these
)

// Door is an http.Handler for paths that begin with /call/. It is made by New, and may be used by many servers.
type Door struct {
	node     *system.Node
	who      Who // nil: this host alone
	marks    map[name]*mark
	order    []*mark
	errors   []fault
	argument int64 // bytes
	result   int64
	deadline time.Duration
	cross    http.CrossOriginProtection
	room     room
	servers  sync.Map // *http.Server -> chan struct{}, closed when it shuts down
}

// Option is a mark of something that may be called, or a setting.
type Option func(*Door) error

// Work is what a caller asks for.
type Work struct {
	Function string // KIND.METHOD of a method or a feed, the name of a task or a generator; "" of what there is not
	Kind     string // the kind of the grain; "" of a task
	Key      string // of the grain; the name of a run; "" where the question is whether the document has the function
	ReadOnly bool   // a ReadOnly method, a feed, a look at a run
}

// Who names the caller of a request, or says by an error that it may not: 403 for one that matches ErrForbidden, else
// 401. Its text is not sent.
type Who func(r *http.Request, w Work) (caller string, err error)

// ErrForbidden is what a Who returns for a caller that it knows, who may not do this.
var ErrForbidden = errors.New("forbidden")

// maxCaller is the most bytes that the name of a caller has.
const maxCaller = 128

// New makes a door to a node. The error says what is wrong with the options, all of it: two marks of one thing, a zero
// handle, an argument or a result that holds references.
func New(n *system.Node, opts ...Option) (*Door, error) {
	d := &Door{node: n, marks: map[name]*mark{}, argument: maxArgument, result: maxResult, deadline: maxDeadline}
	d.room.of = map[string]int{}
	var bad []error
	if n == nil {
		bad = append(bad, errors.New("the node is nil"))
	}
	for i, o := range opts {
		if o == nil {
			bad = append(bad, fmt.Errorf("option %d is nil", i+1))
		} else if err := o(d); err != nil {
			bad = append(bad, err)
		}
	}
	if err := errors.Join(bad...); err != nil {
		return nil, fmt.Errorf("new door: %w: %w", raysys.ErrBadOption, err)
	}
	return d, nil
}

// Callers has the door ask who makes each request. A name has 1 to 128 bytes.
func Callers(who Who) Option {
	return func(d *Door) error {
		if who == nil || d.who != nil {
			return errors.New("Callers: give one function, once")
		}
		d.who = who
		return nil
	}
}

// Error has the door answer with status, 400 to 599, and text where a method, a task or a filter returns an error that
// matches err. What matches no Error is a 500 without a text. For an error of another node see raysys.RegisterError.
func Error(err error, status int, text string) Option {
	return func(d *Door) error {
		if err == nil || status < 400 || status > 599 {
			return fmt.Errorf("Error(%v, %d): give an error, and a status of 400 to 599", err, status)
		}
		d.errors = append(d.errors, fault{err, status, "application", ranYes, text})
		return nil
	}
}

// Size bounds the bytes of an argument and of a result, or of an item, as JSON: 64 KiB and 1 MiB unless set.
func Size(argument, result int) Option {
	return func(d *Door) error {
		if argument < 1 || result < 1 {
			return fmt.Errorf("Size(%d, %d): give bytes, 1 or more", argument, result)
		}
		d.argument, d.result = int64(argument), int64(result)
		return nil
	}
}

// Deadline is the longest that a call takes, and that of a request without the header Raysys-Deadline: 30 s unless set.
// A handle with a shorter raysys.Deadline keeps that.
func Deadline(most time.Duration) Option {
	return func(d *Door) error {
		if most <= 0 {
			return fmt.Errorf("Deadline(%v): give a positive duration", most)
		}
		d.deadline = most
		return nil
	}
}

// callerKey carries the caller. Its name is on the wire.
var callerKey = raysys.NewContextKey[string]("raysys.door.caller")

// Caller is the name of who has made the request that the work of ctx is for, "" where it is for none.
func Caller(ctx context.Context) string {
	c, _ := callerKey.From(ctx)
	return c
}

// room counts the requests that are being answered.
type room struct {
	mu      sync.Mutex // guards the rest
	all     int
	streams int
	of      map[string]int // by caller
}

// enter counts a request, unless there are too many.
func (r *room) enter(caller string, streams int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= maxRequests || r.of[caller] >= maxOfCaller || r.streams+streams > maxStreams {
		return refusal(http.StatusTooManyRequests, "too-many-requests", "too many requests at a time: try again later")
	}
	r.all++
	r.of[caller]++
	r.streams += streams
	return nil
}

func (r *room) leave(caller string, streams int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	r.streams -= streams
	if r.of[caller]--; r.of[caller] == 0 {
		delete(r.of, caller)
	}
}
