package pages

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// linkTime is how long a link that logs in holds, unless it is used before.
const linkTime = 10 * time.Minute

const linkPath = "/login/link"

// links are logins that a browser begins with an address instead of a token. The zero value is
// ready.
type links struct {
	mu    sync.Mutex
	codes map[[sha256.Size]byte]link
}

type link struct {
	token, next string
	until       time.Time
}

// Link makes the path of an address that logs one browser in, once, with a token, and leads to
// next.
func (p *Pages) Link(token, next string) string {
	code := rand.Text()
	p.links.mu.Lock()
	defer p.links.mu.Unlock()
	if p.links.codes == nil {
		p.links.codes = map[[sha256.Size]byte]link{}
	}
	p.links.codes[sha256.Sum256([]byte(code))] = link{token, next, time.Now().Add(linkTime)}
	return linkPath + "?code=" + url.QueryEscape(code)
}

// use takes a code, which is void afterwards.
func (l *links) use(code string) (one link, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hash := sha256.Sum256([]byte(code))
	one, ok = l.codes[hash]
	delete(l.codes, hash)
	return one, ok && time.Now().Before(one.until)
}

func (p *Pages) followLink(w http.ResponseWriter, r *http.Request) {
	one, ok := p.links.use(r.URL.Query().Get("code"))
	if !ok {
		p.loginAgain(w, http.StatusUnauthorized, "/", "This link was used before, or it is older than 10 minutes. Start the command again for another one.")
		return
	}
	p.enter(w, r, one.token, within(one.next))
}
