package service

import (
	"net/http"

	"github.com/turnus/turnus/core/pages"
)

// beside hands requests of browsers to the pages, and all others to the API, which is at the same
// address.
func beside(p, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pages.Serves(r.URL.Path) {
			p.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}
