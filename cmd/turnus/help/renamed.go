package help

import (
	"slices"
	"strings"
)

// Renamed maps each former command to its present name. The longest former name that matches
// counts.
var Renamed = []struct{ Old, Now string }{
	{"approve", "runs approve"},
	{"cancel", "runs cancel"},
	{"explain", "runs explain"},
	{"pause", "runs pause"},
	{"resume", "runs resume"},
	{"retry", "runs retry"},
	{"wake", "runs signal"},
	{"schedule", "cron"},
	{"hosts", "hosts ls"}, // see renamedHosts
	{"configs log", "hosts config ls"},
	{"configs", "hosts config"},
	{"handlers", "hosts handlers"},
	{"apply", "project apply"},
	{"diff", "project diff"},
	{"playbooks", "project playbooks"},
	{"schema", "project schema"},
	{"config", "admin settings"},
	{"audit", "admin audit"},
	{"backup", "admin backup"},
	{"bench", "admin bench"},
	{"doctor", "admin doctor"},
	{"export", "admin export"},
	{"health", "admin health"},
	{"keys", "admin keys"},
	{"keys reseal", "admin keys re-encrypt"},
	{"admin keys reseal", "admin keys re-encrypt"},
	{"man", "admin man"},
	{"notifications", "admin notifications"},
	{"prune", "admin prune"},
	{"queue", "admin queue"},
	{"restore", "admin restore"},
	{"tokens", "admin tokens"},
	{"workers", "admin workers"},
}

// globalValues are the global flags that take the next argument as their value.
var globalValues = []string{"-o", "--output", "--color"}

// commandAt returns the index of the first argument that is no global flag.
func commandAt(args []string) int {
	i := 0
	for i < len(args) && strings.HasPrefix(args[i], "-") {
		if slices.Contains(globalValues, args[i]) {
			i++
		}
		i++
	}
	return min(i, len(args))
}

// Present returns the arguments with a former command replaced by its present name, and both names;
// without one they are "". The command may stand behind "help".
func Present(args []string) (out []string, old, now string) {
	at := commandAt(args)
	help := at < len(args) && args[at] == "help"
	if help {
		at += 1 + commandAt(args[at+1:])
	}
	words := args[at:]
	n := 0
	for _, r := range Renamed {
		former := strings.Fields(r.Old)
		if len(former) > n && len(former) <= len(words) && slices.Equal(former, words[:len(former)]) {
			n, old, now = len(former), r.Old, r.Now
		}
	}
	if n == 0 || old == "hosts" && (help || !renamedHosts(words[1:])) {
		return args, "", ""
	}
	return slices.Concat(args[:at], strings.Fields(now), words[n:]), old, now
}

// renamedHosts reports whether the arguments after "hosts" are those of the former command: flags,
// and no subcommand. A request for help is for the present command.
func renamedHosts(args []string) bool {
	if len(args) == 0 {
		return true
	}
	return strings.HasPrefix(args[0], "-") && !slices.ContainsFunc(args, func(arg string) bool { return slices.Contains([]string{"-h", "--help", "--help-all"}, arg) })
}
