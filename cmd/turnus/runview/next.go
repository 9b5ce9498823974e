package runview

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// WriteNext prints the commands to type after a run, and where its record is: after a run with
// failures, and on a terminal. record is the folder of the local record; "" is a server.
func WriteNext(con *console.Console, r Report, record string) {
	for _, line := range nextLines(r, record, con.Terminal) {
		con.Message(line)
	}
}

func nextLines(r Report, record string, terminal bool) []string {
	host, failed := "", 0
	for _, o := range []core.Outcome{core.Failed, core.RolledBack, core.Lost, core.Unreachable, core.Cancelled} {
		failed += r.Outcomes[o]
		for _, res := range r.Results {
			if res.Outcome == o && host == "" && o != core.Cancelled {
				host = res.Host
			}
		}
	}
	if failed == 0 && !terminal {
		return nil
	}
	local, where := " --local", record
	if record == "" {
		local, where = "", "on the server"
	}
	var next []string
	if host != "" {
		next = append(next, fmt.Sprintf("turnus logs %s --host %s%s", r.Run, console.Printable(host), local))
	}
	next = append(next, fmt.Sprintf("turnus runs show %s%s", r.Run, local))
	switch {
	case failed > 0 && r.Kind == api.KindHostKeys: // a server refuses to retry it
		next = append(next, "turnus hostkeys scan")
	case failed > 0 && record == "":
		next = append(next, "turnus runs retry "+r.Run)
	case failed > 0 && !r.Check: // --retry-failed takes the hosts of the last run that was no check
		next = append(next, "the same command with --retry-failed: only "+core.Plural(failed, "host")+" that did not succeed")
		if slices.ContainsFunc(r.Results, continues) {
			next = append(next, "the same command with --retry-failed --from failed-step: without the steps that succeeded")
		}
	}
	if slices.ContainsFunc(r.Results, func(res api.Result) bool { return res.ReasonCode == core.WaveFailed }) {
		next = append(next, "strategy: {on_failed_wave: continue} in the playbook: the next wave starts nevertheless")
	}
	lines := make([]string, 0, len(next)+1)
	for i, text := range next {
		lines = append(lines, fmt.Sprintf("%-7s %s", firstName(i, "next:"), text))
	}
	return append(lines, "record: "+where)
}

// continues reports whether a host has steps that a retry from the failed step need not call.
func continues(r api.Result) bool {
	return !r.Outcome.Good() && r.Outcome != core.Lost && len(r.Steps) > 1 && r.Steps[0].Outcome.Good()
}

// WriteRetried prints how a retry differs from the run before. nil is no retry.
func WriteRetried(con *console.Console, r *api.Retried) {
	if r == nil {
		return
	}
	if r.PlaybookChanged {
		con.Message("the playbook changed since run " + r.Run + ": the new run has it as it is now")
	}
	if r.Resumed > 0 {
		con.Message(core.Plural(r.Resumed, "host") + ": at the failed step of run " + r.Run)
	}
	for _, one := range r.Restarted {
		con.Message(one.Host + ": from the first step: " + one.Reason)
	}
	if n := len(r.LeftOut); n > 0 {
		const shown = 10
		names := strings.Join(r.LeftOut[:min(n, shown)], ", ")
		if n > shown {
			names += ", …"
		}
		con.Message(fmt.Sprintf("left out: %s of run %s that left the inventory, the tenant or targets: %s", core.Plural(n, "host"), r.Run, names))
	}
}
