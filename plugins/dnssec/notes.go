package dnssec

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// A roll has a note on the signer, under state_dir in a folder of its zone: open while it is under
// way, then last, or stopped. It is made by ln, which is atomic, so that a zone has one roll; it
// has the owner of the roll and the key that goes, and outlives the worker and whatever the worker
// has saved. Messages call it the record of the roll; here a record is one of DNS.
type note struct {
	key  string // idempotency key of the step: the same in each attempt and on each worker
	job  string
	role string
	old  int
}

const notesScript = `for f in "$S"/*/open; do z=${f%/open}; z=${z##*/}; [ ! -r "$f" ] || sed "s/^/open $z /" "$f"; done
for f in last stopped; do [ ! -r "$S/$Z/$f" ] || sed "s/^/$f $Z /" "$S/$Z/$f"; done
`

// openScript writes the note from stdin. PREV is the key of a note that is taken over, empty for a
// new one.
const openScript = `mkdir -p "$S/$Z" && cd "$S/$Z" || exit 65
cat >".$$" || exit 65
sync
if [ -n "$PREV" ] && [ -e open ]; then
  grep -qxF "key $PREV" open && mv -f ".$$" open
else ln ".$$" open; rm -f ".$$"
fi 2>/dev/null
cd "$S"
` + notesScript

// closeScript ends an own note; what it showed lies beside it.
const closeScript = `cd "$S/$Z" || exit 65
cat >"evidence.$REC.part" || exit 65
grep -qxF "key $KEY" open 2>/dev/null || { rm -f "evidence.$REC.part"; exit 0; }
mv -f "evidence.$REC.part" evidence.json
sync
mv -f open "$REC"
`

func (n note) text() string {
	return fmt.Sprintf("key %s\njob %s\nrole %s\nold %d\n", n.key, n.job, n.role, n.old)
}

func readNotes(text string) map[string]note {
	all := map[string]note{}
	for line := range strings.Lines(text) {
		zone, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		word, value, _ := strings.Cut(rest, " ")
		n := all[zone]
		switch word {
		case "key":
			n.key = value
		case "job":
			n.job = value
		case "role":
			n.role = value
		case "old":
			n.old, _ = strconv.Atoi(value)
		}
		all[zone] = n
	}
	return all
}

// notes reads the open ones by zone, and the zone's last.
func (x *roll) notes(ctx context.Context) (open map[string]note, last note, err error) {
	a, err := x.signer.script(ctx, notesScript, x.signer.vars(), true, "")
	if err != nil {
		return nil, note{}, fmt.Errorf("reading the records of rolls in %s: %w", x.p.StateDir, err)
	}
	return readNotes(a.Text("open")), readNotes(a.Text("last"))[x.p.Zone], nil
}

// related is a roll of a parent or a child of the zone.
func related(open map[string]note, zone string) (string, note, bool) {
	for _, z := range sortedKeys(open) {
		if z != zone && (strings.HasSuffix(z, "."+zone) || strings.HasSuffix(zone, "."+z)) {
			return z, open[z], true
		}
	}
	return "", note{}, false
}

func (x *roll) mine(n note) bool { return n.key == x.key }

// take makes the roll ours, with its old key, before anything is done. previous is the key of a
// note that may be taken over.
func (x *roll) take(ctx context.Context, old int, previous string) error {
	n := note{key: x.key, job: x.r.Job, role: x.p.Key, old: old}
	a, err := x.signer.script(ctx, openScript, x.signer.vars("PREV", previous), false, n.text())
	if err != nil {
		return fmt.Errorf("writing the record of the roll in %s: %w", x.p.StateDir, err)
	}
	open := readNotes(a.Text("open"))
	if got := open[x.p.Zone]; !x.mine(got) {
		return x.busy(got)
	}
	if zone, other, ok := related(open, x.p.Zone); ok { // both may see the other, and both give way
		if err := x.close(ctx, "stopped"); err != nil {
			return err
		}
		return relatedFault(zone, other)
	}
	return nil
}

func (x *roll) busy(n note) error {
	return sdk.Refuse("a roll of the zone's %s key %d is under way: job %s. Cancel that run first; then continue with old_tag: %d, or stop it with action: abort", n.role, n.old, n.job, n.old)
}

func relatedFault(zone string, n note) error {
	return sdk.Refuse("a roll of %s is under way on this signer (job %s): parent and child never roll together", zone, n.job).Retryable()
}

// close ends the roll's note as last or stopped.
func (x *roll) close(ctx context.Context, as string) error {
	_, err := x.signer.script(ctx, closeScript, x.signer.vars("KEY", x.key, "REC", as), false, x.evidenceFile())
	if err != nil {
		return fmt.Errorf("closing the record of the roll: %w", err)
	}
	return nil
}
