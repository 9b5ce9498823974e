// Package authorizedkey owns the job type authorized_key: the public keys with which a user may log
// in over SSH. It imports only the sdk.
package authorizedkey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of authorized keys.
type Params struct {
	User      string   `json:"user" turnus:"required,pattern=^[A-Za-z_][A-Za-z0-9_.-]*[$]?$" jsonschema:"user who logs in; must exist"`
	Keys      []string `json:"keys" turnus:"required,min=1" jsonschema:"public keys, each a line of authorized_keys: options, type, key, comment; a file .pub holds one"`
	State     string   `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"whether the user may log in with the keys"`
	Exclusive bool     `json:"exclusive,omitempty" jsonschema:"remove all keys that the list does not have"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	seen := map[string]bool{}
	for i, text := range p.Keys {
		k, err := parse(strings.TrimSpace(text))
		if err == nil && seen[k.blob] {
			err = errors.New("the list has this key twice")
		}
		if err != nil {
			bad.Add(fmt.Sprintf("/keys/%d", i), "%w", err)
		}
		seen[k.blob] = true
	}
	if p.State == "absent" && p.Exclusive {
		bad.Add("/exclusive", "exclusive goes with state present")
	}
	return bad.Err()
}

// Def is the job type.
func Def() sdk.Def {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1a5ncJyLQWPmTWUzfQAkrdXp9YtB0Z0R0n0Xy8iHd5"
	return sdk.Job("authorized_key", run,
		sdk.Summary("The public keys with which a user may log in over SSH"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Example("A key of a person", sdk.With{"user": "anna", "keys": []string{key + " anna@laptop"}}),
		sdk.Example("These keys and no others", sdk.With{"user": "deploy", "exclusive": true, "keys": []string{`restrict,command="/usr/local/bin/deploy" ` + key + " ci"}}),
		sdk.Example("A key that is lost", sdk.With{"user": "anna", "keys": []string{key}, "state": "absent"}),
	)
}

const description = `
Adds public keys to ` + "`~/.ssh/authorized_keys`" + ` of a user, or removes them. A key is known by its type
and data: where options or comment differ from the given ones, the line is replaced, and further
lines with the same key are removed. Without a comment in ` + "`keys`" + ` the old comment stays. The folder
gets the mode 0700 and the file 0600. A login that is root works as the user there, so that links of
the user lead nowhere else.

` + "`exclusive: true`" + ` removes all keys that ` + "`keys`" + ` does not list: give all keys of the user in one step.
With ` + "`foreach`" + `, only the last key would stay.

The step never cuts off its own login. Keys of the user that Turnus itself logs in as are changed
under a timer on the host. Turnus then logs in again; if that fails, the host puts the old file back
within a minute, also when the worker died. If the host shows which key the session uses
(` + "`ExposeAuthInfo yes`" + ` in sshd_config, no become), a step that would remove that key fails. If it
does not show which, a step that would remove all the keys of its own login fails.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	result := r.Host().Query(ctx, sdk.Vars("u", p.User)+lookScript)
	if err := result.Err(); err != nil {
		return fmt.Errorf("reading the keys of %s: %w", p.User, err)
	}
	now := read(result.Stdout)
	switch {
	case now.pending != "" && now.login == p.User && now.pendingKey == r.Key && edit(p, now.content) == now.content: // an earlier attempt wrote, and died before its proof
		return confirm(ctx, r, now.guard(r, now.pending))
	case now.pending != "" && now.login == p.User:
		return sdk.Refuse("another job, or an earlier attempt of this one, is changing the keys of this login, for a minute at most").Retryable()
	case now.home == "" && p.State == "absent":
		return nil
	case now.home == "":
		return r.Lacks("user %s: there is no such user: add a step of the type user before this one", p.User)
	case now.foreign != "":
		return sdk.Refuse("user %s: %s belongs to another user: chown it first", p.User, now.foreign)
	case now.odd != "":
		return sdk.Refuse("user %s: %s is not a file: remove it first", p.User, now.odd)
	}
	content := edit(p, now.content)
	if content == now.content && (now.tight || p.State == "absent") {
		return nil
	}
	if err := safe(p, now, content); err != nil {
		return sdk.Refuse("user %s: %w", p.User, err)
	}
	r.Changed()
	r.ShowDiff(now.home+"/.ssh/authorized_keys", []byte(now.content), []byte(content))
	if !now.tight {
		r.ShowDiff(now.home+"/.ssh (modes)", []byte("others may read or write\n"), []byte("0700, and 0600 for authorized_keys\n"))
	}
	if r.Check {
		return nil
	}
	if now.login == p.User {
		return guarded(ctx, r, now, content)
	}
	if err := r.Host().Short(ctx, sdk.Command{Run: writeScript(p.User, now, content), Stdin: strings.NewReader(content)}).Err(); err != nil {
		return fmt.Errorf("writing the keys of %s: %w", p.User, err)
	}
	return nil
}

// safe returns why the new content may cut off the login that the step came by.
func safe(p Params, now account, content string) error {
	if now.login != p.User {
		return nil
	}
	before, after := blobs(now.content), blobs(content)
	if now.key != "" {
		if slices.Contains(before, now.key) && !slices.Contains(after, now.key) {
			return errors.New("the step would remove the key that its own login uses: keep the key in the list")
		}
		return nil
	}
	if len(before) > 0 && !slices.ContainsFunc(before, func(b string) bool { return slices.Contains(after, b) }) {
		return errors.New("the step would remove all keys of its own login: keep the key that Turnus logs in with in the list")
	}
	return nil
}
