package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Report is what a run says at its end.
type Report struct {
	Seed         uint64  `json:"seed"`
	MeanReturn   float64 `json:"mean_return"`   // over 100 fresh episodes by the most probable action
	RandomReturn float64 `json:"random_return"` // over 100 episodes of a random policy
	Steps        int     `json:"steps"`         // environment steps learned from
	Seconds      float64 `json:"seconds"`       // from the first rollout to the evaluation
	StepsPerS    float64 `json:"steps_per_s"`   // Steps over Seconds, so updates and evaluations count
	RequestsPerS float64 `json:"requests_per_s"`
	P50us        float64 `json:"p50_us"` // microseconds from a call to its action
	P99us        float64 `json:"p99_us"`
}

func newReport(seed uint64, l Learned, s Served) Report {
	return Report{
		Seed:       seed,
		MeanReturn: round(l.MeanReturn, 2), RandomReturn: round(l.RandomReturn, 2), // whole numbers over 100
		Steps:        l.Steps,
		Seconds:      round(l.Took.Seconds(), 3),
		StepsPerS:    round(float64(l.Steps)/l.Took.Seconds(), 0),
		RequestsPerS: round(float64(s.Requests)/s.Took.Seconds(), 0),
		P50us:        micros(s.P50), P99us: micros(s.P99),
	}
}

func micros(d time.Duration) float64 { return round(float64(d)/float64(time.Microsecond), 2) }

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

// Write writes r to w in form f: one JSON object, or three lines for a person.
func (r Report) Write(w io.Writer, f Form) error {
	if f == JSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := fmt.Fprintf(w, `mean return  %.1f over %d fresh episodes, a random policy's is %.1f
learned      %s steps in %.2f s, %s steps/s
served       %s requests/s, p50 %.1f us, p99 %.1f us
`,
		r.MeanReturn, measuredEpisodes, r.RandomReturn,
		grouped(float64(r.Steps)), r.Seconds, grouped(r.StepsPerS),
		grouped(r.RequestsPerS), r.P50us, r.P99us)
	return err
}

// grouped writes a whole number with a comma between groups of three digits.
func grouped(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
