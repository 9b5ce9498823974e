package cron

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

const (
	header = "# Written by Turnus: changes made here are lost.\n"
	units  = "/etc/systemd/system/"
)

// file is one of the files that a job of this name may have.
type file struct {
	sdk.TextFile
	want string // its content; "" for no file
	odd  string // what there is in place of a file, such as "a link to /dev/null"
}

func (f *file) ours() bool    { return strings.HasPrefix(f.Content, header) }
func (f *file) differs() bool { return f.Content != f.want || f.Exists != (f.want != "") }

// found is the host's answer of lookScript.
type found struct {
	cron, service, timer file
	words                sdk.Answer
}

// look reads the three files in one round trip, and what systemd knows of a timer.
func look(ctx context.Context, h *sdk.Host, p Params) (found, error) {
	now := found{
		cron:    file{TextFile: sdk.TextFile{Path: "/etc/cron.d/" + p.Name}},
		service: file{TextFile: sdk.TextFile{Path: units + p.Name + ".service"}},
		timer:   file{TextFile: sdk.TextFile{Path: units + p.Name + ".timer"}},
	}
	user := p.User
	switch {
	case p.State == "absent":
		user = ""
	case p.Calendar != "":
		now.service.want, now.timer.want = p.service(), p.timer()
	default:
		now.cron.want = p.text()
	}
	result := h.Query(ctx, sdk.Vars("n", p.Name, "user", user, "calendar", p.Calendar)+lookScript)
	if err := result.Err(); err != nil {
		return now, fmt.Errorf("reading the files of job %s: %w", p.Name, err)
	}
	files := map[string]*file{"cron": &now.cron, "service": &now.service, "timer": &now.timer}
	var words strings.Builder
	for out := result.Stdout; out != ""; {
		line, rest, _ := strings.Cut(out, "\n")
		word, value, _ := strings.Cut(line, " ")
		out = rest
		f := files[word]
		if f == nil {
			words.WriteString(line + "\n")
			continue
		}
		size, err := strconv.Atoi(strings.TrimSpace(value))
		switch {
		case err != nil:
			f.odd = value
		case size > len(out):
			return now, sdk.Refuse("reading %s: the file is larger than 1 MiB, or was changed: expected a short file", f.Path)
		default:
			f.Exists, f.Content, out = true, out[:size], out[size:]
		}
	}
	now.words = sdk.ReadAnswer(words.String())
	now.cron.NoFolder = now.words.Has("nofolder")
	return now, nil
}

// service is the unit that runs the command once, as cron does: in the home folder of its user.
func (p *Params) service() string {
	var b strings.Builder
	fmt.Fprintf(&b, header+"[Service]\nType=oneshot\nUser=%s\nWorkingDirectory=-~\n", p.User)
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		fmt.Fprintf(&b, "Environment=%s\n", unitWord(name+"="+p.Env[name]))
	}
	fmt.Fprintf(&b, "ExecStart=/bin/sh -c %s\n", unitWord(strings.ReplaceAll(p.Command, "$", "$$")))
	return b.String()
}

// timer is the unit that starts the service. By default systemd delays it by up to a minute.
func (p *Params) timer() string {
	return header + "[Timer]\nOnCalendar=" + p.Calendar + "\nAccuracySec=1s\n[Install]\nWantedBy=timers.target\n"
}

// unitWord makes text one word of a unit file, where % and \ have a meaning also in quotes.
func unitWord(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "%", "%%").Replace(text) + `"`
}

// lookScript prints each file of the job $n with its length, or what is in its place, and "nouser"
// if the host does not know $user: cron skips such a job, and systemd does not start its command.
// With a calendar it prints "systemd" if that runs here, "runs" for a timer that is enabled and
// loaded and started, "taken" for a unit of this name elsewhere, and "bad" for a calendar that
// systemd rejects.
// A timer whose last time has passed still runs if the calendar has no next time either.
const lookScript = "LC_ALL=C; export LC_ALL\n" + shell.Hidden + `u=/etc/systemd/system
see() {
  if [ -L "$2" ]; then echo "$1 a link to $(readlink "$2")"
  elif [ -f "$2" ]; then echo "$1 $(wc -c <"$2")"; cat "$2" || exit 1
  elif [ -e "$2" ]; then echo "$1 not a file"
  elif hidden "$2"; then exit 1; fi
}
[ -z "$user" ] || id -u "$user" >/dev/null 2>&1 || echo nouser
[ -d /etc/cron.d/ ] || echo nofolder
see cron "/etc/cron.d/$n"
see service "$u/$n.service"
see timer "$u/$n.timer"
[ "$calendar" ] && [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1 || exit 0
echo systemd
s=$(systemctl show -p FragmentPath -p NeedDaemonReload -p ActiveState -p SubState -- "$n.service" "$n.timer") || exit 1
for at in $s; do
  case $at in "FragmentPath=$u/$n".*) ;; FragmentPath=/*) echo "taken ${at#*=}" ;; esac
done
next=$(systemd-analyze calendar -- "$calendar" 2>&1) || ! systemd-analyze calendar daily >/dev/null 2>&1 || echo "bad $(printf '%s' "$next" | tr '\n' ' ')"
[ "$(systemctl is-enabled -- "$n.timer" 2>/dev/null)" = enabled ] || exit 0
case $s in *NeedDaemonReload=yes*) exit 0 ;; esac
case ${s##*

}$next in # the timer comes last
*SubState=elapsed*"Next elapse: never"*) echo runs ;;
*SubState=elapsed*"Next elapse: "*) ;;
*ActiveState=active*) echo runs ;;
esac
exit 0
`

// actScript writes the units and starts the timer, or removes them, and removes the file $gone of
// cron. A reload alone does not start a timer whose last time has passed.
const actScript = `LC_ALL=C; export LC_ALL
u=/etc/systemd/system
fail() { echo "$1" >&2; exit 1; }
put() {
  new=$u/.$1.new
  rm -f "$new"
  why=$( (umask 022; : >"$new") 2>&1) || fail "cannot write to $u: ${why##*: }"
  printf %s "$2" | cat >"$new" && mv -f "$new" "$u/$1" && return
  rm -f "$new"
  fail "$u/$1 was not written"
}
ask() { said=$(systemctl "$@" 2>&1) || fail "$(printf '%s\n' "$said" | grep -v '^See ' | tr '\n' ' ')"; }
if [ "$timer" ]; then
  put "$n.service" "$service"
  put "$n.timer" "$timer"
  ask daemon-reload
  ask enable -- "$n.timer"
  ask restart -- "$n.timer"
elif [ "$units" ]; then
  [ ! -d /run/systemd/system ] || [ ! -e "$u/$n.timer" ] || { ask stop -- "$n.timer"; ask disable -- "$n.timer"; }
  rm -f "$u/timers.target.wants/$n.timer" "$u/$n.service" "$u/$n.timer" || exit 1
  if [ -d /run/systemd/system ]; then
    ask daemon-reload
    systemctl reset-failed -- "$n.service" "$n.timer" 2>/dev/null
  fi
fi
[ -z "$gone" ] || rm -f "$gone"
`
