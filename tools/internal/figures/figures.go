package figures

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// load is the machine's load of the last minute.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Fields(string(b))[0]
}

// Median is the middle of a list, or the mean of the two in the middle.
func Median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Ratio is the median of the turns, the least and the most.
func Ratio(of, to []float64) string {
	l := make([]float64, len(of))
	for i := range of {
		l[i] = of[i] / to[i]
	}
	return fmt.Sprintf("%.2f, %.2f to %.2f", Median(l), slices.Min(l), slices.Max(l))
}

// Write puts a table into a document, between the lines that name the tool.
func Write(file, tool, made string) error {
	begin, end := fmt.Sprintf("<!-- begin %s -->\n", tool), fmt.Sprintf("<!-- end %s -->", tool)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %s and %s: put them where the table belongs", file, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(file, []byte(before+begin+made+end+after), 0o644)
}
