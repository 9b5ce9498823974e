package notify

import (
	"fmt"
	"net/netip"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/sdk/outward"
)

// errInner does not name the address: a tenant reads it, and must not learn how names resolve here.
var errInner = fmt.Errorf("its address is in the server's own network, which channels of the project may not reach: "+
	"--notify-allow of the server lists those that they may: %w", core.ErrInvalid)

// newGuard keeps channels of the definitions from reaching the server's own network.
func newGuard(allow []netip.Prefix) *outward.Guard {
	return &outward.Guard{Allow: allow, Refused: errInner}
}
