package localrun

import (
	"path/filepath"
	"slices"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/launch"
)

// checkPaths refuses a path that is no playbook, but an inventory without its flag.
func checkPaths(paths []string) error {
	i := slices.IndexFunc(paths, func(path string) bool { return filepath.Ext(path) == ".ini" || filepath.Base(path) == "hosts" })
	if i < 0 {
		return nil
	}
	playbook := "PLAYBOOK"
	if len(paths) > 1 {
		playbook = paths[(i+1)%len(paths)]
	}
	return console.Invalid("%s: this is an inventory, not a playbook: an inventory is given with -i\nhint: turnus run %s -i %s", paths[i], playbook, paths[i])
}

// checkApprovals refuses a run that has to ask a person between its waves where there is nobody to
// ask, before it contacts a host: it would stop after its first wave.
func checkApprovals(con *console.Console, launches []*launch.Launch, yes bool) error {
	for _, l := range launches {
		if !yes && !con.Attended() && l.Playbook.Strategy.PauseBetween.Approve && l.Waves() > 1 {
			return console.Invalid("%s: pause_between: approve asks before each of %d waves except the first, but stdin and stderr are not both a terminal\n"+
				"hint: --yes approves every wave; with turnus submit %s, turnus runs approve RUN approves a wave",
				l.Playbook.File, l.Waves(), l.Playbook.Name)
		}
	}
	return nil
}
