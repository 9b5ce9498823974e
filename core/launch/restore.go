package launch

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// runVersion is the version that EncodeRun writes. Restore reads it and all before it.
const runVersion = 1

type encodedRun struct {
	Version int       `json:"version"`
	Run     queue.Run `json:"run"` // without its payload
}

// EncodeRun writes what a run is in the queue, except its snapshot, so that Restore can bring it
// back.
func EncodeRun(r queue.Run) ([]byte, error) {
	r.Payload, r.FinishedJobs = nil, nil
	data, err := json.Marshal(encodedRun{runVersion, r})
	if err != nil {
		return nil, fmt.Errorf("write run %s: %w", r.ID, err)
	}
	return data, nil
}

// Restorer brings launches back. The zero value with Types is ready; its methods are safe for
// concurrent use.
type Restorer struct {
	Types func(name string) (playbooks.Type, bool) // as playbooks.Options.Types

	mu  sync.Mutex
	all map[[sha256.Size]byte]*playbooks.Playbook // of which most runs are
}

// maxBooks is how many parsed playbooks a Restorer keeps: reading one takes longer than all else of
// a run of few hosts.
const maxBooks = 64

// Restore brings back the launch of which a snapshot and what EncodeRun wrote were kept. A playbook
// that this version cannot read any more is core.ErrInvalid.
func (r *Restorer) Restore(snap, run []byte) (*Launch, error) {
	s, err := snapshot.Decode(snap)
	if err != nil {
		return nil, err
	}
	var e encodedRun
	if err := json.Unmarshal(run, &e); err != nil {
		return nil, fmt.Errorf("read run %s: %w: %w", s.Run, core.ErrInvalid, err)
	}
	if e.Version < 1 || e.Version > runVersion {
		return nil, fmt.Errorf("read run %s: version %d, expected 1 to %d; was it accepted by a newer server? %w", s.Run, e.Version, runVersion, core.ErrInvalid)
	}
	playbook, err := r.playbook(&s)
	if err != nil {
		return nil, fmt.Errorf("read the playbook of run %s: %w", s.Run, err)
	}
	l := &Launch{
		Playbook: playbook, Run: e.Run, Snapshot: s,
		Hosts: make([]core.Host, len(e.Run.Targets)), Limits: rollout.Limits(playbook.Strategy.Waves, len(e.Run.Targets)),
	}
	l.Run.Payload = snap
	for i, t := range e.Run.Targets {
		if l.Hosts[i], err = snapshot.RestoreHost(t.Data); err != nil {
			return nil, fmt.Errorf("run %s: job %d: %w", s.Run, i, err)
		}
	}
	return l, nil
}

// HandlerPlace returns where the playbook of a snapshot has a handler, as file:line. It returns ""
// for one that it has not, and for a snapshot that cannot be read.
func (r *Restorer) HandlerPlace(snap []byte, name string) string {
	s, err := snapshot.Decode(snap)
	if err != nil {
		return ""
	}
	p, err := r.playbook(&s)
	if err != nil {
		return ""
	}
	if i := p.Handler(name); i >= 0 {
		return p.Handlers[i].Place()
	}
	return ""
}

// playbook is the playbook of a snapshot, which launches share and do not change.
func (r *Restorer) playbook(s *snapshot.Snapshot) (*playbooks.Playbook, error) {
	text, err := json.Marshal([]any{s.File, s.Source, s.Included, s.Vars})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	key := sha256.Sum256(text)
	r.mu.Lock()
	playbook := r.all[key]
	r.mu.Unlock()
	if playbook != nil {
		return playbook, nil
	}
	if playbook, err = playbooks.Parse(s.File, []byte(s.Source), playbooks.Options{Types: r.Types, Vars: s.Vars, Steps: playbooks.ReadFrom(s.Included)}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= maxBooks || r.all == nil {
		r.all = map[[sha256.Size]byte]*playbooks.Playbook{}
	}
	r.all[key] = playbook
	return playbook, nil
}
