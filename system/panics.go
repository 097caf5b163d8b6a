package system

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/raysys/raysys"
)

// panicLines is how many panics a second are logged with their stack: a function that panics on every item of a large
// job would fill the log with copies of one stack.
const panicLines = 5

// panics logs the panics of user code on the node where they happen. The node that submitted the work gets the error;
// this log is for the operator of the worker.
type panics struct {
	log *zap.Logger

	mu      sync.Mutex // guards the rest
	second  int64      // in which lines were written
	lines   int        // in that second
	omitted int        // since the last line
}

// happened logs a panic; it is core.Job.Panicked.
func (p *panics) happened(work string, err error) {
	now := time.Now().Unix()
	p.mu.Lock()
	if p.second != now {
		p.second, p.lines = now, 0
	}
	if p.lines == panicLines {
		p.omitted++
		p.mu.Unlock()
		return
	}
	p.lines++
	omitted := p.omitted
	p.omitted = 0
	p.mu.Unlock()
	fields := []zap.Field{zap.String("work", work), plainError(err)}
	if omitted > 0 {
		fields = append(fields, zap.Int("omitted", omitted))
	}
	logStack(p.log, zap.ErrorLevel, "user code panicked", err, fields...)
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
