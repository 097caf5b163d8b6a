package worklog

import (
	"bytes"
	"time"
)

// lookEvery is how often a node looks for plain output while a driver waits for lines.
const lookEvery = 200 * time.Millisecond

// watch has plain output go to the driver, as long as one asks.
func (l *Lines) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.cfg.Done: // the node waits for what Run has started before it closes l
			return
		}
		l.mu.Lock()
		asked := l.lookAll()
		if !asked || l.ended {
			l.watching = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// lookAll looks for plain output for all drivers that ask, and reports whether there are any.
func (l *Lines) lookAll() (asked bool) {
	for run, b := range l.boxes {
		if b.asked && b.wait != nil {
			asked = true
			l.look(run, b)
		}
	}
	return asked
}

// look puts plain output into the box of the sole driver. With several drivers nobody knows whose it is.
func (l *Lines) look(run uint64, b *box) {
	folder, node := l.cfg.Folder, string(l.cfg.Node)
	if sole := l.sole(run); !sole || b.crowded {
		b.from, _ = end(folder, node)
		b.crowded = !sole
		return
	}
	b.from, _ = read(folder, node, b.from, func(line []byte, _ int64) bool {
		if m, ok := isMark(line); ok {
			l.kept[m.Output] = m.Mark
		} else if isPlain(line) {
			l.put(b, bytes.Clone(line), time.Now())
		}
		return true
	})
}

// isPlain reports whether a line of the file is plain output of the program; see plain.
func isPlain(line []byte) bool {
	return bytes.Contains(line[:min(len(line), 64)], []byte(`,"level":"","msg":`)) && !bytes.HasSuffix(line, []byte(`"output":"`+Supervisor+`"}`))
}

// last answers a driver that ends, once all is kept that this process wrote so far.
func (l *Lines) last(run uint64, b *box) {
	l.mu.Lock()
	l.look(run, b)
	l.marks++
	mark := l.marks
	l.mu.Unlock()
	l.mark(mark)
	tick := time.NewTicker(lookEvery / 50)
	defer tick.Stop()
	for until := time.Now().Add(marked); ; <-tick.C {
		l.mu.Lock()
		l.look(run, b)
		kept := l.kept["stdout"] >= mark && l.kept["stderr"] >= mark
		over := kept || b.wait == nil || l.ended || time.Now().After(until)
		if over && b.wait != nil {
			l.answer(b)
		}
		l.mu.Unlock()
		if over {
			return
		}
	}
}
