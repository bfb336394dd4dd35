# Sourced inside the image build: an extra CA of the build context is trusted by curl, npm and Node.
if [ -f extra-ca.pem ]; then
  cat /etc/ssl/certs/ca-certificates.crt extra-ca.pem >/tmp/trusted.pem
  export CURL_CA_BUNDLE=/tmp/trusted.pem NODE_EXTRA_CA_CERTS=/tmp/trusted.pem
fi
