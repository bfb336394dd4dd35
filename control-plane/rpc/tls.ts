// TLS of the gRPC port. A client certificate is optional, because an enrolling host has none yet; each call checks its owner
// and validity, with a message for the agent's log (fleet/enrolment.ts).
import { ServerCredentials } from "@grpc/grpc-js";
import type { OwnCertificate } from "../fleet/authority.ts";

export interface TlsCredentials {
  readonly credentials: ServerCredentials;
  stop(): void;
}

const checkEveryMs = 3_600_000;
const renewBeforeMs = 10 * 86_400_000;

class TlsServerCredentials extends ServerCredentials {
  constructor(own: OwnCertificate) {
    super({ requestCert: true, rejectUnauthorized: false }, contextOf(own));
  }
  replace(own: OwnCertificate): void {
    this.updateSecureContextOptions(contextOf(own));
  }
  _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

/** Keeps the certificate of this process fresh until stopped. */
export function tlsCredentials(issueOwn: () => OwnCertificate): TlsCredentials {
  let own = issueOwn();
  const credentials = new TlsServerCredentials(own);
  const renew = () => {
    if (own.notAfterMs - Date.now() > renewBeforeMs) return;
    own = issueOwn();
    credentials.replace(own);
  };
  const timer = setInterval(renew, checkEveryMs).unref();
  return { credentials, stop: () => clearInterval(timer) };
}

const contextOf = (own: OwnCertificate) => ({
  cert: own.certChainPem,
  key: own.keyPem,
  ca: own.caPem,
  minVersion: "TLSv1.3" as const,
});
