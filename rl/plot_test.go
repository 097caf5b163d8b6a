package rl_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/raysys/raysys/rl"
)

// plotted draws runs, and looks whether the file is XML whose places are numbers within the drawing.
func plotted(t *testing.T, runs ...*rl.Run) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plot.svg")
	if err := rl.Plot(file, runs...); err != nil {
		t.Fatal(err)
	}
	svg := read(t, file)
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return svg
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		start, _ := token.(xml.StartElement)
		for _, a := range start.Attr {
			for _, field := range strings.FieldsFunc(a.Value, func(r rune) bool { return r == ',' || r == ' ' }) {
				x, err := strconv.ParseFloat(field, 64)
				if strings.Contains(field, "NaN") || strings.Contains(field, "Inf") || err == nil && (x < 0 || x > 1000) {
					t.Errorf("%s of a %s is %s", a.Name.Local, start.Name.Local, a.Value)
				}
			}
		}
	}
}

// texts are all that is written in a plot.
func texts(svg string) (list []string) {
	for _, m := range regexp.MustCompile(`>([^<\n]+)</text>`).FindAllStringSubmatch(svg, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestPlot(t *testing.T) {
	golden(t, "catch.svg", plotted(t, catchRun(1, 1, 4_000), catchRun(2, 1, 5_000), catchRun(3, 1, 6_000), catchRun(1, 16, 3_000), catchRun(3, 16, 3_500)))
	file := filepath.Join(t.TempDir(), "one.svg")
	if err := catchRun(1, 1, 4_000).Plot(file); err != nil {
		t.Fatal(err)
	}
	golden(t, "one.svg", read(t, file))
}

// straight is a run whose returns, of training and evaluated, are these.
func straight(name string, seed uint64, returns ...float64) *rl.Run {
	r := &rl.Run{Name: name, Env: rl.Spec{Name: "Line"}, Seed: seed}
	for i, y := range returns {
		r.Points = append(r.Points, rl.Point{Steps: 100 * (i + 1), Return: y, Evaluated: y})
	}
	return r
}

func TestOddPlots(t *testing.T) {
	every := straight("every", 1)
	for i := range 100_000 {
		every.Points = append(every.Points, rl.Point{Steps: i + 1, Return: math.Sin(float64(i) / 1e4), Evaluated: nan})
	}
	low := straight("low", 1, 1, 2, 3)
	low.RandomReturn, low.Goal = -9e299, 9e299
	threshold := straight("pole", 1, 20, 100, 480)
	threshold.Env.Threshold = 475
	both := straight("other", 2, 3, 5)
	both.Env.Name, both.Goal, both.RandomReturn = "Other", 4, 1
	never := straight("never", 1)
	never.RandomReturn = nan
	for _, c := range []struct {
		name        string
		runs        []*rl.Run
		has, hasNot []string // texts
		shapes      string   // polylines, polygons, circles
	}{
		{"no points", []*rl.Run{never}, []string{"never: 1 actor, seed 1", "Without a line: no return was measured."}, []string{"random NaN"}, "0 0 0"},
		{"only random", []*rl.Run{straight("none", 1)}, []string{"random 0", "0"}, nil, "0 0 0"},
		{"one point", []*rl.Run{straight("x", 1, 5)}, []string{"mean return of fresh episodes", "100"}, nil, "0 0 1"},
		{"one NaN", []*rl.Run{straight("x", 1, nan)}, nil, []string{"NaN"}, "0 0 0"},
		{"a hole", []*rl.Run{straight("x", 1, 1, nan, 3)}, []string{"mean return of training", "Dots: fresh episodes."}, nil, "1 0 2"},
		{"negative", []*rl.Run{straight("x", 1, -1500, -800, -153)}, []string{"-1500", "-1000", "-500", "0"}, nil, "1 0 0"},
		{"flat", []*rl.Run{straight("x", 1, 0, 0, 0)}, []string{"-1.0", "0", "1.0", "random 0"}, nil, "1 0 0"},
		{"flat and high", []*rl.Run{straight("x", 1, 1e17, 1e17+16), straight("x", 2, 1e17, 1e17)}, nil, nil, "1 1 0"},
		{"millions", []*rl.Run{straight("x", 1, 2e6, 3.5e6)}, []string{"1M", "2M", "3M"}, nil, "1 0 0"},
		{"very large", []*rl.Run{low}, []string{"-5e+299", "0", "goal 9e+299"}, nil, "1 0 0"},
		{"infinite", []*rl.Run{straight("x", 1, 1, math.Inf(1), math.MaxFloat64, 2)}, nil, []string{"+Inf"}, "1 0 2"},
		{"tiny", []*rl.Run{straight("x", 1, 1e-9, 2e-9)}, []string{"1e-09", "2e-09"}, nil, "1 0 0"},
		{"many points", []*rl.Run{every}, []string{"0", "20k", "100k"}, nil, "1 0 0"},
		{"threshold", []*rl.Run{threshold}, []string{"threshold 475", "random 0"}, []string{"goal 475"}, "1 0 0"},
		{"two environments", []*rl.Run{threshold, both}, []string{"Line, Other", "Line threshold 475", "Other goal 4", "Other random 1"}, nil, "2 0 0"},
		{"seeds", []*rl.Run{straight("x", 9, 1, 2), straight("x", 3, 2, 3), straight("y", 9, 1, 2)}, []string{"x: 1 actor, seeds 3, 9", "y: 1 actor, seed 9"}, nil, "2 1 0"},
		{"names", []*rl.Run{straight("a <b> & \"c\"\x00", 1, 1, 2)}, []string{"a &lt;b&gt; &amp; &#34;c&#34;\uFFFD: 1 actor, seed 1"}, nil, "1 0 0"},
		{"a long name", []*rl.Run{straight(strings.Repeat("é", 1000), 1, 1, 2)}, []string{strings.Repeat("é", 89) + "…"}, nil, "1 0 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			svg := plotted(t, c.runs...)
			if len(svg) > 20_000 {
				t.Errorf("it has %d bytes", len(svg))
			}
			found := "\n" + strings.Join(texts(svg), "\n") + "\n"
			for _, s := range c.has {
				if !strings.Contains(found, "\n"+s+"\n") {
					t.Errorf("%q is not there, but%s", s, found)
				}
			}
			for _, s := range c.hasNot {
				if strings.Contains(found, s) {
					t.Errorf("%q is there:%s", s, found)
				}
			}
			n := func(shape string) int { return strings.Count(svg, "<"+shape+" ") }
			if got := fmt.Sprint(n("polyline"), n("polygon"), n("circle")); got != c.shapes {
				t.Errorf("lines, bands and dots are %s, want %s", got, c.shapes)
			}
		})
	}
}

// TestLabels: labels of lines that are near each other do not cover each other.
func TestLabels(t *testing.T) {
	r := straight("x", 1, 0, 1)
	r.Goal, r.RandomReturn = 0.5, 0.499
	svg := plotted(t, r)
	var y [2]float64
	for i, label := range []string{"goal 0.5", "random 0.499"} {
		m := regexp.MustCompile(`y="([0-9.]+)"[^>]*>` + label + `<`).FindStringSubmatch(svg)
		if m == nil {
			t.Fatalf("there is no %q in\n%s", label, svg)
		}
		y[i], _ = strconv.ParseFloat(m[1], 64)
	}
	if y[1]-y[0] < 12 {
		t.Errorf("the labels are at %v, want the lower one 12 pixels lower", y)
	}
}

// TestBand: at each step the line is the mean of the seeds, and the band has the lowest and the highest; a run that has ended stays where it was.
func TestBand(t *testing.T) {
	a, b := straight("x", 1, 0, 10, 20, 30), straight("x", 2, 10) // at 100 to 400 steps
	b.Points = append(b.Points, rl.Point{Steps: 300, Return: 30, Evaluated: 30})
	a.RandomReturn, b.RandomReturn = 10, 20 // 15
	svg := plotted(t, a, b)
	numbers := func(pattern string) (list []float64) {
		m := regexp.MustCompile(pattern).FindStringSubmatch(svg)
		if m == nil {
			t.Fatalf("there is no %s in\n%s", pattern, svg)
		}
		for _, s := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' }) {
			x, err := strconv.ParseFloat(s, 64)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, x)
		}
		return list
	}
	band := numbers(`<polygon points="([^"]+)"`)
	zero, ten := band[len(band)-1], band[1] // the lowest and the highest at 100 steps
	unit := (zero - ten) / 10
	is := func(what string, got []float64, want ...float64) {
		t.Helper()
		for i, w := range want {
			if y := (zero - got[2*i+1]) / unit; len(got) != 2*len(want) || math.Abs(y-w) > 0.05 {
				t.Errorf("%s: number %d of %d is %.2f, want %v", what, i, len(got)/2, y, w)
			}
		}
	}
	is("band", band, 10, 20, 30, 30, 30, 20, 10, 0)
	is("mean", numbers(`<polyline points="([^"]+)"`), 5, 15, 25, 30)
	is("random", append(numbers(`y1="([0-9.]+)"[^>]+stroke-dasharray="0.1`), numbers(`y2="([0-9.]+)"[^>]+stroke-dasharray="0.1`)...), 15)
}

func TestPlotErrors(t *testing.T) {
	if err := rl.Plot(filepath.Join(t.TempDir(), "x.svg")); err == nil {
		t.Error("a plot of no runs was drawn")
	}
	if err := rl.Plot(filepath.Join(t.TempDir(), "x.svg"), nil); err == nil {
		t.Error("a nil run was drawn")
	}
	file := filepath.Join(t.TempDir(), "missing", "x.svg")
	if err := rl.Plot(file, straight("x", 1, 1)); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), file) {
		t.Errorf("the error is %v, want one that names %s", err, file)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("there is a file all the same")
	}
}
