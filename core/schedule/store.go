package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// Bounds of the store contract. Calls over them are core.ErrInvalid.
const (
	MaxBatch = 256       // records or changes of one call
	MaxData  = 16 << 10  // bytes of Record.Data
	MaxHold  = time.Hour // of Take and Change.Hold

	sealRoom = 64 // whoever seals Data makes it longer by no more
)

// Store keeps schedules for any number of servers. All methods are safe for concurrent use. Errors wrap
// core.ErrInvalid, ErrUnavailable or ErrUnknown, or the context's. The rules are in the package comment.
type Store interface {
	// Take hands out up to n of the records that are due, those due longest first, and makes each
	// due again hold from now, under a new version: for that long nobody else is given it. n is 1 to
	// MaxBatch, hold a millisecond to MaxHold. After core.ErrUnknown nothing is lost: the records come
	// back after hold.
	Take(ctx context.Context, n int, hold time.Duration) (Taken, error)
	// Write applies changes one by one, each if its version is right, and tells for each in order
	// the new version, or 0 where it was refused. It accepts 0 to MaxBatch. Versions of deleted
	// records are not 0 either.
	Write(ctx context.Context, changes []Change) (versions []uint64, err error)
	// Get reads up to MaxBatch records, in the order asked for; those that do not exist are left out.
	Get(ctx context.Context, ids []ID) (Read, error)
	// List reads one page. A record that exists while all pages are read is in exactly one of them;
	// the order is the store's. An empty page may have a next one; Next "" is the end.
	List(ctx context.Context, p Page) (Listed, error)
	// Wait blocks until the store's clock has reached until, or the earliest due time in the store
	// is before until (at once if it is so already, within milliseconds if a Write makes it so), or
	// ctx ends, which is an error. It may return early.
	Wait(ctx context.Context, until time.Time) error
}

// Record is a schedule as the store sees it.
type Record struct {
	ID      ID
	Version uint64    // grows with every write and Take; never 0
	Due     time.Time // when Take hands it out; zero: never
	Data    []byte    // the definition and its state, see Encode. The caller must not change it
}

// Taken is the answer to Take.
type Taken struct {
	Records []Record // Version and Due are already the new ones
	Now     time.Time
	Next    time.Time // the earliest due time of those not returned, those held included; zero: nothing is ever due
	More    bool      // some of those not returned are due now
}

// Change is one compare-and-set.
type Change struct {
	ID      ID
	Version uint64        // the record's present version; 0: it must not exist
	Delete  bool          // remove the record; Due, Hold, Data and Keep are then not looked at
	Data    []byte        // replaces the record's, unless Keep
	Keep    bool          // the record's data stays; Data must be empty, and Version not 0
	Due     time.Time     // by the store's clock; zero: never. A past time is due at once
	Hold    time.Duration // if not 0, the record is due this long from the store's now; Due must be zero
}

// Read is the answer to Get.
type Read struct {
	Records []Record
	Now     time.Time
}

// Page asks for a part of the records.
type Page struct {
	Tenant string // of this tenant ("" is one too), unless All. Its work is about that tenant's records
	All    bool
	Cursor string // Listed.Next of the page before; "" is the beginning. One that List did not give out is core.ErrInvalid
	Limit  int    // 1 to MaxBatch
}

// Listed is one page.
type Listed struct {
	Records []Record
	Next    string // "" after the last page
	Now     time.Time
}

// ValidateTake tells what a store refuses of a Take.
func ValidateTake(n int, hold time.Duration) error {
	if n < 1 || n > MaxBatch {
		return fmt.Errorf("take of %d records, expected 1 to %d: %w", n, MaxBatch, core.ErrInvalid)
	}
	if hold < time.Millisecond || hold > MaxHold {
		return fmt.Errorf("take for %v, expected 1ms to %v: %w", hold, MaxHold, core.ErrInvalid)
	}
	return nil
}

// ValidateWrite tells what a store refuses of a Write, before it applies any of it.
func ValidateWrite(changes []Change) error {
	if len(changes) > MaxBatch {
		return fmt.Errorf("write of %d changes, expected at most %d: %w", len(changes), MaxBatch, core.ErrInvalid)
	}
	for i := range changes {
		if err := changes[i].validate(); err != nil {
			return fmt.Errorf("change of schedule %s: %w", changes[i].ID, err)
		}
	}
	return nil
}

func (c *Change) validate() error {
	if err := c.ID.Validate(); err != nil {
		return err
	}
	switch {
	case c.Delete && c.Version == 0:
		return fmt.Errorf("deletes what must not exist: %w", core.ErrInvalid)
	case c.Delete:
		return nil
	case c.Keep && (c.Version == 0 || len(c.Data) > 0):
		return fmt.Errorf("keeps the data of a new record, or has data beside: %w", core.ErrInvalid)
	case len(c.Data) > MaxData+sealRoom:
		return fmt.Errorf("data is %d bytes, expected at most %d: %w", len(c.Data), MaxData, core.ErrInvalid)
	case c.Hold < 0 || c.Hold > MaxHold || c.Hold > 0 && c.Hold < time.Millisecond:
		return fmt.Errorf("hold is %v, expected 1ms to %v: %w", c.Hold, MaxHold, core.ErrInvalid)
	case c.Hold > 0 && !c.Due.IsZero():
		return fmt.Errorf("has both a due time and a hold: %w", core.ErrInvalid)
	case !c.Due.IsZero() && (c.Due.Before(minTime) || !c.Due.Before(maxTime)):
		return fmt.Errorf("due is %s, expected a time from %d to %d: %w", c.Due.UTC().Format(time.RFC3339), minTime.Year(), maxTime.Year(), core.ErrInvalid)
	}
	return nil
}

// ValidateIDs tells what a store refuses of a Get.
func ValidateIDs(ids []ID) error {
	if len(ids) > MaxBatch {
		return fmt.Errorf("get of %d records, expected at most %d: %w", len(ids), MaxBatch, core.ErrInvalid)
	}
	for _, id := range ids {
		if err := id.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Validate tells what a store refuses of a Page, but for its cursor.
func (p Page) Validate() error {
	if p.Limit < 1 || p.Limit > MaxBatch {
		return fmt.Errorf("page of %d records, expected 1 to %d: %w", p.Limit, MaxBatch, core.ErrInvalid)
	}
	return nil
}

// DueMilli is a due time as stores keep it: milliseconds since 1970, rounded up, so that nothing is early.
func DueMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}

// byID are records by their ids.
func byID(records []Record) map[ID]Record {
	out := make(map[ID]Record, len(records))
	for _, r := range records {
		out[r.ID] = r
	}
	return out
}
