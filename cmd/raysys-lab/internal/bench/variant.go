package bench

// variant is one of the ways in which a row is measured: on one CPU, with three nodes. The worst stands on top, all are
// in the details.
type variant struct {
	name string
	measured
	rate bool // its value is one, and no p50
}

// figures returns the details of a variant.
func (v *variant) figures() map[string]any {
	// As in a Result, the p50 is the median of the rounds.
	d := map[string]any{"p50_us": figures(v.value), "limit_value": figures(v.limitValue)}
	if v.rate {
		d["value"], d["p50_us"] = d["p50_us"], figures(us(v.latency.quantile(0.5)))
	}
	if v.limitValue != 0 {
		d["ratio"] = figures(v.value / v.limitValue)
	}
	if v.latency != nil && v.latency.n > 0 {
		d["p99_us"], d["max_us"] = figures(us(v.latency.quantile(0.99))), figures(us(v.latency.max))
		d["latency_count"] = v.latency.n
	}
	if len(v.rounds) > 0 {
		d["rounds"] = figuresOf(v.rounds)
	}
	if len(v.limits) > 0 {
		d["limit_rounds"] = figuresOf(v.limits)
	}
	return d
}

// worst returns the variant for which bad is largest, with all of them in its details.
func worst(variants []*variant, bad func(*variant) float64) measured {
	all := map[string]any{}
	top := variants[0]
	for _, v := range variants {
		all[v.name] = v.figures()
		if bad(v) > bad(top) {
			top = v
		}
	}
	m := top.measured
	m.detail = map[string]any{"variants": all, "worst": top.name}
	return m
}
