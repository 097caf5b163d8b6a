package rl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// record keeps the points of a run, writes them to its log, and shows how it goes. It is for one goroutine.
type record struct {
	points   []Point
	log      *os.File  // nil: there is none
	form     form      // of the log
	progress *progress // nil: nothing is shown
}

// newRecord makes one, and a log where the plan wants one: a new one, or one to which a run that goes on adds. random is the mean return of random
// actions.
func newRecord(name string, p *Plan, random float64, goesOn bool) (r *record, err error) {
	r = &record{progress: newProgress(name, p, random), form: formOf(p.Log)}
	if p.Log == "" {
		return r, nil
	}
	if p.Dir != "" {
		if err := os.MkdirAll(p.Dir, 0o777); err != nil {
			return nil, fmt.Errorf("Plan.Dir: %w", err)
		}
	}
	how := os.O_TRUNC
	if goesOn {
		how = os.O_APPEND
	} else if p.kept() {
		if err := setAside(p.Log); err != nil {
			return nil, err
		}
	}
	if r.log, err = os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|how, 0o666); err != nil {
		return nil, err
	}
	if i, err := r.log.Stat(); err == nil && i.Size() > 0 {
		return r, nil // it has a header
	}
	if _, err := r.log.WriteString(r.form.header); err != nil {
		r.log.Close()
		return nil, err
	}
	return r, nil
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
	if r.log == nil {
		return nil
	}
	_, err := r.log.Write(r.form.line(nil, &p))
	return err
}

// show draws the live line; it is called far more often than a line can be read.
func (r *record) show(p *Point) {
	if g := r.progress; g != nil {
		if g.skip--; g.skip <= 0 {
			g.look(p)
		}
	}
}

// close ends the live line and the log. A second call does nothing.
func (r *record) close() error {
	if r.progress != nil {
		r.progress.end()
		r.progress = nil
	}
	log := r.log
	if r.log = nil; log == nil {
		return nil
	}
	return log.Close()
}
