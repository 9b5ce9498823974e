package authorizedkey

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// account is the user as the host has it.
type account struct {
	home, foreign, odd  string // what belongs to another user, and what is no file; "" for nothing
	content             string
	there, tight        bool   // whether the file exists, and whether only the user may read and write it and its folder
	login, key          string // who logged in, and the data of the key of the session, where it is known
	root                bool   // whether this login is root, or became it
	pending, pendingKey string // a change of these keys that is not proven yet, and whose it is
}

func read(text string) account {
	head, content, there := strings.Cut(text, "\ncontent\n")
	a := sdk.ReadAnswer(head)
	fields := strings.Fields(a.Value("key"))
	now := account{
		home: a.Value("home"), foreign: a.Value("foreign"), odd: a.Value("odd"), content: content, there: there, tight: a.Has("tight"),
		login: a.Value("login"), root: a.Has("root"), pending: a.Value("pending"), pendingKey: a.Value("pendingkey"),
	}
	if len(fields) > 1 {
		now.key = fields[1]
	}
	return now
}

// asScript sets home, uid and gid of the user $u, and makes the function as, which runs lines of sh
// as that user. Root reads and writes nothing that the user may not.
const asScript = `LC_ALL=C; export LC_ALL
home=
while IFS=: read -r name x uid gid x dir x; do
  [ "$name" = "$u" ] && { home=$dir; break; }
done <<END
$(getent passwd "$u" 2>/dev/null || cat /etc/passwd)
END
export home
as() {
  if [ "$(id -u)" = "$uid" ]; then sh -c "$1"
  elif setpriv --reuid "$uid" --regid "$gid" --init-groups true 2>/dev/null; then setpriv --reuid "$uid" --regid "$gid" --init-groups sh -c "$1"
  elif [ "$(id -u)" = 0 ]; then su -s /bin/sh "$u" -c "$1"
  else echo "permission denied: only $u and root can change the keys of $u" >&2; return 1; fi
}
`

// lookScript prints what is known of the user $u; the content of the file comes last.
const lookScript = asScript + `[ "$home" ] || exit 0
echo "home $home"
echo "login ${SUDO_USER:-${DOAS_USER:-$(id -un)}}"
D=` + rootFolder + `
if [ "$(id -u)" = 0 ]; then echo root; else D=$home/` + homeFolder + `; fi
if p=$(readlink "$D/lock" 2>/dev/null) && [ -e "$D/$p/armed" ] && [ "$(cat "$D/$p/boot" 2>/dev/null)" = "$(cat /proc/sys/kernel/random/boot_id)" ]; then # else its timer is gone
  echo "pending $p"
  sed 's/^/pendingkey /' "$D/$p/key"
fi
[ ! -r "${SSH_USER_AUTH:-/nonexistent}" ] || sed -n 's/^publickey /key /p' "$SSH_USER_AUTH"
uid=$uid; export uid
as 'cd -P -- "$home" 2>/dev/null || exit 0
mine() { set -- $(ls -ldn "$1"); mode=$1; [ "$3" = "$uid" ]; }
tight=1
[ -d .ssh ] || exit 0
mine .ssh/. || { echo "foreign $home/.ssh"; exit 0; }
case $mode in drwx------* | drwx--S---*) ;; *) tight= ;; esac
if [ -e .ssh/authorized_keys ] && [ ! -f .ssh/authorized_keys ]; then echo "odd $home/.ssh/authorized_keys" # a FIFO would never end
elif [ -e .ssh/authorized_keys ]; then
  mine .ssh/authorized_keys || { [ -L .ssh/authorized_keys ] || echo "foreign $home/.ssh/authorized_keys"; }
  case $mode in -rw-------*) ;; *) tight= ;; esac
  [ -z "$tight" ] || echo tight
  echo content
  cat .ssh/authorized_keys
fi'
`

// writeLines replace the file, as the user, by standard input, if it still has the hash $old (""
// for no file). A signal at any moment leaves no other file.
const writeLines = shell.Sum + `fail() { echo "$1" >&2; exit 1; }
leave() { trap '' HUP INT TERM PIPE; rm -f "./.ssh/$w"; }
still() { if [ "$old" ]; then [ -f .ssh/authorized_keys ] && is "$old" .ssh/authorized_keys; else [ ! -e .ssh/authorized_keys ]; fi || fail "another writer changed the keys since they were read: nothing was written; run the step again"; }
umask 077
cd -P -- "$home" || fail "the home directory cannot be entered"
trap leave EXIT; trap 'exit 1' HUP INT TERM PIPE
[ -d .ssh ] || mkdir .ssh || fail "the folder .ssh cannot be made"
still
cat >"./.ssh/$w" && is "$new" "./.ssh/$w" || fail "the keys were not written whole"
still
chmod 700 .ssh/. && mv -f "./.ssh/$w" .ssh/authorized_keys || fail "the keys were not replaced"
`

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// writeScript is writeLines with what they need.
func writeScript(user string, now account, content string) string {
	old := ""
	if now.there {
		old = sum(now.content)
	}
	return sdk.Vars("u", user, "w", ".turnus-"+strings.ToLower(rand.Text()), "old", old, "new", sum(content)) + "export w old new\n" + asScript + "as " + sdk.Quote(writeLines) + "\n"
}

// Where a change of the own keys is kept until it is proven: of root, and of others in their home.
const (
	rootFolder = "/var/lib/turnus/authorized_key"
	homeFolder = ".turnus/authorized_key"
)

// guard is the timer on the host that puts the old file back.
func (now account) guard(r *sdk.Run[Params, sdk.NoState], id string) sdk.DeadMan {
	folder := rootFolder
	if !now.root {
		folder = now.home + "/" + homeFolder
	}
	return sdk.DeadMan{
		Folder: folder, ID: id, Key: r.Key, Job: r.Job, Name: "authorized-key", Within: time.Minute,
		Revert: sdk.Vars("u", r.Params.User) + asScript + `as 'umask 077; cd -P -- "$home" && cat >./.ssh/.turnus-back && mv -f ./.ssh/.turnus-back .ssh/authorized_keys' <./old`,
	}
}

// guarded changes the keys of the own login under the timer, in one round trip.
func guarded(ctx context.Context, r *sdk.Run[Params, sdk.NoState], now account, content string) error {
	dead := now.guard(r, "k"+strings.ToLower(rand.Text()))
	stage := sdk.Vars("u", r.Params.User) + asScript +
		"cat >\"$ID/new\" && as 'cd -P -- \"$home\" && { [ ! -f .ssh/authorized_keys ] || cat .ssh/authorized_keys; }' >\"$ID/old\" || giveup 'the old keys cannot be kept'\n"
	write := "( " + writeScript(r.Params.User, now, content) + ") <./new || { e=$?; mv armed confirmed; " + strings.TrimSpace(dead.Release()) + "; exit $e; }\n"
	script := dead.Prelude() + dead.Take() + stage + dead.Start() + dead.Held() + write + "echo written\n"
	result := r.Host().Short(ctx, sdk.Command{Run: script, Stdin: strings.NewReader(content)})
	if err := result.Err(); err != nil {
		return fmt.Errorf("writing the keys of %s: %w", r.Params.User, err)
	}
	if a := sdk.ReadAnswer(result.Stdout); !a.Has("written") {
		return sdk.Refuse("writing the keys of %s: the timer that would put the old keys back does not run: %s%s", r.Params.User, a.Value("refused"), a.Value("busy")).Retryable()
	}
	return confirm(ctx, r, dead)
}

// confirm proves the login over a fresh connection, which also stops the timer.
func confirm(ctx context.Context, r *sdk.Run[Params, sdk.NoState], dead sdk.DeadMan) error {
	r.Changed()
	if r.Check {
		return nil
	}
	state, err := dead.Confirm(ctx, r.Host())
	if err == nil && state.State == sdk.StateConfirmed {
		return nil
	}
	if err == nil {
		err = errors.New("it took longer than a minute")
	} else {
		state, _ = dead.Rollback(ctx, r.Host()) // if that also fails, the timer does it
	}
	if state.State == sdk.StateReverted {
		return sdk.Failf("user %s: login did not work with the new keys, so the old ones are back: %w", r.Params.User, err).RolledBack()
	}
	return sdk.Failf("user %s: login did not work with the new keys; the host puts the old ones back within a minute: %w", r.Params.User, err).Retryable()
}
