package nodelog

import "testing"

// TestFolded: a stack for people has the program's frames, and the number of the others.
func TestFolded(t *testing.T) {
	got := Folded(`goroutine 41 [running]:
runtime/debug.Stack()
	/usr/local/go/src/runtime/debug/stack.go:26 +0x5e
` + module + `/internal/taskengine.(*record).call.func1()
	/src/internal/taskengine/record.go:258 +0x9c
panic({0x6e2a40?, 0x8d5a30?})
	/usr/local/go/src/runtime/panic.go:860 +0x13a
main.deep(...)
	/app/main.go:12
main.init.func1({0x8d9b50, 0xc000122000}, 0x7)
	/app/main.go:20 +0x1d
` + module + `/examples/web.serve(0x7)
	/src/examples/web/main.go:20 +0x1d
` + module + `/internal/taskengine.(*record).call(0xc0001)
	/src/internal/taskengine/record.go:267 +0x85
created by ` + module + `/internal/taskengine.(*Engine).start in goroutine 1
	/src/internal/taskengine/worker.go:41 +0x6f
`)
	want := `goroutine 41 [running]:
	... 3 frames of raysys and the runtime
main.deep(...)
	/app/main.go:12
main.init.func1({0x8d9b50, 0xc000122000}, 0x7)
	/app/main.go:20 +0x1d
` + module + `/examples/web.serve(0x7)
	/src/examples/web/main.go:20 +0x1d
	... 2 frames of raysys and the runtime
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := Folded(""); got != "\n" && got != "" {
		t.Errorf("%q", got)
	}
}
