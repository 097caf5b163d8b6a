package simulate

// kind is what happens.
type kind uint8

const (
	submits kind = iota // a submitter's next tasks come
	arrives             // a frame of tasks at a worker
	ends                // a task on its worker
	answers             // the outcome of a task at its submitter
	ticks               // a worker's timer of reports
	reports             // a worker's load at all submitters
	looks               // a worker at the tasks of others that wait there
	retries             // a submitter looks at peers again that refused
	words               // a load at one submitter, to which it was owed
	settles             // a worker tells more of those to which it owes word of room
	asks                // a submitter asks for room, since its tasks wait
	asked               // a worker, by a submitter
	tells               // a worker's load, soon after a GPU was taken or has become free
	moves               // a worker looks where there is room for what waits there for a GPU
	dies                // a worker
	noticed             // a death, by all submitters
)

// event is 40 bytes; a run of ten million tasks has about forty million of them, of which some ten thousand exist at a time.
type event struct {
	at    int64 // nanoseconds
	order uint64
	node  int32 // to which it happens
	from  int32
	task  int32
	with  int32 // arrives: the frame of tasks; answers: the load of from, -1 for none; else unused
	kind  kind
	given bool // answers: the task was given back
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.order < o.order }

// events is a heap with four children to a node, which touches less memory than one with two.
type events struct {
	list  []event
	count uint64 // added so far: events of one time happen in the order in which they were added
}

func (q *events) add(e event) {
	q.count++
	e.order = q.count
	q.list = append(q.list, e)
	i := len(q.list) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&q.list[up]) {
			break
		}
		q.list[i] = q.list[up]
		i = up
	}
	q.list[i] = e
}

// next takes the first event; false when there is none.
func (q *events) next() (first event, ok bool) {
	if len(q.list) == 0 {
		return first, false
	}
	first = q.list[0]
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	if len(q.list) == 0 {
		return first, true
	}
	i := 0
	for {
		least := -1
		for c := 4*i + 1; c <= 4*i+4 && c < len(q.list); c++ {
			if least < 0 || q.list[c].before(&q.list[least]) {
				least = c
			}
		}
		if least < 0 || !q.list[least].before(&last) {
			break
		}
		q.list[i] = q.list[least]
		i = least
	}
	q.list[i] = last
	return first, true
}

// fifo is a queue of tasks.
type fifo struct {
	list   []int32
	head   int
	popped int64
}

func (f *fifo) len() int { return len(f.list) - f.head }

func (f *fifo) push(task int32) { f.list = append(f.list, task) }

func (f *fifo) pop() (task int32) {
	task = f.list[f.head]
	f.head++
	f.popped++
	if f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	} else if f.head >= 1024 && f.head > len(f.list)/2 {
		f.list = f.list[:copy(f.list, f.list[f.head:])]
		f.head = 0
	}
	return task
}
