package ledger

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
)

// The kinds of encrypted values. A kind is the first part of a value's place. A job's reason and
// detail have one place in both tables that hold them.
const (
	snapshotOf = "ledger.snapshot"
	queueOf    = "ledger.queue"
	detailOf   = "ledger.detail"
	reasonOf   = "ledger.reason"
	documentOf = "ledger.document"
	scheduleOf = "ledger.schedule"
	outputOf   = "ledger.output"
	objectOf   = "ledger.object" // the key of a large output
	happenedOf = "ledger.happening"
	noticeOf   = "ledger.notification"
	factsOf    = "ledger.facts"
	onceOf     = "ledger.once"
	markerOf   = "ledger.keyring"
)

// encrypt packs and encrypts what is stored in a place. Nothing stays nothing.
func (l *Ledger) encrypt(data []byte, place ...string) []byte {
	return l.encryptPacked(pack(data), place...)
}

func (l *Ledger) encryptPacked(packed []byte, place ...string) []byte {
	if len(packed) == 0 {
		return packed
	}
	return l.ring.Encrypt(packed, keyring.Context(place...))
}

// open is the other way round.
func (l *Ledger) open(stored []byte, place ...string) ([]byte, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	packed, err := l.ring.Open(stored, keyring.Context(place...))
	if err != nil {
		return nil, err
	}
	return unpack(packed)
}

// tryPlace is the place of one attempt of a job. The 0 is what its column life holds.
func tryPlace(what, run string, index, attempt int) []string {
	return []string{what, run, strconv.Itoa(index), "0", strconv.Itoa(attempt)}
}

// happeningPlace is the place of what happened. Those that fold share one: what is folded in keeps
// the row, and its id.
func happeningPlace(id, what, fold string) []string {
	if fold != "" {
		id = ""
	}
	return []string{happenedOf, id, what, fold}
}

// Texts that are encrypted begin with a control character, which no reason does, and the key's
// number, which a query can count by.
const encryptedText = "\x01sealed "

const encryptedTextHeader = len(encryptedText) + 8 // the key's number behind it

// encryptReason encrypts why an attempt ended as it did: it may quote what a host wrote.
func (l *Ledger) encryptReason(reason, run string, index, attempt int) string {
	if reason == "" || l.ring == nil {
		return reason
	}
	return encryptText(l.ring, reason, keyring.Context(tryPlace(reasonOf, run, index, attempt)...))
}

func encryptText(ring *keyring.Ring, text string, place []byte) string {
	b := ring.Encrypt([]byte(text), place)
	id, _ := keyring.KeyOf(b)
	return encryptedText + id.String() + base64.RawStdEncoding.EncodeToString(b)
}

// keyOfText returns the key with which a text is encrypted; ok is false for one that is not.
func keyOfText(stored string) (id keyring.ID, ok bool) {
	if !strings.HasPrefix(stored, encryptedText) || len(stored) < encryptedTextHeader {
		return 0, false
	}
	id, err := keyring.ParseID(stored[len(encryptedText):encryptedTextHeader])
	return id, err == nil
}

func openText(ring *keyring.Ring, stored string, place []byte) ([]byte, error) {
	if len(stored) < encryptedTextHeader {
		return nil, keyring.ErrTampered
	}
	b, err := base64.RawStdEncoding.DecodeString(stored[encryptedTextHeader:])
	if _, encrypted := keyring.KeyOf(b); err != nil || !encrypted {
		return nil, keyring.ErrTampered
	}
	return ring.Open(b, place)
}

// openReason never fails: a list of jobs must not, for one of their reasons. One that is not
// encrypted is shown as it is, because it is a text for people and commands nothing.
func (l *Ledger) openReason(stored, run string, index, attempt int) string {
	if !strings.HasPrefix(stored, encryptedText) {
		return stored
	}
	b, err := openText(l.ring, stored, keyring.Context(tryPlace(reasonOf, run, index, attempt)...))
	if err != nil {
		return fmt.Sprintf("(the reason cannot be read: %v)", err)
	}
	return string(b)
}

// readable opens the reason of a job that was read.
func (l *Ledger) readable(j *Job) {
	j.because(l.openReason(j.Reason, j.Run, j.Index, j.Attempt))
}

// The marker is a document of the ledger's own: by it a process with no ring, or with another,
// detects the wrong ledger before it reads or writes anything.
const (
	markerKind = "keyring"
	markerName = "ledger"
	markerText = "this ledger is sealed"
)

// mark opens the marker, and encrypts it with the key that is encrypted with now where it is not.
func (l *Ledger) mark(ctx context.Context) error {
	var stored []byte
	err := l.db.row(ctx, `SELECT data FROM documents WHERE kind = $1 AND tenant = '' AND name = $2`, markerKind, markerName).Scan(&stored)
	if err != nil && !none(err) {
		return translate("look for the mark of a key ring", err)
	}
	place := keyring.Context(markerOf)
	primary, have := l.ring.Primary()
	key, marked := keyring.KeyOf(stored)
	if marked {
		switch _, err := l.ring.Open(stored, place); {
		case errors.Is(err, keyring.ErrNoKey) && !have:
			return fmt.Errorf("its data is encrypted: %w\nhint: --keyring FILE names the key ring (TURNUS_KEYRING)", core.ErrInvalid)
		case errors.Is(err, keyring.ErrNoKey):
			return fmt.Errorf("it is encrypted with key %s, which this key ring lacks: %w\nhint: give the key ring that the other processes have; turnus admin keys ls FILE lists its keys", key, core.ErrInvalid)
		case err != nil:
			return fmt.Errorf("the mark of its key ring: %w", err)
		}
	}
	if !have || marked && key == primary {
		return nil
	}
	if !marked && !l.ring.AcceptsPlain() {
		if err := l.refusePlain(ctx); err != nil {
			return err
		}
	}
	encrypted := l.ring.Encrypt([]byte(markerText), place)
	return l.db.transact(ctx, "mark the ledger as encrypted", func(t *tx) error {
		_, err := t.exec(ctx, `INSERT INTO documents (kind, tenant, name, version, deleted, revision, who, updated, data) VALUES ($1, '', $2, 1, 0, '', '', $3, $4)
			ON CONFLICT (kind, tenant, name) DO UPDATE SET version = documents.version + 1, updated = excluded.updated, data = excluded.data`,
			markerKind, markerName, micros(l.now()), encrypted)
		return err
	})
}

// refusePlain refuses a ledger that holds something, none of it encrypted: a process with a ring
// would read nothing there, and its mark would keep out those without one, which can. One that
// another process marks meanwhile is encrypted: two servers may open a new one at the same time.
func (l *Ledger) refusePlain(ctx context.Context) error {
	var holds bool
	if err := l.db.row(ctx, `SELECT (EXISTS (SELECT 1 FROM documents) OR EXISTS (SELECT 1 FROM materials))
		AND NOT EXISTS (SELECT 1 FROM documents WHERE kind = $1 AND tenant = '' AND name = $2)`, markerKind, markerName).Scan(&holds); err != nil {
		return translate("search for data that is not encrypted", err)
	}
	if holds {
		return fmt.Errorf("its data is not encrypted, and there is a key ring: %w\nhint: start the service once with --keyring-accept-plain beside --keyring, then run turnus admin keys re-encrypt (docs/operating-access.md#encryption-at-rest)", core.ErrInvalid)
	}
	return nil
}

// EncryptedSince returns when the ledger was first encrypted with its present primary key: the time
// of the last rotation. A promoted key counts from Reencrypt, or from the next Open. The time is
// zero for a ledger that is not encrypted.
func (l *Ledger) EncryptedSince(ctx context.Context) (time.Time, error) {
	at, err := scanOne[int64](l.db.row(ctx, `SELECT updated FROM documents WHERE kind = $1 AND tenant = '' AND name = $2`, markerKind, markerName))
	if none(err) {
		return time.Time{}, nil
	}
	return fromMicros(at), translate("read since when the ledger is encrypted with its key", err)
}
