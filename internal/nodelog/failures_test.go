package nodelog

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestFailureLog: of a burst of failures a few lines are written, and each is counted in one of them.
func TestFailureLog(t *testing.T) {
	const n = 40_000
	core, logs := observer.New(zap.WarnLevel)
	l := NewFailures(zap.New(core), zap.WarnLevel, "failure nobody looked at")
	begin := time.Now()
	for range n {
		l.Happened("fail", errors.New("no"))
	}
	l.Close()
	l.Close()
	told := 0
	for _, e := range logs.All() {
		f := e.ContextMap()
		if _, ok := f["work"]; ok {
			told++
		}
		omitted, _ := f["omitted"].(int64)
		told += int(omitted)
	}
	if told != n {
		t.Errorf("%d of %d failures are told of", told, n)
	}
	if most := (failureLines + 1) * (int(time.Since(begin).Seconds()) + 2); logs.Len() > most {
		t.Errorf("%d lines, want %d at most", logs.Len(), most)
	}
}
