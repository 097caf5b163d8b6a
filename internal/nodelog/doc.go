// Package nodelog makes the logger of a node, and bounds what the node logs of user code that fails.
//
//		New(w, form, level) ──▶ *zap.Logger ──┬── Slog     for packages that come with a node
//		                                      ├── Actors   for the actor system; its Info is Debug here
//		                                      └── Failures with the stack, at most 10 lines a second
//
//	  - [Form] reads RAYSYS_LOG_FORMAT. The terminal form is for people, and its stacks are [Folded]: frames of raysys
//	    and of Go's runtime are counted. The JSON form has the whole stack, for machines.
//	  - [Failures] is a kind of failure. Each failure is in a line of its own, or counted in the next line's field omitted.
//
// Of the rest of the module it knows raysys.Stack alone.
package nodelog
