package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// maxRestarted is how many hosts an answer names that begin with the first step.
const maxRestarted = 100

// refuseFrom refuses from and else where they mean nothing.
func refuseFrom(asked api.Retry, isCommand bool) error {
	switch {
	case asked.Else != "" && asked.From == "":
		return fmt.Errorf("else says what becomes of hosts that cannot go on at the failed step, and needs from: %w", core.ErrInvalid)
	case asked.From != "" && isCommand:
		return fmt.Errorf("the run is of a command, which has one step: retry it without from: %w", core.ErrInvalid)
	}
	return nil
}

// goOn makes the hosts of a retry go on at the step that failed. Those that cannot begin with the
// first step, or refuse the retry.
func (s *Server) goOn(ctx context.Context, by caller, before *launch.Launch, jobs []ledger.JobHost, again retry, restart bool) error {
	run, l := before.Run.ID, again.launch
	index := make(map[string]int, len(jobs))
	for i, j := range jobs {
		index[j.Host] = i
	}
	boots, resumes := s.boots(by.scope), make(map[string]launch.Resume, len(l.Hosts))
	var cannot []api.Restarted
	for _, h := range l.Hosts {
		past, err := s.pastOf(ctx, core.JobID{Run: run, Index: index[h.Name]}, h, boots)
		if err != nil {
			return err
		}
		var resume launch.Resume
		why := errors.New("the playbook has other steps or params since")
		if bytes.Equal(before.Playbook.Work(), l.Playbook.Work()) {
			resume, why = launch.ResumeOf(l.Playbook, past, time.Now())
		}
		if why != nil {
			cannot = append(cannot, api.Restarted{Host: h.Name, Reason: why.Error()})
			continue
		}
		resumes[h.Name] = resume
	}
	if len(cannot) > 0 && !restart {
		return cannotGoOn(run, len(l.Hosts), cannot)
	}
	again.differs.Resumed, again.differs.Restarted = len(resumes), cannot[:min(len(cannot), maxRestarted)]
	return l.SetResume(run, resumes)
}

func cannotGoOn(run string, hosts int, cannot []api.Restarted) error {
	var shown []string
	for _, c := range cannot[:min(len(cannot), 3)] {
		shown = append(shown, c.Host+": "+c.Reason)
	}
	return fmt.Errorf("retry run %s: %d of %d hosts cannot go on at the failed step: %s: %w\nhint: --else restart begins with the first step on these hosts",
		run, len(cannot), hosts, strings.Join(shown, "; "), core.ErrConflict)
}

// pastOf reads what is on record of a host of an earlier run.
func (s *Server) pastOf(ctx context.Context, id core.JobID, h core.Host, boots func(context.Context, core.Host) (string, error)) (launch.Past, error) {
	job, detail, err := s.cfg.Ledger.JobDetail(ctx, ledger.AllTenants(), id)
	if err != nil {
		return launch.Past{}, err
	}
	past := launch.Past{Run: id.Run, Recorded: job.Recorded}
	if len(detail) > 0 {
		if past.Result, err = launch.DecodeResult(detail); err != nil {
			return launch.Past{}, fmt.Errorf("host %s of run %s: %w", h.Name, id.Run, err)
		}
	}
	past.Result.Outcome, past.Result.Attempt = job.Outcome, job.Attempt
	if past.Result.Facts != nil {
		past.Boot, err = boots(ctx, h)
	}
	return past, err
}

// boots returns the boot id that a host has by now, as far as it is on record. The record is read
// once, for the first host.
func (s *Server) boots(scope ledger.Scope) func(context.Context, core.Host) (string, error) {
	type key struct{ tenant, host string }
	var of map[key]string
	return func(ctx context.Context, h core.Host) (string, error) {
		if of == nil {
			all, err := s.cfg.Ledger.AllFacts(ctx, scope)
			if err != nil {
				return "", err
			}
			of = make(map[key]string, len(all))
			for _, f := range all {
				of[key{f.Tenant, f.Host}] = f.Boot
			}
		}
		return of[key{h.Customer, h.Name}], nil
	}
}
