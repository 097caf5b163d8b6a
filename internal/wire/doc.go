// Package wire is the vocabulary of frames between nodes: their kinds and classes, and how values, references, errors,
// turns and the names of incarnations are encoded in them. It sends nothing.
//
// Who sends the kinds of frames, and takes them:
//
//	internal/mesh          turns, votes, answers        Open, Shut, CancelTurn, Ballot, Answer
//	internal/taskengine    tasks                        Tasks, TaskResult(s), TaskCancel
//	internal/grainengine   grain calls                  Call(s), CallResult(s), CallCancel
//	internal/refs          references                   Await, Drop, Borrow, Held
//	internal/registry      operations on records        Registry
//	internal/transfer      chunks of objects            Pull, Pulled, Ask, Chunk, PullEnd
//	internal/objects       operations on objects        Keep
//	system                 the rest of a node           Load, Probe, Admin, Actor
//
// What a peer is, each layer within the next:
//
//	link.Peer              one connection: frames in classes, bodies, silence
//	└─ mesh.Peer           one incarnation: its functions, its turns (Scopes, Turns), what it is asked and has not answered
//	   └─ refs.Session     the references over the connection; this is a [Peer], and an [Exporter]
//
// The nouns:
//
//   - A [Kind] says what a frame carries, a [Class] what it may wait for.
//   - A scope is the number under which a peer knows a turn of this node. [Scopes] are the turns that were told to a peer, [Turns]
//     those that a peer has told.
//   - A slot is the number of something of which a peer will tell the end: a task, a call, a question. [Slots] is a table of
//     them. A number contains a generation, so that a late answer finds nothing.
//   - A [Reader] reads a frame, [References] append and read the references in one.
//
// Rules: a decoder trusts no length and never panics; what it returns does not alias its input, which the link reuses;
// no wall clock travels, only remaining time.
package wire
