package transport

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

// Fence is the lease of a queue that an operation belongs to. A host keeps the newest fence of each
// queue that it saw: it refuses an older one, and ends what an older one left running before the
// first command of a newer one. Fences of different queues are not compared. The zero Fence is
// neither kept nor compared.
type Fence struct {
	Queue string // the queue's incarnation
	Count uint64
}

// ErrStaleFence is an operation that a host refused, because it saw a newer lease: nothing was
// done.
var ErrStaleFence = errors.New("the host saw a newer lease of the queue")

// fenceStale follows the proof's id in its line when the command did not begin.
const fenceStale = ":stale"

// fenceScript is run before the command, by the shell that becomes the command. Each command has a
// record, an empty file KEY_EPOCH_COUNT_PID_ID: EPOCH and COUNT are the two parts of Fence.Count. A
// command first makes its own record and then reads all of its queue: of two fences, one sees the
// other's record, whichever came first. Without leftovers it starts no program, except once for
// each 16 records that have ended.
//
// A record of an older fence whose process lives, and has the id in its environment or command
// line, is a leftover: its process group is ended. Both are empty for a moment while it executes
// another program, so it is checked twice. Where the leader has ended, what it started is left
// alone. The folder is this login's alone; where it cannot be, commands run without fences.
const fenceScript = `if [ -w /run ]; then turnus_d=/run/turnus
elif [ "$XDG_RUNTIME_DIR" ] && [ -O "$XDG_RUNTIME_DIR" ]; then turnus_d=$XDG_RUNTIME_DIR/turnus
else turnus_d=$HOME/.turnus; fi
[ -d "$turnus_d" ] || mkdir -p -m 700 "$turnus_d" 2>/dev/null
if [ ! -L "$turnus_d" ] && [ -O "$turnus_d" ] && { true >"$turnus_d/KEY_EPOCH_COUNT_$$_$TURNUS_EXEC"; } 2>/dev/null; then
turnus_o=
set --
for turnus_f in "$turnus_d"/KEY_*; do
turnus_r=${turnus_f##*/KEY_}
turnus_e=${turnus_r%%_*}
turnus_r=${turnus_r#*_}
turnus_c=${turnus_r%%_*}
turnus_r=${turnus_r#*_}
if [ "$turnus_e" -gt EPOCH ] || { [ "$turnus_e" -eq EPOCH ] && [ "$turnus_c" -gt COUNT ]; }; then
echo turnus:$TURNUS_EXEC:stale
exit 75
elif ! kill -0 "${turnus_r%%_*}" 2>/dev/null && [ ! -d "/proc/${turnus_r%%_*}" ]; then set -- "$@" "$turnus_f"
elif [ "$turnus_e" -lt EPOCH ] || [ "$turnus_c" -lt COUNT ]; then turnus_o="$turnus_o $turnus_r"
fi
done
LEFTOVERS[ $# -lt 16 ] || { rm -f -- "$@"; find "$turnus_d" -type f -mtime +7 -exec rm -f -- {} + 2>/dev/null; }
fi
set --
unset turnus_d turnus_o turnus_f turnus_r turnus_e turnus_c turnus_p turnus_w turnus_k turnus_i turnus_x
`

// endAsLogin ends the leftovers. The leftovers of an elevated command belong to another user: sudo
// or doas ends it where they ask for no password, and else the command waits for its end.
var endAsLogin = `[ -z "$turnus_o" ] || turnus_k=` + shell.Quote(killScript) + `
for turnus_r in $turnus_o; do
turnus_p=${turnus_r%%_*}
if [ -d "/proc/$turnus_p" ] && [ ! -O "/proc/$turnus_p" ]; then
turnus_i=${turnus_r#*_}
turnus_x="[${turnus_i%"${turnus_i#?}"}]${turnus_i#?}"
for turnus_w in sudo doas; do
grep -qs "$turnus_x" /proc/[0-9]*/cmdline || break
$turnus_w -n /bin/sh -c "$turnus_k" turnus "${turnus_i%????????}" "${turnus_i#????????}" 2>/dev/null
done
while grep -qs "$turnus_x" /proc/[0-9]*/cmdline; do sleep 1; done
fi
for turnus_w in 1 2; do
if grep -qsF "${turnus_r#*_}" "/proc/$turnus_p/environ" "/proc/$turnus_p/cmdline"; then
kill -TERM "-$turnus_p" 2>/dev/null
for turnus_w in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
kill -0 "-$turnus_p" 2>/dev/null || break
sleep 0.1 2>/dev/null || sleep 1
done
kill -KILL "-$turnus_p" 2>/dev/null
for turnus_w in 1 2 3 4 5; do
kill -0 "-$turnus_p" 2>/dev/null || break
sleep 0.1 2>/dev/null || sleep 1
done
break
fi
[ $turnus_w = 2 ] || sleep 0.1 2>/dev/null || sleep 1
done
set -- "$@" "$turnus_d"/KEY_*_"$turnus_r"
done
`

// handLeftovers gives the leftovers to the elevated shell, which may end what the login may not.
// Each is halved: what has an id whole in its command line is taken for a part of that execution.
const handLeftovers = `for turnus_r in $turnus_o; do
turnus_r=${turnus_r#*_}
turnus_l="$turnus_l ${turnus_r%????????} ${turnus_r#????????}"
done
`

// endLeftovers ends them, in the elevated shell.
var endLeftovers = `while [ $# -ge 2 ]; do /bin/sh -c ` + shell.Quote(killScript) + ` turnus "$1" "$2"; shift 2; done
set --
`

// script returns the beginning of a command on the host under the fence. Leases are of hosts by
// their names: several may share one machine, or one home.
func (f Fence) script(host string, elevated bool) string {
	if f.Queue == "" {
		return ""
	}
	leftovers := endAsLogin
	if elevated {
		leftovers = handLeftovers
	}
	return f.fill(strings.Replace(fenceScript, "LEFTOVERS", leftovers, 1), host)
}

// fill replaces KEY, EPOCH and COUNT in a script.
func (f Fence) fill(script, host string) string {
	const half = 26                                       // bits of the count's lower part: many a shell counts in 32 bits
	sum := sha256.Sum256([]byte(f.Queue + "\x00" + host)) // both names are data, and this is part of a command
	return strings.NewReplacer("KEY", hex.EncodeToString(sum[:6]), "EPOCH", strconv.FormatUint(f.Count>>half, 10), "COUNT", strconv.FormatUint(f.Count&(1<<half-1), 10)).Replace(script)
}

// partName returns how the name of a part file shows its fence, "" without one.
func (f Fence) partName(host string) string {
	if f.Queue == "" {
		return ""
	}
	return f.fill("KEY_EPOCH_COUNT_", host)
}

// sweeps is the rule of sweepScript for the name of a part file, after "PATH.part.". idle is the
// time since its last byte.
func (f Fence) sweeps(host, name string, idle time.Duration) bool {
	key, at, err := readPartName(name)
	own, now, _ := readPartName(f.partName(host))
	if err != nil || key != own {
		return err == nil && idle >= 24*time.Hour
	}
	return slices.Compare(at, now) < 0
}

func readPartName(name string) (key string, at []uint64, err error) {
	fields := strings.SplitN(name, "_", 4)
	if len(fields) < 4 || len(fields[0]) != 12 || strings.Trim(fields[0], "0123456789abcdef") != "" {
		return "", nil, errors.New("it shows no fence")
	}
	for _, field := range fields[1:3] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return "", nil, fmt.Errorf("it shows no fence: %w", err)
		}
		at = append(at, n)
	}
	return fields[0], at, nil
}

// stale is the refusal of an older fence.
func (e *endpoint) stale() *Error {
	return e.fail("exec", "another worker has the host now, or the queue was set back", true, ErrStaleFence)
}
