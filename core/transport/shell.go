package transport

import (
	"fmt"
	"strings"
)

// The scripts below run on the host by POSIX sh. These exit codes are told apart in Go.
const (
	exitNoTool   = 71 // nothing computes SHA-256 there
	exitMismatch = 72
	exitRefused  = 73 // with the reason on stderr
)

// marker is printed by a script that ran. A login that may not run commands
// (internal-sftp as ForceCommand) accepts them and runs something else.
const marker = "turnus-file-ok"

const sumFunction = `sum() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum <"$1"
  elif command -v shasum >/dev/null 2>&1; then shasum -a 256 <"$1"
  elif command -v openssl >/dev/null 2>&1; then openssl dgst -r -sha256 <"$1"
  else return 71; fi
}
`

// finishScript verifies the part file, gives it owner and mode, keeps a copy of
// the old file and renames the part over it. check is "" where the part was
// verified before.
func finishScript(part, path, check, owner, backup string, mode uint32) string {
	var b strings.Builder
	b.WriteString(sumFunction)
	fmt.Fprintf(&b, "p=%s f=%s own=%s\n", quote(part), quote(path), quote(owner))
	b.WriteString("refuse() { echo \"$1\" >&2; rm -f -- \"$p\"; exit 73; }\n")
	if check != "" {
		fmt.Fprintf(&b, "s=$(sum \"$p\") || exit 71\n[ \"${s%%%% *}\" = %s ] || { rm -f -- \"$p\"; exit 72; }\n", check)
	}
	b.WriteString("[ -d \"$f\" ] && refuse \"$f is a directory\"\n")
	// Whoever owns the folder could have put a link to another file in the part's place: -h, and this, keep root's
	// chown and chmod off what it leads to.
	b.WriteString("[ -L \"$p\" ] && refuse \"$p was replaced by a symbolic link\"\n")
	// A rename brings the new file's owner along; without an order to change it, it stays.
	b.WriteString("if [ -z \"$own\" ] && [ -e \"$f\" ]; then own=$(stat -c %u:%g -- \"$f\" 2>/dev/null)\n" +
		"[ \"$own\" = \"$(stat -c %u:%g -- \"$p\" 2>/dev/null)\" ] && own=; fi\n")
	b.WriteString("if [ -n \"$own\" ]; then e=$(chown -h -- \"$own\" \"$p\" 2>&1) || refuse \"$e\"; fi\n")
	fmt.Fprintf(&b, "e=$(chmod %04o \"$p\" 2>&1) || refuse \"$e\"\n", mode)
	if backup != "" {
		// Copied beside and renamed, for cp would write through a link that somebody left under the copy's name.
		fmt.Fprintf(&b, "if [ -e \"$f\" ]; then old=\"$f\"%s; [ -d \"$old\" ] && refuse \"$old is a directory\"\n"+
			"e=$(cp -p -- \"$f\" \"$p.old\" 2>&1 && mv -f -- \"$p.old\" \"$old\" 2>&1) || { rm -f -- \"$p.old\"; refuse \"$e\"; }; fi\n", quote(backup))
	}
	b.WriteString("sync -- \"$p\" 2>/dev/null\n")
	b.WriteString("e=$(mv -f -- \"$p\" \"$f\" 2>&1) || refuse \"$e\"\necho " + marker + "\n")
	return b.String()
}

// earlySumScript succeeds when the part has the hash. Of the tools it takes the fastest: openssl is three times as fast as coreutils' sha256sum.
func earlySumScript(part, check string) string {
	return sumFunction + fmt.Sprintf("p=%s\ns=$(openssl dgst -r -sha256 <\"$p\" 2>/dev/null) || s=$(sum \"$p\") || exit %d\n[ \"${s%%%% *}\" = %s ] || exit %d\necho %s\n",
		quote(part), exitNoTool, check, exitMismatch, marker)
}

// receiveScript writes stdin to a new part file that only the user can read.
func receiveScript(part string) string {
	return fmt.Sprintf("umask 077; set -C; e=$( { cat >%s; } 2>&1 ) || { echo \"$e\" >&2; exit %d; }; echo %s", quote(part), exitRefused, marker)
}

// sendScript prints "MODE SIZE" and then the file.
func sendScript(path string) string {
	return fmt.Sprintf("f=%s; [ -e \"$f\" ] || { echo \"$f: no such file\" >&2; exit %d; }\n"+
		"[ -f \"$f\" ] || { echo \"$f is not a regular file\" >&2; exit %d; }\n"+
		"stat -L -c '%%a %%s' -- \"$f\" && exec cat -- \"$f\"", quote(path), exitMissing, exitRefused)
}

const exitMissing = 74
