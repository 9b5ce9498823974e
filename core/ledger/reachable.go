package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Reachable reports whether the database of url answers. It changes nothing: a file that is not
// there yet is none. Errors are those of Open.
func Reachable(ctx context.Context, url string) error {
	if path, ok := FileOf(url); ok {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	d, err := connect(url, 1)
	if err != nil {
		return fmt.Errorf("ledger %s: %w", redact(url), err)
	}
	defer d.close()
	var one int
	return translate("ask ledger "+redact(url), d.row(ctx, `SELECT 1`).Scan(&one))
}

// CheckURL refuses what Open would refuse of a URL itself. Nothing is opened or contacted.
func CheckURL(url string) error {
	scheme, _, _ := strings.Cut(url, ":")
	var err error
	switch scheme {
	case "sqlite":
	case "postgres", "postgresql":
		_, _, err = parsePostgres(url)
	default:
		err = errScheme
	}
	if err != nil {
		return fmt.Errorf("ledger %s: %w", redact(url), err)
	}
	return nil
}
