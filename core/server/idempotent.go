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

// of is the key as it is kept: it belongs to who asks, to what they may reach, and to the operation. "" is none.
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

// repeated finds the run that a request with the key made before: a repeat gets its run, whatever the project says by now. found is
// false if there is none. Another request under the key is core.ErrConflict.
func (s *Server) repeated(ctx context.Context, by caller, key string, request []byte) (answer *versioned[api.Run], found bool, err error) {
	if key == "" {
		return nil, false, nil
	}
	scope := by.scope
	if scope.All() { // keys are found by tenant
		tenants := []string{""}
		if set := s.cfg.Catalog.Set(); set != nil {
			for _, p := range set.Playbooks {
				tenants = append(tenants, p.Tenant)
			}
		}
		scope = ledger.Tenants(tenants...)
	}
	run, err := s.cfg.Ledger.Accepted(ctx, scope, key, request)
	switch {
	case errors.Is(err, core.ErrNotFound):
		return nil, false, nil
	case errors.Is(err, core.ErrConflict):
		return nil, false, fmt.Errorf("the Idempotency-Key was used for another request: send this one with another key: %w", core.ErrConflict)
	case err != nil:
		return nil, false, err
	}
	return &versioned[api.Run]{etagOf(run.Version), runOf(run)}, true, nil
}
