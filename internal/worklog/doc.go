// Package worklog carries what programs write on a node: lines of raysys.Logger, and plain output.
//
//	raysys.Logger ──▶ Lines ──┬──▶ standard error of the node ──pipe──▶ Keeper, in raysys node ──▶ its output
//	                          │                                              └──▶ File, File.old: 8 MiB each
//	                          └──▶ box of the driver ── Take ──▶ Terminal of the driver     │
//	                                     ▲                                                  ├── Read: raysys logs
//	                                     └────────── plain output, of a sole driver ────────┘
//
//	  - [Lines] is a node's part. It has a box for each driver whose work wrote lines here; a driver takes them by a question that
//	    is answered when there are some, and asks again.
//	  - [Keeper] is the part of raysys node: it keeps each line of its program as JSON, and shows it to people or as it came.
//	  - [Mark] is in front of what a node itself writes below raysys node: output that looks like a line of the log stays output.
//	  - [File] is two files, of which the older is replaced when the newer is full. Positions count from the first byte ever
//	    written, so that they hold over that, and over restarts of the program.
//	  - [Terminal] shows lines to the person before a driver, and folds those that several nodes wrote alike.
//
// Invariants:
//
//	a box has at most 1,000 lines for each second and 1 MiB: what is beyond is counted, and the count is shown
//	a batch is kept until the next question acknowledges it  ⇒  a broken connection loses no line
//	a mark on a stream is behind all that was written there before: what a driver's work wrote is shown before the driver ends
package worklog
