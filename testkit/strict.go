package testkit

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/codec"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/wire"
)

// strict is the core.Inspector of a Kit: what changes hands is encoded, the other side gets what the bytes decode
// to, and the original is watched.
type strict struct {
	mu      sync.Mutex // guards the rest
	watched []handed
	reports []string
	// collects: there is a sentinel.
	collects bool
}

// handed is a value that was handed over, as it was then.
type handed struct {
	place string
	value reflect.Value // a pointer to the original
	plan  *codec.Plan
	bytes []byte
}

// maxWatched bounds the memory of a long test: beyond it the oldest value is checked and let go.
const maxWatched = 4096

func newStrict() *strict { return &strict{} }

// HandOver implements core.Inspector.
func (s *strict) HandOver(place string, at any) error {
	h, copied, err := recode(place, at)
	if err != nil {
		return err
	}
	if !h.plan.Fixed() { // a value without pointers was copied with the call, so it cannot be changed
		s.watch(h)
	}
	reflect.ValueOf(at).Elem().Set(copied.Elem())
	return nil
}

// Lend implements core.Inspector.
func (s *strict) Lend(place string, at any) (func(), error) {
	h, copied, err := recode(place, at)
	if err != nil {
		return nil, err
	}
	// The copy is what can change. The original may be memory that is gone soon.
	h.value = copied
	reflect.ValueOf(at).Elem().Set(copied.Elem())
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.checkLocked(h)
	}, nil
}

// Fail implements core.Inspector: errors keep between nodes what they keep on a link.
func (s *strict) Fail(err error) error {
	r := wire.NewReader(wire.AppendError(nil, err))
	return wire.ReadError(&r)
}

// recode returns the value that at points to as it is, and a pointer to what comes of it on the other side of the codec.
func recode(place string, at any) (h handed, copied reflect.Value, err error) {
	v := reflect.ValueOf(at).Elem()
	plan, err := codec.PlanOf(v.Type())
	if err != nil {
		return h, copied, fmt.Errorf("%w: %s: %w", raysys.ErrEncode, place, err)
	}
	orig := reflect.New(plan.Type())
	orig.Elem().Set(v)
	var refs []*core.Future
	b, err := plan.Append(nil, orig.Elem(), &refs)
	if err != nil {
		return h, copied, fmt.Errorf("%w: %s: %w", raysys.ErrEncode, place, err)
	}
	copied = reflect.New(plan.Type())
	if err := plan.Decode(b, copied.Elem(), refs); err != nil {
		return h, copied, fmt.Errorf("%w: %s: it does not come back from its own encoding: %w", raysys.ErrEncode, place, err)
	}
	return handed{place, orig, plan, b}, copied, nil
}

func (s *strict) watch(h handed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = append(s.watched, h)
	if h.plan.HasRefs() && !s.collects {
		s.collects = true
		runtime.AddCleanup(&sentinel{}, func(s *strict) { s.letGo() }, s)
	}
	if len(s.watched) > maxWatched {
		s.checkLocked(s.watched[0])
		s.watched[0] = handed{}
		s.watched = s.watched[1:]
	}
}

// sentinel is garbage from its beginning, so that the collector tells when it has run.
type sentinel struct{ _ *sentinel }

// letGo checks the values that hold references, and lets go of them: while they are watched those references are in use. It
// is called after each collection, so that the next one can give references back.
func (s *strict) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collects = false
	s.watched = slices.DeleteFunc(s.watched, func(h handed) bool {
		if h.plan.HasRefs() {
			s.checkLocked(h)
		}
		return h.plan.HasRefs()
	})
}

// changed checks every value still watched and returns all reports. What the program does after this is not seen.
func (s *strict) changed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.watched {
		s.checkLocked(h)
	}
	s.watched = nil
	return s.reports
}

func (s *strict) checkLocked(h handed) {
	var refs []*core.Future
	now, err := h.plan.Append(nil, h.value.Elem(), &refs)
	if err == nil && bytes.Equal(now, h.bytes) {
		return
	}
	was := reflect.New(h.plan.Type())
	if h.plan.Decode(h.bytes, was.Elem(), refs) != nil {
		was = reflect.New(h.plan.Type())
	}
	s.reports = append(s.reports, fmt.Sprintf("the %s was changed after it was handed over: copy what you keep and change\n  was %s\n  is  %s",
		h.place, show(was.Elem()), show(h.value.Elem())))
}

func show(v reflect.Value) string {
	s := fmt.Sprintf("%+v", v.Interface())
	if len(s) > 200 {
		s = s[:200] + "..."
	}
	return s
}
