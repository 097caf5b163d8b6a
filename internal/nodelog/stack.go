package nodelog

import (
	"fmt"
	"strings"

	"go.uber.org/zap/zapcore"

	"github.com/raysys/raysys/internal/printable"
)

// module is the path of this module, with which the names of its functions begin.
const module = "github.com/raysys/raysys"

// Folded is a stack for people: of the frames that are not the program's it has the number.
func Folded(stack string) string {
	var b strings.Builder
	if stack == "" {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(stack, "\n"), "\n")
	skipped := 0
	tell := func() {
		if skipped > 0 {
			fmt.Fprintf(&b, "\t... %d frames of raysys and the runtime\n", skipped)
		}
		skipped = 0
	}
	for i := 0; i < len(lines); i++ {
		where := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t")
		if where && foreign(lines[i]) {
			skipped++
			i++ // its file
			continue
		}
		tell()
		b.WriteString(lines[i] + "\n")
		if where {
			i++
			b.WriteString(lines[i] + "\n")
		}
	}
	tell()
	return b.String()
}

// foreign reports whether the frame of a stack is of the engine or of Go's runtime.
func foreign(frame string) bool {
	frame = strings.TrimPrefix(frame, "created by ")
	for _, p := range []string{"panic(", "runtime.", "runtime/debug.", module + "/internal/", module + "/tasks.", module + "/grains.", module + "/system.", module + "."} {
		if strings.HasPrefix(frame, p) {
			return true
		}
	}
	return false
}

// folding folds the stacks of what it writes, and makes texts printable: the encoder for terminals writes both as they are.
type folding struct{ zapcore.Core }

func (f folding) With(fields []zapcore.Field) zapcore.Core { return folding{f.Core.With(fields)} }

func (f folding) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if f.Enabled(e.Level) {
		return ce.AddCore(e, f)
	}
	return ce
}

func (f folding) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message, e.Stack = printable.Behind(e.Message), strings.Join(printable.Lines(Folded(e.Stack)), "\n")
	return f.Core.Write(e, fields)
}
