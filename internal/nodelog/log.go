package nodelog

import (
	"log/slog"
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"

	"github.com/raysys/raysys/internal/printable"
)

// The forms of the log, for RAYSYS_LOG_FORMAT.
const (
	Terminal = "terminal" // short and coloured, for people
	JSON     = "json"     // an object a line, for machines
)

// Form returns the form that is asked for; for "", the terminal form where standard error is a terminal. For any other
// name ok is false, and the form as for "".
func Form(asked string) (form string, ok bool) {
	switch {
	case asked == Terminal || asked == JSON:
		return asked, true
	case IsTerminal(os.Stderr):
		return Terminal, asked == ""
	}
	return JSON, asked == ""
}

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool {
	i, err := f.Stat()
	return err == nil && i.Mode()&os.ModeCharDevice != 0
}

// New makes the logger of a node, which writes to w in that form.
func New(w zapcore.WriteSyncer, form string, level zapcore.LevelEnabler) *zap.Logger {
	w = escaping{w}
	if form == Terminal {
		conf := zap.NewDevelopmentEncoderConfig()
		conf.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		conf.EncodeLevel = zapcore.CapitalColorLevelEncoder
		conf.ConsoleSeparator = " "
		return zap.New(folding{zapcore.NewCore(zapcore.NewConsoleEncoder(conf), zapcore.Lock(w), level)})
	}
	conf := zap.NewProductionEncoderConfig()
	conf.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(conf), zapcore.Lock(w), level))
}

// escaping escapes what zap's encoders leave in the strings of fields: what does not print from U+007F on.
type escaping struct{ zapcore.WriteSyncer }

func (e escaping) Write(p []byte) (int, error) {
	if _, err := e.WriteSyncer.Write(printable.High(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Actors returns the logger of the actor system, which writes to log. The Info level of protoactor is raysys's Debug.
func Actors(log *zap.Logger) *slog.Logger {
	return slog.New(zapslog.NewHandler(&quiet{log.Core()}, zapslog.WithName("actor")))
}

// Slog returns log as a logger of the standard library.
func Slog(log *zap.Logger) *slog.Logger { return slog.New(zapslog.NewHandler(log.Core())) }

// quiet lowers Info to Debug.
type quiet struct{ zapcore.Core }

func (q *quiet) Enabled(l zapcore.Level) bool {
	if l == zapcore.InfoLevel {
		l = zapcore.DebugLevel
	}
	return q.Core.Enabled(l)
}

func (q *quiet) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Level == zapcore.InfoLevel {
		e.Level = zapcore.DebugLevel
	}
	return q.Core.Check(e, ce)
}

func (q *quiet) With(f []zapcore.Field) zapcore.Core { return &quiet{q.Core.With(f)} }
