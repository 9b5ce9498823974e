package dnssec

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// bind is the signer: BIND 9.18 or later on the job's host. All that differs between signers is in
// this file and in policy.go and keys.go: reading its configuration and its keys' states, starting
// a roll, reporting to it what the parent serves, and what the zone holds. Everything else is DNS.
type bind struct {
	host *sdk.Host
	p    *Params
	zone string
}

// commandLimit bounds one script. Each question in it has limits of its own.
const (
	commandLimit = 2 * time.Minute
	maxAnswer    = 16 << 20
)

const preamble = shell.Prelude + `PATH=$PATH:/usr/local/bin
umask 077
need() { for c; do command -v "$c" >/dev/null 2>&1 || { echo "$c is not installed: apt-get install bind9-utils bind9-dnsutils" >&2; exit 65; }; done; }
`

// script runs a script, and reads its answer.
func (b *bind) script(ctx context.Context, text string, vars map[string]string, readOnly bool, stdin string) (sdk.Answer, error) {
	var head strings.Builder
	for _, name := range []string{"Z", "S", "K", "AT", "KEY", "CONF", "RNDC", "REC", "PREV"} {
		if v, ok := vars[name]; ok {
			head.WriteString(name + "=" + sdk.Quote(v) + "\n")
		}
	}
	out := sdk.Head{Limit: maxAnswer}
	exit, err := b.host.Exec(ctx, sdk.Command{
		Run: head.String() + preamble + text, Stdin: strings.NewReader(stdin), ReadOnly: readOnly, Stdout: &out, Timeout: commandLimit,
	})
	if err == nil {
		err = exit.Err()
	}
	if err == nil && out.Truncated() {
		err = fmt.Errorf("the signer's answer: %w", sdk.ErrTooLarge)
	}
	return sdk.ReadAnswer(out.String()), err
}

func (b *bind) vars(more ...string) map[string]string {
	v := map[string]string{"Z": b.zone, "S": b.p.StateDir}
	for i := 0; i+1 < len(more); i += 2 {
		v[more[i]] = more[i+1]
	}
	return v
}

// config reads the zone's policy.
func (b *bind) config(ctx context.Context) (policy, error) {
	a, err := b.script(ctx, `need named-checkconf dig dnssec-verify rndc
[ -r "$CONF" ] || { echo "$CONF cannot be read: see signer.config" >&2; exit 65; }
e=$(named-checkconf -p -x "$CONF") || { echo "named-checkconf refuses $CONF: $e" >&2; exit 65; }
printf '%s\n' "$e" | sed 's/^/conf /'
`, b.vars("CONF", b.p.Signer.Config), true, "")
	if err != nil {
		return policy{}, fmt.Errorf("reading the signer's configuration: %w", err)
	}
	return readPolicy(a.Text("conf"), b.zone, b.p.Signer.View)
}

// keys reads the state files, in the same round trip as the questions to DNS.
const keysScript = `[ -r "$K" ] && [ -x "$K" ] || { echo "the key directory $K cannot be read" >&2; exit 65; }
for f in "$K/K$Z.+"*.state; do [ ! -r "$f" ] || sed "s|^|state ${f##*/} |" "$f"; done
for f in "$K/K$Z.+"*.key; do [ ! -r "$f" ] || sed "s|^|key ${f##*/} |" "$f"; done
`

// rndc gives BIND a command of its dnssec family. Its exit code is 0 with any result: its output
// shows the result, and afterwards only what the state files and DNS show.
func (b *bind) rndc(ctx context.Context, words ...string) error {
	line := []string{"rndc"}
	if b.p.Signer.RNDCConf != "" {
		line = append(line, "-c", b.p.Signer.RNDCConf)
	}
	line = append(append(line, "dnssec"), words...)
	line = append(line, b.zone)
	if b.p.Signer.View != "" {
		line = append(line, "IN", b.p.Signer.View)
	}
	a, err := b.script(ctx, "e=$("+sdk.QuoteAll(line...)+" 2>&1); c=$?\nprintf '%s\\n' \"$e\" | sed 's/^/said /'\nexit $c\n", b.vars(), false, "")
	said := strings.TrimSpace(a.Text("said"))
	if err != nil || strings.Contains("\n"+said, "\nError") || strings.Contains(said, "rndc: ") {
		return fmt.Errorf("rndc %s: %w", strings.Join(line[len(line)-len(words)-1:], " "), errors.Join(err, errors.New(clip(said))))
	}
	return nil
}

// roll starts the rollover of a key; its successor then shows in the state files.
func (b *bind) roll(ctx context.Context, tag int) error {
	return b.rndc(ctx, "-rollover", "-key", strconv.Itoa(tag))
}

// parentHas reports to BIND that a key's DS is published; parentLost that it is withdrawn. BIND
// believes it blindly.
func (b *bind) parentHas(ctx context.Context, tag int) error {
	return b.rndc(ctx, "-checkds", "-key", strconv.Itoa(tag), "published")
}

func (b *bind) parentLost(ctx context.Context, tag int) error {
	return b.rndc(ctx, "-checkds", "-key", strconv.Itoa(tag), "withdrawn")
}

// content is the content of the zone, by a transfer.
type content struct {
	report string                 // of dnssec-verify
	ok     bool                   // it found nothing wrong
	maxTTL time.Duration          // of all records
	signed map[int]map[string]int // how many signatures each key has made, of "keys" (DNSKEY, CDS, CDNSKEY) and of "zone"
}

const verifyScript = `t=$(mktemp -d) || exit 65
trap 'rm -rf "$t"' EXIT
trap 'exit 65' HUP INT TERM
dig +nocmd +noall +answer +onesoa +time=30 +tries=1 ${KEY:+-k "$KEY"} @"${AT%%#*}" -p "${AT##*#}" "$Z" AXFR >"$t/zone" 2>"$t/err" || { sed 's/^/refused /' "$t/err" "$t/zone" | tail -n 3; exit 0; }
grep -q '[[:space:]]SOA[[:space:]]' "$t/zone" || { tail -n 2 "$t/zone" | sed 's/^/refused /'; exit 0; }
if dnssec-verify -o "$Z" "$t/zone" >"$t/out" 2>&1; then echo verified; fi
tail -n 8 "$t/out" | sed 's/^/report /'
awk '$1 !~ /^;/ && $2 + 0 > m { m = $2 + 0 }
  $4 == "RRSIG" { k = ($5 == "DNSKEY" || $5 == "CDS" || $5 == "CDNSKEY") ? "keys" : "zone"; n[$11 " " k]++ }
  END { print "ttl " m; for (i in n) print "signed " i " " n[i] }' "$t/zone"
`

// verify transfers the zone from the signer and has dnssec-verify check it.
func (b *bind) verify(ctx context.Context) (content, error) {
	a, err := b.script(ctx, verifyScript, b.vars("AT", address(b.p.Signer.Address), "KEY", b.p.Signer.TSIG), true, "")
	if err != nil {
		return content{}, fmt.Errorf("transferring the zone: %w", err)
	}
	if a.Has("refused") {
		return content{}, fmt.Errorf("the signer does not let its zone be transferred to itself (allow-transfer, signer.tsig): %s", clip(strings.TrimSpace(a.Text("refused"))))
	}
	c := content{ok: a.Has("verified"), report: clip(strings.TrimSpace(a.Text("report"))), maxTTL: time.Duration(a.Number("ttl")) * time.Second, signed: map[int]map[string]int{}}
	for line := range strings.Lines(a.Text("signed")) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		tag, _ := strconv.Atoi(f[0])
		n, _ := strconv.Atoi(f[2])
		if c.signed[tag] == nil {
			c.signed[tag] = map[string]int{}
		}
		c.signed[tag][f[1]] = n
	}
	return c, nil
}

// address is IP#PORT.
func address(text string) string {
	if strings.Contains(text, "#") {
		return text
	}
	return text + "#53"
}

func clip(text string) string {
	if len(text) > 800 {
		text = text[:800] + "…"
	}
	return strings.ReplaceAll(text, "\n", " ")
}
