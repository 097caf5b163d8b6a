package core

import (
	"fmt"
	"reflect"
	"runtime"
)

// Bounds of an error that a program returns. What is beyond them costs every errors.Is and errors.As its time, or the stack.
const (
	maxErrorDepth = 100
	maxErrorNodes = 1000
	maxErrorText  = 16 << 10
)

// Sound returns err if errors.Is, errors.As and Error can be called on it, and else an error with its text that says why
// they cannot: a typed nil, a method that panics, an error that wraps itself or too many others. A program's error goes
// through here once, where it enters; what is behind trusts it.
func Sound(err error) error {
	if err == nil {
		return nil
	}
	s := soundness{doing: "Unwrap"}
	fault := s.check(err)
	if fault == "" {
		return err
	}
	return &unsoundError{text: s.textOf(err), fault: fault}
}

// SoundPanic is Sound for the value of a panic.
func SoundPanic(p any) any {
	if err, ok := p.(error); ok {
		return Sound(err)
	}
	return p
}

type unsoundError struct{ text, fault string }

func (e *unsoundError) Error() string {
	return e.text + " (errors.Is and errors.As do not look into this error: " + e.fault + ")"
}

type soundness struct {
	path  []error // what wraps the error that is looked at
	nodes int
	doing string // the method that is called
	loops bool
}

// check returns what is wrong with err, "" where nothing is.
func (s *soundness) check(err error) (fault string) {
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Sprintf("its method %s panics: %s", s.doing, panicked(p))
		}
	}()
	if fault = s.visit(err); fault == "" {
		s.doing = "Error"
		_ = err.Error()
	}
	return fault
}

// soundProbe is an error that no program knows.
type soundProbe struct{}

func (*soundProbe) Error() string { return "probe" }

func (s *soundness) visit(err error) string {
	if s.nodes++; s.nodes > maxErrorNodes {
		return fmt.Sprintf("it wraps more than %d others", maxErrorNodes)
	}
	if e, ok := err.(interface{ Is(error) bool }); ok {
		s.doing = "Is"
		e.Is((*soundProbe)(nil))
	}
	if e, ok := err.(interface{ As(any) bool }); ok {
		s.doing = "As"
		e.As(new(*soundProbe))
	}
	s.doing = "Unwrap"
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return s.below(err, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if fault := s.below(err, inner); fault != "" {
				return fault
			}
		}
	}
	return ""
}

// below visits what err wraps.
func (s *soundness) below(err, inner error) string {
	if inner == nil {
		return ""
	}
	own, ok := err.(interface{ Is(error) bool })
	failure := ok && own.Is(ErrOwnFailure) // of work: those of works that call each other may be deep
	if !failure {
		if len(s.path) >= maxErrorDepth {
			return fmt.Sprintf("it wraps others %d deep", maxErrorDepth)
		}
		s.path = append(s.path, err)
	}
	if reflect.TypeOf(inner).Kind() == reflect.Pointer {
		for _, outer := range s.path {
			if reflect.TypeOf(outer).Kind() == reflect.Pointer && outer == inner {
				s.loops = true
				return "it wraps itself"
			}
		}
	}
	fault := s.visit(inner)
	if !failure {
		s.path = s.path[:len(s.path)-1]
	}
	return fault
}

// textOf is the text of an error that is not sound. That of one that wraps itself is not asked for: such a method Error
// may call itself until the stack is full, which ends the process.
func (s *soundness) textOf(err error) (text string) {
	if s.loops {
		return fmt.Sprintf("an error of type %T", err)
	}
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("an error of type %T", err)
			if v := reflect.ValueOf(err); v.Kind() == reflect.Pointer && v.IsNil() {
				text = fmt.Sprintf("a nil %T as an error", err)
			}
		}
	}()
	if text = err.Error(); len(text) > maxErrorText {
		text = text[:maxErrorText] + " ... (cut)"
	}
	return text
}

// panicked is the value of a panic in words. Values with methods of their own are not trusted again.
func panicked(p any) string {
	switch p := p.(type) {
	case string:
		return p
	case runtime.Error:
		return p.Error()
	}
	return fmt.Sprintf("%T", p)
}
