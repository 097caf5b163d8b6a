package taskengine

import (
	"fmt"
	"reflect"
)

// Difference says in what two recordings of a task, as Recording.Body has them, differ first; "" where they have the same
// function and argument.
func Difference(recorded, now []byte) string {
	plan, err := recordedPlan()
	if err != nil {
		return err.Error()
	}
	var list [2]recordedTask
	for i, body := range [][]byte{recorded, now} {
		if err := plan.Decode(body, reflect.ValueOf(&list[i]).Elem(), nil); err != nil {
			return fmt.Sprintf("a record that cannot be read: %v", err)
		}
	}
	was, is := &list[0], &list[1]
	if was.Function != is.Function {
		return fmt.Sprintf("the function is %s and was %s", is.Function, was.Function)
	}
	at := 0
	for at < len(was.Arg) && at < len(is.Arg) && was.Arg[at] == is.Arg[at] {
		at++
	}
	if at == len(was.Arg) && at == len(is.Arg) {
		return ""
	}
	return fmt.Sprintf("byte %d of the encoded argument begins %s and was %s", at, excerpt(is.Arg, at), excerpt(was.Arg, at))
}

// excerpt shows a few bytes of an argument.
func excerpt(b []byte, at int) string {
	const few = 8
	rest := b[at:]
	switch {
	case len(rest) == 0:
		return "its end"
	case len(rest) > few:
		return fmt.Sprintf("%x...", rest[:few])
	}
	return fmt.Sprintf("%x", rest)
}
