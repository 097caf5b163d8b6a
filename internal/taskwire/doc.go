// Package taskwire is the frames in which nodes send each other tasks and their results. It only encodes: the task engine decides what
// is sent, and when.
//
//	sender:    AppendTasks, then for each task AppendHead, its argument, AppendSlot      ══ KindTasks ══►
//	receiver:  ReadTask, the argument, ReadSlot
//	           flags, a load where ResultLoad says so, then AppendSlot and a status      ══ KindTaskResult ══►
//
// The nouns:
//
//   - A [Head] is what travels with a task beyond its function, its sequence and its argument.
//   - A slot is the number by which the sender knows a task that is away.
//   - A status says what became of a task: [ResultValue] and those beside it.
//
// The bytes never change, since nodes of the next version send and read them; what is added goes to the end of a head.
package taskwire
