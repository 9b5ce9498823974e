// Package encrypted owns the form of a queue's bytes outside of a process with a key ring:
// payloads, data, states, records, documents and messages are encrypted, each for its place, before
// the queue behind has them.
//
// It must not know which queue that is, nor what the bytes mean. The values that the queue itself
// works with stay in the clear: ids of runs, tenants, hosts and groups as locks, names of
// documents, topics and events, outcomes, times, counts and weights, and the name of its own life.
package encrypted

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/queue"
)

// Backend is one store as it is opened: a queue, and the board and feed beside it.
type Backend interface {
	queue.Queue
	board.Store
}

// Queue is a queue behind which all bytes are encrypted. All methods are safe for concurrent use.
//
// A job that this process cannot open, because it lacks the key, or that is not encrypted where it
// has to be, is not handed to its worker: it is given back unstarted, for others. The lease of a
// job that was tampered with has Lease.Err.
type Queue struct {
	Backend
	ring     *keyring.Ring
	reported func(string)

	mu      sync.Mutex
	refused map[string]map[uint64]queue.Ack // by session and token: leases to give back
	closed  time.Time                       // nothing is leased until then, as the key is missing; by this process's clock
	pause   time.Duration                   // until closed, at the last time; 0 once a job could be opened
	said    map[trouble]time.Time           // troubles that were reported, and when
}

// Times of a worker that lacks a key.
const (
	firstPause  = time.Second
	mostPause   = 30 * time.Second
	plainPause  = 30 * time.Second // of a job that is not encrypted
	reportEvery = 5 * time.Minute  // of the same trouble
)

// trouble is a problem that an operator must know.
type trouble int

const (
	noKey trouble = iota
	notEncrypted
	lostMessages
)

// New puts a ring before q. A nil ring encrypts nothing, and refuses encrypted bytes. reported gets
// messages for an operator; it may be nil.
func New(q Backend, ring *keyring.Ring, reported func(string)) *Queue {
	if reported == nil {
		reported = func(string) {}
	}
	return &Queue{Backend: q, ring: ring, reported: reported, refused: map[string]map[uint64]queue.Ack{}, said: map[trouble]time.Time{}}
}

// The kinds of encrypted values. A kind is the first part of a value's place.
const (
	payloadOf  = "run.payload"
	dataOf     = "job.data"
	stateOf    = "job.state"
	detailOf   = "job.detail"
	documentOf = "board"
	messageOf  = "feed"
)

func place(what string, job core.JobID, more ...string) []byte {
	return keyring.Context(append([]string{what, job.Run, strconv.Itoa(job.Index)}, more...)...)
}

// encrypt leaves nothing as it is: that something is missing cannot be hidden, nor proven.
func (q *Queue) encrypt(b, place []byte) []byte {
	if len(b) == 0 {
		return b
	}
	return q.ring.Encrypt(b, place)
}

func (q *Queue) open(b, place []byte) ([]byte, error) {
	if len(b) == 0 {
		return b, nil
	}
	return q.ring.Open(b, place)
}

// digestBytes stand before an encrypted payload: what was submitted, by which a repeated submit is
// known although its bytes differ.
const digestBytes = sha256.Size

// Submit accepts runs, encrypted. The same run counts as the same with any key.
func (q *Queue) Submit(ctx context.Context, runs ...queue.Run) []queue.Submission {
	if q.ring == nil || len(runs) > queue.MaxSubmit {
		return q.Backend.Submit(ctx, runs...)
	}
	answers := make([]queue.Submission, len(runs))
	var list []queue.Run
	var at []int // where the answer to one of list belongs
	for i := range runs {
		if answers[i].Err = runs[i].Validate(); answers[i].Err == nil {
			list, at = append(list, q.encryptRun(runs[i])), append(at, i)
		}
	}
	for i, answer := range q.Backend.Submit(ctx, list...) {
		r := &runs[at[i]]
		if errors.Is(answer.Err, core.ErrConflict) {
			answer.Err = q.conflict(ctx, r, answer.Err)
		}
		answers[at[i]] = answer
	}
	return answers
}

func (q *Queue) encryptRun(r queue.Run) queue.Run {
	encrypted := r
	sum := digest(&r)
	encrypted.Payload = q.ring.Encrypt(slices.Concat(sum, r.Payload), keyring.Context(payloadOf, r.ID))
	encrypted.Targets = make([]queue.Target, len(r.Targets))
	for i, t := range r.Targets {
		if len(t.Data) > 0 {
			t.Data = q.ring.Encrypt(t.Data, place(dataOf, core.JobID{Run: r.ID, Index: i}, t.Host))
		}
		encrypted.Targets[i] = t
	}
	return encrypted
}

// conflict is err, or nil where the queue has the same run encrypted with other bytes.
func (q *Queue) conflict(ctx context.Context, r *queue.Run, err error) error {
	same, sameErr := q.submitted(ctx, r)
	switch {
	case errors.Is(sameErr, core.ErrNotFound): // forgotten meanwhile
		return err
	case sameErr != nil:
		return fmt.Errorf("submit run %q: compare with what was submitted before: %w", r.ID, sameErr)
	case same:
		return nil
	}
	return err
}

// submitted reports whether the queue has the same run already.
func (q *Queue) submitted(ctx context.Context, r *queue.Run) (bool, error) {
	had, err := q.Backend.Payload(ctx, r.ID)
	if err != nil {
		return false, err
	}
	_, isEncrypted := keyring.KeyOf(had)
	if !isEncrypted && q.ring.AcceptsPlain() { // of a service without a ring: the targets cannot be compared
		return string(had) == string(r.Payload), nil
	}
	had, err = q.ring.Open(had, keyring.Context(payloadOf, r.ID))
	return err == nil && len(had) >= digestBytes && subtle.ConstantTimeCompare(had[:digestBytes], digest(r)) == 1, err
}

// digest is of all fields that Submit compares of two runs with one id.
func digest(r *queue.Run) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d %d %d %d %d %d %d %d %v %q 0 {0s 0s 0} %d %d\n", r.Tenant, max(r.TenantWeight, 1), max(r.Weight, 1), r.Priority, r.Limit,
		r.MaxInFlight, r.PerGroup, r.StopAfter, r.StopUnreachable, r.Disruptive, r.OnLost, len(r.Segments), len(r.Targets))
	for _, s := range r.Segments {
		due := int64(0)
		if !s.Due.IsZero() {
			due = s.Due.UnixMicro()
		}
		fmt.Fprintf(h, "%d %d\n", due, s.Count)
	}
	b := make([]byte, 0, 2*hashBytes)
	for i := range r.Targets {
		t := &r.Targets[i]
		b = appendPart(appendPart(appendPart(appendPart(b, t.Host), t.HAGroup), t.Group), t.Data)
		if len(b) >= hashBytes {
			h.Write(b)
			b = b[:0]
		}
	}
	h.Write(appendPart(b, r.Payload))
	return h.Sum(nil)
}

const hashBytes = 32 << 10 // are hashed together

// appendPart puts a text behind its length.
func appendPart[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Payload opens a run's payload.
func (q *Queue) Payload(ctx context.Context, run string) ([]byte, error) {
	b, err := q.Backend.Payload(ctx, run)
	if err != nil {
		return nil, err
	}
	_, isEncrypted := keyring.KeyOf(b)
	plain, err := q.ring.Open(b, keyring.Context(payloadOf, run))
	if err != nil {
		return nil, fmt.Errorf("payload of run %q: %w", run, err)
	}
	if !isEncrypted {
		return plain, nil
	}
	if len(plain) < digestBytes {
		return nil, fmt.Errorf("payload of run %q: %w", run, keyring.ErrTampered)
	}
	if plain = plain[digestBytes:]; len(plain) == 0 {
		return nil, nil
	}
	return plain, nil
}

// Poll decrypts the records of workers. A record that was not encrypted for its job keeps its
// outcome, and reports the fault. If this process lacks the key of a run, the run's Sight has that
// error.
func (q *Queue) Poll(ctx context.Context, most int, asks ...queue.Ask) []queue.Sight {
	sights := q.Backend.Poll(ctx, most, asks...)
	for i := range sights {
		if err := q.openRecords(asks[i].Run, sights[i].Records); err != nil {
			sights[i] = queue.Sight{Next: asks[i].Cursor, Err: err}
		}
	}
	return sights
}

// openRecords opens records of a run in place. Only a missing key is an error.
func (q *Queue) openRecords(run string, list []queue.Record) error {
	for i := range list {
		r := &list[i]
		job := core.JobID{Run: run, Index: r.Index}
		plain, err := q.open(r.Detail, place(detailOf, job))
		if errors.Is(err, keyring.ErrNoKey) {
			return fmt.Errorf("record of job %s: %w", job, err)
		}
		if err != nil {
			r.Reason = core.Because("", "what the worker recorded of it cannot be taken: "+err.Error())
		}
		r.Detail = plain
		if r.State, err = q.open(r.State, place(stateOf, job)); errors.Is(err, keyring.ErrNoKey) {
			return fmt.Errorf("state of job %s: %w", job, err)
		}
	}
	return nil
}

// Post encrypts a document for its name.
func (q *Queue) Post(ctx context.Context, name string, data []byte, keep time.Duration) (uint64, error) {
	if name == board.Incarnation {
		return q.Backend.Post(ctx, name, data, keep)
	}
	return q.Backend.Post(ctx, name, q.encrypt(data, keyring.Context(documentOf, name)), keep)
}

// PostFirst encrypts a document for its name, and opens the one that is there.
func (q *Queue) PostFirst(ctx context.Context, name string, data []byte, keep time.Duration) ([]byte, error) {
	if name == board.Incarnation {
		return q.Backend.PostFirst(ctx, name, data, keep)
	}
	place := keyring.Context(documentOf, name)
	have, err := q.Backend.PostFirst(ctx, name, q.encrypt(data, place), keep)
	if err != nil {
		return nil, err
	}
	return q.open(have, place)
}

// Posted opens a document.
func (q *Queue) Posted(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	data, version, err := q.Backend.Posted(ctx, name, known)
	if err != nil {
		return data, version, err
	}
	if _, isEncrypted := keyring.KeyOf(data); name == board.Incarnation && !isEncrypted {
		return data, version, nil
	}
	plain, err := q.open(data, keyring.Context(documentOf, name))
	if err != nil {
		return nil, 0, fmt.Errorf("document %q: %w", name, err)
	}
	return plain, version, nil
}

// Publish encrypts messages for their topic.
func (q *Queue) Publish(ctx context.Context, topic string, messages ...[]byte) error {
	if q.ring == nil {
		return q.Backend.Publish(ctx, topic, messages...)
	}
	if err := board.ValidateMessages(topic, messages); err != nil {
		return err
	}
	encrypted := core.Map(messages, func(m []byte) []byte { return q.encrypt(m, keyring.Context(messageOf, topic)) })
	return q.Backend.Publish(ctx, topic, encrypted...)
}

// Follow opens messages. Those that cannot be opened are left out, as those are that came too late:
// see board.LostMessages.
func (q *Queue) Follow(ctx context.Context, topic, cursor string, most int, wait time.Duration) ([][]byte, string, error) {
	list, next, err := q.Backend.Follow(ctx, topic, cursor, most, wait)
	if err != nil {
		return list, next, err
	}
	opened := make([][]byte, 0, len(list))
	for _, m := range list {
		plain, err := q.open(m, keyring.Context(messageOf, topic))
		if err != nil {
			q.report(lostMessages, "messages of "+topic+" are left out: "+err.Error())
			continue
		}
		opened = append(opened, plain)
	}
	return opened, next, nil
}

// report reports a trouble once, and again after a while.
func (q *Queue) report(what trouble, text string) {
	q.mu.Lock()
	last, reported := q.said[what]
	fresh := !reported || time.Since(last) >= reportEvery
	if fresh {
		q.said[what] = time.Now()
	}
	q.mu.Unlock()
	if fresh {
		q.reported(text)
	}
}

// Unencrypted lists the runs that are not complete and whose payload is not encrypted: what a
// service left behind that had no ring.
func (q *Queue) Unencrypted(ctx context.Context) ([]string, error) {
	ids, err := q.Runs(ctx)
	if err != nil {
		return nil, err
	}
	var plain []string
	for _, id := range ids {
		b, err := q.Backend.Payload(ctx, id)
		if errors.Is(err, core.ErrNotFound) {
			continue // forgotten meanwhile
		}
		if err != nil {
			return nil, err
		}
		if _, encrypted := keyring.KeyOf(b); !encrypted && len(b) > 0 {
			plain = append(plain, id)
		}
	}
	return plain, nil
}
