package core

// Waiter is one subscription to a future. It is embedded in what waits.
type Waiter struct {
	next   *Waiter
	future *Future
	to     Resolved
	alarm  Alarm
	length uint32 // of the list of its future while it is the first there; it may be less than that
	lapsed uint32 // of those in the list that wait no more
}

// Resolved is called once when a future settles, on the goroutine that settled it; it must not block.
type Resolved interface{ Resolved(w *Waiter) }

// Lapsing is a Resolved that may stop waiting before the future settles. It calls Lapse of the future then.
type Lapsing interface {
	Resolved
	// Lapsed reports whether it waits no more.
	Lapsed() bool
	// Swept is called once the future has let go of it: Resolved is not called any more. It must not block.
	Swept()
}

// minSwept is from how many waiters on a list is swept.
const minSwept = 16

// Lapse notes that a waiter of c has stopped waiting. Once that is so of more than half, c lets go of them: it may settle
// much later, or never.
func (c *Future) Lapse() {
	c.mu.Lock()
	if c.word.Load()&flagWaiting == 0 || c.waiters == nil { // what stands in waiters then is no subscription
		c.mu.Unlock()
		return
	}
	first := c.waiters
	if first.lapsed++; first.length < minSwept || first.lapsed <= first.length/2 {
		c.mu.Unlock()
		return
	}
	var swept []Lapsing
	length := uint32(0)
	for p := &c.waiters; *p != nil; {
		w := *p
		l, ok := w.to.(Lapsing)
		if !ok || !l.Lapsed() {
			length++
			p = &w.next
			continue
		}
		*p, w.next = w.next, nil
		if w.alarm.Ring != nil {
			c.up.job.Runtime.ClearAlarm(&w.alarm)
		}
		swept = append(swept, l)
	}
	if c.waiters != nil {
		c.waiters.length, c.waiters.lapsed = length, 0
	}
	c.mu.Unlock()
	for _, l := range swept {
		l.Swept()
	}
}

// Subscribe arranges that to.Resolved(w) is called when c settles. It returns false, and does nothing, when c has
// settled already.
func (c *Future) Subscribe(w *Waiter, to Resolved) bool {
	open, _ := c.subscribe(w, to, nil)
	return open
}

// subscribe is Subscribe. again reports whether many, which is to or nil, is among the last that subscribed before.
func (c *Future) subscribe(w *Waiter, to Resolved, many *counter) (open, again bool) {
	w.future, w.to, w.alarm.Ring = c, to, nil
	c.mu.Lock()
	for {
		old := c.word.Load()
		if old&phaseMask >= phaseReady {
			c.mu.Unlock()
			return false, false
		}
		if c.word.CompareAndSwap(old, old|flagWaiting) {
			break
		}
	}
	c.pushLocked(w)
	if many != nil {
		for last, n := w.next, 0; last != nil && n < 8 && !again; last, n = last.next, n+1 {
			k, ok := last.to.(*counter)
			again = ok && k == many
		}
	}
	// Waiters look at deadlines: work without a waiter needs no alarm. The alarm is set under mu, so that wake, which
	// takes mu first, sees it.
	if at := c.work.Expires(); at != 0 {
		w.alarm.At = at
		w.alarm.Ring = c.expire
		c.up.job.Runtime.SetAlarm(&w.alarm)
	}
	c.mu.Unlock()
	if f, ok := c.work.(lazy); ok {
		f.wanted()
	}
	return true, again
}

// pushLocked makes w the first of the list.
func (c *Future) pushLocked(w *Waiter) {
	w.length, w.lapsed = 1, 0
	if first := c.waiters; first != nil {
		w.length, w.lapsed = first.length+1, first.lapsed
	}
	w.next, c.waiters = c.waiters, w
}

// Expect is Subscribe for a future that no other goroutine knows yet.
func (c *Future) Expect(w *Waiter, to Resolved) {
	if c.work.Expires() != 0 {
		c.Subscribe(w, to)
		return
	}
	w.future, w.to = c, to
	c.waiters, w.length = w, 1
	c.word.Store(c.word.Load() | flagWaiting)
}

// Unsubscribe takes w back. Resolved may have been called, or be under way, when it returns false.
func (c *Future) Unsubscribe(w *Waiter) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := &c.waiters; *p != nil; p = &(*p).next {
		if *p == w {
			if *p = w.next; p == &c.waiters && w.next != nil {
				w.next.length, w.next.lapsed = w.length, w.lapsed
			}
			w.next = nil
			if w.alarm.Ring != nil {
				c.up.job.Runtime.ClearAlarm(&w.alarm)
			}
			return true
		}
	}
	return false
}

// Future returns the future that w subscribed to.
func (w *Waiter) Future() *Future { return w.future }
