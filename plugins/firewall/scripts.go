package firewall

import (
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// The scripts below run on the host by POSIX sh, around the lines of the sdk's dead man's switch. A push has the folder of its
// arming, push-ID, under the table's folder; in it new.nft is what is applied, and restore.nft what brings the old table back.

// preamble of every script, after the switch's own. State is told in lines of a word and its value.
const preamble = `there() { nft list tables | grep -qx "table $T"; }
alone() { unshare -n /bin/sh -c "$@"; }
live() {
  if there; then nft -j list table $T | sed 's/^/live /'; nft -s list table $T | sed 's/^/livetext /'
  else nft list tables >/dev/null || exit 65; echo absent; fi
}
`

// lookScript changes nothing: the candidate comes on stdin and lies in a temporary folder meanwhile.
func lookScript(dead sdk.DeadMan) string { return lookLines + dead.Other() + factLines }

const lookLines = `command -v nft >/dev/null 2>&1 || { echo "nft is not installed" >&2; exit 65; }
nft list tables >/dev/null || exit 65
unshare -n true || { echo "unshare -n does not work here: the ruleset must be loaded in an empty network namespace first" >&2; exit 65; }
t=$(mktemp -d) || exit 65
trap 'rm -rf "$t"' EXIT
trap 'exit 65' HUP INT TERM
cat >"$t/new" || exit 65
now; echo "uptime $up"
nft --version | sed 's/^/version /'
live
{
  alone '[ -z "$2" ] || for i in /sys/class/net/*; do i=${i##*/}; ip link add "$i" type dummy || ip link add "$i" type bridge; done 2>/dev/null
    nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/want /"; nft -s list ruleset | sed "s/^/wanttext /"' sh "$t/new" "$LINKS" >"$t/out" 2>"$t/err" &&
  cat "$t/out" && nft -c -f "$t/new" >"$t/out" 2>"$t/err"
} || sed "s|^$t/new|ruleset|; s/^/bad /" "$t/err"
`

const factLines = `[ ! -r "$D/applied" ] || sed 's/^/applied /' "$D/applied"
if [ -n "$PERSIST" ] && cmp -s "$PERSIST" "$t/new"; then echo persisted; fi
exit 0
`

// armScript stages what comes on stdin, keeps the old table as a file that loads, and starts the timer.
func armScript(dead sdk.DeadMan) string {
	return dead.Take() + stageLines + dead.Start()
}

const stageLines = `cat >"$ID/new.nft" || giveup "the ruleset cannot be written"
{
  echo "add table $T"; echo "delete table $T"
  if there; then nft list table $T || exit 1; fi
} >"$ID/restore.nft" || giveup "the old table cannot be listed"
e=$(nft -c -f "$ID/restore.nft" 2>&1) || giveup "what nft lists of the old table does not load: $e"
if there; then
  alone '[ -z "$2" ] || for i in /sys/class/net/*; do i=${i##*/}; ip link add "$i" type dummy || ip link add "$i" type bridge; done 2>/dev/null
    nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/live /"; nft -s list ruleset | sed "s/^/livetext /"' sh "$ID/restore.nft" "$LINKS" || giveup "the snapshot of the old table does not load"
else echo absent; fi
`

// applyScript applies while the timer surely runs and has most of its time left.
func applyScript(dead sdk.DeadMan) string { return dead.Held() + applyLines }

const applyLines = `e=$(nft -f new.nft 2>&1) || { echo "refused nft: $e" | tr '\n' ' '; exit 0; }
echo applied
`

// statusScript tells how a push stands.
const statusScript = `state "$D/$ID"
now; echo "uptime $up"
live
`

// confirmScript disarms, by the one rename that the timer cannot win too, and only then writes the file for the next boot.
func confirmScript(dead sdk.DeadMan) string {
	return dead.Disarm() + appliedLine + persistLines + "\n" + dead.Release()
}

const appliedLine = `printf '%s\n' "$HASH" >../applied.part && mv -f ../applied.part ../applied
`

const persistLines = `if [ -n "$PERSIST" ]; then
  part=$PERSIST.part.$$
  if e=$(mkdir -p "${PERSIST%/*}/" 2>&1 && cp new.nft "$part" 2>&1 && sync && mv -f "$part" "$PERSIST" 2>&1); then echo persisted
  else rm -f "$part"; echo "refused $e" | tr '\n' ' '; echo; fi
fi`

// persistScript writes the file of a table that is live already; it comes on stdin.
const persistScript = `d=$(mktemp -d) && cd "$d" && cat >new.nft || exit 65
trap 'rm -rf "$d"' EXIT
` + persistLines + `
`

// revertScript asks the timer's own program to act now.
func revertScript(dead sdk.DeadMan) string { return dead.Back() + "state \"$D/$ID\"\n" }

// dead is the push's dead man's switch.
func (p *push) dead() sdk.DeadMan {
	return sdk.DeadMan{
		Folder: p.params.folder(), ID: p.id, Key: p.key, Job: p.job, Name: "firewall",
		Within: time.Duration(p.params.ConfirmTimeout), Revert: "nft -f restore.nft",
	}
}

// script is a script with its variables.
func (p *push) script(text string) string {
	vars := []struct{ name, value string }{
		{"T", sdk.Quote(p.params.Table)},
		{"HASH", sdk.Quote(p.want.hash)},
		{"PERSIST", sdk.Quote(p.params.Persist)},
		{"LINKS", sdk.Quote(p.links)},
	}
	var b strings.Builder
	for _, v := range vars {
		b.WriteString(v.name + "=" + v.value + "\n")
	}
	return p.dead().Prelude() + b.String() + preamble + text
}

// answer is what a script told.
type answer struct {
	values map[string]string // the last of each word
	texts  map[string]*strings.Builder
}

func read(out string) answer {
	a := answer{values: map[string]string{}, texts: map[string]*strings.Builder{}}
	for line := range strings.Lines(out) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		a.values[word] = rest
		if a.texts[word] == nil {
			a.texts[word] = &strings.Builder{}
		}
		_, _ = a.texts[word].WriteString(rest + "\n")
	}
	return a
}

func (a answer) has(word string) bool { _, ok := a.values[word]; return ok }

func (a answer) text(word string) string {
	if b := a.texts[word]; b != nil {
		return b.String()
	}
	return ""
}

func (a answer) number(word string) int { n, _ := strconv.Atoi(a.values[word]); return n }
