package nodelog

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/raysys/raysys"
)

// failureLines is how many failures of a kind are logged in a second, with their stack: a function that fails for every
// item of a large job would fill the log with copies of one line.
const failureLines = 10

// Failures logs failures of user code that are nobody's to return: panics on the node where they happen, which are for
// the operator of the worker, and what nobody has looked at.
type Failures struct {
	log   *zap.Logger
	level zapcore.Level
	event string

	mu      sync.Mutex // guards the rest
	second  int64      // in which lines were written
	lines   int        // in that second
	omitted int        // since the last line
}

// NewFailures logs each failure as event, at that level.
func NewFailures(log *zap.Logger, level zapcore.Level, event string) *Failures {
	return &Failures{log: log, level: level, event: event}
}

// Happened logs a failure; it is core.Job.Panicked or Unseen.
func (l *Failures) Happened(work string, err error) {
	now := time.Now().Unix()
	l.mu.Lock()
	if l.second != now {
		l.second, l.lines = now, 0
	}
	if l.lines == failureLines {
		l.omitted++
		l.mu.Unlock()
		return
	}
	l.lines++
	omitted := l.omitted
	l.omitted = 0
	l.mu.Unlock()
	fields := []zap.Field{zap.String("work", work), plainError(err)}
	if omitted > 0 {
		fields = append(fields, zap.Int("omitted", omitted))
	}
	logStack(l.log, l.level, l.event, err, fields...)
}

// Close logs how many failures there were since the last line.
func (l *Failures) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.omitted > 0 {
		l.log.Log(l.level, l.event, zap.Int("omitted", l.omitted))
		l.omitted = 0
	}
}

// logStack logs with the stack of the panic that err came from, where there is one, in the entry's own place for a
// stack: there it is readable.
func logStack(log *zap.Logger, level zapcore.Level, event string, err error, fields ...zap.Field) {
	if ce := log.Check(level, event); ce != nil {
		ce.Stack = string(raysys.Stack(err))
		ce.Write(fields...)
	}
}

// plainError is the error's text alone: zap.Error would print a TaskError with %+v too, and so its stack as one long
// line.
func plainError(err error) zap.Field { return zap.Error(textOnly{err}) }

// textOnly hides Format.
type textOnly struct{ error }
