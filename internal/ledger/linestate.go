package ledger

// Ever is Ledger.Ever.
func (l *Line) Ever(n Need) Shortage { return l.ledger.Ever(n) }

// Total is the CPU of the node, in thousandths.
func (l *Line) Total() int64 { return l.ledger.total.CPU }

// changed is called when n was taken or given back.
func (l *Line) changed(n *Need) {
	if !n.IsCPU(n.CPU) {
		l.report.Store(nil)
	}
}

// Report is Ledger.Report in the form that encode gives it, "" when all is free. It is made again only after a change.
func (l *Line) Report(encode func(*Report) string) string {
	if s := l.report.Load(); s != nil {
		return *s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := ""
	if r := l.ledger.Report(&l.owed); r != nil {
		s = encode(r)
	}
	l.report.Store(&s)
	return s
}

// Free is Ledger.Free.
func (l *Line) Free() Need {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Free()
}

// Spares is Ledger.Spares.
func (l *Line) Spares() []Spare {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ledger.Spares()
}

// Devices are the UUIDs of what h has, which may be nil.
func (l *Line) Devices(h *Hold) []string {
	if h == nil {
		return nil
	}
	return l.Of(h).ledger.Devices(*h)
}
