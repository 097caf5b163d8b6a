package worklog

import (
	"bytes"
	"maps"
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
		if !l.lookAll() {
			return
		}
	}
}

// lookAll looks for plain output for all drivers that ask. It returns false where there are none: then nobody watches any more.
func (l *Lines) lookAll() bool {
	l.mu.Lock()
	asking := map[uint64]*box{}
	for run, b := range l.boxes {
		if b.asked && b.wait != nil {
			asking[run] = b
		}
	}
	if l.watching = len(asking) > 0 && !l.ended; !l.watching {
		l.mu.Unlock()
		return false
	}
	l.mu.Unlock()
	for run, b := range asking {
		l.takePlain(run, b)
	}
	return true
}

// takePlain puts plain output into the box of the sole driver. With several drivers nobody knows whose it is. The file is read without mu, which a slow disk would
// hold from each line that work writes: who has looked meanwhile has put the same lines.
func (l *Lines) takePlain(run uint64, b *box) {
	folder, node := l.cfg.Folder, string(l.cfg.Node)
	l.mu.Lock()
	from, skip := b.from, b.crowded || !l.sole(run)
	l.mu.Unlock()
	var next int64
	var plain [][]byte
	size, omitted := 0, 0
	marks := map[string]uint64{}
	if skip {
		next, _ = end(folder, node)
	} else {
		next, _ = read(folder, node, from, func(line []byte, _ int64) bool {
			m, ok := isMark(line)
			switch {
			case ok:
				marks[m.Output] = m.Mark
			case !isPlain(line):
			case size > maxBox: // the box has no room for it either
				omitted++
			default:
				plain, size = append(plain, bytes.Clone(line)), size+len(line)
			}
			return true
		})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.from != from {
		return
	}
	b.from = next
	maps.Copy(l.kept, marks)
	if sole := l.sole(run); !sole || b.crowded || skip {
		b.crowded = !sole
		return
	}
	for _, line := range plain {
		l.put(b, line, time.Now())
	}
	b.omitted += omitted
}

// isPlain reports whether a line of the file is plain output of the program; see plain.
func isPlain(line []byte) bool {
	return bytes.Contains(line[:min(len(line), 64)], []byte(`,"level":"","msg":`)) && !bytes.HasSuffix(line, []byte(`"output":"`+Supervisor+`"}`))
}

// last answers a driver that ends, once all is kept that this process wrote so far.
func (l *Lines) last(run uint64, b *box) {
	l.takePlain(run, b)
	l.mu.Lock()
	l.marks++
	mark := l.marks
	l.mu.Unlock()
	l.mark(mark)
	tick := time.NewTicker(lookEvery / 50)
	defer tick.Stop()
	for until := time.Now().Add(marked); ; <-tick.C {
		l.takePlain(run, b)
		l.mu.Lock()
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
