package ledger

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/turnus/turnus/core"
)

// TokenPrefix begins every secret, so that scanners of code find one that was committed.
const TokenPrefix = "turnus_"

// SessionID returns the id of a new session that a token with the id opens. RevokeToken of that
// token also ends the session.
func SessionID(token string) string {
	return sessionPrefix + hex.EncodeToString(random(8)) + "-" + token
}

// OpenerOf returns the id of the token that opened a session; "" if id is of no such session.
func OpenerOf(id string) string {
	if !strings.HasPrefix(id, sessionPrefix) || len(id) < sessionOpener {
		return ""
	}
	return id[sessionOpener-1:]
}

const (
	sessionPrefix = "session-"
	sessionOpener = len(sessionPrefix) + 16 + 2 // where the id of its token begins, from 1
)

// usedEvery is how coarse Token.LastUsed is: reading must not cost a write each time.
const usedEvery = 5 * time.Minute

// Token is a right to use the API. Its secret is never stored.
type Token struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Tenant     string    `json:"tenant"`
	AllTenants bool      `json:"all_tenants,omitempty"`
	Roles      []string  `json:"roles"`
	Created    time.Time `json:"created"`
	CreatedBy  string    `json:"created_by"`
	Expires    time.Time `json:"expires,omitzero"` // never when zero
	Revoked    time.Time `json:"revoked,omitzero"`
	LastUsed   time.Time `json:"last_used,omitzero"` // within five minutes
}

// Scope returns the rows that the token may see.
func (t *Token) Scope() Scope {
	if t.AllTenants {
		return AllTenants()
	}
	return Tenants(t.Tenant)
}

// NewSecret returns the secret of a new token: 256 random bits behind TokenPrefix.
func NewSecret() string { return TokenPrefix + base64.RawURLEncoding.EncodeToString(random(32)) }

// NewToken is AddToken with a NewSecret, which is known to the caller only.
func (l *Ledger) NewToken(ctx context.Context, who string, token Token) (secret string, _ Token, err error) {
	secret = NewSecret()
	if token, err = l.AddToken(ctx, who, secret, token); err != nil {
		return "", Token{}, err
	}
	return secret, token, nil
}

// AddToken makes a token of a NewSecret. ID is random where it is empty; one that was used before
// is core.ErrConflict, so that of several servers one makes a token of a given id. Created,
// CreatedBy and what follows are set here.
func (l *Ledger) AddToken(ctx context.Context, who, secret string, token Token) (Token, error) {
	if token.ID == "" {
		token.ID = hex.EncodeToString(random(8))
	}
	for _, f := range []struct{ what, text string }{{"id", token.ID}, {"name", token.Name}, {"created by", who}} {
		if err := checkText("token: "+f.what, f.text, true, maxID); err != nil {
			return Token{}, err
		}
	}
	if err := checkText("token: tenant", token.Tenant, false, maxID); err != nil {
		return Token{}, err
	}
	if strings.ContainsFunc(token.Name, unicode.IsControl) { // a run lists those who changed it, a line each
		return Token{}, fmt.Errorf("token: name %q: expected no control characters: %w", token.Name, core.ErrInvalid)
	}
	if token.AllTenants && token.Tenant != "" {
		return Token{}, fmt.Errorf("token: of tenant %q and of all tenants: expected one of both: %w", token.Tenant, core.ErrInvalid)
	}
	token.Created, token.CreatedBy, token.Revoked, token.LastUsed = fromMicros(micros(l.now())), who, time.Time{}, time.Time{}
	token.Expires = fromMicros(micros(token.Expires))
	err := l.db.transact(ctx, "make token "+token.ID, func(t *tx) error {
		all := 0
		if token.AllTenants {
			all = 1
		}
		if err := opens(ctx, t, token.ID); err != nil {
			return err
		}
		_, err := t.exec(ctx, `INSERT INTO tokens (id, hash, name, tenant, all_tenants, roles, created, created_by, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			token.ID, hashSecret(secret), token.Name, token.Tenant, all, string(asJSON(token.Roles)), micros(token.Created), who, micros(token.Expires))
		if err != nil {
			return err
		}
		_, err = l.audit(ctx, t, Entry{Who: who, Tenant: token.Tenant, Action: "token.create", Kind: "token", Subject: token.ID, After: asJSON(token)})
		return err
	})
	if err != nil {
		return Token{}, err
	}
	return token, nil
}

// opens refuses a session whose token was revoked: a revocation has ended the sessions that it saw.
func opens(ctx context.Context, t *tx, id string) error {
	opener := OpenerOf(id)
	if opener == "" {
		return nil
	}
	var revoked int64
	err := t.row(ctx, `SELECT revoked FROM tokens WHERE id = $1`+t.forUpdate, opener).Scan(&revoked)
	if none(err) || err == nil && revoked != 0 {
		return fmt.Errorf("the token that opens it was revoked: %w", core.ErrNotFound)
	}
	return err
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails, see crypto/rand
	return b
}

// hashSecret needs no salt and no slow function: the secret has 256 random bits.
func hashSecret(secret string) []byte {
	h := sha256.Sum256([]byte(secret))
	return h[:]
}

const tokenColumns = `id, name, tenant, all_tenants, roles, created, created_by, expires, revoked, used` //nolint:gosec // names of columns

func scanToken(row scanner) (Token, error) {
	var t Token
	var all, created, expires, revoked, used int64
	var roles string
	if err := row.Scan(&t.ID, &t.Name, &t.Tenant, &all, &roles, &created, &t.CreatedBy, &expires, &revoked, &used); err != nil {
		return Token{}, err
	}
	t.AllTenants = all == 1
	t.Created, t.Expires, t.Revoked, t.LastUsed = fromMicros(created), fromMicros(expires), fromMicros(revoked), fromMicros(used)
	err := json.Unmarshal([]byte(roles), &t.Roles)
	return t, err
}

// Authenticate returns the token of a secret. One that is unknown, revoked or expired is
// core.ErrNotFound; the message is the same for all three.
func (l *Ledger) Authenticate(ctx context.Context, secret string) (Token, error) {
	refused := fmt.Errorf("the token is not valid: %w", core.ErrNotFound)
	if !strings.HasPrefix(secret, TokenPrefix) {
		return Token{}, refused
	}
	t, err := scanToken(l.db.row(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE hash = $1`, hashSecret(secret)))
	now := l.now()
	switch {
	case none(err):
		return Token{}, refused
	case err != nil:
		return Token{}, translate("look up a token", err)
	case !t.Revoked.IsZero() || !t.Expires.IsZero() && !now.Before(t.Expires):
		return Token{}, refused
	}
	if now.Sub(t.LastUsed) > usedEvery {
		// Best effort: people who may read must be able to while nothing can be written.
		_ = l.db.transact(ctx, "note the use of a token", func(tx *tx) error {
			_, err := tx.exec(ctx, `UPDATE tokens SET used = $2 WHERE id = $1`, t.ID, micros(now))
			return err
		})
	}
	return t, nil
}

// TokenFilter chooses tokens. Empty fields match all.
type TokenFilter struct {
	ID, CreatedBy string
	Role          string // the only one that they have
	Name          string
	Valid         bool // neither revoked nor expired
}

// Tokens lists tokens by id. A scope of tenants lists the tokens of those tenants, without tokens
// for all tenants.
func (l *Ledger) Tokens(ctx context.Context, s Scope, f TokenFilter, p Page) (tokens []Token, next string, err error) {
	q := &query{d: l.db.dialect}
	if !s.all {
		q.where("all_tenants = 0")
	}
	s.filter(q, "tenant")
	if f.ID != "" {
		q.where("id = ?", clean(f.ID, maxText))
	}
	if f.CreatedBy != "" {
		q.where("created_by = ?", clean(f.CreatedBy, maxText))
	}
	if f.Name != "" {
		q.where("name = ?", clean(f.Name, maxText))
	}
	if f.Role != "" {
		q.where("roles = ?", string(asJSON([]string{f.Role})))
	}
	if f.Valid {
		q.where("revoked = 0")
		q.where("(expires = 0 OR expires > ?)", micros(l.now()))
	}
	return list(ctx, l, q, p, listing[Token]{
		what: "list tokens", columns: tokenColumns, from: "tokens", order: "id", scan: scanToken,
		at:    func(t Token) cursor { return cursor{List: "tokens", Name: []string{t.ID}} },
		after: func(q *query, at cursor) { q.where("id > ?", at.Name[0]) },
	})
}

// RevokeToken ends a token in scope and its sessions immediately. One that is revoked stays as it
// is.
func (l *Ledger) RevokeToken(ctx context.Context, s Scope, who, id string) (Token, error) {
	var token Token
	err := l.db.transact(ctx, "revoke token "+clean(id, maxID), func(t *tx) (err error) {
		token, err = scanToken(t.row(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = $1`+t.forUpdate, clean(id, maxText)))
		if none(err) || err == nil && (token.AllTenants && !s.all || !s.Allows(token.Tenant)) {
			return fmt.Errorf("it is not in the ledger: %w", core.ErrNotFound)
		}
		if err != nil || !token.Revoked.IsZero() {
			return err
		}
		before := token
		token.Revoked = fromMicros(micros(l.now()))
		if _, err := t.exec(ctx, `UPDATE tokens SET revoked = $2 WHERE id = $1`, token.ID, micros(token.Revoked)); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `UPDATE tokens SET revoked = $2 WHERE revoked = 0 AND id LIKE $3 AND substr(id, $4) = $1`, token.ID, micros(token.Revoked), sessionPrefix+"%", sessionOpener); err != nil {
			return err
		}
		_, err = l.audit(ctx, t, Entry{Who: who, Tenant: token.Tenant, Action: "token.revoke", Kind: "token", Subject: token.ID, Before: asJSON(before), After: asJSON(token)})
		return err
	})
	if err != nil {
		return Token{}, err
	}
	return token, nil
}

// KeepTokens is how long a token that has expired or was revoked is kept.
const KeepTokens = 30 * 24 * time.Hour

// PruneTokens removes tokens that ended before a time, and returns how many. Of each name and maker
// the newest one stays, because it shows which names are one person. So does the token "first":
// its id must never be free again.
func (l *Ledger) PruneTokens(ctx context.Context, before time.Time) (n int64, err error) {
	err = l.db.transact(ctx, "remove ended tokens", func(t *tx) error {
		n, err = t.exec(ctx, `DELETE FROM tokens WHERE id <> 'first' AND (expires > 0 AND expires < $1 OR revoked > 0 AND revoked < $1) AND id IN (
			SELECT id FROM (SELECT id, roles, row_number() OVER (PARTITION BY name, tenant, all_tenants, created_by, CASE WHEN roles = '["calendar"]' THEN 1 ELSE 0 END ORDER BY created DESC, id) AS place FROM tokens) AS placed
			WHERE place > 1 OR roles = '["calendar"]')`, bound(before))
		return err
	})
	return n, err
}
