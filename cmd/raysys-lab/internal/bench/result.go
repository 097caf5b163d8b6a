package bench

import (
	"encoding/json"
	"io"
	"maps"
	"math"
)

// Result is one measured row. Its JSON form is fixed: programs compare runs with it.
type Result struct {
	Row   string  `json:"row"`
	Tier  Tier    `json:"tier"`
	Value float64 `json:"value"` // a rate per second, or the p50 in microseconds, or bytes, as Unit says
	Unit  Unit    `json:"unit"`
	// Durations in microseconds, of the operation that latency_of in the details names. Nil where nothing is timed.
	P50 *float64 `json:"p50_us"`
	P99 *float64 `json:"p99_us"`
	Max *float64 `json:"max_us"`
	// Limit names the raw limit, and LimitValue is its figure in Unit.
	Limit      string  `json:"limit"`
	LimitValue float64 `json:"limit_value"`
	// Ratio is Value over LimitValue: above 1 is better than raw for a rate, worse than raw for latency and bytes. It is 1, and
	// detail says so, where the work of the limit is not done at all.
	Ratio  float64        `json:"ratio"`
	Detail map[string]any `json:"detail"`
}

func (r Row) result(m measured) Result {
	res := Result{
		Row: r.Name, Tier: r.Tier, Unit: r.Unit, Value: figures(m.value), Limit: m.limit, LimitValue: figures(m.limitValue),
		Detail: map[string]any{"operation": r.Operation},
	}
	if m.limitValue != 0 {
		res.Ratio = figures(m.value / m.limitValue)
	}
	if m.same {
		res.Ratio = 1
	}
	if m.latency != nil && m.latency.n > 0 {
		p50 := figures(us(m.latency.quantile(0.5)))
		if r.Unit == Latency {
			p50 = res.Value // the median of the rounds' medians, and not of all durations: one figure, said once
		}
		p99, most := figures(us(m.latency.quantile(0.99))), figures(us(m.latency.max))
		res.P50, res.P99, res.Max = &p50, &p99, &most
		res.Detail["latency_of"] = m.latencyOf
		res.Detail["latency_count"] = m.latency.n
	}
	if len(m.rounds) > 0 {
		res.Detail["rounds"] = figuresOf(m.rounds)
	}
	if len(m.limits) > 0 {
		res.Detail["limit_rounds"] = figuresOf(m.limits)
	}
	maps.Copy(res.Detail, m.detail)
	return res
}

// figures keeps four significant figures: more would only show the noise of the machine.
func figures(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

func figuresOf(vs []float64) []float64 {
	out := make([]float64, len(vs))
	for i, v := range vs {
		out[i] = figures(v)
	}
	return out
}

// JSON writes results as a list of one object per row.
func JSON(w io.Writer, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(results)
}
