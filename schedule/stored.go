package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	times, counts, seen := []int64{r.Set, r.Next, r.From, r.Over, r.Last, r.Ended}, []uint64{r.Missed, r.Since}, map[int64]bool{0: true}
	for _, f := range r.Running[:min(len(r.Running), 2*maxRunning)] {
		if seen[f.Due] {
			bad("two firings at %d, or one at no time", f.Due)
		}
		seen[f.Due] = true
		times, counts = append(times, f.Due, f.First, f.Retry, int64(f.Tries), int64(f.Died)), append(counts, f.Missed)
	}
	for _, n := range r.Left {
		counts = append(counts, n)
	}
	if r.Next != 0 && r.From > r.Next && r.when.at == 0 {
		bad("the next time, %d, is before %d", r.Next, r.From)
	}
	if slices.Min(times) < 0 || slices.Max(times) > maxTime {
		bad("a time is beyond the years 1970 to 2261, or a number of tries below 0: from %d to %d", slices.Min(times), slices.Max(times))
	}
	if len(r.Authors) > 2*maxAuthors {
		bad("%d grains have edited it", len(r.Authors))
	}
	if slices.Max(counts) > maxLeft || len(r.Left) > 2*len(reasons) || len(r.Running) > 2*maxRunning {
		bad("%d times were missed, %d since the last firing, for %d reasons; %d firings wait or run", r.Missed, r.Since, len(r.Left), len(r.Running))
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
