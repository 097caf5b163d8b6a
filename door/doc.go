// Package door lets programs that are not this one call grains and tasks: over HTTP, with JSON.
//
// A door is a handler in the program's own server. It serves what is marked, and nothing else:
//
//	who, err := door.Tokens("tokens") // lines of NAME TOKEN
//	d, err := door.New(node, door.Callers(who),
//		door.Method(add, "Adds cents to an account, returns the sum."),
//		door.Task(train, "Trains a model."),
//		door.Error(ErrNoMoney, http.StatusPaymentRequired, "not enough money"))
//	mux.Handle("/call/", d)
//
//	client ── POST /call/grain/account/add/alice ──► who may? ──► room? ──► JSON ──► add.Call ──► JSON, or a problem
//
// The requests:
//
//	POST   /call/grain/KIND/METHOD/KEY  calls the method: 200 with its result, 204 where it has none
//	POST   /call/task/NAME              runs the task; a generator's items come as text/event-stream
//	PUT    /call/task/NAME/RUN          starts a run, which outlives its client: 202
//	GET    /call/task/NAME/RUN?wait=30s the run's result: 200, or 202 while it runs
//	DELETE /call/task/NAME/RUN          ends the run, or forgets one that has ended: 204
//	GET    /call/feed/KIND/NAME/KEY     what the grain emits, as text/event-stream; ?last=10 begins with older items
//	GET    /call/openapi.json           what the caller may call
//
// Each name is one segment of the path, escaped; KEY and RUN are all that follows, unescaped once. Proxies change a key
// that is empty, begins or ends with "/", or has "//", "." or ".." between its slashes: the door wants these as ?key=.
//
// Rules:
//
//  1. Without [Callers] the door answers this host alone: the connection and the name in the URL are of loopback, and
//     no proxy has passed the request on.
//  2. The name that [Callers] gives is the caller's. [Caller] returns it in the method, in filters and in what they
//     call. One caller sees neither the runs of another nor the replies under its keys.
//  3. A call with the header Idempotency-Key counts once, in a grains.Durable kind: see raysys.Key. Other calls with
//     one are refused.
//  4. A call has 30 s, or less by the header Raysys-Deadline: 5s. It is cancelled when its client hangs up. A run is
//     not.
//  5. A failure is a problem (RFC 9457): its type is "raysys:" and a word, and "ran" says whether the work may have
//     run: "no", "maybe" or "yes". It has no text of the program but those of [Error], and no key, node or stack. Its
//     id is for raysys get.
//  6. Arguments are read strictly: unknown fields are refused. JavaScript reads no integer beyond 2^53: give int64
//     fields `json:",string"`.
//
// In the code: a mark (mark.go) is a function that may be called, a request (request.go) a question about one, and a
// problem (problem.go) each answer that is none. Runs, streams and the document have a file each; front.go is what
// package door/mcp, which serves the same to agents, asks of a door.
package door
