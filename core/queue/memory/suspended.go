package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// waitSuffix ends the name of the file with what a suspended job waits for. It is written before
// the state that belongs to it, and removed before anybody knows that the suspension ended: what is
// killed in between waits once more with the state before, or continues.
const waitSuffix = ".wait"

// Suspended reads the suspended jobs from the states in dir, for the queue that NewStates gets
// next: they wait on there.
func Suspended(dir string) ([]Begun, error) {
	s, err := NewStates(nil, dir)
	if err != nil {
		return nil, err
	}
	var all []Begun
	for run, jobs := range s.suspended {
		for index := range jobs {
			job := core.JobID{Run: run, Index: index}
			b, err := s.readSuspended(job)
			if err == nil {
				b.State, err = os.ReadFile(s.file(job))
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("states of jobs: %w", err)
			}
			all = append(all, b)
		}
	}
	return all, nil
}

func (s *States) readSuspended(job core.JobID) (b Begun, err error) {
	name := s.file(job) + waitSuffix
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return b, fmt.Errorf("read what job %s waits for, in %s: %w\nhint: rm %[2]s; the job then continues immediately", job, name, err)
	}
	b.Job = job
	return b, nil
}

// suspend keeps what an ack suspends a job for. It needs s.mu.
func (s *States) suspend(a *queue.Ack) error {
	if a.Kind != queue.AckSuspend || a.After <= 0 && a.Event == "" {
		return nil
	}
	b := Begun{Attempts: s.leased[a.Job].attempt - 1, Event: a.Event, Locks: a.KeepLocks, Cleanup: a.Cleanup}
	if a.After > 0 {
		b.Due = time.Now().Add(a.After)
	}
	data, err := json.Marshal(b)
	if err == nil {
		err = writeFile(s.file(a.Job)+waitSuffix, data, false)
	}
	if err == nil {
		b.Job = a.Job
		s.noteSuspend(b)
	}
	return err
}

func (s *States) noteSuspend(b Begun) {
	run := b.Job.Run
	if s.suspended[run] == nil {
		s.suspended[run] = map[int]Begun{}
	}
	s.suspended[run][b.Job.Index] = b
}

// endWait forgets what a job waited for. It needs s.mu.
func (s *States) endWait(job core.JobID) {
	jobs := s.suspended[job.Run]
	if _, waits := jobs[job.Index]; !waits {
		return
	}
	name := s.file(job)
	if os.Remove(name+waitSuffix) == nil {
		_ = os.Remove(filepath.Dir(name)) // the last file of its run
	}
	if delete(jobs, job.Index); len(jobs) == 0 {
		delete(s.suspended, job.Run)
	}
}

// woken forgets the waits of the run's jobs that waited for event. It needs s.mu.
func (s *States) woken(run, event string) {
	for index, b := range s.suspended[run] {
		if b.Event == event {
			s.endWait(core.JobID{Run: run, Index: index})
		}
	}
}

// Signal ends the suspension of the run's jobs that wait for event.
func (s *States) Signal(ctx context.Context, run, event string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken(run, event)
	return s.Queue.Signal(ctx, run, event)
}

// SignalJob ends the suspension of one job that waits for event.
func (s *States) SignalJob(ctx context.Context, job core.JobID, event string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, waits := s.suspended[job.Run][job.Index]; waits && b.Event == event {
		s.endWait(job)
	}
	return s.Queue.SignalJob(ctx, job, event)
}

// Dismiss ends the run's jobs that wait for event.
func (s *States) Dismiss(ctx context.Context, run, event string, reason core.Reason) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken(run, event)
	return s.Queue.Dismiss(ctx, run, event, reason)
}
