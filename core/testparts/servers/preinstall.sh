#!/bin/sh
# RAUC calls it before it writes a slot.
: >"${0%/*}/installing"
while [ -e "${0%/*}/flags/install-waits" ]; do sleep 0.05; done
