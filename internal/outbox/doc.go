// Package outbox is what a durable grain has sent, and what has not arrived yet. The grain engine stores messages with
// the commit of the turn that sent them, and removes them with a later commit; what a message is, is its kind's
// affair.
//
//	turn ──► Message ──► its commit ──► Sender.Add ──► Box.Next ──► Config.Send ──► arrived ──► a commit removes it
//	restart ──► ReadMessage ──► Sender.Restore ──────────▲               └─► not: again after a pause ─┐
//	                                                     └─────────────────────────────────────────────┘
//
// The nouns:
//
//   - A [Message] is one thing to deliver, with its number; its record is what the turn has packed.
//   - A line are the messages to one receiver, in the order of their numbers.
//   - A [Box] has the lines of one grain: rules and bounds, no I/O and no lock.
//   - A [Sender] has a Box with its lock, and delivers from memory.
//   - [Floors] are what a durable receiver has taken, by sender, so that none counts twice.
//
// Invariants:
//
//	a number       is given once, ever: it is that of the turn and the place in it
//	a message      is sent when it is stored, and stays stored until it has arrived: it arrives at least once
//	a line         keeps its order: what stands behind one that did not arrive goes behind it again
//	a fault        holds up its own line alone; a receiver of which no answer comes gives its place to another
//	a message that cannot be read holds up its line, or all that stands behind it where its receiver is not known
//	what is kept   is bounded: [Max] messages of [MaxBytes], beyond which calls are refused before their turn
package outbox
