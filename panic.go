package raysys

import (
	"fmt"
	"io"
)

// PanicError is the cause inside a TaskError when user code panicked.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Is makes errors.Is(err, ErrPanic) true.
func (e *PanicError) Is(target error) bool { return target == error(ErrPanic) }

// Unwrap returns the panic's value where that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Stack returns the stack of the panic that err came from, nil when there was none. It looks through everything that err
// wraps: the work that panicked may be far below the work that failed because of it.
func Stack(err error) (stack []byte) {
	defer func() {
		if recover() != nil { // a method Unwrap
			stack = nil
		}
	}()
	looks := 1000
	return stackOf(err, &looks)
}

// stackOf looks at so many errors at most: an error may wrap itself.
func stackOf(err error, looks *int) []byte {
	if *looks--; *looks < 0 {
		return nil
	}
	switch e := err.(type) {
	case *TaskError:
		if e == nil {
			return nil
		}
		if len(e.Stack) > 0 {
			return e.Stack
		}
		return stackOf(e.Err, looks)
	case interface{ PanicStack() []byte }: // of a package that recovers panics of the user's code, such as rl.EnvError
		return e.PanicStack()
	case interface{ Unwrap() error }:
		return stackOf(e.Unwrap(), looks)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if s := stackOf(inner, looks); s != nil {
				return s
			}
		}
	}
	return nil
}

// Format makes %+v print the stack of the panic below the text.
func (e *TaskError) Format(s fmt.State, verb rune) {
	if verb == 'v' && s.Flag('+') {
		io.WriteString(s, e.Error())
		if stack := Stack(e); stack != nil {
			fmt.Fprintf(s, "\n\n%s", stack)
		}
		return
	}
	type plain TaskError // has no Format, and no Error
	if verb == 'v' && s.Flag('#') {
		fmt.Fprintf(s, "%#v", (*plain)(e))
		return
	}
	fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
}
