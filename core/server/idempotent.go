package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// Idempotent is the key of a create.
type Idempotent struct {
	Key string `header:"Idempotency-Key" maxLength:"128" doc:"the same key and request of the same caller make one thing, however often they are sent"`
}

// of returns the key as it is kept: it belongs to the caller, to what the caller may reach, and to
// the operation. "" is none.
func (i Idempotent) of(by caller, operation string) string {
	if i.Key == "" {
		return ""
	}
	return digest(by.name, tenantOf(by.token), operation, i.Key)
}

// digest is 128 bits of a hash of texts that have no NUL in them.
func digest(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// repeated finds the run that a request with the key made before: a repeat gets its run, whatever
// the project is now. found is false if there is none. Another request under the key is
// core.ErrConflict.
func (s *Server) repeated(ctx context.Context, by caller, key string, request []byte) (answer *versioned[api.Run], found bool, err error) {
	if key == "" {
		return nil, false, nil
	}
	before, err := s.cfg.Ledger.AcceptedBefore(ctx, s.scopeOfKeys(by), ledger.Asked{Key: key, Request: request})
	if err != nil {
		return nil, false, err
	}
	switch run, err := before[0].Run, before[0].Err; {
	case errors.Is(err, core.ErrNotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, keyed(err)
	default:
		return &versioned[api.Run]{etagOf(run.Version), runOf(run)}, true, nil
	}
}

// scopeOfKeys is where keys of a caller may have made runs: keys are found by tenant.
func (s *Server) scopeOfKeys(by caller) ledger.Scope {
	if !by.scope.All() {
		return by.scope
	}
	tenants := []string{""}
	if set := s.cfg.Catalog.Set(); set != nil {
		for _, p := range set.Playbooks {
			tenants = append(tenants, p.Tenant)
		}
	}
	return ledger.Tenants(tenants...)
}

// keyed is the error of a create with a key. The ledger knows the key as a digest, which its caller
// does not.
func keyed(err error) error {
	if errors.Is(err, core.ErrConflict) {
		return fmt.Errorf("the idempotency key was used for another request: send this one with another key: %w", core.ErrConflict)
	}
	return err
}
