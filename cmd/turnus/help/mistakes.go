package help

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/sdk/shell"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// ErrorMessage returns what a person reads of the error of a command: no texts of sentinels, and
// after wrong input or usage always a next command.
func ErrorMessage(cmd *cobra.Command, err error, code int) string {
	text := core.ErrorText(err, windows.ErrInvalid, civil.ErrInvalid)
	if code != console.ExitInvalid || HasNext(text) {
		return text
	}
	return text + "\nhint: " + nextCommand(cmd, err)
}

// nextCommand returns the command to type after an error that names none itself.
func nextCommand(cmd *cobra.Command, err error) string {
	if bad, ok := errors.AsType[playbooks.Diagnostics](err); ok && len(bad) > 0 {
		return "mend it, then check it: turnus validate " + shell.Quote(bad[0].Playbook())
	}
	if bad, ok := errors.AsType[windows.Problems](err); ok && len(bad) > 0 {
		return "mend it, then check it: turnus windows lint " + shell.Quote(bad[0].File)
	}
	if bad, ok := errors.AsType[*inventory.Error](err); ok {
		return "mend it, then check it: turnus hosts ls -i " + shell.Quote(bad.File)
	}
	if bad, ok := errors.AsType[*ledger.DamagedError](err); ok {
		return fmt.Sprintf("stop turnus, move %s, %s-wal and %s-shm away, and restore a backup: turnus admin restore WHERE --ledger %s", bad.File, bad.File, bad.File, shell.Quote("sqlite:"+bad.File))
	}
	if bad, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(bad, fs.ErrNotExist) {
		return "look for it: ls " + shell.Quote(filepath.Dir(bad.Path))
	}
	return cmd.CommandPath() + " --help shows what it expects"
}

// commandHint returns the command to type in place of an unknown one, whose name is the first of
// args.
func commandHint(cmd *cobra.Command, args []string) string {
	if habit := ansibleCommands()[args[0]]; habit != "" && !cmd.HasParent() {
		return habit
	}
	if cmd.Name() == "cron" && (len(strings.Fields(args[0])) > 1 || len(args) > 4) {
		return cmd.CommandPath() + " describe " + shell.Quote(strings.Join(args, " ")) + " explains it; next lists its fire times"
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return "did you mean " + cmd.CommandPath() + " " + near[0] + "?"
	}
	if cmd.HasParent() {
		return cmd.CommandPath() + " --help lists what there is"
	}
	if slices.ContainsFunc(args, func(arg string) bool { return slices.Contains([]string{"-m", "-a", "--module-name", "--args"}, arg) }) {
		return fmt.Sprintf("one command on hosts: turnus exec %s -i INVENTORY -- COMMAND", shell.Quote(args[0]))
	}
	return "turnus --help lists what there is"
}

// ansibleCommands returns commands of Ansible that people type, with what to type here. The words
// are Ansible's own behind "ansible-".
func ansibleCommands() map[string]string {
	return map[string]string{
		"playbook":  "run a playbook: turnus run PLAYBOOK -i INVENTORY; list those of a server: turnus project playbooks ls",
		"inventory": "list hosts with their groups and vars: turnus hosts ls -i INVENTORY",
		"vault":     "keep secrets: turnus secrets --help",
		"galaxy":    "list plugins and install them: turnus plugins --help",
		"doc":       "read about a job type: turnus plugins docs TYPE",
		"ping":      "check that hosts can be reached: turnus exec all -i INVENTORY -- true",
		"shell":     "one command on hosts: turnus exec PATTERN -i INVENTORY -- COMMAND",
		"command":   "one command on hosts: turnus exec PATTERN -i INVENTORY -- COMMAND",
		"adhoc":     "one command on hosts: turnus exec PATTERN -i INVENTORY -- COMMAND",
		"lint":      "check playbooks: turnus validate PATH...",
	}
}

// ansibleFlags returns flags of Ansible that Turnus has not, with what to do here.
func ansibleFlags() map[string]string {
	return map[string]string{
		"b": becomeHint, "become": becomeHint, "become-user": becomeHint, "become-method": methodHint,
		"k": "give the login's password by a command or a variable: --password-command COMMAND or --password-env NAME", "ask-pass": "give the login's password by a command or a variable: --password-command COMMAND or --password-env NAME",
		"m": moduleHint, "module-name": moduleHint, "a": moduleHint,
		"syntax-check": "turnus validate PLAYBOOK checks it, and reaches no host", "list-tasks": "turnus plan PLAYBOOK -i INVENTORY shows steps, hosts and waves",
		"dry-run": "--check shows what a run would change, and changes nothing; turnus plan PLAYBOOK -i INVENTORY reaches no host", "ask-vault-pass": vaultHint, "vault-password-file": vaultHint, "vault-id": vaultHint,
		"list": "turnus hosts ls -i INVENTORY -o json prints all hosts with their vars", "list-tags": "turnus plan PLAYBOOK -i INVENTORY shows steps with their tags",
		"step": "strategy: {pause_between: approve} in the playbook asks between waves", "start-at-task": "--retry-failed --from failed-step continues at the step that failed; --tags TAG runs some steps",
	}
}

const (
	becomeHint = "for steps that run as another user, write in the playbook: become: true, or become: {user: NAME} (docs/become.md)"
	methodHint = "the inventory names the program by which a host becomes another user: become: {method: doas} (docs/become.md)"
	moduleHint = "one command on hosts: turnus exec PATTERN -i INVENTORY -- COMMAND; turnus plugins ls lists job types for playbooks"
	vaultHint  = "Turnus does not read Ansible Vault. Keep secrets in a file of secrets: turnus secrets --help"
)

// FlagError adds which flag a misspelt one most likely meant, and what a flag expects.
func FlagError(cmd *cobra.Command, err error) error {
	help := cmd.CommandPath() + " --help lists the flags"
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := bad.GetFlag()
		expected, example := flagWants(f, bad)
		return console.Invalid("--%s %s: expected %s\nhint: %s --%s %s", f.Name, bad.GetValue(), expected, cmd.CommandPath(), f.Name, example)
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return console.Invalid("%s: %w\nhint: %s", cmd.CommandPath(), err, help)
	}
	name := unknown.GetSpecifiedName()
	shown := "--" + name
	if unknown.GetSpecifiedShortnames() != "" {
		name = name[:1]
		shown = "-" + name
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if habit := ansibleFlags()[name]; habit != "" {
		help = habit
	} else if near := yamlread.Nearest(name, names); near != "" && len(name) > 1 {
		help = "did you mean --" + near + "? " + help
	} else if name == "windows" && cmd.Flags().Lookup("file") != nil {
		help = "-f windows.yaml names a file or folder with window sets"
	}
	return console.Invalid("%s: unknown flag: %s\nhint: %s", cmd.CommandPath(), shown, help)
}

// Negatives refuses a number or a duration below zero where it has no meaning: the flag's own
// default is none.
func Negatives(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		what := map[string]string{"int": "a number", "duration": "a duration"}[f.Value.Type()]
		if what != "" && strings.HasPrefix(f.Value.String(), "-") && !strings.HasPrefix(f.DefValue, "-") {
			err = console.Invalid("--%s %s: expected %s of 0 or more\nhint: %s --help lists the flags", f.Name, f.Value, what, cmd.CommandPath())
		}
	})
	return err
}

// flagWants returns what a flag expects, and an example of it.
func flagWants(f *pflag.Flag, bad *pflag.InvalidValueError) (expected, example string) {
	switch kind := f.Value.Type(); {
	case kind == "duration":
		return "a duration, such as 30s or 5m", "30s"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number", "10"
	case strings.HasPrefix(kind, "float"):
		return "a number, such as 0.9", "0.9"
	case kind == "bool":
		return "true or false", "true"
	}
	expected = strings.TrimPrefix(core.ErrorText(bad.Unwrap()), "expected ")
	_, example, _ = strings.Cut(expected, "such as ")
	return expected, cmp.Or(example, strings.ToUpper(f.Name))
}
