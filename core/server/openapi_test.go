package server

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write openapi.json")

const published = "openapi.json"

// The API of clients changes only with openapi.json, in a commit that shows how.
func TestDocumentIsTheOneThatWasPublished(t *testing.T) {
	b := newBed(t)
	var now bytes.Buffer
	must(t, json.Indent(&now, []byte(want[json.RawMessage](t, b.ask("", "GET", "/openapi.json", nil), http.StatusOK)), "", " "))
	now.WriteByte('\n')
	if *update {
		must(t, os.WriteFile(published, now.Bytes(), 0o644))
	}
	was, err := os.ReadFile(published)
	must(t, err)
	if !bytes.Equal(was, now.Bytes()) {
		t.Fatal("the document is not openapi.json: check what make generate changes there, and commit it")
	}
	for _, s := range []string{`"openapi": "3.1.0"`, `"application/problem+json"`} {
		if !bytes.Contains(was, []byte(s)) {
			t.Errorf("the document has no %s", s)
		}
	}
	if a := b.ask("", "GET", "/openapi.yaml", nil); a.status != http.StatusOK || !strings.Contains(a.body, "openapi: 3.1.0") {
		t.Errorf("%d %.200s", a.status, a.body)
	}
}
