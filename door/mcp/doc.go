// Package mcp lets agents call what a door serves, by the Model Context Protocol:
//
//	mux.Handle("/call/", d)
//	mux.Handle("/mcp", mcp.Handler(d))
//
// Who may call what, the bounds and the failures are those of the door. Each mark that has a text is a tool, whose
// title is the name of the function. In the name of the tool what many clients refuse is an underscore:
//
//	account.add   account_add    key, arg, idempotency_key
//	train         train          arg; ends after 30 s, as each call
//	              train_start    run, arg: the run goes on without its client
//	              train_result   run, wait
//	rows          rows           arg, wait: a generator's first 100 items
//	room.lines    room_lines     key, last, wait: a feed's
//
// A result is structured, as {"result": ...}, or {"items": [...], "ended": true} of a stream. A failure has isError,
// and the problem as its text.
package mcp
