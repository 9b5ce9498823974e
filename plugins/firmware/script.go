package firmware

import (
	"fmt"
	"slices"

	"github.com/turnus/turnus/plugins/sdk"
)

// scripted drives devices by their own commands.
type scripted struct {
	*Script
	artifact Artifact
	sig      string // the staged signature; "" without
}

// with sets what a command may use.
func (d *scripted) with(command, file, slot string) string {
	return fmt.Sprintf("export FIRMWARE=%s SIGNATURE=%s VERSION=%s SLOT=%s\n%s",
		sdk.Quote(file), sdk.Quote(d.sig), sdk.Quote(d.artifact.Version), sdk.Quote(slot), command)
}

func (d *scripted) questions() []question {
	list := []question{{"version", d.Version}}
	for _, q := range []question{{"compatible", d.Compatible}, {"slot", d.Slot}, {"primary", d.Primary}, {"committed", d.Committed}} {
		if q.command != "" {
			list = append(list, question{q.name, d.with(q.command, "", "")})
		}
	}
	return list
}

func (d *scripted) facts(a answers) (f facts, err error) {
	for name, to := range map[string]*string{"version": &f.Version, "compatible": &f.Compatible, "slot": &f.Slot, "primary": &f.Primary} {
		if _, asked := a[name]; !asked && name != "version" {
			continue
		}
		if *to, err = a.text(name); err != nil {
			return facts{}, err
		}
	}
	f.Good = d.Committed == "" || a["committed"].code == 0
	if len(d.Slots) == 0 {
		return f, nil
	}
	if !slices.Contains(d.Slots, f.Slot) {
		return facts{}, unclear("it runs slot %q, expected one of %q", f.Slot, d.Slots)
	}
	f.Other = d.Slots[1-slices.Index(d.Slots, f.Slot)]
	return f, nil
}

func (d *scripted) verify(file string) string { return d.with(d.Verify, file, "") }

func (d *scripted) verified(string, facts) error { return nil }

// same goes before an installation, which may begin long after the artifact was verified: it waits
// for the window, or the peer. rauc itself verifies every installation.
const same = `if [ "$(sha256sum <"$FIRMWARE" | cut -c 1-64)" != %s ]; then
  echo "$FIRMWARE is not the artifact that was verified: somebody changed it, or took it away" >&2; exit 1
fi
`

func (d *scripted) install(file, slot string) string {
	return d.with(fmt.Sprintf(same, sdk.Quote(d.artifact.SHA256))+d.Install, file, slot)
}

func (d *scripted) slot(what slotAction, slot string) string {
	if what == activate {
		return d.with(d.Activate, "", slot)
	}
	if d.Commit == "" {
		return ":"
	}
	return d.with(d.Commit, "", slot)
}

// Interfaces are kept.
var (
	_ driver = (*rauc)(nil)
	_ driver = (*scripted)(nil)
)
