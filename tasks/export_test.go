package tasks

// Waiting returns the number of drivers that wait for room in the queue.
func (e *Engine) Waiting() int { return int(e.waiting.Load()) }

// QueuedBytes returns the bytes counted for arguments that are queued.
func (e *Engine) QueuedBytes() int { return int(e.bytes.Load()) }
