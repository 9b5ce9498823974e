package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows/civil"
)

// Bounds of a definition. Run ids made of it have at most 128 bytes, the queue's bound.
const (
	MaxTenant      = 48       // bytes
	MaxName        = 56       // bytes
	MaxPayload     = 20 << 10 // bytes: what to launch, not what it is made of
	MaxStartWithin = 31 * 24 * time.Hour
	MaxJitter      = 24 * time.Hour
)

// minTime and maxTime bound every time that is asked for or kept. Since 1973 every zone is whole
// minutes from UTC, so that run ids are exact to the minute.
var (
	minTime = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	maxTime = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// ID names one schedule.
type ID struct {
	Tenant string // "" is a tenant like any other
	Name   string
}

// String is TENANT:NAME, or NAME where the tenant is empty.
func (id ID) String() string {
	if id.Tenant == "" {
		return id.Name
	}
	return id.Tenant + ":" + id.Name
}

// Validate reports what is wrong with an id: length, UTF-8, or one of the characters that separate
// (a blank, a colon, a slash, what cannot be printed).
func (id ID) Validate() error {
	if err := checkName("tenant", id.Tenant, 0, MaxTenant); err != nil {
		return err
	}
	return checkName("name", id.Name, 1, MaxName)
}

func checkName(what, text string, least, most int) error {
	switch {
	case len(text) < least:
		return fmt.Errorf("%s is empty: %w", what, core.ErrInvalid)
	case len(text) > most:
		return fmt.Errorf("%s %.20q… is %d bytes, expected at most %d: %w", what, text, len(text), most, core.ErrInvalid)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not UTF-8: %w", what, text, core.ErrInvalid)
	}
	for _, r := range text {
		if r == ':' || r == '/' || r == ' ' || !unicode.IsPrint(r) {
			return fmt.Errorf("%s %q has the character %q, expected printable ones but no blank, colon or slash: %w", what, text, r, core.ErrInvalid)
		}
	}
	return nil
}

// CatchUp decides which missed fire times are launched later. A fire time is missed if no server
// checked it in time.
type CatchUp string

// The ways to catch up.
const (
	CatchUpSkip CatchUp = "skip" // drop them
	CatchUpOnce CatchUp = "once" // launch the latest
	CatchUpAll  CatchUp = "all"  // launch each, oldest first
)

// Overlap decides what a trigger does while a run of the schedule is not complete.
type Overlap string

// The ways to overlap.
const (
	OverlapSkip   Overlap = "skip"           // drop the trigger
	OverlapQueue  Overlap = "queue"          // one trigger waits
	OverlapCancel Overlap = "cancel_running" // cancel what runs, then launch
)

// Definition defines what is launched when, as it is kept in git. State has whether the schedule is
// paused now.
type Definition struct {
	ID          ID
	Cron        string    // five fields, see civil.ParseCron
	At          time.Time // instead of Cron: trigger once, at this second
	Timezone    string    // IANA name; "" is UTC
	CatchUp     CatchUp
	Overlap     Overlap
	StartWithin time.Duration // whole seconds; 0: no limit
	Jitter      time.Duration // whole seconds
	Payload     []byte        // opaque: what to launch
	Paused      bool          // paused when it is first put; later a change of it pauses or resumes, as Pause and Resume do
}

// Validate names the field that is wrong; errors wrap core.ErrInvalid. An empty Overlap is skip. An
// empty CatchUp is skip with Cron, and once with At.
func (d *Definition) Validate() error {
	_, err := d.compile()
	return err
}

// compiled holds the parts of a definition that decisions need.
type compiled struct {
	cron *civil.Cron // nil of one that triggers once
	zone *time.Location
}

func (d *Definition) compile() (compiled, error) {
	c, err := d.parse()
	if err != nil {
		if !errors.Is(err, core.ErrInvalid) {
			err = fmt.Errorf("%w: %w", err, core.ErrInvalid)
		}
		return c, fmt.Errorf("schedule %s: %w", d.ID, err)
	}
	return c, nil
}

func (d *Definition) parse() (c compiled, err error) {
	if err = d.ID.Validate(); err != nil {
		return c, err
	}
	if d.At.IsZero() {
		if c.cron, err = civil.ParseCron(d.Cron); err != nil {
			return c, fmt.Errorf("cron: %w", err)
		}
	} else if err := d.checkOnce(); err != nil {
		return c, err
	}
	if c.zone = time.UTC; d.Timezone != "" {
		if c.zone, err = civil.LoadZone(d.Timezone); err != nil {
			return c, fmt.Errorf("timezone: %w", err)
		}
	}
	switch d.CatchUp {
	case "", CatchUpSkip, CatchUpOnce, CatchUpAll:
	default:
		return c, fmt.Errorf("catch_up is %q, expected skip, once or all", clip(string(d.CatchUp)))
	}
	switch d.Overlap {
	case "", OverlapSkip, OverlapQueue, OverlapCancel:
	default:
		return c, fmt.Errorf("overlap is %q, expected skip, queue or cancel_running", clip(string(d.Overlap)))
	}
	if err := checkSpan("start_within", d.StartWithin, MaxStartWithin); err != nil {
		return c, err
	}
	if err := checkSpan("jitter", d.Jitter, MaxJitter); err != nil {
		return c, err
	}
	if d.StartWithin > 0 && d.Jitter > d.StartWithin {
		return c, fmt.Errorf("jitter is %v, expected no more than start_within, %v: the jitter alone would make a launch too late", d.Jitter, d.StartWithin)
	}
	if len(d.Payload) > MaxPayload {
		return c, fmt.Errorf("payload is %d bytes, expected at most %d", len(d.Payload), MaxPayload)
	}
	return c, nil
}

// checkOnce checks what is special about a schedule that triggers once.
func (d *Definition) checkOnce() error {
	switch {
	case d.Cron != "":
		return fmt.Errorf("it has cron %q and the time %s: expected one of them", clip(d.Cron), stamp(d.At))
	case d.At.Before(minTime) || !d.At.Before(maxTime) || d.At.Nanosecond() != 0:
		return fmt.Errorf("time %s: expected a whole second from %d to %d", d.At.Format(time.RFC3339Nano), minTime.Year(), maxTime.Year()-1)
	case d.CatchUp == CatchUpAll:
		return errors.New("catch_up is all, expected skip or once: it has one fire time")
	case d.Jitter > 0:
		return errors.New("jitter is for schedules with a cron expression")
	}
	return nil
}

func checkSpan(what string, d, most time.Duration) error {
	if d < 0 || d > most || d%time.Second != 0 {
		return fmt.Errorf("%s is %v, expected whole seconds up to %v", what, d, most)
	}
	return nil
}

// clip shortens what a user wrote for a message.
func clip(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return strings.ToValidUTF8(string(r[:most]), "?") + "…"
	}
	return text
}
