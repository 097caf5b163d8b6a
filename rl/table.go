package rl

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
)

// form is how points are written: a line each, after a header.
type form struct {
	header string
	line   func(to []byte, p *Point) []byte // appends it
}

var (
	formCSV  = form{"steps,episodes,learner_steps,seconds,return,evaluated,loss,age\n", csvLine}
	formJSON = form{"", jsonLine}
)

// formOf is that of a file, at whose name Plan.complete has looked.
func formOf(file string) form {
	if filepath.Ext(file) == ".csv" {
		return formCSV
	}
	return formJSON
}

// WriteCSV writes the points of the run as a table with a header. What was not measured is an empty cell.
func (r *Run) WriteCSV(w io.Writer) error { return formCSV.write(w, r.Points) }

// WriteJSONL writes each point of the run as a line of JSON, as Point.MarshalJSON says.
func (r *Run) WriteJSONL(w io.Writer) error { return formJSON.write(w, r.Points) }

func (f *form) write(w io.Writer, points []Point) error {
	table := []byte(f.header)
	for i := range points {
		table = f.line(table, &points[i])
	}
	_, err := w.Write(table)
	return err
}

func csvLine(to []byte, p *Point) []byte {
	to = fmt.Appendf(to, "%d,%d,%d", p.Steps, p.Episodes, p.LearnerSteps)
	for _, x := range []float64{p.Seconds, p.Return, p.Evaluated, p.Loss} {
		if to = append(to, ','); finite64(x) {
			to = strconv.AppendFloat(to, x, 'g', -1, 64)
		}
	}
	return fmt.Appendf(to, ",%d\n", p.Age)
}

func jsonLine(to []byte, p *Point) []byte {
	line, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers alone, of which JSON has each or a null
	}
	return append(append(to, line...), '\n')
}

type plainPoint Point // without methods

// jsonPoint has pointers where a number may be one that JSON has no word for.
type jsonPoint struct {
	*plainPoint
	Seconds   *float64 `json:"seconds"`
	Return    *float64 `json:"return"`
	Evaluated *float64 `json:"evaluated"`
	Loss      *float64 `json:"loss"`
}

// MarshalJSON writes null for a number that was not measured.
func (p Point) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonPoint{(*plainPoint)(&p), orNull(p.Seconds), orNull(p.Return), orNull(p.Evaluated), orNull(p.Loss)})
}

// UnmarshalJSON reads what MarshalJSON has written: null is NaN.
func (p *Point) UnmarshalJSON(data []byte) error {
	j := jsonPoint{plainPoint: (*plainPoint)(p)}
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	p.Seconds, p.Return, p.Evaluated, p.Loss = orNaN(j.Seconds), orNaN(j.Return), orNaN(j.Evaluated), orNaN(j.Loss)
	return nil
}

func orNull(x float64) *float64 {
	if !finite64(x) {
		return nil
	}
	return &x
}

func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}
