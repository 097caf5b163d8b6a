package registry

// Tasks is this node's side of the records of tasks: it sends the changes of one shard together.
type Tasks struct {
	changes gatherer[TaskChange, taskAnswer]
}

// NewTasks returns the records of tasks for the node with registry r.
func NewTasks(r *Registry) *Tasks {
	request := func(list []TaskChange) operation[[]taskAnswer] { return &taskChanges{list} }
	return &Tasks{gatherer[TaskChange, taskAnswer]{reg: r, request: request}}
}

// Change makes one change, together with others. done is called on any goroutine and must not block. Two changes of a
// task may be made in either order, unless the second is asked for when the first is answered.
//
// Its errors: raysys.ErrTooLarge; graindir.ErrUnreadable where a newer node has written the record; those of any
// request to a leader.
func (t *Tasks) Change(ch TaskChange, done func(TaskEntry, error)) {
	if err := ch.check(); err != nil {
		done(TaskEntry{}, err)
		return
	}
	t.add(ch, done)
}

func (t *Tasks) add(ch TaskChange, done func(TaskEntry, error)) {
	t.changes.add(ch, func(a taskAnswer, err error) {
		switch {
		case err != nil:
			done(TaskEntry{}, err)
		case a.err != nil:
			done(TaskEntry{}, a.err)
		case a.again:
			t.add(ch, done)
		case a.Refused && a.Exists && t.outlived(&ch, &a.Record):
			t.changes.reg.cfg.Runner.Later(func() { t.add(ch, done) })
		default:
			done(a.TaskEntry, nil)
		}
	})
}

// outlived reports whether ch was refused for the sake of a submitter which this node knows to be dead: the leader has
// not heard of it yet, and will.
func (t *Tasks) outlived(ch *TaskChange, rec *TaskRecord) bool {
	if ch.key.Named() || ch.kind != taskClaim && (ch.kind != taskEnter || ch.rec.Digest != rec.Digest) {
		return false
	}
	cfg := &t.changes.reg.cfg
	return !cfg.Members.Alive(rec.Submitter) && cfg.Runner.Err() == nil
}
