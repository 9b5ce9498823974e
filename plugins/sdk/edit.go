package sdk

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

// TextFile is a text file of a host as it was read, for a job type that changes a part of it: read
// the file with [Host.ReadText], make the new content of the old, and write that with
// [Host.ReplaceText].
type TextFile struct {
	Path     string // absolute
	Exists   bool
	NoFolder bool // the folder around it does not exist either
	Content  string
}

// ReadText reads a text file of at most 1 MiB in one round trip, also in check mode. A file that
// does not exist is no error. A symbolic link is one, because anybody may have chosen its target.
func (h *Host) ReadText(ctx context.Context, path string) (TextFile, error) {
	result := h.Query(ctx, Vars("p", path)+readTextScript)
	if err := result.Err(); err != nil {
		return TextFile{}, fmt.Errorf("reading %s: %w", path, err)
	}
	if result.Truncated {
		return TextFile{}, Refuse("reading %s: the file is larger than 1 MiB", path)
	}
	kind, content, _ := strings.Cut(result.Stdout, "\n")
	switch what, target, _ := strings.Cut(kind, " "); what {
	case "absent":
		return TextFile{Path: path, NoFolder: target == "nofolder"}, nil
	case "file":
		return TextFile{Path: path, Exists: true, Content: content}, nil
	case "link":
		return TextFile{}, Refuse("reading %s: it is a link to %s: give the path of the file itself", path, clean(target, maxTitle))
	}
	return TextFile{}, Refuse("reading %s: it is not a file", path)
}

const readTextScript = "LC_ALL=C; export LC_ALL\n" + shell.Enter + shell.Reading + shell.Hidden + `if [ -L "$p" ]; then echo "link $(readlink "$p")"
elif [ ! -e "$p" ]; then
  if hidden "$p"; then exit 1; fi
  if [ -d "${p%/*}/" ]; then echo absent; else echo "absent nofolder"; fi
elif [ -f "$p" ]; then
  enter "${p%/*}/" || exit 1
  if alone || [ ! -d /proc/self/fd ]; then echo file; exec cat "./${p##*/}"; fi
  pin "${p##*/}" || { echo "$p was replaced by another user while it was read" >&2; exit 1; }
  echo file; exec cat <&3
else echo other; fi
exit 0
`

// ReplaceText writes the new content of a file, if the file is still as it was read: another writer
// in between is an error, and its change stays. The new file is written beside the old one, takes
// over its mode and owner, and is renamed. A file that did not exist gets the mode fresh. It is one
// round trip.
func (h *Host) ReplaceText(ctx context.Context, was TextFile, content string, fresh uint32) error {
	return h.replaceText(ctx, was, content, fresh, "")
}

// replaceText is ReplaceText of a content that the validate command accepts, if there is one.
func (h *Host) replaceText(ctx context.Context, was TextFile, content string, fresh uint32, validate string) error {
	old := ""
	if was.Exists {
		old = sum(was.Content)
	}
	vars := Vars("p", was.Path, "w", ".turnus-"+strings.ToLower(rand.Text()), "m", fmt.Sprintf("%04o", fresh), "v", shell.ValidateCommand(validate))
	input := old + "\n" + sum(content) + "\n" + content // every user of the host sees the command, and a hash shows a short secret
	if err := h.Short(ctx, Command{Run: vars + replaceTextScript, Stdin: strings.NewReader(input)}).Err(); err != nil {
		return fmt.Errorf("writing %s: %w", was.Path, err)
	}
	return nil
}

func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// replaceTextScript works in a folder of its own beside the file, which only this login can enter.
// The folder around it may belong to a user who exchanges files for links, and this folder for
// another one of root's: only an empty one counts. The copy that gives mode and owner is compared
// with the old hash. A validate command may leave files beside its file, so it gets a folder in
// this one, which is removed whole. A signal ends the script at any moment: leave ignores a second
// one, and so do its programs, so the folder goes. A worker that was killed reads no output: PIPE
// comes as soon as the shell reports that a program was terminated.
const replaceTextScript = "LC_ALL=C; export LC_ALL\n" + shell.Enter + shell.Sum + shell.Valid + `t=${p##*/} up=. inner=
read -r old; read -r new
leave() {
  trap '' HUP INT TERM PIPE
  [ $up = . ] || { [ ! -e ./x ] && [ ! -L ./x ]; } || rm -f ./x
  [ -z "$inner" ] || rm -rf "./$w"
  [ "${PWD##*/}" != "$w" ] || cd -P ..
  rmdir "./$w" 2>/dev/null
}
fail() { echo "$1" >&2; exit 1; }
same() { # mode and owner; the last line is of ./x
  both=$(ls -ldn "../$t" ./x)
  set -- $both
  mode=$1 old_owner=$3:$4
  set -- ${both##*"
"}
  [ "$1 $3:$4" = "$mode $old_owner" ]
}
moved() { for f in -fT -fh; do mv $f ./x "../$t" 2>/dev/null && return; done; [ ! -d "../$t" ] && mv -f ./x "../$t"; }
checked() {
  [ "$v" ] || return 0
  case $(ls -ld .) in d????w* | d???????w*) fail "others may write to the new file: it cannot be validated" ;; esac
  inner=1
  mkdir "./$w" && mv ./x "./$w/x" || fail "the new file cannot be moved to a folder of its own"
  valid "$w/x" || fail "$why"
  mv "./$w/x" ./x && is "$new" ./x || fail "the validate command changed the new file: nothing was written"
}
changed="another writer changed the file since it was read: nothing was written; run the step again"
enter "${p%/*}/" || exit 1
trap leave EXIT; trap 'exit 1' HUP INT TERM PIPE
why=$(umask 077; exec mkdir -m 700 "./$w" 2>&1) && cd -P "./$w" || fail "cannot write to the folder of the file: ${why##*: }"
set -- ./* ./.[!.]* ./..?*
[ "$PWD" = "${here%/}/$w" ] && [ -O . ] && [ "$*" = "./* ./.[!.]* ./..?*" ] || fail "its folder was replaced by another user"
up=..
umask 077
if [ "$old" ]; then
  [ -f "../$t" ] || fail "$changed"
  cp -pP "../$t" ./x || fail "the file cannot be copied beside itself"
  [ -f ./x ] && [ ! -L ./x ] || fail "$changed"
  is "$old" ./x || fail "$changed"
  same || fail "this login cannot keep the owner of the file: run the step with become: true"
  case $mode in ??-*) chmod u+w ./x ;; esac
fi
cat >./x || fail "the new content was not written"
is "$new" ./x || fail "the new content did not arrive whole"
if [ -z "$old" ]; then
  chmod "$m" ./x
  checked
  ln ./x "../$t" 2>/dev/null && exit
  [ ! -e "../$t" ] && [ ! -L "../$t" ] || fail "$changed"
  moved; exit
fi
case $mode in ??-*) chmod u-w ./x ;; esac
checked
is "$old" "../$t" || fail "$changed"
moved || fail "the new file cannot take the place of the old one"
`

const (
	newFileMode   = 0o644
	newSecretMode = 0o600 // of a file that a step with secrets makes
)

// TextEdit is a change of one text file on the host.
type TextEdit struct {
	Path   string
	Create bool // make the file if it does not exist
	Remove bool // the edit only removes text: a file that does not exist needs no change
	// Validate is a command that checks the new file before it takes the place of the old one; %s is
	// its path. "" is none. It does not run in check mode.
	Validate string
	Part     string // what the edit sets, as "line": named in place of a diff that may hold secrets
	// Edit returns the new content of the file, or an error with the reason why it cannot be edited.
	Edit func(content string) (string, error)
}

// EditText reads the file, edits it, reports the change with its diff, and replaces the file unless
// another writer changed it in between. A missing file, and one that cannot be edited, end the step
// as [Run.Lacks] does.
func (r *Run[P, S]) EditText(ctx context.Context, e TextEdit) error {
	was, err := r.Host().ReadText(ctx, e.Path)
	if err != nil {
		return err
	}
	switch {
	case was.Exists || e.Create && !was.NoFolder:
	case e.Remove:
		return nil
	case was.NoFolder:
		return r.Lacks("the folder of %s does not exist: create it with an earlier step", e.Path)
	default:
		return r.Lacks("%s does not exist: create it with an earlier step, or set create: true", e.Path)
	}
	content, err := e.Edit(was.Content)
	if err != nil {
		return r.Lacks("%s: %w", e.Path, err)
	}
	if content == was.Content {
		return nil
	}
	r.Changed()
	mode := uint32(newFileMode)
	if len(r.Secrets) > 0 { // the old text may hold the secret as it was before
		mode = newSecretMode
		r.ShowDiff(e.Path, []byte(e.Part+" as it is\n"), []byte(e.Part+" of a step with secrets, which is not shown\n"))
	} else {
		r.ShowDiff(e.Path, []byte(was.Content), []byte(content))
	}
	if r.Check {
		return nil
	}
	return r.Host().replaceText(ctx, was, content, mode, e.Validate)
}

// LineEnd is the line end of a text by its first line: "\r\n", or "\n".
func LineEnd(text string) string {
	if first, _, _ := strings.Cut(text, "\n"); strings.HasSuffix(first, "\r") {
		return "\r\n"
	}
	return "\n"
}

// InsertText returns the text with added lines: after the one line that the RE2 expression after
// matches, before the one that before matches, or at the end if both are "". It is an error if no
// line matches, or several do.
func InsertText(text, after, before, added string) (string, error) {
	lines := slices.Collect(strings.Lines(text))
	at, err := place(lines, after, before)
	if err != nil {
		return "", err
	}
	if at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
		lines[at-1] += LineEnd(text)
	}
	return strings.Join(slices.Insert(lines, at, added), ""), nil
}

// place returns the index of the line before which new lines go.
func place(lines []string, after, before string) (int, error) {
	if after == "" && before == "" {
		return len(lines), nil
	}
	name, offset := "after", 1
	if before != "" {
		name, offset = "before", 0
	}
	expression := cmp.Or(before, after)
	re, err := regexp.Compile(expression)
	if err != nil {
		return 0, fmt.Errorf("%s: not an RE2 expression: %w", name, err)
	}
	at := -1
	for i, l := range lines {
		switch {
		case !re.MatchString(strings.TrimRight(l, "\r\n")):
		case at >= 0:
			return 0, fmt.Errorf("%s: several lines match %q, expected one: lines %d and %d", name, expression, at+1, i+1)
		default:
			at = i
		}
	}
	if at < 0 {
		return 0, fmt.Errorf("%s: no line matches %q, expected one", name, expression)
	}
	return at + offset, nil
}
