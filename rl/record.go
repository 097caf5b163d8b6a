package rl

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/raysys/raysys/rl/internal/events"
)

// record keeps the points of a run, writes them to its log, and shows how it goes. It is for one goroutine.
type record struct {
	points   []Point
	log      *os.File     // nil: there is none
	form     form         // of the log
	events   *events.File // nil: there are none
	progress *progress    // nil: nothing is shown
}

// newRecord makes one, and a log where the plan wants one: a new one, or one to which a run that goes on from a point adds. The live line is there from now
// on.
func newRecord(name string, p *Plan, from *Point) (r *record, err error) {
	r = &record{progress: newProgress(name, p, math.NaN()), form: formOf(p.Log)}
	if p.TensorBoard != "" {
		if r.events, err = openEvents(p.TensorBoard, from.Steps); err != nil {
			return nil, fmt.Errorf("Plan.TensorBoard: %w", err)
		}
	}
	if err := r.open(p, from.Steps > 0); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if r.progress != nil {
		r.progress.begin(from)
	}
	return r, nil
}

// openEvents begins a file in a folder. Points of a run that goes on come again from after these steps on.
func openEvents(folder string, steps int) (*events.File, error) {
	if steps == 0 {
		if err := events.SetAside(folder); err != nil {
			return nil, err
		}
	}
	f, err := events.Create(folder)
	if err == nil && steps > 0 {
		if err = f.Restart(time.Now(), steps+1); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, err
}

// random is what random actions return, once that is known.
func (r *record) random(mean float64) {
	if r.progress != nil {
		r.progress.random = mean
	}
}

// open opens the log.
func (r *record) open(p *Plan, goesOn bool) (err error) {
	if p.Log == "" {
		return nil
	}
	if p.Dir != "" {
		if err := os.MkdirAll(p.Dir, 0o777); err != nil {
			return fmt.Errorf("Plan.Dir: %w", err)
		}
	}
	how := os.O_TRUNC
	if goesOn {
		how = os.O_APPEND
	} else if p.kept() {
		if err := setAside(p.Log); err != nil {
			return err
		}
	}
	if r.log, err = os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|how, 0o666); err != nil {
		return err
	}
	if i, err := r.log.Stat(); err == nil && i.Size() > 0 {
		return nil // it has a header
	}
	_, err = r.log.WriteString(r.form.header)
	return err
}

// setAside gives a log that has lines another name: that of an older run is never cut.
func setAside(log string) error {
	if i, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) || err == nil && i.Size() == 0 {
		return nil
	} else if err != nil {
		return err
	}
	ext := filepath.Ext(log)
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.%d%s", strings.TrimSuffix(log, ext), n, ext)
		if _, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(log, aside)
		} else if err != nil {
			return err
		}
	}
}

// add keeps a point. Its line is written whole and at once, so that a run that is killed leaves no part of a line.
func (r *record) add(p Point) error {
	r.points = append(r.points, p)
	if r.progress != nil {
		r.progress.add(&p)
	}
	if r.events != nil {
		if err := r.events.Add(time.Now(), p.Steps, scalars(&p)...); err != nil {
			return fmt.Errorf("Plan.TensorBoard: %w", err)
		}
	}
	if r.log == nil {
		return nil
	}
	_, err := r.log.Write(r.form.line(nil, &p))
	return err
}

// scalars are a point as TensorBoard shows it.
func scalars(p *Point) []events.Scalar {
	return []events.Scalar{
		{Tag: "return/training", Value: p.Return},
		{Tag: "return/evaluated", Value: p.Evaluated},
		{Tag: "loss", Value: p.Loss},
		{Tag: "episodes", Value: float64(p.Episodes)},
		{Tag: "learner/steps", Value: float64(p.LearnerSteps)},
		{Tag: "learner/age", Value: float64(p.Age)},
		{Tag: "seconds", Value: p.Seconds},
	}
}

// show draws the live line; it is called far more often than a line can be read.
func (r *record) show(p *Point) {
	if g := r.progress; g != nil {
		if g.skip--; g.skip <= 0 {
			g.drawLine(p)
		}
	}
}

// close ends the live line, the log and the events. A second call does nothing.
func (r *record) close() error {
	if r.progress != nil {
		r.progress.end()
		r.progress = nil
	}
	var err error
	if r.log != nil {
		err = r.log.Close()
	}
	if r.events != nil {
		err = errors.Join(err, r.events.Close())
	}
	r.log, r.events = nil, nil
	return err
}
