#!/bin/sh
# On the CA: signs the request in $CSR for the host name $NAME, and prints the certificate. The name
# comes from the inventory: what the request itself asks for is not copied.
set -eu
ext=$(mktemp)
trap 'rm -f "$ext"' EXIT
printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth\n' "$NAME" >"$ext"
printf '%s\n' "$CSR" | openssl x509 -req -CA /etc/internal-ca/ca.pem -CAkey /etc/internal-ca/ca.key \
  -set_serial "0x$(openssl rand -hex 16)" -days "$DAYS" -extfile "$ext"
