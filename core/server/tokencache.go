package server

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/turnus/turnus/core/ledger"
)

// A token that was looked up is believed for so long, which is how late a revocation may take
// effect, on any server.
const (
	believeToken = 500 * time.Millisecond
	maxTokens    = 10_000 // known at the same time
)

// tokenCache spares the ledger one query a request. It holds hashes, never secrets, and only tokens
// that were valid: a stranger can fill nothing.
type tokenCache struct {
	check func(ctx context.Context, secret string) (ledger.Token, error)

	mu     sync.Mutex
	known  map[[sha256.Size]byte]*seenToken
	fallen uint64 // revocations so far: an answer from before one may be that token's
}

type seenToken struct {
	mu    sync.Mutex // held while it is looked up: those who come meanwhile share the answer
	token ledger.Token
	until time.Time
}

func newTokenCache(check func(context.Context, string) (ledger.Token, error)) *tokenCache {
	return &tokenCache{check: check, known: map[[sha256.Size]byte]*seenToken{}}
}

// authenticate answers as the ledger does, or did believeToken ago at most.
func (c *tokenCache) authenticate(ctx context.Context, secret string) (ledger.Token, error) {
	key := sha256.Sum256([]byte(secret))
	c.mu.Lock()
	seen := c.known[key]
	c.mu.Unlock()
	if seen == nil {
		return c.first(ctx, key, secret)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	now := time.Now()
	if now.Before(seen.until) && (seen.token.Expires.IsZero() || now.Before(seen.token.Expires)) {
		return seen.token, nil
	}
	token, err := c.check(ctx, secret)
	if err != nil {
		c.forget(key)
		return ledger.Token{}, err
	}
	seen.token, seen.until = token, now.Add(believeToken) // from before it was asked
	return token, nil
}

func (c *tokenCache) first(ctx context.Context, key [sha256.Size]byte, secret string) (ledger.Token, error) {
	c.mu.Lock()
	fallen := c.fallen
	c.mu.Unlock()
	now := time.Now()
	token, err := c.check(ctx, secret)
	if err != nil {
		return ledger.Token{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxTokens {
		clear(c.known)
	}
	if c.known[key] == nil && c.fallen == fallen {
		c.known[key] = &seenToken{token: token, until: now.Add(believeToken)}
	}
	return token, nil
}

func (c *tokenCache) forget(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

// revoked forgets a token and its sessions immediately on this server.
func (c *tokenCache) revoked(id string) {
	c.mu.Lock()
	c.fallen++
	seen := make([]*seenToken, 0, len(c.known))
	keys := make([][sha256.Size]byte, 0, len(c.known))
	for k, s := range c.known {
		seen, keys = append(seen, s), append(keys, k)
	}
	c.mu.Unlock()
	for i, s := range seen {
		s.mu.Lock()
		match := s.token.ID == id || ledger.OpenerOf(s.token.ID) == id
		if match {
			s.until = time.Time{}
		}
		s.mu.Unlock()
		if match {
			c.forget(keys[i])
		}
	}
}
