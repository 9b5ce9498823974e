package ledger

import (
	"context"
)

// DocumentVersion is the version of a document, 0 where there is none: what a server asks that
// has read it before. It is for the service.
func (l *Ledger) DocumentVersion(ctx context.Context, kind, tenant, name string) (int64, error) {
	var version int64
	err := l.db.row(ctx, `SELECT version FROM documents WHERE kind = $1 AND tenant = $2 AND name = $3 AND deleted = 0`,
		clean(kind, maxText), clean(tenant, maxText), clean(name, maxText)).Scan(&version)
	if none(err) {
		return 0, nil
	}
	return version, translate("read the version of "+kind+" "+name, err)
}
