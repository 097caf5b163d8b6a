package schedule

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/raysys/raysys/internal/due"
)

func decode(data []byte) (r *record, err error) {
	r = &record{}
	if err = json.Unmarshal(data, r); err != nil {
		return r, err
	}
	r.when = r.Spec.When.when()
	if err = r.check(); err != nil {
		return r, err
	}
	sum := uint64(0)
	for _, n := range r.Left {
		sum += n
	}
	if r.Missed > sum {
		r.left(leftUnknown, r.Missed-sum)
	}
	r.Missed = max(r.Missed, sum)
	return r, nil
}

// check says what is wrong with a record, which may be of another version, or of nobody.
func (r *record) check() error {
	err := errors.Join(r.Spec.check(r.when), r.Spec.Work.check())
	bad := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if len(r.Running) > 2*maxRunning {
		bad("%d firings wait or run, at most %d can", len(r.Running), maxRunning)
		return err
	}
	times := []int64{r.Set, r.Next, r.From, r.Over, r.Last, r.Ended}
	seen := map[int64]bool{}
	for _, f := range r.Running {
		times = append(times, f.Due, f.First, f.Retry)
		if seen[f.Due] || f.Due == 0 {
			bad("two firings at %d, or none", f.Due)
		}
		seen[f.Due] = true
		if f.Tries < 0 || f.Died < 0 || f.Missed > maxLeft {
			bad("a firing was tried %d times, with %d dead nodes and %d missed", f.Tries, f.Died, f.Missed)
		}
	}
	if r.Next != 0 && r.From > r.Next && r.when.at == 0 {
		bad("the next time, %d, is before %d", r.Next, r.From)
	}
	for _, t := range times {
		if t < 0 || t > maxTime {
			bad("the time %d ns is beyond the years 1970 to 2261", t)
		}
	}
	for why, n := range r.Left {
		if n > maxLeft {
			bad("%d times were left out (%.20q)", n, why)
		}
	}
	if r.Missed > maxLeft || r.Since > maxLeft || len(r.Left) > 2*len(reasons) {
		bad("%d times were missed, %d since the last firing, for %d reasons", r.Missed, r.Since, len(r.Left))
	}
	return err
}

// maxLeft bounds counts of times, so that sums of them do too: 300 million years of seconds.
const maxLeft = 1 << 53

// encode is the record as the registry stores it; nil where it is over.
func (r *record) encode(in due.Record) (*due.Record, error) {
	if r.Next == 0 && len(r.Running) == 0 {
		return nil, nil
	}
	r.Low = r.low()
	data, err := json.Marshal(r)
	in.Data, in.Function = data, r.Spec.Work.needs()
	return &in, err
}
