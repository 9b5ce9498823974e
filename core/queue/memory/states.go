package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
)

// keepState is how long a state is kept that nobody asks for: its job was cancelled while it was
// suspended.
const keepState = board.MaxKeep

// States is a queue in memory whose states of jobs are also on disk: after a restart
// the first lease of a job has its last state. All methods are safe for concurrent use.
//
// A state is on disk before its Save returns, and before the queue knows of the ack that brings it.
// States of acks outlive the process; the file system decides whether they outlive a power cut. A
// state is removed when its job ends.
type States struct {
	*Queue
	dir string

	mu        sync.Mutex
	found     map[core.JobID]bool      // on disk since before this process, and not handed out yet
	suspended map[string]map[int]Begun // by run and index: jobs that are suspended and have a file with what they wait for
	leased    map[core.JobID]heldLease
}

// heldLease describes the lease of a job that was handed out.
type heldLease struct {
	token, seq uint64
	attempt    int
}

// NewStates puts q before the states in dir, which no other process may use meanwhile.
func NewStates(q *Queue, dir string) (*States, error) {
	s := &States{Queue: q, dir: dir, found: map[core.JobID]bool{}, suspended: map[string]map[int]Begun{}, leased: map[core.JobID]heldLease{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("states of jobs: %w", err)
	}
	runs, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("states of jobs: %w", err)
	}
	for _, r := range runs {
		if err := s.poll(r.Name()); err != nil {
			return nil, fmt.Errorf("states of jobs: %w", err)
		}
	}
	return s, nil
}

// poll notes the states of a run, and removes those that are old or half written.
func (s *States) poll(name string) error {
	run, err := url.PathUnescape(name)
	if err != nil {
		return nil //nolint:nilerr // none of ours
	}
	folder := filepath.Join(s.dir, name)
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	left := len(files)
	for _, f := range files {
		number, waits := strings.CutSuffix(f.Name(), waitSuffix)
		index, err := strconv.Atoi(number)
		info, infoErr := f.Info()
		if err != nil && strings.HasSuffix(f.Name(), part) || infoErr == nil && time.Since(info.ModTime()) > keepState {
			left--
			if err := os.Remove(filepath.Join(folder, f.Name())); err != nil {
				return err
			}
			continue
		}
		switch job := (core.JobID{Run: run, Index: index}); {
		case err != nil: // none of ours
		case !waits:
			s.found[job] = true
		default:
			b, err := s.readSuspended(job)
			if err != nil {
				return err
			}
			s.noteSuspend(b)
		}
	}
	if left == 0 {
		return os.Remove(folder)
	}
	return nil
}

// Save keeps the state of a leased job, here and in the queue.
func (s *States) Save(ctx context.Context, save queue.Save) error {
	if err := s.Queue.Save(ctx, save); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.leased[save.Job]; !ok || l.token != save.Token || l.seq >= save.Seq {
		return nil // it has ended, or a later one was faster
	}
	if err := s.write(save.Job, save.State, true); err != nil {
		return fmt.Errorf("keep the state of %s: %w: %w", save.Job, core.ErrUnavailable, err)
	}
	s.leased[save.Job] = heldLease{token: save.Token, seq: save.Seq, attempt: s.leased[save.Job].attempt}
	return nil
}

// Turn is the queue's, with the states that were found on disk.
func (s *States) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if err := t.Validate(); err != nil {
		return queue.TurnResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range t.Acks {
		a := &t.Acks[i]
		if s.leased[a.Job].token != a.Token || a.Kind != queue.AckSuspend && a.Kind != queue.AckRetry {
			continue
		}
		err := s.suspend(a)
		if err == nil {
			err = s.write(a.Job, a.State, false)
		}
		if err != nil {
			return queue.TurnResult{}, fmt.Errorf("keep the state of %s: %w: %w", a.Job, core.ErrUnavailable, err)
		}
	}
	res, err := s.Queue.Turn(ctx, t)
	if err != nil {
		return res, err
	}
	for i := range t.Acks {
		a := &t.Acks[i]
		if s.leased[a.Job].token != a.Token {
			continue
		}
		delete(s.leased, a.Job)
		if a.Kind == queue.AckDone {
			s.drop(a.Job)
		}
	}
	s.hand(res.Leases)
	return res, nil
}

// Adopt lists what the session holds, with the states that were found on disk.
func (s *States) Adopt(ctx context.Context, session string) ([]queue.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases, err := s.Queue.Adopt(ctx, session)
	s.hand(leases)
	return leases, err
}

// Cancel ends the run: nobody continues with what is suspended, except with a cleanup.
func (s *States) Cancel(ctx context.Context, run string, reason core.Reason) error {
	if err := s.Queue.Cancel(ctx, run, reason); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owes := func(index int) bool { return queue.Cleans(reason) && s.suspended[run][index].Cleanup }
	folder := filepath.Join(s.dir, url.PathEscape(run))
	files, _ := os.ReadDir(folder)
	for _, f := range files {
		if index, err := strconv.Atoi(strings.TrimSuffix(f.Name(), waitSuffix)); err != nil || !owes(index) {
			_ = os.Remove(filepath.Join(folder, f.Name())) // what stays is forgotten in time
		}
	}
	_ = os.Remove(folder)
	for job := range s.found {
		if job.Run == run && !owes(job.Index) {
			delete(s.found, job)
		}
	}
	for index := range s.suspended[run] {
		if !owes(index) {
			delete(s.suspended[run], index)
		}
	}
	if len(s.suspended[run]) == 0 {
		delete(s.suspended, run)
	}
	return nil
}

// hand gives leases of jobs that were begun before this process what was kept of them, and notes
// their tokens. It needs s.mu.
func (s *States) hand(leases []queue.Lease) {
	for i := range leases {
		l := &leases[i]
		if s.leased[l.Job].token != l.Token {
			s.leased[l.Job] = heldLease{token: l.Token, attempt: l.Attempt}
		}
		s.endWait(l.Job)
		if !s.found[l.Job] {
			continue
		}
		if len(l.State) > 0 { // it was at work since
			delete(s.found, l.Job)
			continue
		}
		if state, err := os.ReadFile(s.file(l.Job)); err == nil && len(state) <= queue.MaxDetail+core.EncryptionRoom {
			l.State = state // found stays: a job that is given back unstarted has it still
		}
	}
}

const part = ".part"

func (s *States) file(job core.JobID) string {
	return filepath.Join(s.dir, url.PathEscape(job.Run), strconv.Itoa(job.Index))
}

// write puts a state in the place of the one before; nothing removes that. It needs s.mu.
func (s *States) write(job core.JobID, state []byte, sync bool) error {
	delete(s.found, job)
	name := s.file(job)
	if len(state) == 0 {
		s.drop(job)
		return nil
	}
	return writeFile(name, state, sync)
}

// writeFile writes a file in the place of the one before.
func writeFile(name string, data []byte, sync bool) error {
	f, err := os.OpenFile(name+part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(name), 0o700); err == nil {
			f, err = os.OpenFile(name+part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(name+part, name)
	}
	if err == nil && sync {
		err = syncFolder(filepath.Dir(name))
	}
	return err
}

func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// drop forgets a state. A file that cannot be removed is harmless: its job is never leased again.
// It needs s.mu.
func (s *States) drop(job core.JobID) {
	delete(s.found, job)
	name := s.file(job)
	if os.Remove(name) == nil {
		_ = os.Remove(filepath.Dir(name)) // the last one of its run
	}
}
