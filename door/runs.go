package door

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/taskengine"
)

// run is a task with the name door/CALLER/TASK/RUN, the first two escaped: see raysys.Detached.
type run struct {
	core.FoundTask // once it is found
	name           string
	names          core.TaskNames
	wait           time.Duration // that the client asks for
}

// maxWait is the longest that a question for a run waits.
const maxWait = time.Minute

// serveRun starts a run, reads it or ends it.
func serveRun(x *request) error {
	limit, err := x.limit()
	if err = cmp.Or(x.takes("GET, PUT, DELETE", "application/json"), err); err != nil {
		return err
	}
	wait, err := time.ParseDuration("0" + x.query.Get("wait")) // which leaves no sign
	if err != nil || wait > maxWait {
		return badRequest("wait: give a duration such as 30s, up to %v", maxWait)
	}
	r := run{wait: wait, name: "door/" + url.PathEscape(x.caller) + "/" + url.PathEscape(x.mark.function) + "/" + x.key}
	if n := raysys.MaxTaskName - len(r.name) + len(x.key); len(x.key) > n || x.key == "" {
		return badRequest("the name of a run has 1 to %d bytes here: caller and task leave no more", max(n, 0))
	}
	t, _, err := core.TurnOf(x.ctx)
	if err != nil {
		return err
	}
	if !taskengine.CanName(t.Job()) {
		return refusal(internal, "no-runs", "the node of this door keeps no runs: its lineage is not durable")
	}
	client, cancel := x.ctx, context.CancelFunc(nil)
	x.ctx, cancel = context.WithTimeout(client, limit)
	defer cancel()
	r.names = t.Job().Tasks
	r.FoundTask, err = r.names.LookupTask(x.ctx, r.name)
	switch {
	case err == nil:
		x.setID(core.LinkTo(r.Future))
	case x.ctx.Err() != nil:
		return fmt.Errorf("%w: %w", raysys.ErrDeadline, err)
	}
	switch {
	case x.r.Method == http.MethodPut && (err == nil || errors.Is(err, raysys.ErrNotFound)):
		return startRun(x, &r)
	case err != nil:
		return err
	case x.r.Method == http.MethodGet:
		return readRun(x, &r, client)
	}
	return endRun(x, &r)
}

// startRun starts the run, unless it is there.
func startRun(x *request, r *run) error {
	p, err := x.pack()
	if err != nil {
		return err
	}
	p.Opts.Key, p.Opts.Detached, p.Opts.Name = taskengine.ForGood, true, r.name
	if r.Future == nil {
		link := taskengine.GoPacked(x.ctx, &p) // returns when it is recorded
		x.setID(link)
		c := core.FutureOf(link)
		if _, ended := errors.AsType[*raysys.TaskError](c.Failure()); c.Failed() && !ended {
			return c.Failure()
		}
	} else if r.Digest != taskengine.DigestOf(&p) {
		return raysys.ErrNameTaken
	}
	at := x.r.URL.EscapedPath()
	if x.query.Has("key") {
		at += "?key=" + url.QueryEscape(x.key)
	}
	x.w.Header().Set("Location", at)
	x.send(http.StatusAccepted, "", nil)
	return nil
}

// readRun answers with the result of the run.
func readRun(x *request, r *run, client context.Context) error {
	v := reflect.New(x.mark.res.Type)
	if !r.Over {
		ctx, cancel := context.WithTimeout(client, r.wait)
		defer cancel()
		x.ctx = ctx
	}
	c, err := r.As(x.mark.res)
	if err == nil {
		err = core.GetInto(x.ctx, core.LinkTo(c), x.mark.res, v.UnsafePointer())
	}
	switch {
	case err == nil:
		return x.answer(v)
	case !r.Over && x.ctx.Err() != nil && !c.Failed():
		x.send(http.StatusAccepted, "", nil)
		return nil
	}
	return err
}

// endRun ends the run, or forgets one that has ended.
func endRun(x *request, r *run) error {
	if r.Over {
		if err := r.names.ForgetTask(x.ctx, r.name); err != nil {
			return err
		}
	} else {
		core.CancelOf(core.LinkTo(r.Future))
	}
	x.send(http.StatusNoContent, "", nil)
	return nil
}
