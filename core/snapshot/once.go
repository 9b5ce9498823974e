package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// Once names the host that calls a step with once, and has the result after the call.
type Once struct {
	Job    int              `json:"job"` // index of the host's job
	Host   string           `json:"host"`
	At     time.Time        `json:"at,omitzero"` // of the result
	Result *core.StepResult `json:"result,omitempty"`
}

// OnceNote is a document on the board about a step with once. Workers post the first host
// and its result, and the documents of the other two repeat what the ledger has: only those count.
type OnceNote string

// The documents.
const (
	OnceFirst   OnceNote = "first"   // by the first worker: the host that came first
	OnceElected OnceNote = "elected" // by a server: the host that calls the step
	OnceCalled  OnceNote = "called"  // by the worker of that host: the result
	OnceResult  OnceNote = "result"  // by a server: the result
)

// OnceNotes lists the kinds of documents.
func OnceNotes() []OnceNote { return []OnceNote{OnceFirst, OnceElected, OnceCalled, OnceResult} }

// OnceKeep is how long such a document stays on the board. Servers post theirs again where one is
// missed.
const OnceKeep = 60 * 24 * time.Hour

// Document is the name of the document about a step of a run, by its index in the playbook.
func (n OnceNote) Document(run string, step int) string {
	sum := sha256.Sum256([]byte(run)) // an id may be as long as a name
	return "once/" + hex.EncodeToString(sum[:16]) + "/" + strconv.Itoa(step) + "/" + string(n)
}

// Encode writes what DecodeOnce reads.
func (o Once) Encode() ([]byte, error) {
	data, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write the result of a step with once: %w: %w", core.ErrInvalid, err)
	}
	return data, nil
}

// DecodeOnce reads what Encode wrote.
func DecodeOnce(data []byte) (o Once, err error) {
	if err := Unmarshal(data, &o); err != nil {
		return Once{}, fmt.Errorf("read the result of a step with once: %w: %w", core.ErrInvalid, err)
	}
	if o.Result != nil {
		o.Result.Outputs = Exact(o.Result.Outputs)
	}
	return o, nil
}

// ForOthers returns the result as hosts take it over that did not call the step: what only the
// caller's record shows is left out, and the outputs if no later step of p reads them. With a nil p
// the outputs stay: a later retry may have a step that reads them.
func (o Once) ForOthers(p *playbooks.Playbook, run string) core.StepResult {
	r := *o.Result
	if r.Kept == nil {
		r.Kept = &core.Kept{Run: run, At: o.At.UTC(), Host: o.Host}
	}
	r.Reason, r.ReasonCode = fmt.Sprintf("once: host %s called it in run %s", r.Kept.Host, r.Kept.Run), core.CalledOnce
	r.Stderr, r.Diff, r.Window, r.Attempts, r.Took = "", "", nil, 0, 0
	if p != nil && !p.OutputsRead(0)(r.Name) {
		r.Stdout, r.Outputs = "", nil
	}
	return r
}
