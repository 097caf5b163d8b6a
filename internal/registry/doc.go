// Package registry keeps what outlives a node of the cluster: where each grain is, its State, which nodes have an
// object, and how to run a task whose submitter is dead. The records lie in shards; each shard has one leader, which every node asks.
//
//	Registry at the asker                              Registry at the leader of the shard
//
//	Locate, Load, Change, ... ──▶ ask ═ KindRegistry ═▶ Serve ──▶ leader (actor) ──▶ shardlog.Shard ──▶ log
//	      ▲                        │ ▲                              │   ▲                 │
//	      │              no leader │ │ leaders or connections       │   └── committed ────┘
//	      │                        ▼ │ changed, or 20 ms later      │
//	      │                      parked, at most 60 s               │
//	      └────────────────────────── answer ◀══════════════════════┘
//
// Its nouns:
//
//   - A [Registry] is one node's side: it asks the leaders of shards, and leads the shards that it is given (Lead,
//     StepDown).
//   - An operation is one thing that a leader can be asked to do. Each is a type with a file of its own: its question,
//     its answer, and what the leader does. A request is an operation with its asker.
//   - A leader is the actor around one shard. It decides by the shard's table and proposes batches; what is committed
//     comes back to it as a message.
//   - A placement says on which node a grain is; its version is the grain's token. A [Record] says who owns an object
//     and at which nodes, its locations, the bytes are. Placements are under "g/", States under "s/", objects under
//     "o/", names under "n/"; of durable grains, counters under "d/", replies under "c/", and graindir.Side records
//     under the letters of their families; tasks under "t/", by run and id; placement groups under "p/"; what is due at
//     a time under "r/" (package due); which grains are always on under "a/".
//   - A [TaskRecord] has the recipe of a task to which other nodes than its submitter's refer, its submitter, and its
//     outcome. Its attempt counts the submitters. When the submitter dies another node claims the task: of all that
//     wait for it, the first.
//   - [Tasks] is a node's side of the records of tasks. It sends the changes of one shard together.
//   - The [Directory] is a node's side of the records of objects. It sends the changes of one shard together, and
//     resends updates, which are changes without a waiter, until a leader acknowledges them.
//   - Reaping removes dead nodes from the records. A leader reaps when a node dies, and each new leader reaps once. The
//     files of a record stay: they are entered by the names of nodes, which may come back. The record of a task goes
//     when nobody has claimed it 30 s after the death, or after the next leader began; a detached one stays.
//   - A sleeper is a grain that is always on and has no placement on a living node. Its leader has a worker call it.
//   - [Members] is what the registry needs to know of the cluster.
//
// The operations:
//
//	operation  question                  answer              who may ask                       outcome unknown
//	locate     which grain, what node    place               every node                        asked again
//	confirm    which grain               place, or none      every node                        asked again
//	release    token, new node or none   place, or none      the node of the placement         asked again
//	load       token, names              data and ETags      the node of the placement         asked again
//	save       token, name, ETag, data   ETag                the node of the placement         the asker reads the State
//	restore    token, names              States, replies     the node of the placement         asked again
//	commit     token, version, turns     version             the node of the placement         the asker restores the counter
//	changes    changes of one shard      entries             every node: own copies, any name  asked again
//	tasks      changes of one shard  entries             every node                        asked again
//	find       key, version seen         entry               every node                        asked again
//	group      verb, key, record         entry               every node                        asked again
//	dues       changes of one shard, or page  records        every node                        asked again
//
// A node whose lease is out asks for nothing but release, and leads nothing: its leaders refuse. One whose electors do
// not answer may have been replaced: its leaders commit an empty batch before a locate, confirm, find or group.
//
// Invariants (rules C19, C20, C22):
//
//	Token, ETag, shardlog.Version     three types; a token is the version of a placement, an ETag that of a State, neither stands for the other
//	a placement on a living node   is moved by release alone; locate returns it
//	load, save, restore, commit    only under the current token, from the node that has it: else raysys.ErrMoved, and nothing was done
//	release with a new node        one batch on condition of the token; the version of the new record is the new token
//	release                        the same, but that a token which is not current releases nothing, without an error
//	save                           one batch with two conditions: the token of the placement, the ETag of the State
//	commit                         one batch with two conditions: the token of the placement, the version of the grain's counter
//	load                           answered after an empty batch was committed: this node led the shard after it read
//	restore                        reads behind an empty batch that was committed
//	an answer of load, restore     has about pageBytes; for the rest the asker asks again
//	grain and State                one shard; a batch lies in one shard
//	a grain that is always on      has its record "a/" from the batch of its first placement to a release that says so
//	errNotLeader                   the next leader is asked; nothing was done, or it was a locate, changes or tasks, which may be done twice
//	tasks                          each change in one batch on condition of the version of its record; without a change, answered after an empty batch
//	an attempt of a task           has one submitter; the next begins when that one is dead
//	an outcome of a task           is stored once, by the submitter of the current attempt; a claim keeps it
//	a request                      is answered once; in one place at a time: parked, on a connection, or with a leader
//	one update per key             on its way at a time, so that the leader hears the newest last
//	a dead node                    is entered in no record by what it asked before it died
package registry
