package front

import "net/http"

// Function is what a door serves.
type Function struct {
	Name, Text       string // KIND.METHOD, or the name of a task
	Path             string // of its requests; the key of a grain and the name of a run go as ?key=
	Argument, Result any    // JSON schemas, nil where there is none; of a stream Result is that of an item
	Grain, Stream    bool   // a method, a feed: the grain has a key; a feed, a generator
	Keyed            bool   // an Idempotency-Key may be given
	ReadOnly         bool
	Idempotent       bool
}

// Door is a door.
type Door interface {
	http.Handler // of the requests for functions
	Functions() []Function
	MaxResult() int // bytes

	// Admit lets a client in as the door lets in its own, unless it answers with a problem, and returns nil. What the
	// client then asks for, by requests with the context of the one that is returned, counts as this one request.
	Admit(w http.ResponseWriter, r *http.Request) (admitted *http.Request, leave func())

	// May reports whether the client may call a function; look: for the result of a run.
	May(r *http.Request, function int, look bool) bool
}

// Of returns a *door.Door as a Door. Package door sets it.
var Of func(door http.Handler) Door
